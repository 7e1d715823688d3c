"""Tasks: the steps of :class:`mcptrio.stores.TaskEngine`. A replica holds a task until the leases remove the replica.

All tasks are in one slot of a cluster, because a claim compares the queues of several tools and the numbers of their
running tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from mcptrio.abc import TaskQueue, TaskRecord, TaskState
from mcptrio.errors import Overloaded
from mcptrio.stores import MAX_TASK_PAGE, MAX_TASK_PAGE_BYTES, TaskChange, check_task_state
from mcptrio_store_redis.commands import RedisCommand, RedisFull, command, run
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.keys import tag_of
from mcptrio_store_redis.task_scripts import (
    CLAIM_TASK,
    CREATE_TASK,
    EXPIRE_TASKS,
    HELD_TASKS,
    LIST_TASKS,
    LOAD_TASK,
    QUEUES,
    RELEASE_TASKS,
    SAVE_TASK,
    TAKE_BACK,
)

__all__ = ["MAX_RELEASED", "RedisTasks"]

MAX_RELEASED: Final = 200
"""Tasks of an ended replica that are queued in one step."""
# Expired tasks that a creation deletes, and those that one call of expire() deletes.
_MAX_DROPPED: Final = 20
_MAX_EXPIRED: Final = 500
# Replicas that hold tasks.
_MAX_HOLDERS: Final = 10_000


class RedisTasks:
    """Implements :class:`mcptrio.stores.TaskEngine`.

    Args:
        renewals: Returns the renewal of this replica's lease if it is due. It is sent before each command that makes
            this replica hold a task.
    """

    def __init__(self, engine: RedisEngine, renewals: Callable[[], Sequence[RedisCommand]]) -> None:
        self._engine = engine
        self._renewals = renewals
        self._key = engine.keys.tasks

    async def create(self, record: TaskRecord, token: str, keep: float) -> TaskChange:
        bounds = self._engine.settings
        create = run(
            CREATE_TASK,
            self._key,
            *(tag_of(record.id), tag_of(record.owner), self._engine.replica, token),
            *(bounds.max_tasks, bounds.tasks_per_owner, _MAX_DROPPED, keep),
            *(record.id, record.owner, record.tool, record.state.value, _time(record.expires), record.fence),
            record.data,
        )
        try:
            code, created, expires, *rest = await self._hold(create, record.state is TaskState.RUNNING)
        except RedisFull as error:
            raise Overloaded(f"too many tasks: {error}") from error
        if code == -1:
            raise Overloaded(f"too many tasks: {bounds.max_tasks} are kept")
        if code == -2:
            raise Overloaded(f"too many tasks of this owner: {bounds.tasks_per_owner} have not ended")
        change = _dropped_change(rest)
        if code == 1:
            change = evolve(change, record=evolve(record, created=float(created), expires=float(expires)))
        return change

    async def load(self, id: str) -> TaskRecord | None:
        fields = await self._engine.read(run(LOAD_TASK, self._key, tag_of(id)))
        return _record(fields) if fields else None

    async def list(self, owner: str, after: str) -> list[TaskRecord]:
        last = tag_of(after) if after else ""
        page = run(LIST_TASKS, self._key, tag_of(owner), last, MAX_TASK_PAGE, MAX_TASK_PAGE_BYTES)
        return [_record(fields) for fields in await self._engine.read(page)]

    async def save(self, record: TaskRecord, *, held: bool) -> TaskChange:
        save = run(
            SAVE_TASK,
            self._key,
            *(tag_of(record.id), record.generation, record.state.value, _time(record.expires)),
            *(self._engine.settings.task_timeout, record.fence, self._engine.replica if held else ""),
            record.data,
        )
        code, *rest = await self._engine.write(save)
        if code == -1:
            check_task_state(TaskState(rest[0].decode()), record.state)
        if code != 1:
            return TaskChange()
        owner, tool, created, expires, fence, has_freed = rest
        stored = evolve(
            record,
            owner=owner.decode(),
            tool=tool.decode(),
            created=float(created),
            expires=float(expires),
            fence=int(fence),
            generation=record.generation + 1,
        )
        return TaskChange(record=stored, has_freed=bool(has_freed))

    async def claim(self, tools: Mapping[str, int], token: str) -> TaskChange:
        if not tools:
            return TaskChange()
        pairs: list[Any] = [each for pair in tools.items() for each in pair]
        fields = await self._hold(run(CLAIM_TASK, self._key, self._engine.replica, token, *pairs), True)
        return TaskChange(record=_record(fields) if fields else None)

    async def take_back(self, id: str, token: str) -> TaskChange:
        tag = tag_of(id) if id else ""
        return _dropped_change(await self._engine.write(run(TAKE_BACK, self._key, self._engine.replica, token, tag)))

    async def queues(self) -> Sequence[TaskQueue]:
        rows = await self._engine.read(run(QUEUES, self._key))
        queues = [TaskQueue(tool.decode(), queued, running, float(age)) for tool, queued, running, age in rows]
        return sorted(queues, key=lambda queue: queue.tool)

    async def expire(self) -> TaskChange:
        return _dropped_change(await self._engine.write(run(EXPIRE_TASKS, self._key, _MAX_EXPIRED)))

    # Called by the leases

    async def release_ended(self) -> Sequence[str]:
        """Queue the tasks of replicas that the leases have removed, and return their ids.

        Raises:
            StoreFailed: The engine does not answer.
        """
        engine, replicas = self._engine, self._engine.keys.replicas
        holders = f"{self._key}:h"
        names = {name.decode() for name in await engine.read(command(holders, "SRANDMEMBER", holders, _MAX_HOLDERS))}
        released: list[str] = []
        for holder in sorted(names - {engine.replica}):
            while held := await engine.read(run(HELD_TASKS, self._key, holder, MAX_RELEASED)):
                # The replica is looked up after its tasks were read: if it returns and claims tasks after that, these
                # have other fences, so they are not released.
                if await engine.read(command(replicas, "ZSCORE", replicas, holder)) is not None:
                    break
                ids = await engine.write(run(RELEASE_TASKS, self._key, holder, *held))
                if not ids:
                    break
                released += [id.decode() for id in ids]
        return released

    async def _hold(self, last: RedisCommand, is_holding: bool) -> Any:
        """Send a command, preceded by the renewal of the lease if it makes this replica hold a task."""
        first = self._renewals() if is_holding else ()
        if not first:
            return await self._engine.write(last)
        return (await self._engine.write(*first, last))[-1]


def _record(fields: Sequence[bytes]) -> TaskRecord:
    id, owner, tool, state, created, expires, fence, generation, data = fields
    return TaskRecord(
        id=id.decode(),
        owner=owner.decode(),
        tool=tool.decode(),
        state=TaskState(state.decode()),
        data=data,
        created=float(created),
        expires=float(expires),
        fence=int(fence),
        generation=int(generation),
    )


def _dropped_change(answer: Sequence[Any]) -> TaskChange:
    was_running, *ids = answer
    return TaskChange(others=[id.decode() for id in ids], has_freed=bool(was_running))


def _time(value: float | None) -> str:
    # With all digits, so that the loaded record equals the saved one.
    return "" if value is None else repr(float(value))
