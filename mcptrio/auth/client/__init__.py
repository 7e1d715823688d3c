"""Obtains tokens for a client's requests: one engine, and a grant for each way to obtain them."""
