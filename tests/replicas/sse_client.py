"""A client of HTTP with SSE, the transport of 2024-11-05: one stream, and a POST for each message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import trio
from attrs import define, field

from tests.replicas.history import Call, Ending, Listener, Question
from tests.replicas.raw_http import Broken, Reply, request
from tests.replicas.trial import (
    CALL_SECONDS,
    DOCUMENTS,
    FOLLOWED,
    REPLY_SECONDS,
    ROUTER_STATUSES,
    Trial,
    refusal,
    text_of,
)

__all__ = ["SSEClient"]

_ACTIVITIES: Final = {"echo": 4, "slow": 4, "sample": 3, "hold": 2, "charge": 3, "touch": 2}
_TOGETHER: Final = 3
"""Calls of ``echo`` at the same time. The log messages of a stream name no call, so others are alone."""
_ACCEPT: Final = {"Accept": "application/json, text/event-stream"}


class StreamLost(Exception):
    """The stream has ended, or it is not known what the server has got."""


@define(eq=False)
class _Stream:
    """An open stream.

    Attributes:
        calls: Calls of tools that were sent on it, by id.
        answers: Responses to other requests, by id.
        logging: The call whose log messages arrive.
    """

    endpoint: str
    calls: dict[Any, Call] = field(factory=dict)
    answers: dict[Any, dict[str, Any]] = field(factory=dict)
    logging: Call | None = None
    ended: bool = False
    _changed: trio.Event = field(factory=trio.Event)

    def tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def lose(self) -> StreamLost:
        """Use the stream no longer, and return the exception to raise."""
        self.ended = True
        return StreamLost()

    async def wait(self) -> None:
        """Wait for the next message.

        Raises:
            StreamLost: The stream has ended.
        """
        if self.ended:
            raise StreamLost
        await self._changed.wait()


class SSEClient:
    """A client of HTTP with SSE, which calls tools until the trial stops.

    Args:
        listens: Whether it subscribes to documents.
    """

    def __init__(self, trial: Trial, name: str, random: Random, *, listens: bool) -> None:
        self._trial = trial
        self._name = name
        self._random = random
        self._listens = listens
        self._ids = 0

    async def run(self) -> None:
        """Open streams one after the other and work on them, until the trial stops."""
        while not self._trial.is_stopping:
            try:
                with trio.fail_after(REPLY_SECONDS) as deadline:
                    headers = {"Accept": "text/event-stream"}
                    async with request(self._trial.port, "GET", headers, path="/sse") as reply:
                        event = await reply.event() if reply.status == 200 else None
                        deadline.deadline = float("inf")
                        self._trial.counts[f"SSE stream: {reply.status}"] += 1
                        if event is not None:
                            await self._use(_Stream(event.data), reply)
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed("SSE stream", error)
            await self._trial.before_retry()

    async def _use(self, stream: _Stream, reply: Reply) -> None:
        followed: dict[str, Listener] = {}
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._receive, stream, reply, followed, nursery)
                await self._open(stream)
                if self._listens:
                    await self._follow(stream, followed)
                    await self._work(stream, None)
                    # Until the trial is over, because notifications may still arrive after it stops.
                    while True:
                        await stream.wait()
                await self._work(stream, self._random.randint(10, 40))
                nursery.cancel_scope.cancel()
        except* StreamLost:
            self._trial.counts["SSE streams lost"] += 1
            # Perhaps the stream is still open, but the client reads it no longer: it does not know whether a call ran.
            for listener in followed.values():
                listener.left = self._trial.now()

    async def _receive(
        self, stream: _Stream, reply: Reply, followed: Mapping[str, Listener], nursery: trio.Nursery
    ) -> None:
        try:
            while True:
                with trio.fail_after(REPLY_SECONDS):
                    event = await reply.event()
                if event is None:
                    break
                if event.data:
                    self._take(stream, json.loads(event.data), followed, nursery)
                    stream.tell()
        except (Broken, trio.TooSlowError) as error:
            self._trial.failed("SSE stream", error)
        stream.ended = True
        stream.tell()

    def _take(
        self, stream: _Stream, message: dict[str, Any], followed: Mapping[str, Listener], nursery: trio.Nursery
    ) -> None:
        match message.get("method"):
            case None:
                call = stream.calls.get(message["id"])
                if call is not None:
                    call.answers.append(message)
                else:
                    stream.answers[message["id"]] = message
            case "notifications/message" if stream.logging is not None:
                stream.logging.marks.append(message["params"]["data"])
                if stream.logging.tool == "hold":
                    nursery.start_soon(self._cancel, stream, stream.logging)
            case "sampling/createMessage":
                nursery.start_soon(self._answer, stream, message)
            case "notifications/resources/updated":
                self._trial.counts["notifications of changes"] += 1
                nursery.start_soon(self._read, stream, followed[message["params"]["uri"]])

    # Work

    async def _open(self, stream: _Stream) -> None:
        client = {"name": self._name, "version": "1"}
        params = {"protocolVersion": "2024-11-05", "capabilities": {"sampling": {}}, "clientInfo": client}
        await self._ask(stream, "initialize", params)
        await self._deliver(stream, {"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def _follow(self, stream: _Stream, followed: dict[str, Listener]) -> None:
        for name in self._random.sample(DOCUMENTS, FOLLOWED):
            uri = f"doc:///{name}"
            followed[uri] = Listener(self._name, uri, self._trial.now())
            await self._ask(stream, "resources/subscribe", {"uri": uri})
            await self._read(stream, followed[uri])
        self._trial.history.listeners += followed.values()

    async def _work(self, stream: _Stream, count: int | None) -> None:
        names, weights = list(_ACTIVITIES), list(_ACTIVITIES.values())
        done = 0
        while not self._trial.is_stopping and (count is None or done < count):
            done += 1
            tool = self._random.choices(names, weights)[0]
            async with trio.open_nursery() as nursery:
                for _ in range(_TOGETHER if tool == "echo" else 1):
                    nursery.start_soon(self._do, stream, tool)
            await self._trial.pause(self._random, 0.5 if self._listens else 0.15)

    async def _do(self, stream: _Stream, tool: str) -> None:
        call, arguments = self._trial.new_call(self._name, self._id(), tool, self._random)
        stream.logging = call if tool in ("slow", "hold") else None
        await self._call(stream, call, arguments)
        if tool == "touch":
            self._trial.changed(call)

    async def _call(self, stream: _Stream, call: Call, arguments: dict[str, Any]) -> None:
        self._trial.history.calls.append(call)
        stream.calls[call.id] = call
        params = {"name": call.tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": call.id, "method": "tools/call", "params": params}
        try:
            await self._exchange(stream, call, message)
        finally:
            # The stream is lost, perhaps for another call at the same time. If it is not, the trial has ended, and the
            # judge reports the open call.
            if call.ending is Ending.OPEN and stream.ended:
                call.ending = Ending.ANSWERED if call.answers else Ending.UNCERTAIN
            self._trial.ended(call)

    async def _exchange(self, stream: _Stream, call: Call, message: dict[str, Any]) -> None:
        try:
            status = await self._post(stream, message, call)
        except (Broken, trio.TooSlowError) as error:
            self._trial.failed(call.tool, error)
            raise stream.lose() from error
        if status == 503:
            call.ending = Ending.REFUSED
            return
        while not (call.answers or call.cancelled is not None):
            await stream.wait()
        call.ending = Ending.ANSWERED if call.answers else Ending.CLOSED

    async def _cancel(self, stream: _Stream, call: Call) -> None:
        params = {"requestId": call.id}
        await self._deliver(stream, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        call.cancelled = self._trial.now()
        stream.tell()

    async def _answer(self, stream: _Stream, message: dict[str, Any]) -> None:
        call = next(each for each in reversed(stream.calls.values()) if each.tool == "sample")
        question = Question(message["id"], f"sample-{call.token}")
        call.questions.append(question)
        content = {"type": "text", "text": question.answer}
        result = {"role": "assistant", "content": content, "model": "m"}
        await self._deliver(stream, {"jsonrpc": "2.0", "id": question.id, "result": result})
        question.acknowledged = self._trial.now()

    async def _read(self, stream: _Stream, listener: Listener) -> None:
        answer = await self._ask(stream, "resources/read", {"uri": listener.uri})
        listener.reads.append((self._trial.now(), int(text_of(answer))))

    # Messages

    async def _ask(self, stream: _Stream, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request that may be repeated, until it has a result."""
        while True:
            id = self._id()
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            await self._deliver(stream, message)
            with trio.move_on_after(CALL_SECONDS) as deadline:
                while id not in stream.answers:
                    await stream.wait()
            if deadline.cancelled_caught:
                self._complain(message, None, "acknowledged, and no response on an open stream")
                raise stream.lose()
            answer = stream.answers.pop(id)
            if "result" in answer:
                return answer
            self._trial.counts[f"{method}: error"] += 1
            await self._trial.before_retry()

    async def _deliver(self, stream: _Stream, message: dict[str, Any]) -> None:
        """Send a message that may arrive twice, until it is acknowledged."""
        while True:
            try:
                if await self._post(stream, message) == 202:
                    return
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed("SSE message", error)
            await self._trial.before_retry()

    async def _post(self, stream: _Stream, message: dict[str, Any], call: Call | None = None) -> int:
        """Send a message, and return 202, or 503 if the server has not got it.

        Raises:
            StreamLost: The stream has ended, or whether the server has got the call is not known.
        """
        with trio.fail_after(REPLY_SECONDS):
            async with request(self._trial.port, "POST", _ACCEPT, message, stream.endpoint) as reply:
                status, refusal_text = reply.status, await refusal(reply)
        if status in (202, 503):
            return status
        self._trial.counts[f"SSE message: {status}"] += 1
        if status == 404:
            await self._expect_end(stream, message, call)
        elif status not in ROUTER_STATUSES and call is not None:
            call.refused.append(refusal_text)
        if status in ROUTER_STATUSES and call is None:
            return 503
        raise stream.lose()

    async def _expect_end(self, stream: _Stream, message: Mapping[str, Any], call: Call | None) -> None:
        """Report a 404 as a violation, unless the stream ends."""
        with trio.move_on_after(REPLY_SECONDS):
            while True:
                await stream.wait()
        if self._trial.history.durable:
            self._complain(message, call, "404 for an open stream")

    def _complain(self, message: Mapping[str, Any], call: Call | None, what: str) -> None:
        """Have the judge report a message; one that is not a call of a tool is noted as a call."""
        if call is None:
            method = message.get("method", "answer")
            call = Call(self._name, "", message.get("id"), method, "", self._trial.now(), ended=self._trial.now())
            self._trial.history.calls.append(call)
        call.refused.append(what)

    def _id(self) -> int:
        self._ids += 1
        return self._ids
