"""Message channels over pipes, sockets, streams and memory. They implement the interfaces of :mod:`mcptrio.abc`."""
