"""The judge of tasks finds each kind of violation in a history that is wrong on purpose, and none in a right one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.error_codes import INTERNAL_ERROR
from tests.replicas.task_history import Death, TaskAnswer, TaskCall, TaskHistory, TaskRead
from tests.replicas.task_judge import DEATH_SECONDS, TASK_RULES, judge_tasks

__all__: list[str] = []

QUESTION = {"method": "elicitation/create", "params": {"message": "t 0?"}}
OTHER = {"method": "elicitation/create", "params": {"message": "t 1?"}}
DIED = {"code": INTERNAL_ERROR, "message": "the process that ran this task has ended, and the tool cannot be resumed"}
UNKNOWN = {"code": INTERNAL_ERROR, "message": "whether it has happened is not known", "data": {"effect": "unknown"}}


def state(status: str, **more: Any) -> dict[str, Any]:
    return {"status": status, "createdAt": "then", "ttlMs": 1000, **more}


def completed(text: str) -> dict[str, Any]:
    return state("completed", result={"content": [{"type": "text", "text": text}]})


def task(*states: dict[str, Any], begun: float = 1.0, **more: Any) -> TaskCall:
    """Return a task whose state was read each second."""
    reads = [TaskRead(begun + at, begun + at + 0.1, each) for at, each in enumerate(states)]
    values: dict[str, Any] = {"tool": "resumed", "token": "t", "steps": [], "sent": 0.5, "id": "id", "reads": reads}
    return TaskCall(**{**values, "created": state("working"), **more})


def asking(*, tool: str = "resumed") -> TaskCall:
    """Return a task with an effect and a question that was answered twice."""
    return task(
        state("working"),
        state("input_required", inputRequests={"k": QUESTION}),
        completed("t n0 k=first"),
        completed("t n0 k=first"),
        tool=tool,
        token="asking",
        steps=["effect 0.1", "ask 1"],
        answers=[TaskAnswer("k", "k=first", 2.2, 2.5), TaskAnswer("k", "k=second", 2.3, 2.6)],
    )


def right() -> TaskHistory:
    """Return a history with something of each kind, and no violation."""
    return TaskHistory(
        calls=[
            asking(),
            task(state("working"), completed("t"), tool="bound", token="plain"),
            task(state("working"), state("failed", error=DIED), tool="bound", token="died"),
            task(state("failed", error=UNKNOWN), steps=["effect 0.1"], token="unknown"),
            task(state("working"), state("cancelled"), token="cancelled", cancelled=1.5),
            task(id=None, token="no task"),
        ],
        runs=[("asking", 7), ("asking", 8), ("plain", 8), ("died", 7), ("unknown", 7)],
        effects=[("asking/0", "n0"), ("unknown/0", "n1")],
        deaths=[Death(1.5, 7, signal.SIGKILL)],
        healed=5.0,
        end=10.0,
    )


def test_right_history_has_no_violation() -> None:
    assert judge_tasks(right()) == []


def late() -> TaskCall:
    return task(state("working"), state("failed", error=DIED), begun=2.0 + DEATH_SECONDS, tool="bound", token="died")


WRONG: dict[str, tuple[str, Callable[[TaskHistory], Any]]] = {
    "a task that never ends": ("tasks end", lambda h: h.calls.append(task(state("working")))),
    "a task that is never read": ("tasks end", lambda h: h.calls.append(task())),
    "a task that is not found": ("tasks are found", lambda h: h.calls[0].refused.append("tasks/get: expected a task")),
    "a result that changes": ("ends stay", lambda h: h.calls.append(task(completed("t"), completed("u")))),
    "a state after the end": ("ends stay", lambda h: h.calls.append(task(completed("t"), state("working")))),
    "another end": ("ends stay", lambda h: h.calls.append(task(completed("t"), state("cancelled"), cancelled=1.0))),
    "another time of creation": (
        "ends stay",
        lambda h: h.calls.append(task(state("working", createdAt="now"), completed("t"))),
    ),
    "an effect twice": ("effects once", lambda h: h.effects.append(("unknown/0", "n2"))),
    "a result without its effect": ("effects once", lambda h: h.effects.remove(("asking/0", "n0"))),
    "the result of another run": (
        "effects once",
        lambda h: h.effects.__setitem__(0, ("asking/0", "n7")),
    ),
    "a resumable task that failed": (
        "resumable tasks survive",
        lambda h: h.calls.append(task(state("failed", error=DIED))),
    ),
    "an unknown effect of a task without effects": (
        "resumable tasks survive",
        lambda h: h.calls.append(task(state("failed", error=UNKNOWN))),
    ),
    "a task of one process that ran twice": ("other tasks say why", lambda h: h.runs.append(("plain", 9))),
    "another reason": (
        "other tasks say why",
        lambda h: h.calls.append(task(state("failed", error={"code": 1, "message": "no"}), tool="bound", token="died")),
    ),
    "a task that failed although its process lives": (
        "other tasks say why",
        lambda h: h.calls.append(task(state("failed", error=DIED), tool="bound", token="plain")),
    ),
    "an unknown effect although each process lives": (
        "other tasks say why",
        lambda h: h.calls.append(task(state("failed", error=UNKNOWN), tool="bound", token="plain")),
    ),
    "a task that failed late": ("dead tasks end in time", lambda h: h.calls.append(late())),
    "a task that no client cancelled": (
        "cancelled tasks were cancelled",
        lambda h: h.calls.append(task(state("cancelled"))),
    ),
    "a question that is asked again": (
        "questions once",
        lambda h: h.calls[0].reads.insert(
            2, TaskRead(2.7, 2.8, state("input_required", inputRequests={"k": QUESTION}))
        ),
    ),
    "a key of two questions": (
        "questions once",
        lambda h: h.calls[0].reads.insert(2, TaskRead(2.1, 2.2, state("input_required", inputRequests={"k": OTHER}))),
    ),
    "a later answer that counts": (
        "answers count",
        lambda h: h.calls[0].answers.__setitem__(0, TaskAnswer("k", "k=first", 2.9, 3.0)),
    ),
    "an answer that is lost": ("answers count", lambda h: h.calls[0].answers.append(TaskAnswer("l", "l=a", 2.2, 2.4))),
    "a replica that ended": ("replicas stay", lambda h: h.exits.append("KeyError")),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_history_has_a_violation_of_one_rule(name: str) -> None:
    rule, damage = WRONG[name]
    history = right()

    damage(history)

    assert {violation.rule for violation in judge_tasks(history)} == {rule}


def test_each_rule_is_tried() -> None:
    assert {rule for rule, _ in WRONG.values()} == set(TASK_RULES)


def test_tasks_may_end_late_while_the_engine_is_damaged() -> None:
    history = right()
    history.has_engine_faults = True

    history.calls.append(late())

    assert judge_tasks(history) == []


def test_calls_that_become_tasks_later_may_run_several_times() -> None:
    history = right()

    history.calls.append(asking(tool="bound_later"))

    assert judge_tasks(history) == []


def test_effect_of_an_earlier_run_may_be_unknown() -> None:
    history = right()

    history.runs += [("later", 7), ("later", 8)]  # 7 was killed
    history.calls.append(task(state("failed", error=UNKNOWN), tool="bound_later", token="later"))

    assert judge_tasks(history) == []


def test_violations_name_the_task() -> None:
    history = right()

    history.calls.append(task(state("cancelled"), steps=["sleep 1"]))

    expected = "cancelled tasks were cancelled: t resumed id ['sleep 1']: cancelled, and no client asked for it"
    assert [str(each) for each in judge_tasks(history)] == [expected]
