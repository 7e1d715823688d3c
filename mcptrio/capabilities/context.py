"""The context of a request, for its handler.

Every function parameter annotated with ``Context`` receives one. It hides the differences between revisions.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, overload

import trio

from mcptrio.abc import Principal
from mcptrio.capabilities.logging import Logging
from mcptrio.capabilities.once import named_effect
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.questions import Elicit, Elicited, ElicitURL, ListRoots, Question, Sample
from mcptrio.capabilities.registrar import Registrar
from mcptrio.capabilities.task_control import TaskControl
from mcptrio.capabilities.tracking import Tracked
from mcptrio.errors import URLElicitationRequired
from mcptrio.protocol.messages import Notification, RequestId
from mcptrio.protocol.model.elicitation import ElicitationCompleteParams
from mcptrio.protocol.model.lifecycle import ClientCapabilities, Implementation
from mcptrio.protocol.model.logging import LoggingLevel
from mcptrio.protocol.model.roots import Root
from mcptrio.protocol.model.sampling import (
    CreateMessageResult,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
)
from mcptrio.protocol.model.tools import Tool
from mcptrio.protocol.revisions.revision import NegotiationStyle
from mcptrio.runtime.event_loop import EventLoop
from mcptrio.runtime.inputs import InputChannel, declares, require
from mcptrio.runtime.request import RequestScope

if TYPE_CHECKING:
    # Type checkers know typing_extensions even if it is not installed. The default makes a bare Context a Context[Any].
    from typing_extensions import TypeVar as TypeVarWithDefault

    StateT = TypeVarWithDefault("StateT", default=Any)
else:
    StateT = TypeVar("StateT")

__all__ = ["Context", "inputs_of"]

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
P = ParamSpec("P")


class Context(Generic[StateT]):
    """The current request, for its handler. Made by the server.

    A plugin with a lifespan annotates ``ctx: Context[State]``, where ``State`` is the type that the lifespan yields.

    Attributes:
        server: The registrar of the plugin, which adds and removes its entries and reports changes.
        state: The object that the plugin's lifespan yielded; ``None`` without a lifespan.
    """

    def __init__(self, inputs: InputChannel, logging: Logging, owner: Owner, loop: EventLoop) -> None:
        self._inputs = inputs
        self._logging = logging
        self._loop = loop
        self.server: Registrar = owner.registrar
        self.state: StateT = owner.yielded

    # The request and its sender

    @property
    def _scope(self) -> RequestScope:
        return self._inputs.scope

    @property
    def request_id(self) -> RequestId:
        """The id of the current request. A retry with the client's answers has another id."""
        return self._scope.request.id

    @property
    def session_id(self) -> str | None:
        """The id of the handshake session, if there is one. It is not a credential."""
        is_handshake = self._scope.request.peer.revision.lifecycle is NegotiationStyle.HANDSHAKE
        return self._scope.session.id if is_handshake else None

    @property
    def principal(self) -> Principal | None:
        """The authenticated user, with the scopes of the token; ``None`` for an anonymous request."""
        return self._scope.principal

    @property
    def caller(self) -> str:
        """A string that identifies the caller: the same for one principal in all sessions; for an anonymous request,
        the same in one session or connection, or ``mcptrio.ANONYMOUS`` if callers cannot be distinguished.

        Use it for limits and to separate data. It is not a credential: use ``principal`` to decide about permissions.
        """
        return self._scope.caller

    @property
    def client_info(self) -> Implementation | None:
        """Name and version of the client, if it has sent them."""
        return self._scope.request.peer.info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The capabilities that the client has declared."""
        return self._scope.request.peer.capabilities

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's ``_meta``."""
        return self._scope.meta or {}

    def tool_name(self, name: str) -> str:
        """Return the name under which clients see a tool of the same plugin, for texts that mention it.

        ``search`` of an installed plugin ``notes`` is ``notes_search``, unless the operator configures another prefix.
        The tool need not exist.
        """
        return self.server.tool_name(name)

    def supports(self, capability: str) -> bool:
        """Return whether the client has declared a capability: ``sampling``, ``sampling.tools``, ``elicitation.form``,
        ``elicitation.url``, ``roots``, or the identifier of an extension."""
        return declares(self._scope.request.peer, capability)

    def require(self, capability: str) -> None:
        """Check that the client has declared a capability; see :meth:`supports`.

        Raises:
            MissingClientCapability: The client has not declared it.
        """
        require(self._scope.request.peer, capability)

    @property
    def task(self) -> TaskControl:
        """The task that the call is or may become, for a tool with ``task="optional"`` or ``"required"``."""
        return TaskControl(self._inputs)

    # Deadlines

    @property
    def deadline(self) -> float:
        """The Trio clock time at which the request times out, unless progress extends it."""
        return self._scope.deadline

    @property
    def cancel_reason(self) -> str | None:
        """The reason of the cancellation, if known. Read it in an ``except trio.Cancelled`` block that raises again."""
        return self._scope.reason or (self._scope.error.message if self._scope.error is not None else None)

    # Report

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress and restart the idle timeout. A checkpoint.

        A report that does not increase is not sent. Of more than 20 reports in a second, only the newest are sent.

        Args:
            progress, total: The progress so far, and the progress at the end if that is known.
            message: A text for the user.

        Raises:
            ValueError: A value is not a finite number.
        """
        self._scope.report(progress, total, message)
        await trio.lowlevel.checkpoint()  # so that a handler that reports in a loop can be cancelled

    def track(self, items: Iterable[T] | AsyncIterator[T], total: float | None = None) -> AsyncIterator[T]:
        """Iterate and report progress: ``async for row in ctx.track(rows)``."""
        if total is None and hasattr(items, "__len__"):
            total = float(len(items))  # type: ignore[arg-type]
        return Tracked(items, lambda done: self.report_progress(done, total))

    async def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message (a text or a JSON value) to the client, if it wants this level. A checkpoint."""
        self._logging.emit(self._scope, level, data, logger)
        await trio.lowlevel.checkpoint()

    async def debug(self, data: Any, logger: str | None = None) -> None:
        """Send a log message of level ``debug`` to the client; see :meth:`log`."""
        await self.log("debug", data, logger)

    async def info(self, data: Any, logger: str | None = None) -> None:
        """Send a log message of level ``info`` to the client; see :meth:`log`."""
        await self.log("info", data, logger)

    async def warning(self, data: Any, logger: str | None = None) -> None:
        """Send a log message of level ``warning`` to the client; see :meth:`log`."""
        await self.log("warning", data, logger)

    async def error(self, data: Any, logger: str | None = None) -> None:
        """Send a log message of level ``error`` to the client; see :meth:`log`."""
        await self.log("error", data, logger)

    # Ask

    @overload
    async def ask(self, message: str, schema: type[T], *, key: str | None = None) -> T: ...
    @overload
    async def ask(self, message: str, schema: Sequence[str], *, key: str | None = None) -> str: ...
    @overload
    async def ask(self, message: str, schema: Any, *, key: str | None = None) -> Any: ...
    async def ask(self, message: str, schema: Any, *, key: str | None = None) -> Any:
        """Ask the user. If the user refuses, the tool ends.

        Args:
            message: The question and its reason.
            schema: A class with flat fields (attrs, dataclass, TypedDict, msgspec, pydantic), ``str``, ``int``,
                ``float``, ``bool``, a ``Literal``, an ``Enum``, a list of choices, a dict from choice to title, or a
                JSON Schema.
            key: Identifies the question in 2026-07-28; by default its content does.

        Returns:
            The answer: an instance of the class, a scalar, the choice, or a dict for a JSON Schema.

        Raises:
            ToolError: The user declined or cancelled. If it leaves the tool, the model reads its message.
            MissingClientCapability: The client does not support forms.
            trio.TooSlowError: No answer within ``timeouts.input``.
        """
        [answer] = await self.ask_all(Elicit(message, schema, key))
        return answer

    @overload
    async def ask_all(self, first: Question[A], /) -> tuple[A]: ...
    @overload
    async def ask_all(self, first: Question[A], second: Question[B], /) -> tuple[A, B]: ...
    @overload
    async def ask_all(self, first: Question[A], second: Question[B], third: Question[C], /) -> tuple[A, B, C]: ...
    @overload
    async def ask_all(
        self, first: Question[A], second: Question[B], third: Question[C], fourth: Question[D], /
    ) -> tuple[A, B, C, D]: ...
    @overload
    async def ask_all(self, *questions: Question[T]) -> tuple[T, ...]: ...
    async def ask_all(self, *questions: Question[Any]) -> tuple[Any, ...]:
        """Ask several questions in one round trip: ``Elicit``, ``ElicitURL``, ``Sample``, ``ListRoots``.

        Returns:
            The answers in the order of the questions, each as :meth:`ask`, :meth:`sample` or :meth:`list_roots`
            returns it; ``None`` for a page that the user agreed to open.

        Raises:
            ToolError: The user refused a form or a page.
            MissingClientCapability: The client cannot answer one of them. Then none is asked.
            MCPError: The client answered one with an error.
            trio.TooSlowError: No answer within ``timeouts.input``.
        """
        answers = await self._inputs.ask(questions)
        # The answers are read by their questions: a form becomes an instance, a refusal an error.
        return tuple(question.settle(answer) for question, answer in zip(questions, answers, strict=True))

    @overload
    async def elicit(self, message: str, schema: type[T], *, key: str | None = None) -> Elicited[T]: ...
    @overload
    async def elicit(self, message: str, schema: Sequence[str], *, key: str | None = None) -> Elicited[str]: ...
    @overload
    async def elicit(self, message: str, schema: Any, *, key: str | None = None) -> Elicited[Any]: ...
    async def elicit(self, message: str, schema: Any, *, key: str | None = None) -> Elicited[Any]:
        """Ask the user, for a tool that continues if the user refuses. Takes the arguments of :meth:`ask`.

        Returns:
            The user's action, with the answer in ``content`` if accepted.

        Raises:
            MissingClientCapability: The client does not support forms.
            trio.TooSlowError: No answer within ``timeouts.input``.
        """
        answer: Elicited[Any] = (await self._inputs.ask([Elicit(message, schema, key)]))[0]
        return answer

    async def elicit_url(
        self, message: str, url: str, *, id: str | None = None, key: str | None = None
    ) -> Elicited[None]:
        """Ask the user to open a URL, for data that must not pass through the client (secrets, payments, login).

        ``accept`` means that the user agreed to open the URL, not that the interaction is complete.

        Args:
            message: The reason, which the client shows to the user.
            url: Contains no secret and is not a credential; https, except in development.
            id: Identifies the interaction for :meth:`elicitation_complete`.

        Raises:
            MissingClientCapability: The client does not support URLs.
        """
        # An id that cannot be guessed: a page that is opened with it may report its completion.
        question = ElicitURL(message, url, id or secrets.token_urlsafe(12), key)
        answer: Elicited[None] = (await self._inputs.ask([question]))[0]
        return answer

    def url_required(self, message: str, url: str, *, id: str | None = None) -> URLElicitationRequired:
        """Return the error that asks the client to open a URL and repeat the request: ``raise ctx.url_required(...)``.

        Clients of 2025-11-25 get the error -32042, and those of 2026-07-28 a question. Older ones only get the message.
        """
        elicitation = {
            "mode": "url",
            "message": message,
            "url": url,
            "elicitationId": id or secrets.token_urlsafe(12),
        }
        return URLElicitationRequired(message, elicitations=[elicitation])

    def elicitation_complete(self, id: str) -> None:
        """Notify the client that the user has finished on a page (2025-11-25; other revisions send nothing)."""
        params = ElicitationCompleteParams(elicitation_id=id)
        # The route that the browser opens may run in another thread.
        self._loop.hand_over(partial(self._scope.notify, "notifications/elicitation/complete", params))

    async def sample(
        self,
        messages: str | Sequence[SamplingMessage],
        *,
        max_tokens: int = 1024,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: ModelPreferences | None = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        tools: Sequence[Tool] | None = None,
        tool_choice: ToolChoice | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> CreateMessageResult:
        """Request a completion from the client's model.

        Args:
            messages: A text (one user message), or the conversation.
            max_tokens: The maximum number of tokens in the answer.
            include_context: Left out for a client of 2025-11-25 or later that does not declare ``sampling.context``.

        Raises:
            MissingClientCapability: The client does not support sampling (with tools).
            MCPError: The client or its user refused.
        """
        question = Sample(
            messages,
            max_tokens,
            system_prompt=system_prompt,
            temperature=temperature,
            stop_sequences=tuple(stop_sequences) if stop_sequences is not None else None,
            model_preferences=model_preferences,
            include_context=include_context,
            tools=tuple(tools) if tools is not None else None,
            tool_choice=tool_choice,
            metadata=dict(metadata) if metadata is not None else None,
            key=key,
        )
        answer: CreateMessageResult = (await self._inputs.ask([question]))[0]
        return answer

    async def list_roots(self, *, key: str | None = None) -> tuple[Root, ...]:
        """Return the folders that the client offers to the server.

        Raises:
            MissingClientCapability: The client has no roots.
        """
        answer: tuple[Root, ...] = (await self._inputs.ask([ListRoots(key)]))[0]
        return answer

    @overload
    async def once(self, effect: Callable[..., Awaitable[T]], /, *args: Any, repeatable: bool, **kwargs: Any) -> T: ...
    @overload
    async def once(self, effect: Callable[..., Awaitable[T]], /, *args: Any, key: str, **kwargs: Any) -> T: ...
    @overload
    async def once(self, effect: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def once(self, effect: Callable[..., T], /, *args: Any, repeatable: bool, **kwargs: Any) -> T: ...
    @overload
    async def once(self, effect: Callable[..., T], /, *args: Any, key: str, **kwargs: Any) -> T: ...
    @overload
    async def once(self, effect: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def once(self, effect: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a side effect that a replay of the handler must not repeat.

        In 2026-07-28 it runs once per call, even if the client sends a retry twice; with shared stores, once over all
        replicas. A cancelled effect has 5 seconds to end. The next retry runs it again if it has failed or not ended.

        Args:
            effect: A function, async or not, which does not ask the client and does not block. Its result must be a
                JSON value, because the client carries it: a list and not a tuple, a dict with string keys.
            args: Arguments of ``effect``.
            key: Identifies the effect; by default its name and arguments, which must then be JSON values.
            repeatable: True if the effect may run again when its process has ended before the result was stored.
            kwargs: Keyword arguments of ``effect``, except ``key`` and ``repeatable``.

        Raises:
            TypeError: The result, or an argument without a ``key``, is not a JSON value.
        """
        # Not declared as parameters, because the overloads pass the effect's own signature through.
        key, repeatable = kwargs.pop("key", None), kwargs.pop("repeatable", False)
        return await self._inputs.once(*named_effect(effect, args, kwargs, key), repeatable=repeatable)

    # Notify

    def notify_resource_updated(self, uri: str, *, caller: str | None = None) -> None:
        """Notify the subscribers of a resource, in every revision, that it has changed.

        Args:
            uri: The URI of the resource.
            caller: ``ctx.caller`` if only this caller's view has changed; ``None`` notifies all subscribers.
        """
        self.server.notify_resource_updated(uri, caller=caller)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send your own notification, in wire form, on this request's stream."""
        await self._scope.send(Notification(method, dict(params) if params else None))

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """Send your own request, in wire form, and wait for its result (handshake revisions).

        Raises:
            MCPError: The client responded with an error.
            MethodNotFound: In this revision servers cannot send requests.
            trio.TooSlowError: No response within ``timeout`` seconds (default ``timeouts.input``).
            ConnectionClosed: The client is disconnected, or this request has ended.
        """
        scope = self._scope
        # A shared channel would still accept messages for a request that has ended.
        scope.check_open()
        return await scope.session.outgoing.request(
            method, dict(params or {}), peer=scope.request.peer, sink=scope.sink, timeout=timeout
        )

    def release_stream(self, retry_ms: int = 1000) -> bool:
        """End the HTTP response early; the rest is delivered when the client resumes the stream (2025-11-25).

        Returns:
            False if there is no such stream. Nothing happens then.

        Source: MCP 2025-11-25, basic/transports, "Sending Messages to the Server", 6.
        """
        return self._loop.call(partial(self._scope.sink.release, retry_ms))


def inputs_of(context: Context[Any]) -> InputChannel:
    """Return the input channel of a context. Only mcptrio's own mounts and fallback tools use it."""
    return context._inputs
