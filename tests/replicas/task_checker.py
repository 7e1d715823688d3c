"""Runs a trial of tasks: replicas that share an engine, behind nginx, with clients and faults. Then runs the judge."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final

import trio
from attrs import define, evolve

from tests.processes import held_port
from tests.replicas.engines import engine_of
from tests.replicas.faults import Faults
from tests.replicas.judge import Violation
from tests.replicas.processes import Replica, nginx, replica
from tests.replicas.raw_http import Broken
from tests.replicas.task_client import TaskClient, TaskTrial, exchange, note_read
from tests.replicas.task_history import Death, TaskCall, TaskHistory
from tests.replicas.task_judge import judge_tasks
from tests.replicas.trial import CALL_SECONDS

__all__ = ["TASK_PLUGIN", "TASK_SETTINGS", "TaskReport", "run_task_trial"]

TASK_PLUGIN: Final = Path(__file__).with_name("served_tasks.py")
TASK_SETTINGS: Final = {"MCPTRIO_SERVER_TIMEOUTS_TASK_AFTER": "0.5"}
_REPLICAS: Final = 3
_READERS: Final = 10


@define
class TaskReport:
    """The result of a trial."""

    seed: str
    engine: str
    history: TaskHistory
    faults: Counter[str]
    counts: Counter[str]
    violations: list[Violation]

    def __str__(self) -> str:
        history = self.history
        lines = [
            f"tasks in {self.engine}, MCPTRIO_HISTORY_SEED={self.seed}",
            f"faults: {_list(self.faults)}",
            f"clients: {_list(self.counts)}",
            f"tasks: {len(history.tasks)} of {len(history.calls)} calls, runs: {len(history.runs)}, "
            f"effects: {len(history.effects)}, reads: {sum(len(task.reads) for task in history.tasks)}, "
            f"ended {history.end - history.healed:.1f} s after the last fault",
            f"violations: {len(self.violations)}",
            *(f"  {violation}" for violation in self.violations[:50]),
        ]
        return "\n".join(lines)


async def run_task_trial(
    engine: str,
    folder: Path,
    *,
    seed: str,
    seconds: float = 8.0,
    clients: int = 20,
    has_engine_faults: bool = False,
) -> TaskReport:
    """Run a trial in a folder, which keeps the logs of all processes.

    Args:
        seconds: The time during which faults happen, without starting and stopping.
        has_engine_faults: Whether the engine is damaged too.
    """
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(engine_of(engine, folder))
        ports = [stack.enter_context(held_port()) for _ in range(_REPLICAS + 1)]
        settings = {**opened.settings, **TASK_SETTINGS}
        replicas = [
            replica(folder, number, port, opened.url, settings, plugin=TASK_PLUGIN)
            for number, port in enumerate(ports[1:])
        ]
        for each in replicas:
            each.start()
            stack.callback(each.end)
        for each in replicas:
            assert await each.until_ready(), f"a replica has ended: {each.log.read_text()[-2000:]}"
        await stack.enter_async_context(nginx(folder, ports[0], ports[1:]))
        trial = TaskTrial(ports[0], TaskHistory(has_engine_faults=has_engine_faults))
        faults = Faults(replicas, opened if has_engine_faults else evolve(opened, faults={}), seed)
        await _run(trial, faults, seed, seconds, clients)
        await _read_again(trial.history.tasks, ports[1:], Random(f"{seed} readers"))
    history = trial.history
    history.runs = [(token, int(process)) for token, process in _lines(folder / "runs")]
    history.effects = [(name, nonce) for name, nonce in _lines(folder / "effects")]
    history.deaths = [death for each in replicas for death in _deaths(each)]
    history.exits = faults.exits
    history.end = trio.current_time()
    return TaskReport(seed, opened.name, history, faults.counts, trial.counts, judge_tasks(history))


async def _run(trial: TaskTrial, faults: Faults, seed: str, seconds: float, clients: int) -> None:
    """Let the clients work while faults happen, then until their tasks have ended."""
    async with trio.open_nursery() as nursery:
        for number in range(clients):
            nursery.start_soon(TaskClient(trial, f"c{number}", Random(f"{seed} {number}")).run)
        await faults.run(seconds)
        trial.history.healed = trio.current_time()
        trial.stopping.set()
        nursery.cancel_scope.deadline = trio.current_time() + CALL_SECONDS


async def _read_again(tasks: list[TaskCall], ports: list[int], random: Random) -> None:
    """Read each task once more, from any of the replicas."""
    left = list(tasks)

    async def read() -> None:
        while left:
            task, sent = left.pop(), trio.current_time()
            try:
                answer = await exchange(random.choice(ports), "tasks/get", {"taskId": task.id})
            except (Broken, trio.TooSlowError) as error:
                task.refused.append(f"no answer after all faults: {error}")
                continue
            if note_read(task, sent, answer) is None:
                task.refused.append(f"an error after all faults: {answer['error']}")

    async with trio.open_nursery() as nursery:
        for _ in range(_READERS):
            nursery.start_soon(read)


def _lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def _deaths(program: Replica) -> list[Death]:
    return [Death(when, process, number) for when, process, number in program.signals]


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items())) or "none"
