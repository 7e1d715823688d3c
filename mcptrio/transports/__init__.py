"""Message channels over pipes, sockets, streams and memory; implements interfaces of :mod:`mcptrio.abc`."""
