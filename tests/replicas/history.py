"""Messages that the clients of several replicas have sent and received: the input of the judge.

Times are seconds of the Trio clock of the trial.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from attrs import define, field, frozen

__all__ = [
    "Call",
    "Change",
    "Delivery",
    "Ending",
    "History",
    "LimitedRequest",
    "Listener",
    "LocalQuota",
    "Proof",
    "Question",
    "RateLimits",
    "Session",
]


class Ending(Enum):
    """How a call has ended for its client."""

    OPEN = "open"
    """The client gave up: no response within its deadline."""
    ANSWERED = "answered"
    REFUSED = "refused"
    """Refused with 503, so nothing may have run."""
    UNCERTAIN = "uncertain"
    """The connection broke, or a proxy failed, before the client had anything to resume from."""
    CLOSED = "closed"
    """The stream is complete and has no response."""


@define
class Question:
    """A request of the server within a call, and the answer to it."""

    id: Any
    answer: str
    acknowledged: float | None = None
    """When the answer got its 202."""


@define
class Call:
    """One call of a tool, with everything that its client received.

    Attributes:
        token: Unique in the trial; an argument of the tool.
        answers: Every JSON-RPC response with the id of the call, in the order of arrival.
        expected: The text of a successful result; ``None`` if any may come.
        events: Ids of events, in the order of arrival over all connections.
        marks: The numbers that the tool has put into its log messages, in the order of arrival.
        all_marks: How many log messages precede a successful result.
        refused: Status codes that are neither a success nor one of 502, 503 and 504, with the body.
        cancelled: When the cancellation got its 202.
    """

    client: str
    session: str
    id: Any
    tool: str
    token: str
    sent: float
    expected: str | None = None
    answers: list[dict[str, Any]] = field(factory=list)
    events: list[str] = field(factory=list)
    marks: list[int] = field(factory=list)
    all_marks: int = 0
    questions: list[Question] = field(factory=list)
    refused: list[str] = field(factory=list)
    cancelled: float | None = None
    ending: Ending = Ending.OPEN
    ended: float | None = None

    @property
    def text(self) -> str | None:
        """The text of the successful result, or ``None``."""
        if not self.answers:
            return None
        result = self.answers[0].get("result")
        if result is None or result.get("isError"):
            return None
        text: str = result["content"][0]["text"]
        return text


@define
class Session:
    """A handshake session that a client has opened.

    Attributes:
        statuses: Time, status and method of each response to a request of the session.
        leaving: When the client sent the DELETE.
        left: When the DELETE was acknowledged.
    """

    client: str
    id: str
    statuses: list[tuple[float, int, str]] = field(factory=list)
    leaving: float | None = None
    left: float | None = None


@define
class Listener:
    """A subscription to one resource. The client reads the resource after each notification of a change.

    Attributes:
        reads: Time and version of each read.
        events: Ids of the events of its GET streams, in the order of arrival; a client notes them once.
        left: When the client gave the subscription up; ``None`` if it was open at the end.
    """

    client: str
    uri: str
    subscribed: float
    reads: list[tuple[float, int]] = field(factory=list)
    events: list[str] = field(factory=list)
    left: float | None = None


@define
class Change:
    """A change of a resource, whose notification was published before it was acknowledged."""

    uri: str
    version: int
    acknowledged: float


@frozen
class RateLimits:
    """The limits of the plugin ``rate_limit`` in a trial, which hold for all replicas.

    So low that clients ask for several times as much in the seconds in which a store fails.
    """

    per_second: float = 5.0
    burst: int = 3


@define
class LimitedRequest:
    """A request that ``rate_limit`` counts.

    Attributes:
        ran: When its handler has run, each time. It was allowed between ``sent`` and then.
        refused: When its refusal arrived. It was refused between ``sent`` and then.
    """

    token: str
    sent: float
    ran: list[float] = field(factory=list)
    refused: float | None = None


@frozen
class LocalQuota:
    """A period in which a replica counted requests for itself, because its store failed.

    Attributes:
        replicas: The number by which it divided the limits.
    """

    replica: str
    replicas: int
    begun: float
    ended: float


class Delivery(Enum):
    """How a request with a proof has ended for its client."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNCERTAIN = "uncertain"
    """Refused with 502, 503 or 504, or the connection broke. Whether the proof is used up is not known."""
    WRONG = "wrong"
    """Any other response."""


@define
class Proof:
    """A proof of possession (DPoP), and the outcome of each request that contained it.

    Attributes:
        token: An argument of the tool, the same in all requests.
        runs: How often the tool has run.
        wrong: The responses that are wrong.
    """

    token: str
    deliveries: list[Delivery] = field(factory=list)
    runs: int = 0
    wrong: list[str] = field(factory=list)


@define
class History:
    """Everything that the clients and the replicas of a trial recorded.

    Attributes:
        durable: Whether the stores keep what they have acknowledged, whatever fault happens.
        is_calm: Whether no fault has happened.
        effects: The token of each effect that has run.
        local_quotas: For each replica, the periods in which it counted for itself.
        exits: Replicas that have ended although no fault ended them, with their last words.
        end: When the trial has ended.
    """

    durable: bool = True
    is_calm: bool = False
    sessions: list[Session] = field(factory=list)
    calls: list[Call] = field(factory=list)
    listeners: list[Listener] = field(factory=list)
    changes: list[Change] = field(factory=list)
    effects: list[str] = field(factory=list)
    limits: RateLimits = field(factory=RateLimits)
    limited: list[LimitedRequest] = field(factory=list)
    local_quotas: list[LocalQuota] = field(factory=list)
    proofs: list[Proof] = field(factory=list)
    exits: list[str] = field(factory=list)
    end: float = 0.0
