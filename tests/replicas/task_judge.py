"""Finds violations in a history of tasks. Each rule is a pure function of the history.

An effect that was running when its process died may or may not have happened. Its task fails and says so; no other
fault may end a resumable task.
"""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.replicas.judge import Violation
from tests.replicas.processes import LEASE
from tests.replicas.task_history import TaskCall, TaskHistory

__all__ = ["DEATH_SECONDS", "TASK_RULES", "judge_tasks"]

DEATH_SECONDS: Final = 3 * LEASE + 10.0
"""Seconds after the death of its process within which a task that cannot be resumed has failed. The lease expires, then
it has to be missing for a whole lease. The rest is for a slow machine."""
_DIED: Final = "the process that ran this task has ended, and the tool cannot be resumed"
_STOPPED: Final = "the server is stopping"


def judge_tasks(history: TaskHistory) -> list[Violation]:
    """Return the violations of all rules."""
    return [Violation(name, where, what) for name, rule in TASK_RULES.items() for where, what in rule(history)]


Found = Iterator[tuple[str, str]]
"""Where a rule is violated, and how."""


def tasks_end(history: TaskHistory) -> Found:
    """Each created task has a terminal state that its client has read."""
    for task in history.tasks:
        if task.end is None:
            last = task.reads[-1].state["status"] if task.reads else "never read"
            yield _name(task), f"{last} {history.end - history.healed:.1f} s after the last fault"


def tasks_are_found(history: TaskHistory) -> Found:
    """No client gets an error that no fault explains, such as that its task does not exist."""
    for call in history.calls:
        for what in call.refused:
            yield _name(call), what


def ends_stay(history: TaskHistory) -> Found:
    """Nothing changes after a terminal state was read, and the time of creation and the life never do."""
    for task in history.tasks:
        ended = min((read.arrived for read in task.reads if read.is_end), default=None)
        for read in task.reads:
            if ended is not None and read.is_end and read.state != task.end:
                yield _name(task), f"read {task.end}, then {dict(read.state)}"
            elif ended is not None and not read.is_end and read.sent > ended:
                yield _name(task), f"{read.state['status']} after the end was read"
            changed = [name for name in ("createdAt", "ttlMs") if read.state[name] != task.created[name]]
            if changed:
                yield _name(task), f"{changed[0]} has changed"


def effects_once(history: TaskHistory) -> Found:
    """An effect happens at most once; before a successful result exactly once, and the result has its value."""
    times = Counter(name for name, _ in history.effects)
    for name, count in times.items():
        if count > 1:
            yield name, f"the effect has happened {count} times"
    nonces = dict(history.effects)
    for task in history.calls:
        text = task.text
        if text is None:
            continue
        for number, step in enumerate(task.steps):
            name = f"{task.token}/{number}"
            if step.startswith(("effect", "both")) and nonces.get(name, "no effect") not in text.split():
                yield _name(task), f"expected {nonces.get(name)} of step {number} in the result, got {text!r}"


def resumable_tasks_survive(history: TaskHistory) -> Found:
    """A resumable task fails only if its process died during an effect."""
    for task in history.tasks:
        end = task.end
        if task.is_resumable and end is not None and end["status"] == "failed":
            has_effect = any(step.startswith(("effect", "both")) for step in task.steps)
            if not (has_effect and _is_unknown_effect(end["error"])):
                yield _name(task), f"failed: {end['error']}"


def other_tasks_say_why(history: TaskHistory) -> Found:
    """A task that cannot be resumed runs once, and fails only because its process has ended.

    A call that becomes a task later may run several times before, for its questions.
    """
    runs: defaultdict[str, list[int]] = defaultdict(list)
    for token, process in history.runs:
        runs[token].append(process)
    struck = {death.process for death in history.deaths}
    for task in history.tasks:
        end = task.end
        if task.is_resumable:
            continue
        if len(runs[task.token]) > 1 and not task.tool.endswith("later"):
            yield _name(task), f"run by the processes {runs[task.token]}"
        if end is None or end["status"] != "failed":
            continue
        is_unknown = _is_unknown_effect(end["error"])
        # The effect may have begun in an earlier run, whose process was then killed.
        processes = runs[task.token] if is_unknown else runs[task.token][-1:]
        if not is_unknown and end["error"]["message"] not in (_DIED, _STOPPED):
            yield _name(task), f"failed: {end['error']}"
        elif processes and struck.isdisjoint(processes):
            yield _name(task), f"failed, and these processes live: {processes}: {end['error']}"


def dead_tasks_end_in_time(history: TaskHistory) -> Found:
    """A task that cannot be resumed ends soon after its process was killed."""
    if history.has_engine_faults:
        return
    killed = {death.process: death.when for death in history.deaths if death.signal == signal.SIGKILL}
    process_of = dict(history.runs)
    for task in history.tasks:
        died = killed.get(process_of.get(task.token, 0))
        if task.is_resumable or died is None:
            continue
        late = [read.sent - died for read in task.reads if not read.is_end and read.sent > died + DEATH_SECONDS]
        if late:
            yield _name(task), f"has not ended {late[-1]:.1f} s after its process was killed"


def cancelled_tasks_were_cancelled(history: TaskHistory) -> Found:
    """A task is cancelled only if a client has asked for it."""
    for task in history.tasks:
        if (task.end or {}).get("status") == "cancelled" and task.cancelled is None:
            yield _name(task), "cancelled, and no client asked for it"


def questions_once(history: TaskHistory) -> Found:
    """A key names one question, which is not asked again after an answer was acknowledged."""
    for task in history.tasks:
        asked: dict[str, Any] = {}
        for read in task.reads:
            for key, question in read.state.get("inputRequests", {}).items():
                if asked.setdefault(key, question) != question:
                    yield _name(task), f"{key} asks {question['params']['message']!r} too"
                first = _acknowledged(task, key)
                if first is not None and read.sent > first:
                    yield _name(task), f"{key} is asked again {read.sent - first:.2f} s after its answer"


def answers_count(history: TaskHistory) -> Found:
    """The first acknowledged answer counts: another one only if it was sent before that."""
    for task in history.tasks:
        words = (task.text or "").split()
        for answer in task.answers:
            first = _acknowledged(task, answer.key)
            if answer.text in words and first is not None and answer.sent > first:
                yield _name(task), f"{answer.text} was sent {answer.sent - first:.2f} s after another answer"
        if task.text is not None:
            for key in {answer.key for answer in task.answers if answer.acknowledged is not None}:
                count = sum(answer.text in words for answer in task.answers if answer.key == key)
                if count != 1:
                    yield _name(task), f"expected one answer to {key}, got {count} in {task.text!r}"


def replicas_stay(history: TaskHistory) -> Found:
    """A replica ends only on a signal."""
    for message in history.exits:
        yield "a replica", f"ended by itself: {message}"


TASK_RULES: Final[dict[str, Callable[[TaskHistory], Found]]] = {
    "tasks end": tasks_end,
    "tasks are found": tasks_are_found,
    "ends stay": ends_stay,
    "effects once": effects_once,
    "resumable tasks survive": resumable_tasks_survive,
    "other tasks say why": other_tasks_say_why,
    "dead tasks end in time": dead_tasks_end_in_time,
    "cancelled tasks were cancelled": cancelled_tasks_were_cancelled,
    "questions once": questions_once,
    "answers count": answers_count,
    "replicas stay": replicas_stay,
}


def _acknowledged(task: TaskCall, key: str) -> float | None:
    """Return when the first answer to a question was acknowledged."""
    times = [answer.acknowledged for answer in task.answers if answer.key == key and answer.acknowledged is not None]
    return min(times, default=None)


def _is_unknown_effect(error: dict[str, Any]) -> bool:
    return bool(error.get("data") == {"effect": "unknown"})


def _name(task: TaskCall) -> str:
    return f"{task.token} {task.tool} {(task.id or '')[:8]} {task.steps}"
