"""Finds violations in a history. Each rule is a pure function of the history.

The rules are those of docs/replicas.md. A rule that a fault may break without a violation says so: an answer that is an
error is always allowed, because a replica that ends cannot say whether its call was carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from attrs import frozen

from mcptrio.stores import read_event_id
from tests.replicas.history import Call, Ending, History
from tests.replicas.limit_rules import proofs_once, quota_holds, quota_is_used

__all__ = ["CHANGE_SECONDS", "RULES", "Violation", "judge"]

CHANGE_SECONDS: Final = 20.0
"""Seconds after the last acknowledged change, without faults, in which every subscriber must have seen it."""

_ROUTER_STATUSES = (502, 503, 504)


@frozen
class Violation:
    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.what}"


def judge(history: History) -> list[Violation]:
    """Return the violations of all rules."""
    return [Violation(name, where, what) for name, rule in RULES.items() for where, what in rule(history)]


Found = Iterator[tuple[str, str]]
"""Where a rule is violated, and how."""


def events_in_order(history: History) -> Found:
    """The events of a call are those of one stream, each once, in order and without a gap, from the first."""
    for call in history.calls:
        stream: str | None = None
        for expected, id in enumerate(call.events):
            read = read_event_id(id)
            if read is None:
                yield _name(call), f"{id!r} is not the id of an event"
                break
            if stream is not None and read[0] != stream:
                yield _name(call), f"expected an event of {stream}, got {id}"
                break
            stream = read[0]
            if read[1] != expected:
                kind = "a gap" if read[1] > expected else "a repetition"
                yield _name(call), f"expected position {expected}, got {id}: {kind}"
                break


def get_streams_in_order(history: History) -> Found:
    """Each stream that a listener reads is read from its first event, in order, and no event twice.

    The GET streams of a session follow each other, on whatever replica they are.
    """
    for listener in history.listeners:
        positions: dict[str, int] = {}
        for id in listener.events:
            read = read_event_id(id)
            if read is None:
                yield f"{listener.client} {listener.uri}", f"{id!r} is not the id of an event"
                break
            stream, position = read
            expected = positions.get(stream, -1) + 1
            if position != expected:
                yield f"{listener.client} {listener.uri}", f"expected position {expected}, got {id}"
                break
            positions[stream] = position


def marks_in_order(history: History) -> Found:
    """Log messages of a call arrive once and in order; before a successful result, all of them."""
    for call in history.calls:
        expected = list(range(len(call.marks)))
        if call.marks != expected:
            yield _name(call), f"expected log messages {expected}, got {call.marks}"
        elif call.text is not None and len(call.marks) != call.all_marks:
            yield _name(call), f"expected {call.all_marks} log messages before the result, got {len(call.marks)}"


def one_response(history: History) -> Found:
    """Each request has one response; none only if the client has cancelled it or could not know a stream."""
    for call in history.calls:
        if len(call.answers) > 1:
            yield _name(call), f"{len(call.answers)} responses"
        if call.refused:
            yield _name(call), f"refused: {call.refused[0]}"
        elif call.ending is Ending.OPEN:
            asked = "cancelled, and still runs" if call.cancelled is not None else "no response"
            yield _name(call), f"{asked} {history.end - call.sent:.1f} s after it was sent"
        elif call.ending is Ending.CLOSED and call.cancelled is None:
            yield _name(call), "the stream is complete without a response"


def results_are_right(history: History) -> Found:
    """A successful result is the one of this call."""
    for call in history.calls:
        text = call.text
        result = call.answers[0].get("result", {}) if call.answers else {}
        if result.get("isError"):
            # A replica that cannot tell what has become of a call answers with an error of JSON-RPC.
            yield _name(call), f"the tool has failed: {result['content'][0]['text'][:200]}"
        if text is not None and call.expected is not None and text != call.expected:
            yield _name(call), f"expected {call.expected!r}, got {text!r}"


def sessions_live(history: History) -> Found:
    """A session that its client has not ended is found, while the store is durable; one that was ended is not."""
    for session in history.sessions:
        for when, status, method in session.statuses:
            is_left = session.leaving is not None and when >= session.leaving
            if status == 404 and history.durable and not is_left:
                yield f"{session.client} {session.id[:8]}", f"404 for a live session, at {when:.2f} s, {method}"
            if session.left is not None and when > session.left and status not in (404, *_ROUTER_STATUSES):
                yield f"{session.client} {session.id[:8]}", f"expected 404 after the session ended, got {status}"


def answers_arrive(history: History) -> Found:
    """An answer that was acknowledged reaches the handler, or the call ends with an error."""
    for call in history.calls:
        acknowledged = [question for question in call.questions if question.acknowledged is not None]
        if not acknowledged or call.ending is Ending.OPEN:
            continue  # a call that never ends is reported by one_response
        text = call.text
        if text is not None and acknowledged[-1].answer not in text:
            yield _name(call), f"answered {acknowledged[-1].answer!r}, and the result is {text!r}"


def effects_once(history: History) -> Found:
    """An effect happens at most once, exactly once before a successful result, and never for a refused request."""
    times = Counter(history.effects)
    for token, count in times.items():
        if count > 1:
            yield token, f"the effect has happened {count} times"
    for call in history.calls:
        if call.tool != "charge":
            continue
        if call.ending is Ending.REFUSED and times[call.token]:
            yield _name(call), "refused, and the effect has happened"
        if call.text is not None and not times[call.token]:
            yield _name(call), "a successful result, and the effect has not happened"


def changes_arrive(history: History) -> Found:
    """A subscriber reads each acknowledged change, or a later version, after a notification."""
    newest: dict[str, int] = {}
    for change in history.changes:
        newest[change.uri] = max(newest.get(change.uri, 0), change.version)
    for listener in history.listeners:
        if listener.left is not None:
            continue
        expected = newest.get(listener.uri, 0)
        seen = max((version for _, version in listener.reads), default=0)
        if seen < expected:
            last = listener.reads[-1][0] if listener.reads else listener.subscribed
            what = f"expected version {expected}, read {seen} at {last:.2f} s and nothing later"
            yield f"{listener.client} {listener.uri}", what


def replicas_stay(history: History) -> Found:
    """A replica ends only on a signal. Faults of the engine do not end it, not even while it starts."""
    for message in history.exits:
        yield "a replica", f"ended by itself: {message}"


RULES: Final[dict[str, Callable[[History], Found]]] = {
    "events in order": events_in_order,
    "GET streams in order": get_streams_in_order,
    "log messages in order": marks_in_order,
    "one response": one_response,
    "right results": results_are_right,
    "sessions live": sessions_live,
    "answers arrive": answers_arrive,
    "effects once": effects_once,
    "changes arrive": changes_arrive,
    "replicas stay": replicas_stay,
    "quota holds": quota_holds,
    "quota is used": quota_is_used,
    "proofs once": proofs_once,
}


def _name(call: Call) -> str:
    return f"{call.client} {call.session[:8]} {call.tool} {call.id}"
