"""Guarding an HTTP endpoint with tokens and certificates: the resource server and its verifiers."""
