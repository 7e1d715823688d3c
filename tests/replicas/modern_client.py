"""A client of revision 2026-07-28: calls without sessions, requestState, and subscriptions/listen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import trio

from tests.replicas.history import Call, Ending, Listener, Question
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

__all__ = ["ModernClient", "modern_headers", "modern_message"]

_PREFIX: Final = "io.modelcontextprotocol/"
_ACTIVITIES: Final = {"echo": 4, "slow": 3, "ask": 4, "sample": 2, "charge": 4, "touch": 2}
# How often a retry with an answer is sent twice at once.
_TWICE: Final = 0.2


def modern_message(id: int, method: str, params: Mapping[str, Any], **meta: Any) -> dict[str, Any]:
    """Return a request with what each one of this revision must contain."""
    envelope = {
        f"{_PREFIX}protocolVersion": "2026-07-28",
        f"{_PREFIX}clientInfo": {"name": "trial", "version": "1"},
        f"{_PREFIX}clientCapabilities": {"elicitation": {}, "sampling": {}},
        **meta,
    }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": envelope}}


def modern_headers(message: Mapping[str, Any]) -> dict[str, str]:
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": message["method"],
    }
    params = message["params"]
    name = params.get("name") or params.get("uri") or params.get("taskId")
    return {**headers, "Mcp-Name": name} if name else headers


class ModernClient:
    """A client of 2026-07-28, which calls tools until the trial stops.

    Args:
        listens: Whether it keeps a subscription to a document.
    """

    def __init__(self, trial: Trial, name: str, random: Random, *, listens: bool) -> None:
        self._trial = trial
        self._name = name
        self._random = random
        self._listens = listens
        self._ids = 0

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            if self._listens:
                nursery.start_soon(self._listen)
            names, weights = list(_ACTIVITIES), list(_ACTIVITIES.values())
            while not self._trial.is_stopping:
                await self._do(self._random.choices(names, weights)[0])
                await self._trial.pause(self._random, 0.5 if self._listens else 0.15)

    async def _do(self, tool: str) -> None:
        call, arguments = self._trial.new_call(self._name, self._id(), tool, self._random, asks=True)
        self._trial.history.calls.append(call)
        try:
            await self._rounds(call, {"name": tool, "arguments": arguments})
        finally:
            self._trial.ended(call)
        if tool == "touch":
            self._trial.changed(call)

    async def _rounds(self, call: Call, params: dict[str, Any]) -> None:
        """Send the call, and repeat it with answers until it has a result."""
        rounds: dict[str, Any] = {}
        while call.ending is Ending.OPEN:
            message = modern_message(self._id(), "tools/call", {**params, **rounds}, **{f"{_PREFIX}logLevel": "info"})
            answer = await self._answer(call, message, may_repeat=bool(rounds))
            if answer is None:
                continue
            for question in call.questions:
                question.acknowledged = question.acknowledged or self._trial.now()
            result = answer.get("result", {})
            if result.get("resultType") != "input_required":
                call.answers.append(answer)
                call.ending = Ending.ANSWERED
                return
            responses = {key: self._respond(call, asked) for key, asked in result.get("inputRequests", {}).items()}
            rounds = {"inputResponses": responses, "requestState": result["requestState"]}

    def _respond(self, call: Call, asked: Mapping[str, Any]) -> dict[str, Any]:
        question = Question(len(call.questions), f"answer-{call.token}-{len(call.questions)}")
        call.questions.append(question)
        if asked["method"] == "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": question.answer}, "model": "m"}
        return {"action": "accept", "content": {"value": question.answer}}

    async def _answer(self, call: Call, message: dict[str, Any], *, may_repeat: bool) -> dict[str, Any] | None:
        """Return the response, or ``None`` if there is none; then the call has ended, or it is repeated."""
        if may_repeat and self._random.random() < _TWICE:
            self._trial.counts["retries sent twice"] += 1
            answers: list[dict[str, Any]] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._answer_into, call, message, answers)
                nursery.start_soon(self._answer_into, call, {**message, "id": self._id()}, answers)
            found = sorted(answers, key=lambda each: "error" in each)
            return found[0] if found else None
        ending, answer = await self._once(call, message)
        if answer is None and not may_repeat:
            call.ending = ending
        elif answer is None:
            await self._trial.before_retry()
        return answer

    async def _answer_into(self, call: Call, message: dict[str, Any], answers: list[dict[str, Any]]) -> None:
        _, answer = await self._once(call, message)
        if answer is not None:
            answers.append(answer)

    async def _once(self, call: Call, message: dict[str, Any]) -> tuple[Ending, dict[str, Any] | None]:
        """Send it once. Without an answer, the first value says why."""
        try:
            with trio.fail_after(REPLY_SECONDS) as deadline:
                async with request(self._trial.port, "POST", modern_headers(message), message) as reply:
                    if reply.status in ROUTER_STATUSES:
                        self._trial.counts[f"{call.tool}: {reply.status}"] += 1
                        return (Ending.REFUSED if reply.status == 503 else Ending.UNCERTAIN), None
                    if reply.status != 200 and "json" not in reply.headers.get("content-type", ""):
                        call.refused.append(await refusal(reply))
                        return Ending.UNCERTAIN, None
                    if not reply.is_stream:
                        answer: dict[str, Any] = await reply.json()
                        return Ending.ANSWERED, answer
                    deadline.deadline = float("inf")
                    return Ending.UNCERTAIN, await self._last_of(call, reply, message["id"])
        except (Broken, trio.TooSlowError) as error:
            self._trial.failed(call.tool, error)
            reached = not isinstance(error, Broken) or error.reached
            return (Ending.UNCERTAIN if reached else Ending.REFUSED), None

    async def _last_of(self, call: Call, reply: Reply, id: int) -> dict[str, Any] | None:
        found: dict[str, Any] | None = None
        while True:
            with trio.fail_after(REPLY_SECONDS):
                event = await reply.event()
            if event is None:
                return found
            if not event.data:
                continue
            message = json.loads(event.data)
            if message.get("method") == "notifications/message":
                call.marks.append(message["params"]["data"])
            elif message.get("id") == id:
                if found is not None:
                    call.answers.append(found)  # the judge reports a second response
                found = message

    async def _listen(self) -> None:
        uris = [f"doc:///{name}" for name in self._random.sample(DOCUMENTS, FOLLOWED)]
        followed = {uri: Listener(self._name, uri, self._trial.now()) for uri in uris}
        self._trial.history.listeners += followed.values()
        while True:
            message = modern_message(
                self._id(), "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}
            )
            try:
                with trio.fail_after(REPLY_SECONDS) as deadline:
                    async with request(self._trial.port, "POST", modern_headers(message), message) as reply:
                        deadline.deadline = float("inf")
                        if reply.status == 200:
                            self._trial.counts["subscriptions/listen: opened"] += 1
                            await self._follow(followed, reply)
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed("subscriptions/listen", error)
            await self._trial.before_retry()

    async def _follow(self, followed: dict[str, Listener], reply: Reply) -> None:
        while True:
            with trio.fail_after(REPLY_SECONDS):
                event = await reply.event()
            if event is None:
                return
            message = json.loads(event.data) if event.data else {}
            if message.get("method") == "notifications/resources/updated":
                self._trial.counts["notifications of changes"] += 1
                await self._read(followed[message["params"]["uri"]])
            elif message:
                # The acknowledgement: what changed before it is not reported to this subscription.
                for listener in followed.values():
                    await self._read(listener)

    async def _read(self, listener: Listener) -> None:
        while True:
            message = modern_message(self._id(), "resources/read", {"uri": listener.uri})
            try:
                with trio.fail_after(REPLY_SECONDS):
                    async with request(self._trial.port, "POST", modern_headers(message), message) as reply:
                        if reply.status == 200:
                            listener.reads.append((self._trial.now(), int(text_of(await reply.json()))))
                            return
                        self._trial.counts[f"resources/read: {reply.status}"] += 1
            except (Broken, trio.TooSlowError) as error:
                self._trial.failed("resources/read", error)
            await self._trial.before_retry()

    def _id(self) -> int:
        self._ids += 1
        return self._ids
