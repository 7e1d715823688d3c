"""Message channels over pipes, sockets, streams and memory, and child processes. They implement the interfaces of
:mod:`mcptrio.abc`.
"""
