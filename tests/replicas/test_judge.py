"""The judge finds each kind of violation in a history that is wrong on purpose, and none in a right one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.replicas.history import Call, Change, Ending, History, Listener, Question, Session
from tests.replicas.judge import RULES, judge

__all__: list[str] = []


def result(text: str, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}], **more}}


def error() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "whether it was carried out is not known"}}


def call(**more: Any) -> Call:
    plain: dict[str, Any] = {
        "answers": [result("t")],
        "ending": Ending.ANSWERED,
        "ended": 2.0,
        "expected": "t",
        "events": ["p1/0", "p1/1", "p1/2"],
        "marks": [0, 1],
        "all_marks": 2,
    }
    return Call("c", "session-1", 1, more.pop("tool", "slow"), "t", 1.0, **{**plain, **more})


def right() -> History:
    """Return a history with something of each kind, and no violation."""
    question = Question("q", "a", acknowledged=1.5)
    return History(
        sessions=[Session("c", "session-1", [(1.0, 200, "POST"), (3.0, 404, "POST")], leaving=2.0, left=2.5)],
        calls=[
            call(),
            call(answers=[error()], marks=[0], events=["p1/0", "p1/1"]),
            call(tool="ask", answers=[result("t a")], expected=None, questions=[question], marks=[], all_marks=0),
            call(tool="ask", answers=[error()], expected=None, questions=[question], marks=[], all_marks=0),
            call(tool="hold", answers=[], ending=Ending.CLOSED, cancelled=1.5, marks=[0]),
            call(tool="echo", answers=[], ending=Ending.UNCERTAIN, events=[], marks=[]),
            call(tool="charge", marks=[], all_marks=0, events=[]),
        ],
        listeners=[Listener("l", "doc:///left", 0.0, [(0.1, 0), (2.0, 2)], ["g1/0", "g1/1", "g2/0"])],
        changes=[Change("doc:///left", 1, 1.0), Change("doc:///left", 2, 1.5)],
        effects=["t", "of an uncertain call"],
        end=10.0,
    )


def test_a_right_history_has_no_violation() -> None:
    assert judge(right()) == []


WRONG: dict[str, tuple[str, Callable[[History], Any]]] = {
    "a gap": ("events in order", lambda h: h.calls.append(call(events=["p1/0", "p1/2"]))),
    "the first event is missing": ("events in order", lambda h: h.calls.append(call(events=["p1/1"]))),
    "an event twice": ("events in order", lambda h: h.calls.append(call(events=["p1/0", "p1/0"]))),
    "an event of another stream": ("events in order", lambda h: h.calls.append(call(events=["p1/0", "p2/1"]))),
    "no id of an event": ("events in order", lambda h: h.calls.append(call(events=["p1/00"]))),
    "a gap in a GET stream": ("GET streams in order", lambda h: h.listeners[0].events.append("g2/2")),
    "an event of a GET stream twice": ("GET streams in order", lambda h: h.listeners[0].events.append("g1/1")),
    "a log message twice": ("log messages in order", lambda h: h.calls.append(call(marks=[0, 0]))),
    "a log message missing": ("log messages in order", lambda h: h.calls.append(call(marks=[0]))),
    "two responses": ("one response", lambda h: h.calls.append(call(answers=[result("t"), error()]))),
    "no response": ("one response", lambda h: h.calls.append(call(answers=[], ending=Ending.OPEN))),
    "a stream without a response": ("one response", lambda h: h.calls.append(call(answers=[], ending=Ending.CLOSED))),
    "a cancelled call that runs": (
        "one response",
        lambda h: h.calls.append(call(answers=[], ending=Ending.OPEN, cancelled=1.2)),
    ),
    "a refused resumption": (
        "one response",
        lambda h: h.calls.append(call(answers=[], ending=Ending.UNCERTAIN, refused=["400 gone"])),
    ),
    "the result of another call": ("right results", lambda h: h.calls.append(call(answers=[result("other")]))),
    "a failed tool": ("right results", lambda h: h.calls.append(call(answers=[result("broken", isError=True)]))),
    "a live session is not found": ("sessions live", lambda h: h.sessions[0].statuses.append((1.5, 404, "GET"))),
    "an ended session is found": ("sessions live", lambda h: h.sessions[0].statuses.append((4.0, 200, "POST"))),
    "an answer that did not arrive": (
        "answers arrive",
        lambda h: h.calls.append(call(expected=None, questions=[Question("q", "a", acknowledged=1.5)])),
    ),
    "an effect twice": ("effects once", lambda h: h.effects.append("t")),
    "an effect of a refused call": (
        "effects once",
        lambda h: h.calls.append(call(tool="charge", answers=[], ending=Ending.REFUSED)),
    ),
    "a result without its effect": ("effects once", lambda h: h.effects.remove("t")),
    "a change that did not arrive": ("changes arrive", lambda h: h.changes.append(Change("doc:///left", 3, 5.0))),
    "a subscriber that never read": (
        "changes arrive",
        lambda h: h.listeners.append(Listener("l", "doc:///left", 0.0)),
    ),
    "a replica that ended": ("replicas stay", lambda h: h.exits.append("mcptrio: the engine cannot be reached")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_has_a_violation_of_one_rule(name: str) -> None:
    rule, damage = WRONG[name]
    history = right()

    damage(history)

    assert {violation.rule for violation in judge(history)} == {rule}


def test_each_rule_is_tried() -> None:
    assert {rule for rule, _ in WRONG.values()} == set(RULES)


def test_a_session_may_be_lost_with_a_store_that_is_not_durable() -> None:
    history = right()
    history.durable = False

    history.sessions[0].statuses.append((1.5, 404, "GET"))

    assert judge(history) == []


def test_a_subscriber_that_left_misses_nothing() -> None:
    history = right()

    history.changes.append(Change("doc:///left", 3, 5.0))
    history.listeners[0].left = 4.0

    assert judge(history) == []


def test_violations_name_the_call() -> None:
    history = right()

    history.calls.append(call(answers=[result("other")]))

    assert str(judge(history)[0]) == "right results: c session- slow 1: expected 't', got 'other'"
