"""Handlers for a server's questions: forms, URLs to open, sampling from a model, roots.

The same Handlers serve requests of the server (handshake revisions) and input requests in a result (2026-07-28). A
feature without a handler is not declared, and the client refuses requests for what it has not declared.

Source: MCP 2026-07-28, client/elicitation, client/sampling, client/roots; basic/patterns/mrtr.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from inspect import iscoroutine, iscoroutinefunction
from pathlib import Path
from typing import Any, TypeAlias

import trio
from attrs import Attribute, field, frozen

from mcptrio.client.forms import Form, OpenURL, read_form, read_url
from mcptrio.errors import ConfigError, InputFailed, InvalidParams, MCPError, MethodNotFound
from mcptrio.ground.expected import optional_callable
from mcptrio.ground.guarded import Failure, run_guarded, run_guarded_sync
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.content import TextContent, ToolResultContent, ToolUseContent
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult, ElicitURLParams
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.lifecycle import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
    SamplingCapability,
)
from mcptrio.protocol.model.logging import LoggingMessageParams
from mcptrio.protocol.model.roots import ListRootsParams, ListRootsResult, Root
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult
from mcptrio.protocol.model.tasks import TASKS_EXTENSION
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["Handlers", "Roots"]

_log = logging.getLogger("mcptrio.client.handlers")

Roots: TypeAlias = Sequence[str | Path | Root] | Callable[[], Awaitable[Sequence[str | Path | Root]]]
"""The folders that a server may work in, as paths, ``file://`` URIs or roots; or an async function that returns
them."""


def _check_plain(_handlers: Handlers, attribute: Attribute[Any], handler: object) -> None:
    # The handler is called while messages are read, where nothing can await it.
    if iscoroutinefunction(handler):
        raise ConfigError(f"Handlers: {attribute.name}: expected a plain function, got an asynchronous one")


def _check_roots(_handlers: Handlers, _attribute: Attribute[Any], roots: object) -> None:
    if roots is not None and not callable(roots) and (isinstance(roots, str) or not isinstance(roots, Sequence)):
        raise TypeError(f"Handlers: roots: expected a list of folders or a function, got {roots!r}")


@frozen(kw_only=True)
class Handlers:
    """The functions that answer a server's questions.

    ``elicit``, ``open_url``, ``sample`` and ``roots`` each declare a capability of the client if they are set.

    Args:
        elicit: Asks the user to fill in a form. Returns ``form.accept(values)``, ``form.decline()`` or
            ``form.cancel()``; or the values, which are accepted; or ``None``, which cancels.
        open_url: Asks the user whether to open a URL, and opens it. Returns ``question.accept()``,
            ``question.decline()`` or ``question.cancel()``; or True if it was opened. The client itself never opens or
            fetches a URL.
        sample: Has a model continue a conversation. Returns the message, or its text.
        sample_tools: ``sample`` supports the use of tools by the model.
        sample_context: ``sample`` supports including context from servers.
        roots: The folders that the server may work in.
        log: A synchronous function called with each log message of the server.
        notification: A synchronous function called with the method and parameters of each notification outside the
            specification.
        experimental: Experimental capabilities to declare, by name.
        extensions: Extensions to declare, by name.

    Raises:
        ConfigError: ``log`` or ``notification`` is asynchronous.
        TypeError: A handler is not callable, or ``roots`` is a single folder instead of a list.
    """

    elicit: Callable[[Form], Awaitable[Any]] | None = field(default=None, validator=optional_callable)
    open_url: Callable[[OpenURL], Awaitable[Any]] | None = field(default=None, validator=optional_callable)
    sample: Callable[[CreateMessageParams], Awaitable[CreateMessageResult | str]] | None = field(
        default=None, validator=optional_callable
    )
    sample_tools: bool = False
    sample_context: bool = False
    roots: Roots | None = field(default=None, validator=_check_roots)
    log: Callable[[LoggingMessageParams], None] | None = field(
        default=None, validator=[optional_callable, _check_plain]
    )
    notification: Callable[[str, dict[str, Any]], None] | None = field(
        default=None, validator=[optional_callable, _check_plain]
    )
    experimental: dict[str, dict[str, Any]] = field(factory=dict)
    extensions: dict[str, dict[str, Any]] = field(factory=dict)

    def capabilities(self) -> ClientCapabilities:
        """Return the client capabilities that these handlers provide."""
        elicitation = sampling = None
        if self.elicit is not None or self.open_url is not None:
            elicitation = ElicitationCapability(
                form={} if self.elicit is not None else None, url={} if self.open_url is not None else None
            )
        if self.sample is not None:
            sampling = SamplingCapability(
                tools={} if self.sample_tools else None, context={} if self.sample_context else None
            )
        return ClientCapabilities(
            roots=RootsCapability(list_changed=True) if self.roots is not None else None,
            sampling=sampling,
            elicitation=elicitation,
            experimental=self.experimental or None,
            # The client follows tasks of both forms without a handler. It does not run a request of a server as a task.
            tasks={},
            extensions={TASKS_EXTENSION: {}, **self.extensions},
        )

    async def _answer(self, method: str, params: Any, *, server: str, timeout: float, revision: Revision) -> Result:
        """Answer one question of a server.

        Args:
            params: The params object of the method.
            server: The server's name to show to the user.
            timeout: Seconds that the handler has.
            revision: The revision of the question.

        Raises:
            MethodNotFound: The method is not declared.
            InvalidParams: The question is invalid or of a kind that is not declared.
            InputFailed: The handler raised an exception or took too long.
        """
        ask: Callable[[], Awaitable[Result]]
        if isinstance(params, ElicitFormParams):
            ask = partial(self._fill_in, params, server)
        elif isinstance(params, ElicitURLParams):
            ask = partial(self._open, params, server)
        elif isinstance(params, CreateMessageParams):
            ask = partial(self._sample, params, revision)
        elif isinstance(params, ListRootsParams) or (params is None and method == "roots/list"):
            ask = self._list_roots
        else:
            raise MethodNotFound(f"no such method: {method}")
        with trio.move_on_after(timeout):
            outcome = await run_guarded(ask)
            if isinstance(outcome, Failure):
                # An MCPError is sent to the server. Other exceptions are only logged, because they may contain secrets.
                if isinstance(outcome.error, MCPError):
                    raise outcome.error
                _log.error("the handler of %s failed", method, exc_info=outcome.error)
                raise InputFailed(f"the client failed to answer {method}") from outcome.error
            return outcome.value
        raise InputFailed(f"the client did not answer {method} within {timeout:g} s")

    def _handle_log(self, message: LoggingMessageParams) -> None:
        if self.log is not None:
            _call("log messages", self.log, message)

    def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        if self.notification is not None:
            _call("notifications", self.notification, method, params)

    def _handle_url_completed(self, elicitation_id: str) -> None:
        """Do nothing. ClientSession wakes the calls that wait for the completion (2025-11-25)."""

    # Private

    async def _fill_in(self, params: ElicitFormParams, server: str) -> ElicitResult:
        if self.elicit is None:
            raise InvalidParams("elicitation by form is not declared")
        try:
            form = read_form(params, server=server)
        except ValueError as error:
            raise InvalidParams(str(error)) from error
        filled = await self.elicit(form)
        if filled is None:
            return form.cancel()
        if isinstance(filled, ElicitResult):
            if filled.action != "accept":
                return filled
            # The handler may have built the result without Form.accept, so its values are checked here.
            return ElicitResult(action="accept", content=form.check(filled.content or {}))
        return form.accept(filled)

    async def _open(self, params: ElicitURLParams, server: str) -> ElicitResult:
        if self.open_url is None:
            raise InvalidParams("elicitation by URL is not declared")
        try:
            question = read_url(params, server=server)
        except ValueError as error:
            raise InvalidParams(str(error)) from error
        opened = await self.open_url(question)
        if isinstance(opened, ElicitResult):
            return question.accept() if opened.action == "accept" else opened
        return question.accept() if opened else question.decline()

    async def _sample(self, params: CreateMessageParams, revision: Revision) -> CreateMessageResult:
        if self.sample is None:
            raise MethodNotFound("sampling is not declared")
        if not self.sample_context and not _declares_context(revision):
            # Older revisions have no capability for context. Any server may request it, and the client "MAY ignore"
            # the request.
            params = evolve(params, include_context=None)
        self._check_sampling(params)
        result = await self.sample(params)
        if isinstance(result, str):
            result = CreateMessageResult(role="assistant", content=(TextContent(text=result),), model="unknown")
        mode = params.tool_choice.mode if params.tool_choice is not None else None
        uses = any(isinstance(block, ToolUseContent) for block in result.content)
        if uses and (not params.tools or mode == "none"):
            raise ValueError("expected a message without tool use, since the server offers no tool, got a tool use")
        if not uses and mode == "required":
            raise ValueError("expected a message with a tool use, since the server requires one, got one without")
        return result

    def _check_sampling(self, params: CreateMessageParams) -> None:
        """Raise InvalidParams for tools or context that are not declared, or for tool uses without results.

        Source: MCP 2026-07-28, client/sampling, "Tool Use" and "Message Content Constraints".
        """
        if (params.tools or params.tool_choice is not None) and not self.sample_tools:
            raise InvalidParams("sampling with tools is not declared")
        if params.include_context not in (None, "none") and not self.sample_context:
            raise InvalidParams("sampling with context is not declared")
        open_uses: set[str] = set()
        for number, message in enumerate(params.messages):
            results = {block.tool_use_id for block in message.content if isinstance(block, ToolResultContent)}
            if results and len(message.content) != sum(isinstance(b, ToolResultContent) for b in message.content):
                raise InvalidParams(
                    f"expected tool results alone, got other content too at `messages[{number}].content`"
                )
            # Model APIs reject a conversation in which a tool use is not followed by its result.
            if results != open_uses:
                raise InvalidParams(
                    f"expected one result for each of the {len(open_uses)} tool uses before, got {len(results)}"
                    f" at `messages[{number}].content`"
                )
            open_uses = {block.id for block in message.content if isinstance(block, ToolUseContent)}

    async def _list_roots(self) -> ListRootsResult:
        if self.roots is None:
            raise MethodNotFound("roots are not declared")
        folders: Iterable[str | Path | Root] = await self.roots() if callable(self.roots) else self.roots
        return ListRootsResult(roots=tuple(_root(folder) for folder in folders))


def _call(what: str, handler: Callable[..., object], *args: Any) -> None:
    """Call a plain handler and log its exception."""

    def call() -> None:
        result = handler(*args)
        # A callable may return a coroutine without being a coroutine function, for example a lambda or a partial.
        if iscoroutine(result):
            result.close()
            raise TypeError("expected a plain function, got an asynchronous one")

    outcome = run_guarded_sync(call)
    if isinstance(outcome, Failure):
        _log.error("the handler of %s failed", what, exc_info=outcome.error)


def _declares_context(revision: Revision) -> bool:
    # The member survives the conversion only in revisions that define it.
    return bool(revision.unstructure(SamplingCapability(context={})))


def _root(folder: str | Path | Root) -> Root:
    if isinstance(folder, Root):
        return folder
    if isinstance(folder, str) and folder.startswith("file://"):
        return Root(uri=folder)
    path = Path(folder).expanduser().absolute()
    return Root(uri=path.as_uri(), name=path.name or str(path))
