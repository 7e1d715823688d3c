"""The language servers of all folders, and the nursery in which they run.

The tools use it to find the server of a file, or all servers whose languages occur in the folders.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from typing import TypeVar

import trio
from attrs import define, field

from mcptrio import ToolError, lifespan

from .config import HOW_TO_INSTALL, Config
from .folders import CodeFolders
from .server import LanguageServer
from .session import LanguageSession
from .source_files import list_sources

__all__ = ["LanguageServers"]

_T = TypeVar("_T")


@define(eq=False)
class LanguageServers:
    """The language servers by name and folder."""

    config: Config
    folders: CodeFolders = field(init=False)

    _servers: dict[tuple[str, str], LanguageServer] = field(init=False, factory=dict)
    _nursery: trio.Nursery | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.folders = CodeFolders(self.config.folders, self.config.max_file_bytes)

    @lifespan
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Allow servers to start while the context is open, and stop them when it ends."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                yield
            finally:
                self._nursery = None
                nursery.cancel_scope.cancel()

    async def resolve(self, path: str) -> str:
        """Return the resolved path of a file.

        Raises:
            ToolError: The file is outside the folders, or does not exist.
        """
        return await trio.to_thread.run_sync(self.folders.resolve, path, abandon_on_cancel=True)

    def server_for(self, real: str) -> LanguageServer | None:
        """Return the language server of a file; ``None`` if none is configured for its name."""
        folder = self.folders.folder_of(real)
        for name, spec in self.config.all_servers().items():
            if folder is not None and any(fnmatchcase(os.path.basename(real), glob) for glob in spec.globs):
                return self._server(name, folder)
        return None

    async def why_no_server(self, real: str) -> str | None:
        """Return the reason why a file has no language server; ``None`` if its server is configured and installed."""
        server = self.server_for(real)
        if server is None:
            return self._no_server_message(real)
        if await trio.to_thread.run_sync(server.is_installed, abandon_on_cancel=True):
            return None
        program = server.spec.command[0]
        advice = HOW_TO_INSTALL.get(program, "")
        return f"the language server {server.name} is not installed: {program!r} was not found{advice}"

    async def servers_in_use(self) -> list[LanguageServer]:
        """Return the servers whose files occur in the folders."""
        servers = await trio.to_thread.run_sync(self._find_in_use, abandon_on_cancel=True)
        return [self._server(name, folder) for name, folder in servers]

    async def use(self, server: LanguageServer, work: Callable[[LanguageSession], Awaitable[_T]]) -> _T:
        """Run a function that only reads from a server.

        Raises:
            ToolError: The server cannot be started, refuses a request, or exits twice.
        """
        if self._nursery is None:
            raise ToolError("the language servers have ended with the server")
        return await server.use(self._nursery, work)

    async def use_server_of(self, real: str, work: Callable[[LanguageSession], Awaitable[_T]]) -> _T:
        """Run a function that only reads from the language server of a file.

        Raises:
            ToolError: No server is configured for the file, or it cannot be started, refuses a request, or exits twice.
        """
        server = self.server_for(real)
        if server is None:
            raise ToolError(self._no_server_message(real))
        return await self.use(server, work)

    def _no_server_message(self, real: str) -> str:
        globs = ", ".join(glob for spec in self.config.all_servers().values() for glob in spec.globs)
        return f"no language server is configured for {os.path.basename(real)!r}; configured: {globs}"

    def _find_in_use(self) -> list[tuple[str, str]]:
        return [
            (name, folder)
            for folder in dict.fromkeys(os.path.realpath(path) for path in self.config.folders)
            for name, spec in self.config.all_servers().items()
            if list_sources(folder, spec.globs, limit=1).signatures
        ]

    def _server(self, name: str, folder: str) -> LanguageServer:
        key = name, folder
        if key not in self._servers:
            self._servers[key] = LanguageServer(
                name, self.config.all_servers()[name], self.config, self.folders, folder
            )
        return self._servers[key]
