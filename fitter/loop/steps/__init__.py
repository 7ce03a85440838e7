"""The nodes of the graph: thin, synchronous, restartable from their top.

A node reads what it needs from the run's artefacts; if its own artefact is there already, it was written before a kill
and is taken as it is.
"""
