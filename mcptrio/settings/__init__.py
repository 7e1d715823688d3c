"""Reads settings: TOML tables and environment variables into instances of attrs classes."""
