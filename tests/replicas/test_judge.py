"""The judge finds each kind of violation in a history that is wrong on purpose, and none in a right one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.error_codes import INTERNAL_ERROR
from tests.replicas.history import (
    Call,
    Change,
    Delivery,
    Ending,
    History,
    LimitedRequest,
    Listener,
    LocalQuota,
    Proof,
    Question,
    RateLimits,
    Session,
)
from tests.replicas.judge import RULES, judge

__all__: list[str] = []


def result(text: str, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}], **more}}


def error() -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": INTERNAL_ERROR, "message": "whether it was carried out is not known"},
    }


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


def allowed(*, times: int, begun: float, seconds: float = 0.0) -> list[LimitedRequest]:
    """Return requests that were allowed at regular times."""
    steps = [begun + seconds * step / times for step in range(times)]
    return [LimitedRequest("t", step - 0.01, [step]) for step in steps]


def refused(*, times: int, begun: float, seconds: float) -> list[LimitedRequest]:
    steps = [begun + seconds * step / times for step in range(times)]
    return [LimitedRequest("t", step - 0.01, refused=step) for step in steps]


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
        is_calm=True,
        limits=RateLimits(per_second=10.0, burst=9),
        # At once a burst of 9, then 10 a second, and clients that ask for more.
        limited=[
            *allowed(times=9, begun=1.0),
            *allowed(times=30, begun=1.1, seconds=3.0),
            *refused(times=30, begun=1.2, seconds=3.0),
        ],
        proofs=[
            Proof("p1", [Delivery.REFUSED, Delivery.ACCEPTED, Delivery.REFUSED], runs=1),
            Proof("p2", [Delivery.REFUSED, Delivery.UNCERTAIN], runs=0),
            Proof("p3", [Delivery.REFUSED, Delivery.UNCERTAIN], runs=1),
        ],
        end=10.0,
    )


def test_right_history_has_no_violation() -> None:
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
    "a burst that is too large": ("quota holds", lambda h: h.limited.extend(allowed(times=10, begun=8.0))),
    "a rate that is too high": ("quota holds", lambda h: h.limited.extend(allowed(times=60, begun=5.0, seconds=3.0))),
    "a request that ran twice": ("quota holds", lambda h: h.limited.append(LimitedRequest("t", 5.0, [5.0] * 10))),
    "a replica that allowed more than its part": (
        "quota holds",
        lambda h: (
            h.limited.extend(allowed(times=22, begun=8.0, seconds=0.1)),
            h.local_quotas.append(LocalQuota("replica0", 3, 7.0, 9.0)),
        ),
    ),
    "a rate that was not allowed": (
        "quota is used",
        lambda h: h.limited.extend(refused(times=30, begun=4.2, seconds=3.0)),
    ),
    "a proof accepted twice": ("proofs once", lambda h: h.proofs.append(Proof("p", [Delivery.ACCEPTED] * 2, 1))),
    "a proof whose requests ran twice": (
        "proofs once",
        lambda h: h.proofs.append(Proof("p", [Delivery.ACCEPTED, Delivery.UNCERTAIN], 2)),
    ),
    "a new proof that was refused": ("proofs once", lambda h: h.proofs.append(Proof("p", [Delivery.REFUSED] * 3))),
    "another status for a proof": (
        "proofs once",
        lambda h: h.proofs.append(Proof("p", [Delivery.ACCEPTED, Delivery.WRONG], 1, ["500 b''"])),
    ),
    "a replica that ended": ("replicas stay", lambda h: h.exits.append("mcptrio: the engine cannot be reached")),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_history_has_a_violation_of_one_rule(name: str) -> None:
    rule, damage = WRONG[name]
    history = right()

    damage(history)

    assert {violation.rule for violation in judge(history)} == {rule}


def test_each_rule_is_tried() -> None:
    assert {rule for rule, _ in WRONG.values()} == set(RULES)


def test_session_may_be_lost_with_a_store_that_is_not_durable() -> None:
    history = right()
    history.durable = False

    history.sessions[0].statuses.append((1.5, 404, "GET"))

    assert judge(history) == []


def test_subscriber_that_left_misses_nothing() -> None:
    history = right()

    history.changes.append(Change("doc:///left", 3, 5.0))
    history.listeners[0].left = 4.0

    assert judge(history) == []


def test_replicas_allow_their_part_while_the_store_fails() -> None:
    history = right()

    history.limited += allowed(times=9, begun=8.0)
    history.limited += allowed(times=6, begun=8.1)
    history.local_quotas += [LocalQuota(f"replica{number}", 3, 8.0, 8.2) for number in range(3)]

    assert judge(history) == []


def test_requests_that_ran_late_may_have_been_allowed_before() -> None:
    """A replica was stopped with requests that were allowed one after the other."""
    history = right()

    history.limited += [LimitedRequest("t", 5.0 + step / 10, [9.0]) for step in range(30)]

    assert judge(history) == []


def test_clients_that_ask_for_little_are_allowed_little() -> None:
    history = right()

    history.limited += [*refused(times=1, begun=5.5, seconds=1.0), *refused(times=1, begun=7.5, seconds=1.0)]

    assert judge(history) == []


def test_violations_name_the_call() -> None:
    history = right()

    history.calls.append(call(answers=[result("other")]))

    assert str(judge(history)[0]) == "right results: c session- slow 1: expected 't', got 'other'"
