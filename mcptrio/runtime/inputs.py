"""Input channels, which ask the client of a request: the interface, and the channel of handshake revisions.

The Context holds a channel. A feature of the revision determines its class. A client without the required capability
is never asked, and the error is the same on every channel.

Source: MCP 2025-11-25, client/elicitation, client/sampling, client/roots; MCP 2026-07-28, basic/patterns/mrtr.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import trio

from mcptrio.errors import ConnectionClosed, LocalProtocolError, MCPTrioError, MissingClientCapability, ToolError
from mcptrio.protocol.events import Peer
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import CreateMessageRequest, InputRequest
from mcptrio.protocol.model.sampling import CreateMessageParams
from mcptrio.runtime.request import RequestScope

__all__ = [
    "BackChannel",
    "InputChannel",
    "InputQuestion",
    "Lifetime",
    "NoChannel",
    "declares",
    "request_for",
    "require",
]

T = TypeVar("T")


class InputQuestion(Protocol):
    """A question to the client: the request to send, the capability that it requires, and the reader of the answer."""

    @property
    def key(self) -> str | None:
        """The author's name for the question within one request; ``None`` if its content identifies it."""
        ...

    @property
    def capability(self) -> str:
        """The required client capability as a path, such as ``elicitation.form``."""
        ...

    def request(self) -> InputRequest: ...

    def result_type(self) -> type[Result]: ...

    def read(self, result: Any) -> Any:
        """Return the answer for the author, from an instance of ``result_type``.

        Raises:
            InvalidParams: The answer does not match the question.
        """
        ...


class InputChannel(Protocol):
    """Asks the client of one request."""

    scope: RequestScope
    """The current request. If the handler outlives its request, this is later the retry."""

    async def run(self, handler: Callable[[], Awaitable[Any]], *, parks: bool = True) -> Any:
        """Run the handler of the request, which may ask questions.

        Args:
            parks: Whether the handler may be parked between two requests; ``False`` if it would block a thread.
        """
        ...

    async def ask(self, questions: Sequence[InputQuestion]) -> list[Any]:
        """Ask the questions, and return the answers in the same order.

        Raises:
            MissingClientCapability: The client lacks a required capability. Nothing was sent.
            MCPError: The client answered with an error.
            trio.TooSlowError: No answer within ``timeouts.input``.
            ConnectionClosed: The client has disconnected.
        """
        ...

    async def once(
        self, key: str, effect: Callable[[], Awaitable[Any]], *, shared: bool = True, repeatable: bool = False
    ) -> Any:
        """Run a side effect that a replay of the handler must not repeat, or return its recorded result.

        Args:
            key: Identifies the effect within the request.
            effect: The function. It returns a JSON value.
            shared: Whether other deliveries of the request use the result; the effect then finishes even if the request
                is cancelled. ``False`` for an effect that asks questions.
            repeatable: Whether the effect may run again if its process ends while it runs.
        """
        ...


class Lifetime:
    """Ends all uses of a handler's context when the handler ends.

    A thread, or a nursery of the plugin's lifespan, can use the context in tasks outside of the handler's cancel scope.
    This class cancels these uses.
    """

    def __init__(self) -> None:
        self._scopes: set[trio.CancelScope] = set()
        self._end_reason: str | None = None

    async def within(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work`` and return its result. Cancel it when the handler ends.

        Raises:
            trio.Cancelled: The handler has ended, and one of its threads is the caller.
            ConnectionClosed: The handler has ended, and a task is the caller.
        """
        scope = trio.CancelScope()
        if self._end_reason is not None:
            scope.cancel()
        cancelled: trio.Cancelled | None = None
        self._scopes.add(scope)
        try:
            with scope:
                try:
                    await trio.lowlevel.checkpoint_if_cancelled()
                    return await work()
                except trio.Cancelled as error:
                    cancelled = error
                    raise
        finally:
            self._scopes.discard(scope)
        if cancelled is not None and _is_for_thread():
            # Trio does not cancel this system task together with the thread. The thread must receive Cancelled, because
            # it could handle another exception and continue.
            raise cancelled
        raise ConnectionClosed(self._end_reason or "the handler has ended")

    def end(self, reason: str) -> None:
        """Cancel all uses of the context, because the handler has ended."""
        self._end_reason = reason
        for scope in self._scopes:
            scope.cancel()


def _is_for_thread() -> bool:
    """Return whether a thread has started the current task with :func:`trio.from_thread.run`: it is a system task."""
    nursery = trio.lowlevel.current_task().parent_nursery
    return nursery is not None and nursery.parent_task is trio.lowlevel.current_root_task()


class BackChannel:
    """Asks with requests to the client, while the handler waits. Used in handshake revisions."""

    def __init__(self, scope: RequestScope) -> None:
        self.scope = scope
        self._lifetime = Lifetime()

    async def run(self, handler: Callable[[], Awaitable[Any]], *, parks: bool = True) -> Any:
        try:
            return await handler()
        finally:
            self._lifetime.end(f"request {self.scope.label} has ended")

    async def ask(self, questions: Sequence[InputQuestion]) -> list[Any]:
        return await self._lifetime.within(partial(self._ask_client, questions))

    async def _ask_client(self, questions: Sequence[InputQuestion]) -> list[Any]:
        scope = self.scope
        for question in questions:
            # Checked before the first question is sent: otherwise a user would answer it, and the call would fail.
            require(scope.request.peer, question.capability)
        answers: list[Any] = [None] * len(questions)
        # The idle timeout stops while the user answers.
        timeout = scope.wait_for_input()
        try:
            if len(questions) == 1:
                answers[0] = await self._ask(questions[0], timeout)
            else:
                await self._ask_all(questions, answers, timeout)
        finally:
            scope.input_arrived()
        return answers

    async def once(
        self, key: str, effect: Callable[[], Awaitable[Any]], *, shared: bool = True, repeatable: bool = False
    ) -> Any:
        return await self._lifetime.within(effect)

    async def _ask_all(self, questions: Sequence[InputQuestion], answers: list[Any], timeout: float) -> None:
        """Ask all questions concurrently. The first error cancels the others and is raised."""
        refusals: list[MCPTrioError | trio.TooSlowError] = []

        async def ask(position: int) -> None:
            try:
                answers[position] = await self._ask(questions[position], timeout)
            except (MCPTrioError, trio.TooSlowError) as error:
                refusals.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for position in range(len(questions)):
                nursery.start_soon(ask, position)
        if refusals:
            raise refusals[0]

    async def _ask(self, question: InputQuestion, timeout: float) -> Any:
        scope = self.scope
        peer = scope.request.peer
        request = request_for(question, peer)
        scope.check_open()
        try:
            raw = await scope.session.outgoing.request(
                request.method, request.params, peer=peer, sink=scope.sink, timeout=timeout
            )
        except LocalProtocolError as error:
            # An older revision cannot express every question, for example a choice of several values. A ToolError tells
            # the model, which may try another way.
            raise ToolError(f"this client cannot be asked: {error}") from error
        return question.read(peer.revision.structure(raw, question.result_type()))


class NoChannel:
    """The channel of methods that cannot ask the client, in revisions without requests to the client."""

    def __init__(self, scope: RequestScope) -> None:
        self.scope = scope

    async def run(self, handler: Callable[[], Awaitable[Any]], *, parks: bool = True) -> Any:
        return await handler()

    async def ask(self, questions: Sequence[InputQuestion]) -> list[Any]:
        method, revision = self.scope.request.method.name, self.scope.request.peer.revision.version
        raise RuntimeError(f"{revision} has no way to ask the client during {method}")

    async def once(
        self, key: str, effect: Callable[[], Awaitable[Any]], *, shared: bool = True, repeatable: bool = False
    ) -> Any:
        return await effect()


def request_for(question: InputQuestion, peer: Peer) -> InputRequest:
    """Return the request for a question, without ``includeContext`` if the client has not declared that capability.

    Source: MCP 2025-11-25 and 2026-07-28, client/sampling, "Capabilities": servers SHOULD NOT send it then.
    """
    request = question.request()
    params = request.params
    if (
        isinstance(params, CreateMessageParams)
        and params.include_context not in (None, "none")
        and peer.revision.sampling_context
        and not declares(peer, "sampling.context")
    ):
        return CreateMessageRequest(params=evolve(params, include_context=None))
    return request


def declares(peer: Peer, capability: str) -> bool:
    """Return whether the client has declared a capability.

    Args:
        capability: ``roots``, ``roots.listChanged``, ``sampling``, ``sampling.tools``, ``sampling.context``,
            ``elicitation``, ``elicitation.form``, ``elicitation.url``, or an extension's identifier.

    Source: MCP 2025-11-25, client/elicitation: an empty object means form.
    """
    capabilities = peer.capabilities
    if capability == "elicitation.form":
        elicitation = capabilities.elicitation
        form = "form" in peer.revision.elicitation_modes
        return form and elicitation is not None and (elicitation.form is not None or elicitation.url is None)
    if capability == "elicitation.url":
        elicitation = capabilities.elicitation
        return "url" in peer.revision.elicitation_modes and elicitation is not None and elicitation.url is not None
    wire: Any = peer.revision.unstructure(capabilities)
    if capability in (wire.get("extensions") or {}):
        return True
    for part in capability.split("."):
        if not isinstance(wire, dict) or part not in wire:
            return False
        wire = wire[part]
    return wire is not False


def require(peer: Peer, capability: str) -> None:
    """Check that the client has declared a capability.

    Raises:
        MissingClientCapability: The client did not declare it.
    """
    if declares(peer, capability):
        return
    required: dict[str, Any] = {}
    if "/" in capability:
        required = {"extensions": {capability: {}}}
    else:
        node = required
        for part in capability.split("."):
            node = node.setdefault(part, {})
    raise MissingClientCapability(
        f"the server asks the client, which did not declare the capability {capability}", required=required
    )
