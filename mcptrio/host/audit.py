"""Audit records of a host: its calls, reads, prompts and completions, and the servers' questions.

The host writes a record for each action that it has started, when the action ends. Known secrets are redacted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import trio
from attrs import frozen

from mcptrio.capabilities.logging import Logging
from mcptrio.client.tasks import ClientTask
from mcptrio.errors import MCPError, MCPTrioError, NotApproved, RequestTimeout
from mcptrio.ground.guarded import Failure, run_guarded_sync

__all__ = ["Audit", "AuditEntry", "AuditKind", "AuditOutcome", "AuditRecord", "Auditor", "Redact"]

_log = logging.getLogger("mcptrio.host.audit")

AuditKind: TypeAlias = Literal["tool", "resource", "prompt", "completion", "form", "url", "sampling"]
"""The kind of action in a record."""
AuditOutcome: TypeAlias = Literal["ok", "error", "failed", "timeout", "not_approved", "declined", "cancelled"]
"""The outcome of an action."""

# Written instead of the value: an unredacted value may contain the secret.
_UNCHECKED = "[redaction failed]"


@frozen(kw_only=True)
class AuditRecord:
    """One action.

    Args:
        at: The time of its start, in UTC.
        server: The name of the server in the host.
        kind: ``tool``, ``resource``, ``prompt`` and ``completion`` are requests of the host; ``form``, ``url`` and
            ``sampling`` are questions of the server.
        name: The tool, URI or prompt, by its name on the server.
        arguments: The arguments, redacted; ``None`` if there are none.
        outcome: ``ok``; ``error``: the server or the tool reported an error; ``failed``: the response was invalid, or a
            part of the host failed; ``timeout``; ``not_approved``; ``declined``: the user declined or cancelled the
            server's question; ``cancelled``.
        detail: The error or reason, redacted.
        task_id: The id of the task that the server has made of a tool call; ``None`` if it made none.
        seconds: The time from the user's approval, or from the start if none was needed, to the outcome, in seconds.
    """

    at: datetime
    server: str
    kind: AuditKind
    name: str
    arguments: Any
    outcome: AuditOutcome
    detail: str | None
    seconds: float
    task_id: str | None = None


Audit: TypeAlias = Callable[[AuditRecord], None]
"""Stores a record. Called in the Trio thread. An exception is logged."""

Redact: TypeAlias = Callable[[Any], Any]
"""Returns a JSON value without its secrets."""


class AuditEntry:
    """The record of an action in progress."""

    def __init__(self, name: str, arguments: Mapping[str, Any] | None) -> None:
        self.name = name
        """The name of the tool, URI or prompt. The name on the server replaces it when that is known."""
        self.arguments = arguments
        self.started = trio.current_time()
        self.outcome: AuditOutcome | None = None
        self.detail: str | None = None
        self.task_id: str | None = None

    def approved(self, edited: Mapping[str, Any] | None = None) -> None:
        """Note the user's approval. ``seconds`` counts from here.

        Args:
            edited: The arguments that replace those of the request.
        """
        self.started = trio.current_time()
        if edited is not None:
            self.arguments = edited

    def created(self, task: ClientTask) -> None:
        """Note the task that the server has made of the call."""
        self.task_id = task.id

    def end(self, outcome: AuditOutcome, detail: str | None = None) -> None:
        """Set the outcome, unless it is set. Later exceptions are less precise than the first one."""
        if self.outcome is None:
            self.outcome, self.detail = outcome, detail


class Auditor:
    """Makes the records of one host.

    Args:
        audit: Stores the records; ``None`` stores none.
        redact: Removes secrets; by default those that are also removed from log messages for clients: tokens,
            passwords, keys, and the values of members with such names.
    """

    def __init__(self, audit: Audit | None, redact: Redact | None = None) -> None:
        self._audit = audit
        self._redact: Redact = redact or Logging().redact

    @contextmanager
    def record(
        self, server: str, kind: AuditKind, name: str, arguments: Mapping[str, Any] | None = None
    ) -> Iterator[AuditEntry]:
        """Record the action in the block. :meth:`AuditEntry.end`, or the exception, decides on the outcome."""
        at, entry = datetime.now(UTC), AuditEntry(name, arguments)
        try:
            yield entry
            entry.end("ok")
        except NotApproved as error:
            entry.end("not_approved", error.message)
            raise
        except RequestTimeout as error:
            entry.end("timeout", str(error))
            raise
        except MCPError as error:
            entry.end("error", f"{int(error.code)}: {error.message}")
            raise
        except MCPTrioError as error:
            entry.end("failed", str(error))
            raise
        except trio.Cancelled:
            entry.end("cancelled")
            raise
        # A nursery in the block raises groups. A cancellation is recorded even if another exception came with it.
        except BaseExceptionGroup as group:
            if group.split(trio.Cancelled)[1] is None:
                entry.end("cancelled")
            raise
        # Written after a cancellation too, because the action may have had its effect.
        finally:
            if self._audit is not None:
                self._write(self._audit, at, server, kind, entry)

    def _write(self, audit: Audit, at: datetime, server: str, kind: AuditKind, entry: AuditEntry) -> None:
        record = AuditRecord(
            at=at,
            server=server,
            kind=kind,
            name=str(self._redact_guarded(entry.name)),
            arguments=self._redact_guarded(entry.arguments) if entry.arguments is not None else None,
            # The outcome is missing after an exception of another kind.
            outcome=entry.outcome or "failed",
            detail=str(self._redact_guarded(entry.detail)) if entry.detail is not None else None,
            seconds=trio.current_time() - entry.started,
            task_id=entry.task_id,
        )
        # A full disk must not fail a call that has succeeded.
        outcome = run_guarded_sync(audit, record)
        if isinstance(outcome, Failure):
            _log.error("audit record lost: %s %s of %s", kind, record.name, server, exc_info=outcome.error)

    def _redact_guarded(self, value: Any) -> Any:
        # Guarded, because a function of the application runs on data of a server.
        outcome = run_guarded_sync(self._redact, value)
        if isinstance(outcome, Failure):
            _log.error("the redaction failed", exc_info=outcome.error)
            return _UNCHECKED
        return outcome.value
