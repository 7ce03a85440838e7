"""The shipped practice queue (data only)."""
