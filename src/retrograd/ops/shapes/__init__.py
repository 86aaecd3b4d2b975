"""Moving, joining, picking, putting and sorting elements."""
