"""Small modules that every room may use, and that use none."""
