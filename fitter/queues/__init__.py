"""Read-only label sources and intake: from a review queue to labelled rows."""
