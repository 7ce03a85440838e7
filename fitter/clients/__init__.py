"""Model clients behind one Protocol."""
