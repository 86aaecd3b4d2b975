"""Statistics, norms, order, scans and counts."""
