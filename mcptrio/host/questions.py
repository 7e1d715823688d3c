"""A server's questions to the user and the model: passed to the handlers after approval, and recorded.

The host wraps its handlers in this for each server. The handler sees the name that the user gave the server. The server
gets the same refusal whether the user declined, did not answer, or had too many questions waiting.

Source: MCP 2026-07-28, client/elicitation and client/sampling; MCP 2025-11-25, client/sampling, "Error Handling".
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import attrs
import orjson
from attrs import define, field

from mcptrio.client.forms import Form, OpenURL
from mcptrio.client.handlers import Handlers
from mcptrio.errors import NotApproved, Overloaded
from mcptrio.ground.token_bucket import TokenBucket
from mcptrio.host.approval import Approval, ApprovalRequest
from mcptrio.host.audit import Auditor
from mcptrio.host.options import HostOptions
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.elicitation import ElicitResult
from mcptrio.protocol.model.logging import LoggingMessageParams
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult
from mcptrio.protocol.revisions.registry import LATEST

__all__ = ["QuestionGuard"]

_log = logging.getLogger("mcptrio.host.questions")

_NO_SAMPLING = "User rejected sampling request"
"""The specification's message, which does not disclose the reason."""
_TOO_MANY = "too many questions at once"


@define(eq=False)
class QuestionGuard:
    """Approves, limits and records the questions of one server.

    Args:
        own: The application's handlers.
        server: The server's name in the host.
        where: The program or the URL.
    """

    _own: Handlers
    _server: str
    _where: str
    _approval: Approval
    _auditor: Auditor
    _options: HostOptions
    _waiting: int = field(default=0, init=False)
    _bucket: TokenBucket | None = field(default=None, init=False)
    _dropped: int = field(default=0, init=False)

    @property
    def handlers(self) -> Handlers:
        """The handlers for the server: the application's, with approval and limits."""
        own = self._own
        # A handler that the application does not have stays None, so its capability is not declared to the server.
        return attrs.evolve(
            own,
            elicit=self._elicit if own.elicit is not None else None,
            open_url=self._open_url if own.open_url is not None else None,
            sample=self._sample if own.sample is not None else None,
            log=self._pass_on if own.log is not None else None,
        )

    # Private

    async def _elicit(self, form: Form) -> Any:
        arguments = {"message": form.message, "requestedSchema": form.schema}
        return await self._show("form", "", arguments, form, self._own.elicit)

    async def _open_url(self, question: OpenURL) -> Any:
        arguments = {"message": question.message, "url": question.url}
        return await self._show("url", question.host, arguments, question, self._own.open_url)

    async def _sample(self, params: CreateMessageParams) -> CreateMessageResult:
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
                result = await self._own.sample(params)
                if isinstance(result, str):
                    result = CreateMessageResult(role="assistant", content=(TextContent(text=result),), model="unknown")
                # Second approval: the model's message goes back to the server (client/sampling, "Human in the loop").
                edited = await self._approval.obtain(self._request("reply", LATEST.unstructure(result), params))
                if edited is not None:
                    result = LATEST.structure(edited, CreateMessageResult)
            except NotApproved as error:
                entry.end("not_approved", error.message)
                # The reason is the user's business; a server could use it to ask again in another way.
                raise NotApproved(_NO_SAMPLING) from error
            return result

    def _pass_on(self, message: LoggingMessageParams) -> None:
        assert self._own.log is not None
        if self._bucket is None:
            # Made here, because the clock needs a running Trio loop and the guard is made before that.
            rate = self._options.logs_per_second
            self._bucket = TokenBucket(rate, max(1.0, rate))
        if not self._bucket.take():
            self._dropped += 1
            return
        # Reported with the next message that fits, so that the report itself is not a flood.
        if self._dropped:
            _log.warning("%s: %d log messages were dropped: too many in a second", self._server, self._dropped)
            self._dropped = 0
        self._own.log(message)

    async def _show(
        self,
        kind: Literal["form", "url"],
        name: str,
        arguments: Mapping[str, Any],
        question: Form | OpenURL,
        handler: Callable[[Any], Awaitable[Any]] | None,
    ) -> Any:
        assert handler is not None
        # The server's own name for itself could imitate another server.
        question = attrs.evolve(question, server=self._server)
        with self._auditor.record(self._server, kind, name, arguments) as entry, self._counted() as is_free:
            if not is_free:
                entry.end("not_approved", _TOO_MANY)
                # A decline and not an error, so that a server cannot tell a busy user from an unwilling one.
                return question.decline()
            try:
                await self._approval.obtain(self._request(kind, arguments, question))
            except NotApproved as error:
                entry.end("not_approved", error.message)
                return question.decline()
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
        if self._waiting >= self._options.questions:
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
