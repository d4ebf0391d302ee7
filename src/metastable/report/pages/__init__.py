"""Pages, one module per kind of result."""
