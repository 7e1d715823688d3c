"""Small modules that every other package may import. They import only :mod:`mcptrio.errors`."""
