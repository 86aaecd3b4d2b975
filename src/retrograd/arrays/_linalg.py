"""Linear algebra on stacks of matrices."""
