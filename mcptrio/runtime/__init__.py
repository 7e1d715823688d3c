"""Supervision: sessions, request scopes, deadlines, progress, asking the client."""
