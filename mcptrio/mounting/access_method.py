"""What the process of an isolated plugin tells its parent of who may use what there: the method ``mcptrio/access``.

Added to the server of such a process by the command line; asked by :mod:`mcptrio.mounting.remote_access` in the parent.
The one rule: only the process that started this one is answered.
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
"""A request. Of the parent's own: ``{"judges": bool, "scopes": {kind: {name: [scope]}}}``. For somebody:
``{"may": {kind: [name]}}``, what no plugin there forbids them."""


def add_access_method(server: Server) -> None:
    """Have a server answer it."""

    async def report(ctx: Context) -> dict[str, Any]:
        forwarded_caller = inputs_of(ctx).scope.forwarded_caller
        if forwarded_caller is None:
            raise MethodNotFound(f"no such method: {ACCESS_METHOD}")
        if forwarded_caller.is_own:
            scopes: dict[str, dict[str, list[str]]] = {}
            for each in _components(server.catalog):
                if each.scopes:
                    scopes.setdefault(each.kind, {})[each.name] = sorted(each.scopes)
            return {"judges": bool(server.catalog.authorizers.functions), "scopes": scopes}
        may: dict[str, list[str]] = {"tool": [], "resource": [], "prompt": []}
        for each in _components(server.catalog):
            # Scopes are judged by the parent, which can say what is lacking.
            if server.catalog.authorizers.allow(each, ctx.principal):
                may[each.kind].append(each.name)
        return {"may": may}

    server.add_method(report, ACCESS_METHOD)


def _components(catalog: Catalog) -> Iterator[Component]:
    for kind in ("tools", "resources", "templates", "prompts"):
        for entry in catalog.registries[kind]:
            yield entry.component
