"""The plugin ``audit_log``: a record of each request and its outcome.

Loaded if the configuration has ``[plugins.audit_log]``, or passed to a server: ``Server(plugins=[AuditLog()])``. Known
secrets are redacted.

Source: JSON Lines.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import orjson
import trio
from attrs import field, frozen, validators

from mcptrio.capabilities.catalog import catalog_of
from mcptrio.capabilities.logging import Logging
from mcptrio.capabilities.middleware import RequestView
from mcptrio.capabilities.registrar import Registrar
from mcptrio.errors import MCPError
from mcptrio.ground.argument_redaction import DEFAULT_SECRETS, Redactor
from mcptrio.ground.guarded import Failure, run_guarded_sync
from mcptrio.ground.lines_file import LinesFile
from mcptrio.plugins.hooks import hookimpl, lifespan
from mcptrio.plugins.setup import PluginSetup
from mcptrio.protocol.model.tools import CallToolResult

__all__ = ["AuditLog", "AuditLogConfig"]

_log = logging.getLogger("mcptrio.audit")

ORDER = -200
"""Outermost, so that refusals of other middleware are recorded too."""
_MAX_ARGUMENT_BYTES = 4 * 1024
"""Maximum bytes of recorded arguments. If they are larger, only their size is recorded."""
_MAX_REDACTED_BYTES = 64 * 1024
"""Bytes of arguments that are searched for secrets."""
_MAX_TEXT_CHARS = 1024
"""Characters of other texts of a client: names, URIs, identifiers."""
_MAX_SCOPES = 100


@frozen(kw_only=True)
class AuditLogConfig:
    """The settings of ``audit_log``.

    Args:
        path: The file, created with mode 0600. With ``None``, records go to the logger ``mcptrio.audit`` at level INFO.
        max_bytes: A file that would become larger is renamed to ``<path>.1``, which replaces an older one.
        arguments: The recorded part of arguments: none, their names, or all with secrets redacted.
        secret: Globs of the names of arguments, and of members of objects in them, whose values are never recorded. A
            glob with a dot matches the path: ``login.pin``.
        secret_values: Regular expressions of texts that are never recorded, in addition to the redactions of log
            messages.
        methods: Globs of the methods to record.
    """

    path: Path | None = None
    max_bytes: int = field(default=16 * 1024 * 1024, validator=validators.ge(65536))
    arguments: Literal["none", "names", "redacted"] = "names"
    secret: tuple[str, ...] = DEFAULT_SECRETS
    secret_values: tuple[str, ...] = field(default=(), validator=lambda _, __, value: _check_patterns(value))
    methods: tuple[str, ...] = ("tools/call", "resources/read", "prompts/get")


def _check_patterns(patterns: tuple[str, ...]) -> None:
    try:
        # Compiled here, so that a wrong expression is an error of the configuration with its line.
        Redactor((), patterns)
    except ValueError as error:
        raise ValueError(f"secret_values: {error}") from error


class AuditLog:
    def __init__(self, config: AuditLogConfig | None = None) -> None:
        self._config = config or AuditLogConfig()
        self._file: LinesFile | None = None
        self._redactor = Redactor(self._config.secret, self._config.secret_values)
        self._redact = Logging().redact

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_middleware(self.record, order=ORDER)

    @lifespan
    async def opened(self, server: Registrar) -> AsyncGenerator[None]:
        """Keep the file open while the server is open."""
        # The redactions of plugins apply to records too.
        self._redact = catalog_of(server).logging.redact
        if self._config.path is None:
            yield
            return
        with closing(LinesFile(self._config.path, max_bytes=self._config.max_bytes)) as self._file:
            yield
        self._file = None

    async def record(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Record a request: the middleware."""
        if not any(fnmatchcase(request.method, glob) for glob in self._config.methods):
            return await proceed()
        at, started = datetime.now(UTC), trio.current_time()
        # The outcome of any exception except the three below.
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
        # Recorded after a cancellation too, because the tool may have had its effect.
        finally:
            self._write(request, at, trio.current_time() - started, outcome, detail)

    # Private

    def _write(self, request: RequestView, at: datetime, seconds: float, outcome: str, detail: str | None) -> None:
        arguments, rid = self._kept(request)
        line = {
            "at": at.isoformat(timespec="milliseconds"),
            **_identity(request),
            "request": _bounded(request.id),
            "method": request.method,
            "name": self._text(request.name, rid or self._redactor.text),
            "plugin": request.plugin,
            "arguments": arguments,
            "outcome": outcome,
            "detail": self._text(detail, rid),
            "seconds": round(seconds, 6),
        }
        data = orjson.dumps(line, default=str)
        if self._file is None:
            _log.info("%s", data.decode())
            return
        written = run_guarded_sync(self._file.write, data)
        if isinstance(written, Failure):
            _log.error("a record could not be written: %s %s", request.method, line["name"], exc_info=written.error)

    def _kept(self, request: RequestView) -> tuple[Any, Callable[[str], str] | None]:
        """Return the arguments to record, and a function that removes their secrets from a text.

        Without the function, no text that could repeat them is recorded.
        """
        arguments, keep = request.arguments, self._config.arguments
        if arguments is None:
            return None, self._redactor.text
        # Searching costs time in proportion to the size, so very large arguments are left out.
        if (size := len(orjson.dumps(arguments, default=str))) > _MAX_REDACTED_BYTES:
            return None if keep == "none" else _left_out(size), None
        without, rid = self._redactor.arguments(arguments)
        if keep == "none":
            return None, rid
        kept = sorted(arguments) if keep == "names" else self._redact(without)
        size = len(orjson.dumps(kept, default=str))
        return (kept if size <= _MAX_ARGUMENT_BYTES else _left_out(size)), rid

    def _text(self, text: str | None, rid: Callable[[str], str] | None) -> str | None:
        """Return a text of a client, or of an error that may repeat it, for a record."""
        if text is None or rid is None:
            return None if text is None else "[left out]"
        # Bounded twice: before the search, and to half of that afterwards, so that a secret that the first bound has
        # cut in two is dropped.
        kept: str = _bounded(str(self._redact(rid(text[: 2 * _MAX_ARGUMENT_BYTES]))))
        return kept


def _identity(request: RequestView) -> dict[str, Any]:
    principal, client = request.principal, request.client_info
    return {
        "caller": request.caller,
        "principal": _bounded(principal.subject) if principal is not None else None,
        "issuer": _bounded(principal.issuer) if principal is not None else None,
        "client_id": _bounded(principal.client_id) if principal is not None else None,
        "scopes": sorted(principal.scopes)[:_MAX_SCOPES] if principal is not None else None,
        "client": _bounded(client.name) if client is not None else None,
    }


def _bounded(text: Any) -> Any:
    return text if not isinstance(text, str) or len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def _left_out(size: int) -> str:
    return f"[left out: {size} bytes]"
