"""The method ``mcptrio/access``, with which the process of an isolated plugin reports its access decisions.

The command line adds the method to the server of such a process, and :mod:`mcptrio.mounting.remote_access` in the
parent calls it. The method answers only the process that has started this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mcptrio.capabilities.authorization import Component
from mcptrio.capabilities.catalog import Catalog
from mcptrio.capabilities.context import Context, inputs_of
from mcptrio.errors import MethodNotFound
from mcptrio.server import Server

__all__ = ["ACCESS_METHOD", "add_access_method"]

ACCESS_METHOD: Final = "mcptrio/access"
"""The result without a caller is ``{"has_authorizers": bool, "scopes": {kind: {name: [scope]}}}``. The result with a
caller is ``{"may": {kind: [name]}}``: the entries that the plugin's authorizers allow."""


def add_access_method(server: Server) -> None:
    """Add the method to a server."""

    async def report(ctx: Context) -> dict[str, Any]:
        forwarded_caller = inputs_of(ctx).scope.forwarded_caller
        # Other clients must not learn that the method exists, so they get the error for an unknown method.
        if forwarded_caller is None:
            raise MethodNotFound(f"no such method: {ACCESS_METHOD}")
        # The parent itself requests the scopes after it has read a list, and whether there are decisions to fetch.
        if forwarded_caller.is_from_parent:
            scopes: dict[str, dict[str, list[str]]] = {}
            for each in _components(server.catalog):
                if each.scopes:
                    scopes.setdefault(each.kind, {})[each.name] = sorted(each.scopes)
            return {"has_authorizers": bool(server.catalog.authorizers.functions), "scopes": scopes}
        may: dict[str, list[str]] = {"tool": [], "resource": [], "prompt": []}
        for each in _components(server.catalog):
            # The parent checks scopes, because it can report the missing ones.
            if server.catalog.authorizers.allow(each, ctx.principal):
                may[each.kind].append(each.name)
        return {"may": may}

    server.add_method(report, ACCESS_METHOD)


def _components(catalog: Catalog) -> Iterator[Component]:
    for kind in ("tools", "resources", "templates", "prompts"):
        for entry in catalog.registries[kind]:
            yield entry.component
