"""Streamable HTTP, every revision on one endpoint."""
