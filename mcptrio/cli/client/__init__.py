"""Shared by the commands that talk to a server: targets, settings, the connection, arguments, and how they end."""
