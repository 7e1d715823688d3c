"""Forwards one request to the mounted server and returns its result.

The functions of the mounted tools, resources and prompts call this. Each request to the mounted server is made once,
even if our handler runs again for the client's answers: an unfinished result is recorded with our request. If the
handler that waited in the middle of a request is gone, the call fails.

If the mounted server makes a task of a call, the relay follows it: our client sees one call, or a task of ours.

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
"""Times the mounted server may ask in one call."""
_PROTOCOL = "io.modelcontextprotocol/"
"""Members of ``_meta`` that say something about one conversation only."""
_NOT_OURS = ("progressToken", CALLER)
"""Members of ``_meta`` that belong to our request, or that only a parent process may set."""
_SEVERITY: dict[str, int] = {level: severity for severity, level in enumerate(LEVELS)}


class CallRelay:
    """Forwards the requests of one mount.

    Args:
        forwards_caller: Whether the server receives the caller: a process of ours, which trusts us.
    """

    def __init__(self, name: str, upstream: Upstream, calls: CallsInFlight, *, forwards_caller: bool = False) -> None:
        self._name = name
        self._forwards_caller = forwards_caller
        self._upstream = upstream
        self._calls = calls
        self._level: tuple[Client, int] | None = None
        """The lowest log level requested so far, if the server has one level for all calls."""

    async def carry(self, context: Context, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request and return its result, after all questions of the server are answered.

        Raises:
            MCPError: The mounted server returned an error, or a client did not answer.
            ConnectionClosed, RequestFailed, RequestTimeout, RemoteProtocolError: There is no answer.
        """
        wire = dict(params)
        for number in range(MAX_ROUNDS + 1):
            done, recorded = await self._once(context, number, method, wire)
            if done is not None:
                return done
            if "task" in recorded:
                return await self._follow(context, number, LATEST.structure(recorded["task"], CreateTaskResult))
            if "urls" in recorded:
                # The server refuses the request until the user has opened the URLs; then it is made again.
                await inputs_of(context).ask(url_questions(recorded["urls"]))
                continue
            result: InputRequiredResult = LATEST.structure(recorded, InputRequiredResult)
            # The request is repeated with its parameters: 2026-07-28 keeps no state on the server but what is in
            # requestState.
            wire = {**params, "inputResponses": await self._answers(context, number, result)}
            if result.request_state is not None:
                wire["requestState"] = result.request_state
        raise RemoteProtocolError(f"{self._name} asked {MAX_ROUNDS + 1} times without a result")

    async def call_tool(self, context: Context, name: str, arguments: Mapping[str, Any]) -> Any:
        """Like :meth:`carry`; a lost connection becomes a tool error, which a model can read."""
        return await self.read(context, "tools/call", {"name": name, "arguments": dict(arguments)}, failed=ToolError)

    async def read(
        self, context: Context, method: str, params: Mapping[str, Any], *, failed: type[MCPTrioError] = InternalError
    ) -> Any:
        """Like :meth:`carry`; a lost connection becomes an error of the type ``failed``."""
        try:
            return await self.carry(context, method, params)
        # An error that the mounted server chose to return is passed on unchanged.
        except MCPError:
            raise
        except MCPTrioError as error:
            raise failed(self._describe_error(error)) from error

    async def complete(
        self, context: Context, ref: Mapping[str, str], argument: str, value: str, settled: Mapping[str, str]
    ) -> Completion:
        """Return suggestions for an argument.

        Raises:
            MCPError, ConnectionClosed, RequestFailed, RequestTimeout: There is no answer.
        """
        params: dict[str, Any] = {"ref": dict(ref), "argument": {"name": argument, "value": value}}
        if settled:
            params["context"] = {"arguments": dict(settled)}
        if self._forwards_caller:
            params["_meta"] = {CALLER: encode_caller(context.principal, context.caller)}

        async def send(client: Client) -> CompleteResult:
            # Completions cannot lead to questions, so no nursery is needed for them.
            call = Call(context, None)
            with self._calls.entered(call):
                result: CompleteResult = await self._answer(call, client, "completion/complete", params)
            return result

        result = await self._upstream.ask(send)
        return result.completion

    # Private

    def _describe_error(self, error: MCPTrioError) -> str:
        text = describe_reason(str(error), is_isolated=self._forwards_caller)
        # Reasons of the connection begin with the name already.
        return text if text.startswith(self._name) else f"{self._name}: {text}"

    async def _once(
        self, context: Context, number: int, method: str, wire: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Make one request. Return its result, or record what is unfinished for the next run of the handler.

        Raises:
            InvalidParams: The request was made before, and no handler waits for its result any more.
        """
        inputs, done = inputs_of(context), list[Any]()
        unfinished: dict[str, Any] = {}
        is_new = False

        # `once` calls this in the first run only; a later run finds the recorded result instead.
        async def begin() -> bool:
            nonlocal is_new
            is_new = True
            return True

        async def record() -> dict[str, Any]:
            return unfinished

        async def exchange() -> None:
            unfinished.update(await self._exchange(context, method, wire, done))
            if unfinished:
                await inputs.once(f"answer {number}", record, repeatable=True)

        async def missing() -> dict[str, Any]:
            raise InvalidParams(
                f"the call of {self._name} that asked has ended and is not repeated: send a new request"
            )

        await context.once(begin, key=f"request {number}")
        if not is_new:
            return None, await inputs.once(f"answer {number}", missing, repeatable=True)
        # Not shared: it may ask. While it runs, the client gets no state that lacks the answer.
        await inputs.once(f"exchange {number}", exchange, shared=False)
        return (done[0] if done else None), unfinished

    async def _exchange(self, context: Context, method: str, wire: dict[str, Any], done: list[Any]) -> dict[str, Any]:
        """Make a request. Put its result into ``done``, or return what is unfinished, as JSON."""
        try:
            result = await self._upstream.ask(partial(self._send, context, method, wire))
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
        done.append(result)
        return {}

    async def _follow(self, context: Context, number: int, created: CreateTaskResult) -> Any:
        """Return the result of a task of the mounted server, which is cancelled if the handler is."""
        # The id is recorded, so a handler that runs again follows the same task.
        scope = inputs_of(context).scope
        scope.is_resumable = True
        if scope.task is not None:
            scope.task.note_resumable()
        # At once, because a client without the id of a task of ours would lose the call with this process.
        await context.task.begin()

        # A client polls a task and gets no progress.
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
                return await task._finish(created, report, answer, leaves_it=is_released)
            async with open_hidden_nursery() as nursery:
                call = Call(context, nursery)
                with self._calls.entered(call):
                    result = await task._finish(created, report, leaves_it=is_released)
                    await call.until_answered()
            return result

        return _without_protocol(await self._upstream.ask(follow))

    async def _answers(self, context: Context, number: int, result: InputRequiredResult) -> dict[str, Any]:
        """Return the client's answers in the form of the mounted server's revision."""
        questions = result.input_requests or {}
        # An unfinished result with neither would be sent again unchanged, for ever.
        if not questions and result.request_state is None:
            raise RemoteProtocolError(
                f"{self._name}: expected inputRequests or requestState in an input_required result, got neither"
            )
        return await self._ask(context, number, questions)

    async def _ask(self, context: Context, number: int, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
        # The round is part of the key: a server may use the same key in every round.
        relayed = [RelayedQuestion.of(question, f"{number}:{key}") for key, question in questions.items()]
        answers = await inputs_of(context).ask(relayed) if relayed else []
        return {key: LATEST.unstructure(answer) for key, answer in zip(questions, answers, strict=True)}

    async def _send(self, context: Context, method: str, wire: dict[str, Any], client: Client) -> Any:
        revision = REVISIONS[client.revision]
        await self._choose_level(context, client, revision)
        if revision.inputs is not Inputs.BACK_CHANNEL:
            # Questions are in the result, so no task for them is needed.
            return await self._send_as(Call(context, None), method, wire, client, revision)
        async with open_hidden_nursery() as nursery:
            return await self._send_as(Call(context, nursery), method, wire, client, revision)

    async def _send_as(self, call: Call, method: str, wire: dict[str, Any], client: Client, revision: Revision) -> Any:
        context = call.context
        request = {**wire, "_meta": {**self._meta(context, revision), CLIENT: call.client}}

        # The mounted server's progress is the progress of our request; our own reporter limits the rate.
        async def report(progress: Progress) -> None:
            await context.report_progress(progress.progress, progress.total, progress.message)

        with self._calls.entered(call):
            # No timeout: our request has a deadline, and its cancellation is passed on.
            result = await self._answer(call, client, method, request, timeout=inf, progress=report)
            # A question may be answered by another call of the same client, which must not lose its handler.
            await call.until_answered()
        return _without_protocol(result)

    @staticmethod
    async def _answer(call: Call, client: Client, method: str, params: dict[str, Any], **options: Any) -> Any:
        """Return the server's answer to a call. Without an answer, the call stays pending."""
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
        # Members of the protocol describe the conversation between our client and us, not the one with the mounted
        # server.
        meta = {
            key: value for key, value in context.meta.items() if not key.startswith(_PROTOCOL) and key not in _NOT_OURS
        }
        if self._forwards_caller:
            meta[CALLER] = encode_caller(context.principal, context.caller)
        # 2026-07-28 has no handshake, so the request itself must say what the caller can answer.
        if revision.lifecycle is NegotiationStyle.PER_REQUEST:
            # We follow tasks, whether the caller does or not.
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
        wanted = _SEVERITY[level]
        # The level of a session is only ever lowered: another caller may still need the finer messages.
        if self._level is not None and self._level[0] is client and self._level[1] <= wanted:
            return
        self._level = client, wanted
        try:
            await client.set_log_level(LEVELS[wanted])
        except MCPError as error:
            _log.info("%s does not take a log level: %s", self._name, error)


def _without_protocol(result: Any) -> Any:
    """The result without what one conversation's protocol put into its ``_meta``."""
    if not isinstance(result, Result) or not result.meta:
        return result
    kept = {key: value for key, value in result.meta.items() if not key.startswith(_PROTOCOL)}
    return result if len(kept) == len(result.meta) else evolve(result, meta=kept or None)


def describe_reason(reason: str, *, is_isolated: bool) -> str:
    """Return a reason for clients: without standard error, where the program may have written secrets.

    Args:
        is_isolated: Whether the mounted server is the process of an isolated plugin; the text then names the plugin.
    """
    text = remove_stderr(reason)
    if not is_isolated:
        # A process of ours is a detail of isolation; for a client, the plugin has failed.
        return text
    # Python's own message is empty, and an operator has to know that max_memory_mb was reached.
    hint = " (out of memory: max_memory_mb)" if "MemoryError" in reason else ""
    return text.replace("the server ", "the plugin's process ", 1) + hint
