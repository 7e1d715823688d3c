"""Requests and notifications outside the specification, behind an extension that is advertised.

Run it: mcptrio serve --stdio --plugin examples/custom_method.py

    {"jsonrpc": "2.0", "id": 1, "method": "com.example/reindex", "params": {"folder": "docs"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcptrio import Context, InvalidParams, PluginSetup, hookimpl, method, notification

__all__ = ["Index", "setup"]

EXTENSION = "com.example/index"


class Index:
    def __init__(self) -> None:
        self._touched: list[str] = []

    @notification("com.example/touched")
    async def touched(self, params: Mapping[str, Any]) -> None:
        """Remember a file that has changed, as a client reports."""
        if isinstance(file := params.get("file"), str):
            self._touched.append(file)

    @method("com.example/reindex", capability=EXTENSION)
    async def reindex(self, ctx: Context, params: Mapping[str, Any]) -> dict[str, Any]:
        """Index the changed files of a folder. Like a tool, it has a deadline, cancellation and progress."""
        folder = params.get("folder")
        if not isinstance(folder, str):
            raise InvalidParams("expected a string at `params.folder`")
        files = [file for file in self._touched if file.startswith(f"{folder}/")]
        async for file in ctx.track(files):
            await ctx.notify("com.example/indexed", {"file": file})
            self._touched.remove(file)
        return {"indexed": len(files)}


@hookimpl
def setup(server: PluginSetup) -> None:
    server.add(Index())
    server.add_extension(EXTENSION, {"notifies": True})
