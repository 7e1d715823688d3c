"""Tasks of processes that are killed or stopped, of two processes, and of a store that fails: one fault at a time."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define

from tests.processes import WAIT_TIMEOUT, held_port
from tests.replicas.engines import Engine, engine_of
from tests.replicas.processes import Replica, replica
from tests.replicas.task_checker import TASK_PLUGIN, TASK_SETTINGS
from tests.replicas.task_client import exchange
from tests.replicas.task_history import TERMINAL
from tests.replicas.task_judge import DEATH_SECONDS

__all__: list[str] = []

ENGINES = ("sqlite", "redis", "postgres")


@define
class Service:
    """Replicas without a proxy: a test says which one it asks."""

    folder: Path
    engine: Engine
    replicas: list[Replica]

    async def ask(self, at: int, method: str, **params: Any) -> dict[str, Any]:
        answer = await exchange(self.replicas[at].port, method, params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def begin(self, at: int, tool: str, *steps: str, **arguments: Any) -> str:
        """Return the id of a new task. Its token is the name of the tool."""
        arguments = arguments or {"token": tool, "steps": steps}
        created = await self.ask(at, "tools/call", name=tool, arguments=arguments)
        id: str = created["taskId"]
        return id

    async def until(self, at: int, id: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the state of a task once it is as wanted."""
        with trio.fail_after(WAIT_TIMEOUT):
            while not wanted(state := await self.ask(at, "tasks/get", taskId=id)):  # noqa: ASYNC110 - clients poll
                await trio.sleep(0.05)
        return state

    async def asked(self, at: int, id: str, *messages: str) -> dict[str, str]:
        """Return the keys of the open questions of a task by message, once they have these messages."""

        def by_message(state: dict[str, Any]) -> dict[str, str]:
            return {asked["params"]["message"]: key for key, asked in state.get("inputRequests", {}).items()}

        return by_message(await self.until(at, id, lambda state: {*by_message(state)} == {*messages}))

    async def answer(self, at: int, id: str, **answers: str) -> None:
        responses = {key: {"action": "accept", "content": {"value": text}} for key, text in answers.items()}
        await self.ask(at, "tasks/update", taskId=id, inputResponses=responses)

    async def ended(self, at: int, id: str) -> dict[str, Any]:
        return await self.until(at, id, lambda state: state["status"] in TERMINAL)

    async def until_run(self, tool: str, times: int) -> None:
        """Wait until the handler has been started so often."""
        with trio.fail_after(WAIT_TIMEOUT):
            while self.runs(tool) < times:  # noqa: ASYNC110 - other processes start it
                await trio.sleep(0.02)

    def runs(self, tool: str) -> int:
        path = self.folder / "runs"
        return sum(line.startswith(f"{tool} ") for line in path.read_text().splitlines()) if path.exists() else 0

    async def until_logged(self, at: int, words: str) -> None:
        with trio.fail_after(WAIT_TIMEOUT):
            while words not in self.replicas[at].log.read_text():  # noqa: ASYNC110 - another process writes it
                await trio.sleep(0.02)


@asynccontextmanager
async def service(folder: Path, engine: str = "sqlite", *, count: int = 2, **settings: str) -> AsyncIterator[Service]:
    async with engine_of(engine, folder) as opened:
        with ExitStack() as stack:
            ports = [stack.enter_context(held_port()) for _ in range(count)]
            settings = {**TASK_SETTINGS, **settings}
            replicas = [
                replica(folder, at, port, opened.url, settings, plugin=TASK_PLUGIN) for at, port in enumerate(ports)
            ]
            for each in replicas:
                each.start()
                stack.callback(each.end)
            for each in replicas:
                assert await each.until_ready(), each.log.read_text()[-2000:]
            yield Service(folder, opened, replicas)


def text_of(state: dict[str, Any]) -> str:
    assert state["status"] == "completed", state
    text: str = state["result"]["content"][0]["text"]
    return text


@pytest.mark.parametrize("engine", ENGINES)
async def test_questions_of_a_killed_process_are_asked_by_another_and_answered_once(
    engine: str, tmp_path: Path
) -> None:
    async with service(tmp_path, engine) as served:
        id = await served.begin(0, "resumed", "effect 0", "ask 2", "again")
        keys = await served.asked(0, id, "resumed 1 0?", "resumed 1 1?")
        await served.answer(0, id, **{keys["resumed 1 0?"]: "zero"})
        await served.asked(0, id, "resumed 1 1?")

        await served.replicas[0].kill()
        await served.until_run("resumed", 2)

        assert await served.asked(1, id, "resumed 1 1?") == {"resumed 1 1?": keys["resumed 1 1?"]}
        await served.answer(1, id, **{keys["resumed 1 1?"]: "one"})
        last = await served.asked(1, id, "resumed again?")
        assert not {*last.values()} & {*keys.values()}
        await served.answer(1, id, **{last["resumed again?"]: "two"})
        [effect] = (tmp_path / "effects").read_text().splitlines()
        assert text_of(await served.ended(1, id)) == f"resumed {effect.split()[1]} zero one two"
        assert served.runs("resumed") == 2


@pytest.mark.parametrize("engine", ENGINES)
async def test_task_that_cannot_be_resumed_fails_soon_after_its_process_was_killed(engine: str, tmp_path: Path) -> None:
    async with service(tmp_path, engine) as served:
        id = await served.begin(0, "bound", "ask 1")
        await served.asked(0, id, "bound 0 0?")

        await served.replicas[0].kill()
        killed = trio.current_time()
        failed = await served.ended(1, id)

        assert trio.current_time() - killed <= DEATH_SECONDS
        assert failed["error"]["message"] == "the process that ran this task has ended, and the tool cannot be resumed"
        assert "inputRequests" not in failed
        assert served.runs("bound") == 1


async def test_process_that_stops_gives_a_resumable_task_back_at_once(tmp_path: Path) -> None:
    async with service(tmp_path, MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN="30") as served:
        bound = await served.begin(0, "bound", "file go")
        id = await served.begin(0, "resumed", "effect 0", "ask 1", "file go")
        keys = await served.asked(0, id, "resumed 1 0?")
        await served.answer(0, id, **{keys["resumed 1 0?"]: "yes"})
        await served.until(0, id, lambda state: state["status"] == "working")

        served.replicas[0].signal(signal.SIGTERM)
        await served.until_run("resumed", 2)

        # The stopping replica still runs the task that no other process can take.
        assert served.replicas[0].is_running
        (tmp_path / "go").touch()
        assert text_of(await served.ended(1, id)).endswith(" yes")
        assert text_of(await served.ended(1, bound)) == "bound"
        assert await served.replicas[0].wait() == 0
        assert (served.runs("resumed"), served.runs("bound")) == (2, 1)
        assert len((tmp_path / "effects").read_text().splitlines()) == 1


async def test_task_is_answered_and_cancelled_through_a_process_that_does_not_run_it(tmp_path: Path) -> None:
    async with service(tmp_path) as served:
        for tool in ("resumed", "bound"):
            id = await served.begin(0, tool, "ask 1", "file never")
            keys = await served.asked(1, id, f"{tool} 0 0?")
            await served.answer(1, id, **{keys[f"{tool} 0 0?"]: "yes"})
            await served.until(1, id, lambda state: state["status"] == "working")

            await served.ask(1, "tasks/cancel", taskId=id)

            ended = await served.ended(1, id)
            assert (ended["status"], ended["statusMessage"]) == ("cancelled", "the client has cancelled the task")
            assert await served.ended(0, id) == ended
            assert served.runs(tool) == 1


@pytest.mark.parametrize(
    ("engine", "fault"), [("sqlite", "lock the file"), ("redis", "kill the engine"), ("postgres", "kill the engine")]
)
async def test_end_of_a_task_is_stored_when_the_store_works_again(engine: str, fault: str, tmp_path: Path) -> None:
    async with service(tmp_path, engine, count=1) as served:
        id = await served.begin(0, "bound", "file go")
        await served.until_run("bound", 1)

        async with served.engine.faults[fault](0.0):
            (tmp_path / "go").touch()
            await served.until_logged(0, "task end not stored, trying again")

        with trio.fail_after(WAIT_TIMEOUT):
            # Until then the store may refuse reads too.
            while True:
                answer = await exchange(served.replicas[0].port, "tasks/get", {"taskId": id})
                if answer.get("result", {}).get("status", "working") != "working":
                    break
                await trio.sleep(0.1)
        assert text_of(answer["result"]) == "bound"


async def test_result_that_is_too_large_for_the_store_fails_the_task(tmp_path: Path) -> None:
    async with service(tmp_path, count=1, MCPTRIO_STORES_TASK_BYTES="20000") as served:
        failed = await served.ended(0, await served.begin(0, "large", size=30_000))
        assert "the data of a task are too large: at most 20000 bytes, got " in failed["error"]["message"]
        large = await served.ended(0, await served.begin(0, "large", size=18_000))
        assert text_of(large) == "x" * 18_000
