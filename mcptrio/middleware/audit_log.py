"""A record of who asked for what, and how it ended: the plugin ``audit_log``.

Loaded where the configuration has ``[plugins.audit_log]``, or given to a server: ``Server(plugins=[AuditLog()])``.
The one rule: a record is made for everything that was begun, however it ends, and nothing in it is secret as far as
can be told.

Source: JSON Lines.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Literal

import orjson
import trio
from attrs import field, frozen, validators

from mcptrio.capabilities.logging import Logging
from mcptrio.capabilities.middleware import RequestView
from mcptrio.errors import MCPError
from mcptrio.hookspecs import hookimpl
from mcptrio.lines_file import LinesFile
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.runtime.dispatch import Failure, contain_sync

__all__ = ["AuditLog", "AuditLogConfig", "configuration", "register_objects"]

_log = logging.getLogger("mcptrio.audit")

ORDER = -200
"""Outside of all others: what these refuse is a record too."""
_LONGEST_TEXT = 4 * 1024
"""Bytes of arguments; of more only their size is kept."""


@frozen(kw_only=True)
class AuditLogConfig:
    """
    Args:
        path: of the file, made with mode 0600; ``None``: records go to the log ``mcptrio.audit`` at level INFO.
        max_bytes: a file that would become larger is renamed to ``<path>.1``, in the place of an older one.
        arguments: what is kept of arguments: nothing, the names, or all with what looks secret redacted.
        secret: globs of argument names whose values are never kept.
        methods: globs of what is recorded.
    """

    path: Path | None = None
    max_bytes: int = field(default=16 * 1024 * 1024, validator=validators.ge(65536))
    arguments: Literal["none", "names", "redacted"] = "names"
    secret: tuple[str, ...] = ("*password*", "*secret*", "*token*", "*key*", "*credential*")
    methods: tuple[str, ...] = ("tools/call", "resources/read", "prompts/get")


class AuditLog:
    def __init__(self, config: AuditLogConfig | None = None) -> None:
        self._config = config or AuditLogConfig()
        self._file: LinesFile | None = None
        self._redact = Logging().redact

    @hookimpl
    def register_middleware(self, register: Callable[..., None]) -> None:
        register(self.record, order=ORDER)

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """The file is open while the server is."""
        if self._config.path is None:
            yield
            return
        with LinesFile(self._config.path, max_bytes=self._config.max_bytes) as self._file:
            yield
        self._file = None

    async def record(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """The middleware."""
        if not any(fnmatchcase(request.method, glob) for glob in self._config.methods):
            return await proceed()
        at, started = datetime.now(UTC), trio.current_time()
        outcome, detail = "failed", None
        try:
            result = await proceed()
            outcome = "error" if isinstance(result, CallToolResult) and result.is_error else "ok"
            return result
        except MCPError as error:
            outcome, detail = "refused", f"{int(error.code)}: {error.message}"
            raise
        except trio.Cancelled:
            outcome = "cancelled"
            raise
        finally:
            self._write(request, at, trio.current_time() - started, outcome, detail)

    # Private

    def _write(self, request: RequestView, at: datetime, seconds: float, outcome: str, detail: str | None) -> None:
        principal = request.principal
        line = {
            "at": at.isoformat(timespec="milliseconds"),
            "principal": principal.subject if principal is not None else None,
            "issuer": principal.issuer if principal is not None else None,
            "client": request.client_info.name if request.client_info is not None else None,
            "request": request.id,
            "method": request.method,
            "name": request.name,
            "plugin": request.plugin,
            "arguments": self._kept(request),
            "outcome": outcome,
            "detail": str(self._redact(detail))[:_LONGEST_TEXT] if detail is not None else None,
            "seconds": round(seconds, 6),
        }
        data = orjson.dumps(line, default=str)
        if self._file is None:
            _log.info("%s", data.decode())
            return
        written = contain_sync(partial(self._file.write, data))
        if isinstance(written, Failure):
            _log.error("a record was not kept: %s %s", request.method, request.name, exc_info=written.error)

    def _kept(self, request: RequestView) -> Any:
        """Of the arguments what the operator wants to know."""
        arguments = request.arguments
        if arguments is None or self._config.arguments == "none":
            return None
        if self._config.arguments == "names":
            return sorted(arguments)
        kept = self._redact(
            {
                name: "[redacted]" if any(fnmatchcase(name.lower(), glob) for glob in self._config.secret) else value
                for name, value in arguments.items()
            }
        )
        size = len(orjson.dumps(kept, default=str))
        return kept if size <= _LONGEST_TEXT else f"[left out: {size} bytes]"


@hookimpl
def configuration() -> type[AuditLogConfig]:
    return AuditLogConfig


@hookimpl
def register_objects(register: Callable[[object], None], config: AuditLogConfig) -> None:
    register(AuditLog(config))
