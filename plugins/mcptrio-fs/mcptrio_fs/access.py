"""Runs the work of a call in a thread, within the folders that it may use.

The tools and resources call it, so that the event loop never accesses the file system. Each folder has its own limiter,
so a hanging thread delays only calls for the same folder. A call that is cancelled or too slow abandons its thread,
which ends as soon as the operating system answers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import trio

from mcptrio import Context, ToolError

from .config import Config
from .errors import PathNotFound, printable
from .sandbox import Folder, Sandbox
from .suggestions import suggestion

__all__ = ["SLICE_SECONDS", "FileAccess", "missing_directories", "no_folder", "path_of", "uri_of"]

SLICE_SECONDS = 0.03
"""Seconds after which a long walk returns from its thread, so that the call can report progress."""

logger = logging.getLogger(__name__)

_SHARED_LIMITER_KEY = ""
_MAX_LIMITERS = 256
"""Maximum number of folders with their own limiter. Clients may name any number of roots, so further ones share one."""

_MAX_SESSIONS = 1000
"""Maximum number of sessions whose roots are cached."""
_ROOTS_CACHE_SECONDS = 30.0
"""Seconds for which roots are cached. They expire, because another replica may receive the notification of a change."""

_T = TypeVar("_T")

_UNRESERVED = "/-._~!$&'()*+,;=:@"
"""Characters of a path that RFC 3986 allows unencoded."""


def missing_directory(path: str, plugin: str) -> str:
    """Return the problem of a configured path that is not a directory."""
    return f"folders of [plugins.{plugin}]: there is no directory {printable(path)}; create it or correct the setting"


def missing_directories(folders: Iterable[Path], plugin: str) -> Iterator[str]:
    """Yield the problems of configured folders. Blocks."""
    return (missing_directory(path, plugin) for path in map(str, folders) if not os.path.isdir(path))


class FileAccess:
    """Access to the folders that the configuration and a client's roots allow.

    Args:
        plugin: The plugin whose settings the messages name.
    """

    def __init__(self, config: Config, *, plugin: str = "fs") -> None:
        self.config = config
        self._plugin = plugin
        self._limiters: dict[str, trio.CapacityLimiter] = {}
        self._roots_cache: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._edit_locks: dict[str, tuple[trio.Lock, int]] = {}

    async def sandbox(self, ctx: Context) -> Sandbox:
        """Return the folders that this call may access.

        Raises:
            ToolError: There are none; the message says how to configure some.
        """
        config = self.config
        sandbox = config.sandbox()
        uses_roots = config.roots if config.roots is not None else bool(config.folders)
        if uses_roots and ctx.supports("roots"):
            roots = await self._roots(ctx)
            if roots and config.folders:
                narrowed = await self.run(sandbox, roots[0], lambda: sandbox.narrow(roots))
                if not narrowed.folders:
                    raise ToolError(
                        "no folder is allowed: the client's roots and the server's folders do not overlap; "
                        f"roots: {', '.join(roots[:10])}; folders: {', '.join(map(str, config.folders[:10]))}"
                    )
                return narrowed
            if roots:
                return Sandbox(tuple(Folder(root) for root in dict.fromkeys(roots)), denied=config.patterns)
        if not sandbox.folders:
            raise ToolError(no_folder(self._plugin))
        return sandbox

    async def report_missing(self) -> None:
        """Log each configured folder that cannot be used. Runs once, when the server starts."""
        sandbox = self.config.sandbox()
        async with trio.open_nursery() as nursery:
            for path in map(str, self.config.folders):
                nursery.start_soon(self._report_missing, sandbox, path)

    def clear_roots_cache(self) -> None:
        """Request the roots again at the next call of each client."""
        self._roots_cache.clear()

    async def run(self, sandbox: Sandbox, path: str, work: Callable[[], _T]) -> _T:
        """Run blocking work in a thread.

        Args:
            path: The path as typed. Its folder, judged by the text alone, determines the limiter.
            work: Must call ``trio.from_thread.check_cancelled`` every few milliseconds.

        Raises:
            PathNotFound: Something does not exist; the message suggests names that do.
            ToolError: The file system did not answer in time, or too many calls wait for this folder.
        """

        def work_with_suggestion() -> _T:
            try:
                return work()
            except PathNotFound as error:
                hint = suggestion(sandbox, error.path, trio.from_thread.check_cancelled)
                raise PathNotFound(error.path, hint) from error

        try:
            with trio.fail_after(self.config.step_timeout):
                return await trio.to_thread.run_sync(
                    work_with_suggestion, limiter=self._limiter(sandbox.folder_of(path)), abandon_on_cancel=True
                )
        except trio.TooSlowError as error:
            raise ToolError(
                f"the file system did not answer within {self.config.step_timeout:g} seconds: {printable(path)}"
            ) from error

    @asynccontextmanager
    async def edit_lock(self, path: str) -> AsyncIterator[None]:
        """Hold the lock for edits of one file, so that each edit sees the result of the previous one."""
        lock, waiting = self._edit_locks.get(path, (trio.Lock(), 0))
        self._edit_locks[path] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._edit_locks.pop(path)
            if waiting > 1:
                self._edit_locks[path] = lock, waiting - 1

    async def _report_missing(self, sandbox: Sandbox, path: str) -> None:
        try:
            if await self.run(sandbox, path, lambda: os.path.isdir(path)):
                return
        except ToolError as error:
            logger.warning("folders of [plugins.%s]: %s", self._plugin, error)
        else:
            logger.warning("%s", missing_directory(path, self._plugin))

    async def _roots(self, ctx: Context) -> tuple[str, ...]:
        """Return the client's roots as paths; cached for a while if there is a session."""
        session, now = ctx.session_id, trio.current_time()
        if session is not None and session in self._roots_cache:
            until, roots = self._roots_cache[session]
            if now < until:
                return roots
        roots = tuple(path for path in (path_of(root.uri) for root in await ctx.list_roots()) if path)
        if session is not None:
            self._roots_cache.pop(session, None)
            while len(self._roots_cache) >= _MAX_SESSIONS:
                del self._roots_cache[next(iter(self._roots_cache))]  # the oldest entry
            self._roots_cache[session] = now + _ROOTS_CACHE_SECONDS, roots
        return roots

    def _limiter(self, folder: str) -> trio.CapacityLimiter:
        key = folder if folder in self._limiters or len(self._limiters) < _MAX_LIMITERS else _SHARED_LIMITER_KEY
        return self._limiters.setdefault(key, trio.CapacityLimiter(self.config.max_threads))


def no_folder(plugin: str) -> str:
    """Return the warning at the start, and the error of each call, if a plugin has no folder."""
    return (
        f'no folder is allowed: set folders = ["/absolute/path"] in [plugins.{plugin}] of mcptrio.toml, or '
        f"MCPTRIO_{plugin.upper()}_FOLDERS (separated by {os.pathsep!r}); with roots = true the client's roots are used"
    )


def path_of(uri: str) -> str | None:
    """Return the absolute path that a ``file:`` URI names; None for anything else."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path, errors="strict") if _is_utf8(parts.path) else ""
    if not path.startswith("/") or "\0" in path:
        return None
    normal = os.path.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def uri_of(path: str) -> str:
    """Return the ``file:`` URI of an absolute path."""
    from_bytes = os.fsencode(path)
    return "file://" + "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in _UNRESERVED) else f"%{byte:02X}"
        for byte in from_bytes
    )


def _is_utf8(text: str) -> bool:
    try:
        unquote(text, errors="strict")
    except UnicodeDecodeError:
        return False
    return True
