"""ASGI applications of plugins on the HTTP port of the endpoint.

Plugins add them with ``add_route``. The endpoint uses them for paths that are not its own. A path, with all paths below
it, belongs to the application that was added first.

Source: ASGI 3.0.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from attrs import frozen

from mcptrio.abc import ASGIApp
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.registry import Duplicate
from mcptrio.ground.guarded import call_with_scope_check
from mcptrio.runtime.work import WorkCancelScope, WorkSet

__all__ = ["Routes"]

_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+")


@frozen
class _Route:
    app: ASGIApp
    owner: Owner


class Routes:
    """The ASGI applications of plugins, by path.

    Args:
        works: The running requests to the applications.
    """

    def __init__(self, works: WorkSet) -> None:
        self._works = works
        self._routes: dict[str, _Route] = {}

    def add(self, path: str, app: ASGIApp, owner: Owner) -> None:
        """Serve an application at a path and below it. The ASGI scope has the whole path.

        Raises:
            ValueError: The path is invalid, or the root.
            TypeError: The application is not callable.
            Duplicate: The path is taken.
        """
        # A proxy may normalize dots and escapes, and would then route such a path differently.
        if not _PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
            raise ValueError(f"expected a path like /auth, without a slash at its end, got {path!r}")
        if not callable(app):
            raise TypeError(f"expected an ASGI application for {path}, got {type(app).__name__}")
        if path in self._routes:
            raise Duplicate("path", path, self._routes[path].owner)
        self._routes[path] = _Route(app, owner)

    def withdraw(self, owner: Owner) -> None:
        """Remove the applications of a plugin."""
        self._routes = {path: route for path, route in self._routes.items() if route.owner is not owner}

    def at(self, path: str) -> ASGIApp | None:
        """Return the application with the longest matching path."""
        while self._routes and path:
            route = self._routes.get(path)
            if route is not None and not route.owner.is_hidden:
                return partial(self._serve, route, path)
            path = path.rpartition("/")[0]
        return None

    async def _serve(self, route: _Route, path: str, scope: Any, receive: Any, send: Any) -> None:
        cancelling = WorkCancelScope()
        # After a cancellation, the HTTP server answers with an error, or closes the connection if the response has
        # begun.
        with self._works.new(path, route.owner.plugin, cancelling), cancelling.cancel_scope:
            await call_with_scope_check(route.app, scope, receive, send)
