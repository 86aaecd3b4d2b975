"""The table of operations, by family: each declared once, with its derivative."""
