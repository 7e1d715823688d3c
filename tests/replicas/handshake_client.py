"""A client of revision 2025-11-25: sessions, resumable streams, questions, cancellation and a GET stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import trio

from tests.replicas.history import Call, Ending, Listener, Question, Session
from tests.replicas.raw_http import Broken, Reply, request
from tests.replicas.trial import (
    DOCUMENTS,
    FOLLOWED,
    REPLY_SECONDS,
    ROUTER_STATUSES,
    Trial,
    refusal,
    text_of,
)

__all__ = ["HandshakeClient"]

_HEADERS: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
_ACTIVITIES: Final = {"echo": 4, "slow": 4, "ask": 4, "sample": 2, "hold": 2, "charge": 3, "touch": 2}


class SessionLost(Exception):
    """The server does not know the session."""


class HandshakeClient:
    """A client of a handshake revision, which calls tools until the trial stops.

    Args:
        listens: Whether it keeps a GET stream open and subscribes to a document.
    """

    def __init__(self, trial: Trial, name: str, random: Random, *, listens: bool) -> None:
        self._trial = trial
        self._name = name
        self._random = random
        self._listens = listens
        self._ids = 0

    async def run(self) -> None:
        """Open sessions one after the other and work in them, until the trial stops."""
        while not self._trial.is_stopping:
            session = await self._open()
            if session is None:
                return
            try:
                if self._listens:
                    await self._work_and_listen(session)
                else:
                    await self._work(session, self._random.randint(10, 40))
                    await self._leave(session)
            except* SessionLost:
                self._trial.counts["sessions lost"] += 1

    async def _listen(self, session: Session, followed: dict[str, Listener]) -> None:
        """Read the GET stream, and a document after each notification of it."""
        last = ""
        while True:
            headers = {**self._headers(session), "Accept": "text/event-stream"}
            if last:
                headers["Last-Event-ID"] = last
            try:
                async with self._request(session, "GET", headers) as reply:
                    if reply.status == 400 and last:
                        # The missed events are gone, and the client knows that.
                        self._trial.counts["GET stream: not resumable"] += 1
                        last = ""
                        await self._read_all(session, followed)
                    elif reply.status == 200:
                        self._trial.counts["GET stream: resumed" if last else "GET stream: opened"] += 1
                        last = await self._read_events(session, followed, reply, last)
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed("GET stream", error)
            await self._trial.before_retry()

    async def _read_events(self, session: Session, followed: dict[str, Listener], reply: Reply, last: str) -> str:
        events = next(iter(followed.values())).events
        try:
            while True:
                with trio.fail_after(REPLY_SECONDS):
                    event = await reply.event()
                if event is None:
                    break
                if event.id:
                    events.append(event.id)
                    last = event.id
                message = json.loads(event.data) if event.data else {}
                if message.get("method") == "notifications/resources/updated":
                    self._trial.counts["notifications of changes"] += 1
                    await self._read(session, followed[message["params"]["uri"]])
        except (Broken, trio.TooSlowError) as error:
            self._trial.failed("GET stream", error)
        return last

    async def _work_and_listen(self, session: Session) -> None:
        followed: dict[str, Listener] = {}
        for name in self._random.sample(DOCUMENTS, FOLLOWED):
            uri = f"doc:///{name}"
            await self._ask(session, "resources/subscribe", {"uri": uri})
            followed[uri] = Listener(self._name, uri, self._trial.now())
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, session, followed)
                # The server reports changes on the stream only, so the client reads its documents once it has one.
                await self._wait_for_stream(followed)
                await self._read_all(session, followed)
                self._trial.history.listeners += followed.values()
                # Until the trial is over, because notifications may still arrive after it stops.
                await self._work(session, None)
                await trio.sleep_forever()
        except* SessionLost:
            for listener in followed.values():
                listener.left = self._trial.now()
            raise

    async def _wait_for_stream(self, followed: dict[str, Listener]) -> None:
        events = next(iter(followed.values())).events
        while not events:  # noqa: ASYNC110 - the task that reads the stream appends to it
            await trio.sleep(0.02)

    async def _read_all(self, session: Session, followed: dict[str, Listener]) -> None:
        for listener in followed.values():
            await self._read(session, listener)

    async def _work(self, session: Session, count: int | None) -> None:
        names, weights = list(_ACTIVITIES), list(_ACTIVITIES.values())
        done = 0
        while not self._trial.is_stopping and (count is None or done < count):
            done += 1
            await self._do(session, self._random.choices(names, weights)[0])
            await self._trial.pause(self._random, 0.5 if self._listens else 0.15)

    async def _do(self, session: Session, tool: str) -> None:
        call, arguments = self._trial.new_call(self._name, self._id(), tool, self._random, session=session.id)
        await self._call(session, call, arguments)
        if tool == "touch":
            self._trial.changed(call)

    async def _call(self, session: Session, call: Call, arguments: dict[str, Any]) -> None:
        self._trial.history.calls.append(call)
        meta = {"progressToken": call.token}
        params = {"name": call.tool, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": call.id, "method": "tools/call", "params": params}
        try:
            await self._exchange(session, call, message)
        except SessionLost:
            call.ending = Ending.UNCERTAIN
            raise
        finally:
            self._trial.ended(call)

    async def _exchange(self, session: Session, call: Call, message: dict[str, Any]) -> None:
        """Send the call, and resume its stream until it has ended."""
        broken_at: float | None = None
        while call.ending is Ending.OPEN:
            try:
                method, headers = "POST", self._headers(session)
                if call.events:
                    method, headers = "GET", {**headers, "Last-Event-ID": call.events[-1]}
                async with self._request(session, method, headers, message if method == "POST" else None) as reply:
                    if broken_at is not None and reply.status == 200:
                        self._trial.gaps.append(self._trial.now() - broken_at)
                        broken_at = None
                    await self._take(session, call, reply)
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed(call.tool, error)
                broken_at = broken_at or self._trial.now()
                if call.answers:
                    call.ending = Ending.ANSWERED
                elif not call.events:
                    reached = not isinstance(error, Broken) or error.reached
                    call.ending = Ending.UNCERTAIN if reached else Ending.REFUSED
            if call.ending is Ending.OPEN:
                await self._trial.before_retry()

    async def _take(self, session: Session, call: Call, reply: Reply) -> None:
        """Take one response, and note how the call has ended, if it has."""
        if reply.status in ROUTER_STATUSES:
            self._trial.counts[f"{call.tool}: {reply.status}"] += 1
            if not call.events:
                call.ending = Ending.REFUSED if reply.status == 503 else Ending.UNCERTAIN
            return
        if reply.status == 202 and call.cancelled is not None:
            call.ending = Ending.CLOSED
            return
        if reply.status != 200:
            call.refused.append(await refusal(reply))
            call.ending = Ending.UNCERTAIN
            return
        if not reply.is_stream:
            call.answers.append(await reply.json())
            call.ending = Ending.ANSWERED
            return
        before = len(call.events)
        leaves_after = self._random.randint(1, 4) if self._random.random() < 0.15 else None
        while True:
            with trio.fail_after(REPLY_SECONDS):
                event = await reply.event()
            if event is None:
                break
            if event.id:
                call.events.append(event.id)
            if event.data:
                await self._message(session, call, json.loads(event.data))
            if leaves_after is not None and len(call.events) - before >= leaves_after and not call.answers:
                self._trial.counts["streams left and resumed"] += 1
                return
        if call.answers:
            # Now and then, look whether anything follows a response.
            if self._random.random() > 0.1 or len(call.events) == before:
                call.ending = Ending.ANSWERED
        elif call.cancelled is not None and len(call.events) == before:
            call.ending = Ending.CLOSED
        elif not call.events:
            # A second request with the same id would be another call.
            call.ending = Ending.UNCERTAIN

    async def _message(self, session: Session, call: Call, message: dict[str, Any]) -> None:
        if "method" not in message:
            if message.get("id") == call.id:
                call.answers.append(message)
            return
        match message["method"]:
            case "notifications/message":
                call.marks.append(message["params"]["data"])
                if call.tool == "hold":
                    await self._send(session, "notifications/cancelled", {"requestId": call.id})
                    call.cancelled = self._trial.now()
            case "elicitation/create":
                question = Question(message["id"], f"answer-{call.token}")
                content = {"action": "accept", "content": {"value": question.answer}}
                await self._answer(session, call, question, content)
            case "sampling/createMessage":
                question = Question(message["id"], f"sample-{call.token}")
                block = {"type": "text", "text": question.answer}
                await self._answer(session, call, question, {"role": "assistant", "content": block, "model": "m"})

    async def _answer(self, session: Session, call: Call, question: Question, result: dict[str, Any]) -> None:
        call.questions.append(question)
        await self._deliver(session, {"jsonrpc": "2.0", "id": question.id, "result": result})
        question.acknowledged = self._trial.now()

    async def _send(self, session: Session, method: str, params: dict[str, Any] | None = None) -> None:
        await self._deliver(session, {"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def _deliver(self, session: Session, message: dict[str, Any]) -> None:
        """Send a notification or an answer until it is acknowledged."""
        while True:
            try:
                async with self._request(session, "POST", self._headers(session), message) as reply:
                    if reply.status == 202:
                        return
                    self._trial.counts[f"message: {reply.status}"] += 1
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed("message", error)
            await self._trial.before_retry()

    async def _ask(self, session: Session, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request that may be repeated, until it has a result."""
        while True:
            message = {"jsonrpc": "2.0", "id": self._id(), "method": method, "params": params}
            try:
                async with self._request(session, "POST", self._headers(session), message) as reply:
                    if reply.status == 200:
                        with trio.fail_after(REPLY_SECONDS):
                            answer = await reply.message()
                        if answer is not None and "result" in answer:
                            return answer
                    self._trial.counts[f"{method}: {reply.status}"] += 1
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed(method, error)
            await self._trial.before_retry()

    async def _read(self, session: Session, listener: Listener) -> None:
        answer = await self._ask(session, "resources/read", {"uri": listener.uri})
        listener.reads.append((self._trial.now(), int(text_of(answer))))

    async def _open(self) -> Session | None:
        """Open a session; ``None`` if the trial stops first."""
        capabilities = {"elicitation": {}, "sampling": {}}
        client = {"name": self._name, "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}
        while not self._trial.is_stopping:
            message = {"jsonrpc": "2.0", "id": self._id(), "method": "initialize", "params": params}
            try:
                with trio.fail_after(REPLY_SECONDS):
                    async with request(self._trial.port, "POST", _HEADERS, message) as reply:
                        if reply.status == 200:
                            await reply.read()
                            session = Session(self._name, reply.headers["mcp-session-id"])
                            break
                        self._trial.counts[f"initialize: {reply.status}"] += 1
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed("initialize", error)
            await self._trial.before_retry()
        else:
            return None
        self._trial.history.sessions.append(session)
        self._trial.counts["sessions"] += 1
        try:
            await self._send(session, "notifications/initialized")
            await self._ask(session, "logging/setLevel", {"level": "info"})
        except SessionLost:
            self._trial.counts["sessions lost"] += 1
            return await self._open()
        return session

    async def _leave(self, session: Session) -> None:
        session.leaving = self._trial.now()
        while True:
            try:
                async with self._request(session, "DELETE", self._headers(session)) as reply:
                    if reply.status == 204:
                        session.left = self._trial.now()
                        break
            except SessionLost:
                # A DELETE before it has worked, and its response was lost.
                break
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed("DELETE", error)
            await self._trial.before_retry()
        message = {"jsonrpc": "2.0", "id": self._id(), "method": "ping"}
        try:
            async with self._request(session, "POST", self._headers(session), message):
                pass
        except (SessionLost, Broken, trio.TooSlowError):
            pass

    @asynccontextmanager
    async def _request(
        self, session: Session, method: str, headers: dict[str, str], message: Any = None
    ) -> AsyncIterator[Reply]:
        """Send a request of the session.

        Raises:
            SessionLost: The response is 404.
        """
        with trio.fail_after(REPLY_SECONDS) as deadline:
            async with request(self._trial.port, method, headers, message) as reply:
                deadline.deadline = float("inf")
                name = message.get("method", "answer") if message else ""
                session.statuses.append((self._trial.now(), reply.status, f"{method} {name}".strip()))
                if reply.status == 404:
                    raise SessionLost
                yield reply

    def _headers(self, session: Session) -> dict[str, str]:
        return {**_HEADERS, "Mcp-Session-Id": session.id}

    def _id(self) -> int:
        self._ids += 1
        return self._ids
