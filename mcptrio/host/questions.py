"""A server's questions to the user and the model: passed to the handlers after approval, and recorded.

The host wraps its handlers in this for each server. The handler sees the name that the user gave the server. The server
gets the same refusal whether the user declined, did not answer, or had too many questions waiting.

Source: MCP 2026-07-28, client/elicitation and client/sampling; MCP 2025-11-25, client/sampling, "Error Handling".
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import orjson

from mcptrio.client.forms import Form, OpenURL
from mcptrio.client.handlers import Handlers
from mcptrio.errors import NotApproved, Overloaded
from mcptrio.ground.token_bucket import TokenBucket
from mcptrio.host.approval import Approval, ApprovalRequest
from mcptrio.host.audit import AuditEntry, Auditor
from mcptrio.host.options import HostOptions
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.elicitation import ElicitResult
from mcptrio.protocol.model.logging import LoggingMessageParams
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult
from mcptrio.protocol.revisions.registry import LATEST

__all__ = ["guarded"]

_log = logging.getLogger("mcptrio.host.questions")

_NO_SAMPLING = "User rejected sampling request"
"""The specification's message, which does not disclose the reason."""
_TOO_MANY = "too many questions at once"


def guarded(
    handlers: Handlers, *, server: str, where: str, approval: Approval, auditor: Auditor, options: HostOptions
) -> Handlers:
    """Return the handlers for one server: the same ones, with approval and limits.

    Args:
        server: the server's name in the host.
        where: the program or the URL.
    """
    guard = _Guard(handlers, server, where, approval, auditor, options)
    # A handler that the application does not have stays None, so its capability is not declared to the server.
    return attrs.evolve(
        handlers,
        elicit=guard.elicit if handlers.elicit is not None else None,
        open_url=guard.open_url if handlers.open_url is not None else None,
        sample=guard.sample if handlers.sample is not None else None,
        log=guard.log if handlers.log is not None else None,
    )


class _Guard:
    def __init__(
        self,
        own: Handlers,
        server: str,
        where: str,
        approval: Approval,
        auditor: Auditor,
        options: HostOptions,
    ) -> None:
        self._own = own
        self._server = server
        self._where = where
        self._approval = approval
        self._auditor = auditor
        self._most = options.questions
        self._waiting = 0
        self._rate = options.logs_per_second
        self._bucket: TokenBucket | None = None
        self._dropped = 0

    async def elicit(self, form: Form) -> Any:
        assert self._own.elicit is not None
        arguments = {"message": form.message, "requestedSchema": form.schema}
        # The server's own name for itself could imitate another server.
        form = attrs.evolve(form, server=self._server)
        with self._auditor.record(self._server, "form", "", arguments) as entry:
            request = self._request("form", arguments, form)
            return await self._show(entry, request, form, self._own.elicit, form.decline)

    async def open_url(self, question: OpenURL) -> Any:
        assert self._own.open_url is not None
        arguments = {"message": question.message, "url": question.url}
        question = attrs.evolve(question, server=self._server)
        with self._auditor.record(self._server, "url", question.host, arguments) as entry:
            request = self._request("url", arguments, question)
            return await self._show(entry, request, question, self._own.open_url, question.decline)

    async def sample(self, params: CreateMessageParams) -> CreateMessageResult:
        assert self._own.sample is not None
        arguments: dict[str, Any] = LATEST.unstructure(params)
        with self._auditor.record(self._server, "sampling", "", arguments) as entry, self._counted() as is_free:
            if not is_free:
                entry.end("not_approved", _TOO_MANY)
                raise Overloaded(_TOO_MANY)
            try:
                # First approval: the messages go to the model, which may be shown to a third party.
                edited = await self._approval.obtain(self._request("sampling", arguments, params))
                entry.approved(edited)
                if edited is not None:
                    params = LATEST.structure(edited, CreateMessageParams)
                said = await self._own.sample(params)
                if isinstance(said, str):
                    said = CreateMessageResult(role="assistant", content=(TextContent(text=said),), model="unknown")
                # Second approval: the model's message goes back to the server (client/sampling, "Human in the loop").
                edited = await self._approval.obtain(self._request("reply", LATEST.unstructure(said), params))
                if edited is not None:
                    said = LATEST.structure(edited, CreateMessageResult)
            except NotApproved as error:
                entry.end("not_approved", error.message)
                # The reason is the user's business; a server could use it to ask again in another way.
                raise NotApproved(_NO_SAMPLING) from error
            return said

    def log(self, message: LoggingMessageParams) -> None:
        assert self._own.log is not None
        if self._bucket is None:
            # Made here, because the clock needs a running Trio loop and the guard is made before that.
            self._bucket = TokenBucket(self._rate, max(1.0, self._rate))
        if not self._bucket.take():
            self._dropped += 1
            return
        # Reported with the next message that fits, so that the report itself is not a flood.
        if self._dropped:
            _log.warning("%s: %d log messages were dropped: too many in a second", self._server, self._dropped)
            self._dropped = 0
        self._own.log(message)

    # Private

    async def _show(
        self,
        entry: AuditEntry,
        request: ApprovalRequest,
        question: Any,
        handler: Callable[[Any], Awaitable[Any]],
        decline: Callable[[], ElicitResult],
    ) -> Any:
        with self._counted() as is_free:
            if not is_free:
                entry.end("not_approved", _TOO_MANY)
                # A decline and not an error, so that a server cannot tell a busy user from an unwilling one.
                return decline()
            try:
                await self._approval.obtain(request)
            except NotApproved as error:
                entry.end("not_approved", error.message)
                return decline()
            entry.approved()
            answer = await handler(question)
            action = answer.action if isinstance(answer, ElicitResult) else "accept" if answer else "decline"
            # Handlers may return a result, a mapping of fields, true, or None if the user closed the form.
            if answer is None:
                action = "cancel"
            elif isinstance(answer, Mapping):
                action = "accept"  # a form without fields is answered with nothing
            if action != "accept":
                entry.end("declined", action)
            return answer

    @contextmanager
    def _counted(self) -> Iterator[bool]:
        """Yield whether one more question may wait, and count it during the block."""
        if self._waiting >= self._most:
            yield False
            return
        self._waiting += 1
        try:
            yield True
        finally:
            self._waiting -= 1

    def _request(
        self, kind: Any, arguments: Mapping[str, Any], question: Form | OpenURL | CreateMessageParams
    ) -> ApprovalRequest:
        # A copy through JSON: the callback cannot change what is sent.
        copied = orjson.loads(orjson.dumps(arguments))
        return ApprovalRequest(server=self._server, where=self._where, kind=kind, arguments=copied, question=question)
