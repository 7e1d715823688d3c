"""Bytes to messages and back, over each kind of pipe. Strangers to the engine: they meet in :mod:`mcptrio.abc`."""
