"""The plugin ``audit_log``: a record of each request and its outcome.

It is loaded if the configuration has ``[plugins.audit_log]``; a program can also pass it to a server:
``Server(plugins=[AuditLog()])``. Known secrets are redacted.

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
"""Bytes of recorded arguments. If they are larger, only their size is recorded."""
_MAX_REDACTED_BYTES = 64 * 1024
"""Bytes of arguments that are searched for secrets. Larger ones are not searched, and not recorded."""
_MAX_TEXT_CHARS = 1024
"""Characters of other texts of a client: names, URIs, identifiers."""
_MAX_SCOPES = 100


@frozen(kw_only=True)
class AuditLogConfig:
    """The settings of ``audit_log``.

    Args:
        path: The file, created with mode 0600. With ``None``, records go to the logger ``mcptrio.audit`` at level INFO.
        max_bytes: The size of the file. A file that would become larger is renamed to ``<path>.1``, and replaces an
            older file of that name.
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
        # Compiled here, so that the error for an invalid expression names the line of the configuration.
        Redactor((), patterns)
    except ValueError as error:
        raise ValueError(f"secret_values: {error}") from error


class AuditLog:
    """The plugin: middleware that records requests.

    Args:
        config: The settings; by default those of :class:`AuditLogConfig`.
    """

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
        """Record a request. This is the middleware."""
        if not any(fnmatchcase(request.method, glob) for glob in self._config.methods):
            return await proceed()
        at, started = datetime.now(UTC), trio.current_time()
        # The outcome if an exception is raised that is not caught below.
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
        # Also recorded after a cancellation, because the tool may have had its effect.
        finally:
            self._write(request, at, trio.current_time() - started, outcome, detail)

    # Private

    def _write(self, request: RequestView, at: datetime, seconds: float, outcome: str, detail: str | None) -> None:
        arguments, redact_text = self._recorded_arguments(request)
        line = {
            "at": at.isoformat(timespec="milliseconds"),
            **_identity(request),
            "request": _truncate(request.id),
            "method": request.method,
            "name": self._text(request.name, redact_text or self._redactor.text),
            "plugin": request.plugin,
            "arguments": arguments,
            "outcome": outcome,
            "detail": self._text(detail, redact_text),
            "seconds": round(seconds, 6),
        }
        data = orjson.dumps(line, default=str)
        if self._file is None:
            _log.info("%s", data.decode())
            return
        written = run_guarded_sync(self._file.write, data)
        if isinstance(written, Failure):
            _log.error("audit record lost: %s %s", request.method, line["name"], exc_info=written.error)

    def _recorded_arguments(self, request: RequestView) -> tuple[Any, Callable[[str], str] | None]:
        """Return the arguments to record, and a function that removes their secrets from a text.

        The function is ``None`` for arguments that are too large to search. Then no text that could repeat their
        secrets is recorded.
        """
        arguments, mode = request.arguments, self._config.arguments
        if arguments is None:
            return None, self._redactor.text
        # The time of the search grows with the size.
        if (size := len(orjson.dumps(arguments, default=str))) > _MAX_REDACTED_BYTES:
            return None if mode == "none" else _omission_note(size), None
        redacted, redact_text = self._redactor.arguments(arguments)
        if mode == "none":
            return None, redact_text
        recorded = sorted(arguments) if mode == "names" else self._redact(redacted)
        size = len(orjson.dumps(recorded, default=str))
        return (recorded if size <= _MAX_ARGUMENT_BYTES else _omission_note(size)), redact_text

    def _text(self, text: str | None, redact_text: Callable[[str], str] | None) -> str | None:
        """Return a text for a record: a text of a client, or of an error that may repeat such a text."""
        if text is None or redact_text is None:
            return None if text is None else "[left out]"
        # Truncated before the search, and further after it: the first truncation may leave a part of a secret at the
        # end, which the search does not find.
        recorded: str = _truncate(str(self._redact(redact_text(text[: 2 * _MAX_ARGUMENT_BYTES]))))
        return recorded


def _identity(request: RequestView) -> dict[str, Any]:
    principal, client = request.principal, request.client_info
    return {
        "caller": request.caller,
        "principal": _truncate(principal.subject) if principal is not None else None,
        "issuer": _truncate(principal.issuer) if principal is not None else None,
        "client_id": _truncate(principal.client_id) if principal is not None else None,
        "scopes": sorted(principal.scopes)[:_MAX_SCOPES] if principal is not None else None,
        "client": _truncate(client.name) if client is not None else None,
    }


def _truncate(text: Any) -> Any:
    """Truncate a text; other values are returned unchanged."""
    return text if not isinstance(text, str) or len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def _omission_note(size: int) -> str:
    return f"[left out: {size} bytes]"
