"""Forwards one request to the mounted server and returns its result.

The functions of the mounted tools, resources and prompts call this. Our handler may run again for each answer of the
client, but the relay sends each request to the mounted server only once: it records an unfinished result with our
request, and the next run of the handler uses the record. If the handler is lost while a request is in flight, the call
fails.

If the mounted server makes a task of a call, the relay follows the task. Our client still sees one call, or one task of
our server.

Source: MCP 2026-07-28, basic/patterns/mrtr, basic/patterns/progress, basic/patterns/cancellation; extension
io.modelcontextprotocol/tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

from mcptrio.capabilities.context import Context, inputs_of
from mcptrio.capabilities.relayed_question import RelayedQuestion
from mcptrio.client.calls import Progress
from mcptrio.client.client import Client
from mcptrio.errors import (
    InternalError,
    InvalidParams,
    MCPError,
    MCPTrioError,
    RemoteProtocolError,
    ToolError,
    URLElicitationRequired,
)
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.ground.stderr_tail import remove_stderr
from mcptrio.mounting.calls import CLIENT, Call, CallsInFlight
from mcptrio.mounting.questions import url_questions
from mcptrio.mounting.upstream import Upstream
from mcptrio.protocol.envelope import CLIENT_CAPABILITIES, LOG_LEVEL
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.completion import CompleteResult, Completion
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import InputRequest, InputRequiredResult
from mcptrio.protocol.model.logging import LEVELS
from mcptrio.protocol.model.tasks import TASKS_EXTENSION, CreateTaskResult
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS
from mcptrio.protocol.revisions.revision import Inputs, LogLevel, NegotiationStyle, Revision
from mcptrio.runtime.callers import CALLER, encode_caller

__all__ = ["CallRelay", "describe_reason"]

_log = logging.getLogger("mcptrio.mounting.relay")

MAX_ROUNDS = 10
"""The number of times that the mounted server may ask in one call."""
_PROTOCOL = "io.modelcontextprotocol/"
"""The prefix of members of ``_meta`` that describe only one connection."""
_UNFORWARDED = ("progressToken", CALLER)
"""Members of ``_meta`` that are not forwarded: they belong to our request, or only a parent process may set them."""
_SEVERITY: dict[str, int] = {level: severity for severity, level in enumerate(LEVELS)}


class CallRelay:
    """Forwards the requests of one mount.

    Args:
        forwards_caller: True if the mounted server is the process of an isolated plugin, which accepts the caller.
    """

    def __init__(self, name: str, upstream: Upstream, calls: CallsInFlight, *, forwards_caller: bool = False) -> None:
        self._name = name
        self._forwards_caller = forwards_caller
        self._upstream = upstream
        self._calls = calls
        self._level: tuple[Client, int] | None = None
        """The lowest log level requested so far, if the server has one level for all calls."""

    async def request(self, context: Context, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request, have the questions of the server answered, and return the result.

        Raises:
            MCPError: The mounted server returned an error, or a client did not answer.
            ConnectionClosed, RequestFailed, RequestTimeout, RemoteProtocolError: There is no answer.
        """
        sent_params = dict(params)
        for number in range(MAX_ROUNDS + 1):
            final_result, recorded = await self._request_once(context, number, method, sent_params)
            if final_result is not None:
                return final_result
            if "task" in recorded:
                return await self._follow(context, number, LATEST.structure(recorded["task"], CreateTaskResult))
            if "urls" in recorded:
                # The server refuses the request until the user has opened the URLs. Then the request is made again.
                await inputs_of(context).ask(url_questions(recorded["urls"]))
                continue
            result: InputRequiredResult = LATEST.structure(recorded, InputRequiredResult)
            # The request is repeated with its parameters, because a server of 2026-07-28 keeps no state except that in
            # requestState.
            sent_params = {**params, "inputResponses": await self._answers(context, number, result)}
            if result.request_state is not None:
                sent_params["requestState"] = result.request_state
        raise RemoteProtocolError(f"{self._name} asked {MAX_ROUNDS + 1} times without a result")

    async def call_tool(self, context: Context, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool with :meth:`request`. A lost connection becomes a tool error, which a model can read."""
        return await self.read(
            context, "tools/call", {"name": name, "arguments": dict(arguments)}, error_class=ToolError
        )

    async def read(
        self,
        context: Context,
        method: str,
        params: Mapping[str, Any],
        *,
        error_class: type[MCPTrioError] = InternalError,
    ) -> Any:
        """Send a request with :meth:`request`. A lost connection raises ``error_class``."""
        try:
            return await self.request(context, method, params)
        # An error that the mounted server has returned is passed on unchanged.
        except MCPError:
            raise
        except MCPTrioError as error:
            raise error_class(self._describe_error(error)) from error

    async def complete(
        self, context: Context, ref: Mapping[str, str], argument: str, value: str, resolved: Mapping[str, str]
    ) -> Completion:
        """Return suggestions for an argument.

        Args:
            ref: The prompt or resource template, in wire form.
            argument: The name of the argument.
            value: The text that the user has typed so far.
            resolved: The arguments that the user has already filled in.

        Raises:
            MCPError, ConnectionClosed, RequestFailed, RequestTimeout: There is no answer.
        """
        params: dict[str, Any] = {"ref": dict(ref), "argument": {"name": argument, "value": value}}
        if resolved:
            params["context"] = {"arguments": dict(resolved)}
        if self._forwards_caller:
            params["_meta"] = {CALLER: encode_caller(context.principal, context.caller)}

        async def send(client: Client) -> CompleteResult:
            # A server cannot ask during a completion, so no nursery is needed.
            call = Call(context, None)
            with self._calls.in_flight(call):
                result: CompleteResult = await self._answer(call, client, "completion/complete", params)
            return result

        result = await self._upstream.ask(send)
        return result.completion

    # Private

    def _describe_error(self, error: MCPTrioError) -> str:
        text = describe_reason(str(error), is_isolated=self._forwards_caller)
        # Errors of the connection already begin with the name.
        return text if text.startswith(self._name) else f"{self._name}: {text}"

    async def _request_once(
        self, context: Context, number: int, method: str, sent_params: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Make one request. Return its result, or record an unfinished result for the next run of the handler.

        Raises:
            InvalidParams: The request was made before, and the handler that waited for its result has ended.
        """
        inputs, results = inputs_of(context), list[Any]()
        unfinished: dict[str, Any] = {}
        is_new = False

        # `once` calls this in the first run only. A later run finds the recorded result instead.
        async def begin() -> bool:
            nonlocal is_new
            is_new = True
            return True

        async def record() -> dict[str, Any]:
            return unfinished

        async def exchange() -> None:
            unfinished.update(await self._exchange(context, method, sent_params, results))
            if unfinished:
                await inputs.once(f"answer {number}", record, repeatable=True)

        async def no_answer() -> dict[str, Any]:
            raise InvalidParams(
                f"the call of {self._name} that asked has ended and is not repeated: send a new request"
            )

        await context.once(begin, key=f"request {number}")
        if not is_new:
            return None, await inputs.once(f"answer {number}", no_answer, repeatable=True)
        # Not shared with other deliveries of the request, because it may ask questions. While it runs, the client gets
        # no request state that lacks the answer.
        await inputs.once(f"exchange {number}", exchange, shared=False)
        return (results[0] if results else None), unfinished

    async def _exchange(
        self, context: Context, method: str, sent_params: dict[str, Any], results: list[Any]
    ) -> dict[str, Any]:
        """Make a request. Append its result to ``results``, or return the unfinished result as JSON."""
        try:
            result = await self._upstream.ask(partial(self._send, context, method, sent_params))
        except URLElicitationRequired as required:
            # A client of a handshake revision opens the URLs itself and sends the request again.
            if inputs_of(context).scope.request.peer.revision.inputs is Inputs.BACK_CHANNEL:
                for each in required.elicitations:
                    self._calls.url_opened(str(each.get("elicitationId")), context)
                raise
            return {"urls": required.elicitations}
        if isinstance(result, InputRequiredResult):
            return LATEST.unstructure(result)
        if isinstance(result, CreateTaskResult):
            return {"task": LATEST.unstructure(result)}
        results.append(result)
        return {}

    async def _follow(self, context: Context, number: int, created: CreateTaskResult) -> Any:
        """Return the result of a task of the mounted server, which is cancelled if the handler is."""
        # The id is recorded, so a handler that runs again follows the same task.
        scope = inputs_of(context).scope
        scope.is_resumable = True
        if scope.task is not None:
            scope.task.note_resumable()
        # Our own task begins at once, because a client without its id would lose the call with this process.
        await context.task.begin()

        # The client of a task polls and gets no progress, so the message becomes the status.
        async def report(progress: Progress) -> None:
            if context.task.id is not None:
                context.task.set_status(progress.message or "")
            else:
                await context.report_progress(progress.progress, None, progress.message)

        async def answer(questions: Mapping[str, InputRequest]) -> dict[str, Any]:
            return await self._ask(context, number, questions)

        def is_released() -> bool:
            task = inputs_of(context).scope.task
            return task is not None and task.is_released

        async def follow(client: Client) -> Any:
            task = client.task(created.task_id)
            if REVISIONS[client.revision].inputs is not Inputs.BACK_CHANNEL:
                return await task._finish(created, report, answer, is_released=is_released)
            async with open_hidden_nursery() as nursery:
                call = Call(context, nursery)
                with self._calls.in_flight(call):
                    result = await task._finish(created, report, is_released=is_released)
                    await call.until_answered()
            return result

        return _without_protocol_meta(await self._upstream.ask(follow))

    async def _answers(self, context: Context, number: int, result: InputRequiredResult) -> dict[str, Any]:
        """Return the client's answers in the form of the mounted server's revision."""
        questions = result.input_requests or {}
        # Otherwise the request would be repeated unchanged.
        if not questions and result.request_state is None:
            raise RemoteProtocolError(
                f"{self._name}: expected inputRequests or requestState in an input_required result, got neither"
            )
        return await self._ask(context, number, questions)

    async def _ask(self, context: Context, number: int, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
        # The round is part of the key, because a server may use the same key in every round.
        relayed = [RelayedQuestion.of(question, f"{number}:{key}") for key, question in questions.items()]
        answers = await inputs_of(context).ask(relayed) if relayed else []
        return {key: LATEST.unstructure(answer) for key, answer in zip(questions, answers, strict=True)}

    async def _send(self, context: Context, method: str, sent_params: dict[str, Any], client: Client) -> Any:
        revision = REVISIONS[client.revision]
        await self._choose_level(context, client, revision)
        if revision.inputs is not Inputs.BACK_CHANNEL:
            # The questions are in the result, so no nursery is needed.
            return await self._send_as(Call(context, None), method, sent_params, client, revision)
        async with open_hidden_nursery() as nursery:
            return await self._send_as(Call(context, nursery), method, sent_params, client, revision)

    async def _send_as(
        self, call: Call, method: str, sent_params: dict[str, Any], client: Client, revision: Revision
    ) -> Any:
        context = call.context
        request = {**sent_params, "_meta": {**self._meta(context, revision), CLIENT: call.client}}

        # The progress of the mounted server is that of our request. Our own reporter limits the rate.
        async def report(progress: Progress) -> None:
            await context.report_progress(progress.progress, progress.total, progress.message)

        with self._calls.in_flight(call):
            # No timeout, because our request has a deadline, and its cancellation is passed on.
            result = await self._answer(call, client, method, request, timeout=inf, progress=report)
            # The nursery of this call may also run the question of another call of the same client.
            await call.until_answered()
        return _without_protocol_meta(result)

    @staticmethod
    async def _answer(call: Call, client: Client, method: str, params: dict[str, Any], **options: Any) -> Any:
        """Return the server's answer to a call. If there is none, the call stays pending."""
        call.is_pending = REVISIONS[client.revision].inputs is Inputs.BACK_CHANNEL
        try:
            result = await client.request(method, params, **options)
        except MCPError:
            call.is_pending = False
            raise
        call.is_pending = False
        return result

    def _meta(self, context: Context, revision: Revision) -> dict[str, Any]:
        """Return the caller's ``_meta``, with its capabilities if the revision has them in each request."""
        # Members of the protocol describe the connection between our client and us, so they are not forwarded.
        meta = {
            key: value
            for key, value in context.meta.items()
            if not key.startswith(_PROTOCOL) and key not in _UNFORWARDED
        }
        if self._forwards_caller:
            meta[CALLER] = encode_caller(context.principal, context.caller)
        # 2026-07-28 has no handshake, so the request itself must declare the capabilities of the caller.
        if revision.lifecycle is NegotiationStyle.PER_REQUEST:
            # The relay follows tasks, even if the caller cannot.
            extensions = {**(context.client_capabilities.extensions or {}), TASKS_EXTENSION: {}}
            capabilities = evolve(context.client_capabilities, extensions=extensions)
            meta[CLIENT_CAPABILITIES] = revision.unstructure(capabilities)
            level = inputs_of(context).scope.log_level
            if level is not None:
                meta[LOG_LEVEL] = level
        return meta

    async def _choose_level(self, context: Context, client: Client, revision: Revision) -> None:
        """Request the lowest level that any caller wants. The relay drops messages that a caller does not want."""
        level = inputs_of(context).scope.log_level
        if level is None or revision.log_level is not LogLevel.SESSION or client.capabilities.logging is None:
            return
        severity = _SEVERITY[level]
        # The level of a session is never raised, because another caller may still need the lower level.
        if self._level is not None and self._level[0] is client and self._level[1] <= severity:
            return
        self._level = client, severity
        try:
            await client.set_log_level(LEVELS[severity])
        except MCPError as error:
            _log.info("%s: log level not set: %s", self._name, error)


def _without_protocol_meta(result: Any) -> Any:
    """Return a result without the members of ``_meta`` that describe the connection to the mounted server."""
    if not isinstance(result, Result) or not result.meta:
        return result
    forwarded_meta = {key: value for key, value in result.meta.items() if not key.startswith(_PROTOCOL)}
    return result if len(forwarded_meta) == len(result.meta) else evolve(result, meta=forwarded_meta or None)


def describe_reason(reason: str, *, is_isolated: bool) -> str:
    """Return an error text for clients, without standard error, where the program may have written secrets.

    Args:
        is_isolated: True if the mounted server is the process of an isolated plugin.
    """
    text = remove_stderr(reason)
    if not is_isolated:
        return text
    # The message of a MemoryError is empty, and the operator must learn that max_memory_mb was reached.
    hint = " (out of memory: max_memory_mb)" if "MemoryError" in reason else ""
    # Clients and the operator know the plugin, not the server in its process.
    return text.replace("the server ", "the plugin's process ", 1) + hint
