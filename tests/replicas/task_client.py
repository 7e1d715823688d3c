"""A client of tasks: it creates them, polls any replica, answers questions, and cancels some.

Some tasks have a second client that does the same at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import trio
from attrs import define, field

from tests.replicas.modern_client import modern_headers, modern_message
from tests.replicas.raw_http import Broken, request
from tests.replicas.task_history import TaskAnswer, TaskCall, TaskHistory, TaskRead
from tests.replicas.trial import REPLY_SECONDS

__all__ = ["TASK_TOOLS", "TaskClient", "TaskTrial", "exchange"]

TASK_TOOLS: Final = ("resumed", "bound", "resumed_later", "bound_later", "resumed_queued", "bound_queued")
_STEPS: Final = {"sleep": 3, "effect": 4, "ask": 3, "again": 2, "both": 2, "repeat": 2, "status": 1}
_ASKING: Final = ("ask", "again", "both")
_CAPABILITIES: Final = {
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "elicitation": {},
    }
}
_POLL: Final = 0.3
_INVALID_PARAMS: Final = -32602
# How often a task has a second client, is cancelled, and is left alone for a while.
_SECOND: Final = 0.3
_CANCELLED: Final = 0.15
_AWAY: Final = 0.2
# How often an answer is sent twice at once.
_TWICE: Final = 0.2


@define
class TaskTrial:
    """The state that the clients of one trial share.

    Attributes:
        port: The port of the proxy in front of the replicas.
        counts: The number of each kind of event, for the report.
        stopping: Set when clients must not create more tasks.
    """

    port: int
    history: TaskHistory
    counts: Counter[str] = field(factory=Counter)
    stopping: trio.Event = field(factory=trio.Event)


async def exchange(port: int, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request of a client with tasks, and return the response.

    Raises:
        Broken: The connection ended without a response.
        trio.TooSlowError: No response came within REPLY_SECONDS.
    """
    message = modern_message(1, method, params, **_CAPABILITIES)
    with trio.fail_after(REPLY_SECONDS):
        async with request(port, "POST", modern_headers(message), message) as reply:
            if "json" not in reply.headers.get("content-type", "") and not reply.is_stream:
                raise Broken(f"status {reply.status}", reached=True)
            answer = await reply.message()
            # A stream may have notifications before the response.
            while answer is not None and "id" not in answer:
                answer = await reply.message()
    if answer is None:
        raise Broken("the stream has no response", reached=True)
    return answer


class TaskClient:
    def __init__(self, trial: TaskTrial, name: str, random: Random) -> None:
        self._trial = trial
        self._name = name
        self._random = random
        self._count = 0

    async def run(self) -> None:
        while not self._trial.stopping.is_set():
            call = self._new_call()
            await self._create(call)
            if call.id is not None:
                await self._follow(call)
            with trio.move_on_after(self._random.uniform(0.0, 0.3)):
                await self._trial.stopping.wait()

    # Creating

    def _new_call(self) -> TaskCall:
        random = self._random
        tool = random.choice(TASK_TOOLS)
        # A task whose creation was not acknowledged has no client. It would wait for answers, and keep its place.
        kinds = [kind for kind in _STEPS if not (tool.endswith("queued") and kind in _ASKING)]
        steps = []
        for kind in random.choices(kinds, [_STEPS[kind] for kind in kinds], k=random.randint(1, 5)):
            match kind:
                case "sleep" | "effect" | "both" | "repeat":
                    steps.append(f"{kind} {random.uniform(0.0, 0.6):.2f}")
                case "ask":
                    steps.append(f"ask {random.randint(1, 3)}")
                case _:
                    steps.append(kind)
        if tool.endswith("later") and random.random() < 0.7:
            steps.insert(random.randint(0, len(steps)), "begin")
        self._count += 1
        call = TaskCall(tool, f"{self._name}-{self._count}", steps, trio.current_time())
        self._trial.history.calls.append(call)
        return call

    async def _create(self, call: TaskCall) -> None:
        """Send the call and answer its questions, until there is a task or a result."""
        params: dict[str, Any] = {"name": call.tool, "arguments": {"token": call.token, "steps": call.steps}}
        more: dict[str, Any] = {}
        while True:
            answer = await self._ask("tools/call", {**params, **more})
            if answer is None:
                if more:
                    continue
                return
            result = answer.get("result")
            if result is None:
                # The server stops, or its store fails.
                self._trial.counts[f"create: {answer['error']['code']}"] += 1
                return
            kind = result["resultType"]
            if kind == "task":
                call.id, call.created = result["taskId"], result
            elif kind == "input_required":
                answers = {key: _accept(f"{key}=before") for key in result["inputRequests"]}
                more = {"inputResponses": answers, "requestState": result["requestState"]}
                continue
            self._trial.counts[f"create: {kind}"] += 1
            return

    # Following

    async def _follow(self, call: TaskCall) -> None:
        random = self._random
        if random.random() < _AWAY:
            await trio.sleep(random.uniform(0.5, 4.0))
        async with trio.open_nursery() as nursery:
            if random.random() < _SECOND:
                nursery.start_soon(self._poll, call, "second")
            if random.random() < _CANCELLED:
                nursery.start_soon(self._cancel, call, random.uniform(0.0, 3.0))
            await self._poll(call, "first")
        self._trial.counts[(call.end or {"status": "lost"})["status"]] += 1

    async def _poll(self, call: TaskCall, writer: str) -> None:
        answered: set[str] = set()
        ends = 0
        while ends < 2:
            read = await self._read(call)
            if read is not None and read.is_end:
                ends += 1
            elif read is not None:
                await self._answer(call, read, writer, answered)
            elif call.refused:
                return
            await trio.sleep(self._random.uniform(0.5, 1.5) * _POLL)

    async def _read(self, call: TaskCall) -> TaskRead | None:
        sent = trio.current_time()
        answer = await self._ask("tasks/get", {"taskId": call.id})
        return note_read(call, sent, answer) if answer is not None else None

    async def _answer(self, call: TaskCall, read: TaskRead, writer: str, answered: set[str]) -> None:
        """Answer some of the open questions, none again that was acknowledged."""
        random = self._random
        keys = [key for key in read.state.get("inputRequests", {}) if key not in answered]
        if not keys or random.random() < 0.2:
            return
        keys = random.sample(keys, random.randint(1, len(keys)))
        answers = [TaskAnswer(key, f"{key}={writer}{len(call.answers)}", trio.current_time()) for key in keys]
        call.answers += answers
        responses = {answer.key: _accept(answer.text) for answer in answers}
        if random.random() < 0.1:
            responses["unknown"] = _accept("unknown")
        async with trio.open_nursery() as nursery:
            for _ in range(2 if random.random() < _TWICE else 1):
                nursery.start_soon(self._update, call, responses, answers)
        answered.update(answer.key for answer in answers if answer.acknowledged is not None)

    async def _update(self, call: TaskCall, responses: Mapping[str, Any], answers: list[TaskAnswer]) -> None:
        reply = await self._ask("tasks/update", {"taskId": call.id, "inputResponses": responses})
        if reply is not None and "result" in reply:
            for answer in answers:
                answer.acknowledged = answer.acknowledged or trio.current_time()
        elif reply is not None and reply["error"]["code"] == _INVALID_PARAMS:
            call.refused.append(f"tasks/update: {reply['error']['message']}")

    async def _cancel(self, call: TaskCall, after: float) -> None:
        await trio.sleep(after)
        call.cancelled = trio.current_time()
        while True:
            reply = await self._ask("tasks/cancel", {"taskId": call.id})
            if reply is not None and "result" in reply:
                return
            if reply is not None and reply["error"]["code"] == _INVALID_PARAMS:
                call.refused.append(f"tasks/cancel: {reply['error']['message']}")
                return
            await trio.sleep(_POLL)

    async def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the response, or ``None``."""
        try:
            return await exchange(self._trial.port, method, params)
        except (Broken, trio.TooSlowError) as error:
            self._trial.counts[f"{method}: {type(error).__name__}"] += 1
            await trio.sleep(0.1)
            return None


def note_read(call: TaskCall, sent: float, answer: Mapping[str, Any]) -> TaskRead | None:
    """Add a response to ``tasks/get`` to the history, and return it; ``None`` for an error."""
    if "error" in answer:
        if answer["error"]["code"] == _INVALID_PARAMS:
            call.refused.append(f"tasks/get: {answer['error']['message']}")
        return None
    state = {name: value for name, value in answer["result"].items() if name != "_meta"}
    read = TaskRead(sent, trio.current_time(), state)
    call.reads.append(read)
    return read


def _accept(text: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": text}}
