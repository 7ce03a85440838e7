"""Where in a trace the evidence lies, and the proof that nothing else is shown."""
