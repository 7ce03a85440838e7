"""Fit an LLM judge to human labels by measurement.

The library API is :mod:`fitter.fitting`; the command is ``fitter``. Importing this package imports nothing heavy.
"""

__version__ = "0.1.0"
