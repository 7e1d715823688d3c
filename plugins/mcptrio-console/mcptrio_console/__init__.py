"""A web console for a running server.

``mcptrio serve --console`` finds :func:`make_console` through the entry point group ``mcptrio.consoles``.
"""

from __future__ import annotations

from .console import ServerConsole, make_console

__all__ = ["ServerConsole", "make_console"]
