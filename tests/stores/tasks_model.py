"""A model of a store of tasks in a few lines, and a comparison of any store with it.

Hypothesis generates sequences of operations; the store and the model must return the same. The tests of each engine
call :func:`play_tasks` with its stores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from attrs import define, evolve, field
from hypothesis import strategies as st

from mcptrio.abc import Stores, TaskRecord, TaskState
from mcptrio.errors import Overloaded

from .tasks_contract import ENDED, QUEUED, RUNNING, task_store

__all__ = ["TASK_BOUNDS", "TASK_STEPS", "TaskStep", "TasksModel", "play_tasks"]

TASK_BOUNDS = {"max_tasks": 12, "tasks_per_owner": 4, "task_bytes": 50}
OWNERS, TOOLS = ("ada", "eve"), ("dig", "sow", "rake")
FAR = 2e10
"""An expiry that no test reaches."""

TaskStep: TypeAlias = tuple[Any, ...]

TASK_STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("create"),
            st.sampled_from(OWNERS),
            st.sampled_from(TOOLS),
            st.sampled_from([QUEUED, QUEUED, RUNNING]),
            st.sampled_from([1, 20, 51]),
            st.sampled_from([None, 10.5, 300.5]),
        ),
        st.tuples(st.just("claim"), st.dictionaries(st.sampled_from(TOOLS), st.integers(0, 2))),
        st.tuples(
            st.just("save"),
            # The task, how many generations it is behind, and how many claims.
            st.integers(0, 20),
            st.sampled_from([0, 0, 0, 1]),
            st.sampled_from([0, 0, 0, 1]),
            st.sampled_from(TaskState),
            st.booleans(),
        ),
        st.tuples(st.just("pass"), st.sampled_from([1.0, 20.0, 200.0])),
        st.tuples(st.just("expire")),
        st.tuples(st.just("reopen")),
    ),
    max_size=60,
)


@define(eq=False)
class TasksModel:
    """All tasks in one list, and every count made each time.

    Args:
        expires: Whether tasks expire; some engines have their own clock.
    """

    expires: bool = True
    now: float = 0.0
    tasks: list[TaskRecord] = field(factory=list)
    ids: list[str] = field(factory=list)

    @property
    def live(self) -> list[TaskRecord]:
        return [each for each in self.tasks if each.expires is None or each.expires > self.now]

    def find(self, id: str) -> TaskRecord | None:
        return next((each for each in self.live if each.id == id), None)

    def put(self, record: TaskRecord) -> TaskRecord:
        self.tasks = [record if each.id == record.id else each for each in self.tasks]
        return record

    def create(self, record: TaskRecord) -> TaskRecord | None:
        """The stored record; ``None`` for one too many."""
        if len(self.tasks) >= TASK_BOUNDS["max_tasks"]:
            self.tasks = self.live
        active = [each for each in self.live if each.owner == record.owner and each.state is not ENDED]
        if len(record.data) > TASK_BOUNDS["task_bytes"] or len(self.tasks) >= TASK_BOUNDS["max_tasks"]:
            return None
        if len(active) >= TASK_BOUNDS["tasks_per_owner"]:
            return None
        stored = evolve(record, fence=int(record.state is RUNNING), generation=1)
        self.tasks.append(stored)
        self.ids.append(stored.id)
        return stored

    def claim(self, tools: dict[str, int]) -> TaskRecord | None:
        for each in self.live:
            running = [other for other in self.live if other.tool == each.tool and other.state is RUNNING]
            limit = tools.get(each.tool)
            if each.state is QUEUED and limit is not None and (not limit or len(running) < limit):
                found = evolve(each, state=RUNNING, fence=each.fence + 1, generation=each.generation + 1)
                return self.put(found)
        return None

    def save(self, record: TaskRecord, held: bool) -> TaskRecord | str | None:
        stored = self.find(record.id)
        if stored is None or stored.state is ENDED or stored.generation != record.generation:
            return None
        if held:
            if stored.state is not RUNNING or stored.fence != record.fence:
                return None
        elif record.state is not stored.state and (stored.state, record.state) != (QUEUED, ENDED):
            return "ValueError"
        return self.put(
            evolve(
                stored, state=record.state, data=record.data, expires=record.expires, generation=record.generation + 1
            )
        )

    def reopen(self) -> None:
        """The process that held them has ended."""
        for each in self.tasks:
            if each.state is RUNNING:
                self.put(evolve(each, state=QUEUED, generation=each.generation + 1))


def same(found: TaskRecord | None, expected: TaskRecord | None) -> bool:
    """Whether they are equal. The model does not know when the store creates a task."""
    return (found and evolve(found, created=0.0)) == expected


async def compare(model: TasksModel, stores: Stores) -> None:
    tasks = task_store(stores)
    for id in model.ids:
        assert same(await tasks.load(id), model.find(id)), id
    for owner in OWNERS:
        found = await tasks.list(owner)
        expected = [each for each in model.live if each.owner == owner]
        assert [evolve(each, created=0.0) for each in found] == expected
        for at, each in enumerate(expected):
            assert [other.id for other in await tasks.list(owner, each.id)] == [
                other.id for other in expected[at + 1 :]
            ]
    queues = {
        tool: tuple(
            sum(each.tool == tool and each.state is state for each in model.live) for state in (QUEUED, RUNNING)
        )
        for tool in TOOLS
    }
    assert {each.tool: (each.queued, each.running) for each in await tasks.queues()} == {
        tool: counts for tool, counts in sorted(queues.items()) if counts != (0, 0)
    }


async def do(step: TaskStep, model: TasksModel, stores: Stores) -> None:
    tasks = task_store(stores)
    match step:
        case ("create", owner, tool, state, size, lifetime):
            expires = model.now + lifetime if lifetime is not None and model.expires else FAR
            record = TaskRecord(
                id=f"t{len(model.ids)}", owner=owner, tool=tool, state=state, data=b"." * size, expires=expires
            )
            expected = model.create(record)
            got: TaskRecord | None = None
            try:
                got = await tasks.create(record)
            except Overloaded:
                model.ids.append(record.id) if expected is None else None
            assert same(got, expected)
        case ("claim", tools):
            assert same(await tasks.claim(tools), model.claim(tools))
        case ("save", at, generations, claims, state, held) if model.tasks:
            stored = model.tasks[at % len(model.tasks)]
            record = evolve(
                stored,
                state=state,
                data=b"%d" % at,
                generation=stored.generation - generations,
                fence=stored.fence - claims,
            )
            wanted = model.save(record, held)
            saved: TaskRecord | str | None
            try:
                saved = await tasks.save(record, held=held)
            except ValueError:
                saved = "ValueError"
            assert saved == wanted or (isinstance(saved, TaskRecord) and isinstance(wanted, TaskRecord))
            if isinstance(saved, TaskRecord) and isinstance(wanted, TaskRecord):
                assert same(saved, wanted)
        case ("expire",):
            expired = len(model.tasks) - len(model.live)
            model.tasks = model.live
            # A store may have deleted some of them to make room.
            assert await tasks.expire() <= expired


async def play_tasks(
    steps: list[TaskStep],
    model: TasksModel,
    open_stores: Callable[[], AbstractAsyncContextManager[Stores]],
    *,
    advance: Callable[[float], Awaitable[None]] | None = None,
    can_reopen: bool,
) -> None:
    """Do the steps with the stores and with the model, and compare them now and then.

    Args:
        advance: Turns the clock of the store; ``None`` if the test cannot.
        can_reopen: Whether opening the stores again finds what they had.
    """
    remaining = list(steps)
    while True:
        async with open_stores() as stores:
            await compare(model, stores)
            while remaining:
                step = remaining.pop(0)
                if step == ("reopen",) and can_reopen:
                    break
                if step[0] == "pass" and advance is not None:
                    await advance(step[1])
                await do(step, model, stores)
            else:
                await compare(model, stores)
                return
        model.reopen()
