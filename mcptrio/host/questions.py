"""Passes a server's questions to the handlers after the user's approval, and records them.

For each server, the host wraps the application's handlers in a :class:`QuestionGuard`. A handler gets the name that the
user gave the server. The server gets the same refusal if the user has declined, has not answered, or has too many
questions waiting.

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
"""The message of the specification, which does not disclose the reason."""
_TOO_MANY = "too many questions at once"


@define(eq=False)
class QuestionGuard:
    """Approves, limits and records the questions of one server.

    Args:
        handlers: The handlers of the application.
        server: The server's name in the host.
        where: The program or the URL.
    """

    _handlers: Handlers
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
        handlers = self._handlers
        # A handler that the application does not have stays None, so that its capability is not declared.
        return attrs.evolve(
            handlers,
            elicit=self._elicit if handlers.elicit is not None else None,
            open_url=self._open_url if handlers.open_url is not None else None,
            sample=self._sample if handlers.sample is not None else None,
            log=self._log_limited if handlers.log is not None else None,
        )

    # Private

    async def _elicit(self, form: Form) -> Any:
        arguments = {"message": form.message, "requestedSchema": form.schema}
        return await self._ask("form", "", arguments, form, self._handlers.elicit)

    async def _open_url(self, question: OpenURL) -> Any:
        arguments = {"message": question.message, "url": question.url}
        return await self._ask("url", question.host, arguments, question, self._handlers.open_url)

    async def _sample(self, params: CreateMessageParams) -> CreateMessageResult:
        assert self._handlers.sample is not None
        arguments: dict[str, Any] = LATEST.unstructure(params)
        with self._auditor.record(self._server, "sampling", "", arguments) as entry, self._reserve() as is_free:
            if not is_free:
                entry.end("not_approved", _TOO_MANY)
                raise Overloaded(_TOO_MANY)
            try:
                # The first approval is for the messages to the model, which a third party may run.
                edited = await self._approval.obtain(self._request("sampling", arguments, params))
                entry.approved(edited)
                if edited is not None:
                    params = LATEST.structure(edited, CreateMessageParams)
                result = await self._handlers.sample(params)
                if isinstance(result, str):
                    result = CreateMessageResult(role="assistant", content=(TextContent(text=result),), model="unknown")
                # The second approval is for the model's reply to the server (client/sampling, "Human in the loop").
                edited = await self._approval.obtain(self._request("reply", LATEST.unstructure(result), params))
                if edited is not None:
                    result = LATEST.structure(edited, CreateMessageResult)
            except NotApproved as error:
                entry.end("not_approved", error.message)
                # The server does not get the user's reason, because it could use it to ask in another way.
                raise NotApproved(_NO_SAMPLING) from error
            return result

    def _log_limited(self, message: LoggingMessageParams) -> None:
        assert self._handlers.log is not None
        if self._bucket is None:
            # Made here, because the clock needs a running Trio loop and the guard is made before that.
            rate = self._options.logs_per_second
            self._bucket = TokenBucket(rate, max(1.0, rate))
        if not self._bucket.take():
            self._dropped += 1
            return
        # Reported together with the next message within the limit, so that the reports are limited too.
        if self._dropped:
            _log.warning("%s: %d log messages were dropped: too many in a second", self._server, self._dropped)
            self._dropped = 0
        self._handlers.log(message)

    async def _ask(
        self,
        kind: Literal["form", "url"],
        name: str,
        arguments: Mapping[str, Any],
        question: Form | OpenURL,
        handler: Callable[[Any], Awaitable[Any]] | None,
    ) -> Any:
        assert handler is not None
        # The server's own name could imitate another server, so the name that the user gave it is shown.
        question = attrs.evolve(question, server=self._server)
        with self._auditor.record(self._server, kind, name, arguments) as entry, self._reserve() as is_free:
            if not is_free:
                entry.end("not_approved", _TOO_MANY)
                # Declined, so that the server cannot distinguish a busy user from one who refuses.
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
                action = "accept"  # also for an empty mapping, which answers a form without fields
            if action != "accept":
                entry.end("declined", action)
            return answer

    @contextmanager
    def _reserve(self) -> Iterator[bool]:
        """Count a question during the block. Yields ``False`` if too many are waiting."""
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
        # A copy through JSON, so that the callback cannot change the sent arguments.
        copied = orjson.loads(orjson.dumps(arguments))
        return ApprovalRequest(server=self._server, where=self._where, kind=kind, arguments=copied, question=question)
