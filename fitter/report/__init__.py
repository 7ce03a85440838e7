"""What is true of a run, gathered once, and its rendering."""
