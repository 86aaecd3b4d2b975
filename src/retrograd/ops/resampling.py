"""Under construction: see the index."""
