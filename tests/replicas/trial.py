"""The state that the clients of one trial share: the address of the service, the history, and when to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import trio
from attrs import define, field

from tests.replicas.history import Call, Change, Ending, History
from tests.replicas.raw_http import Broken, Reply

__all__ = ["CALL_SECONDS", "DOCUMENTS", "FOLLOWED", "REPLY_SECONDS", "ROUTER_STATUSES", "Trial", "text_of"]

CALL_SECONDS: Final = 45.0
"""Seconds after the last fault in which every call must have ended, whatever has happened."""
REPLY_SECONDS: Final = 12.0
"""Seconds without a byte after which a client gives a connection up; keepalives come each 2 s."""
ROUTER_STATUSES: Final = (502, 503, 504)
"""Responses of a proxy without a server, or of a server without its store. The client tries again."""
DOCUMENTS: Final = tuple(f"page{number}" for number in range(24))
"""So many that few lost changes are hidden by a later change of the same document."""
FOLLOWED: Final = 8
"""Documents that one listener subscribes to."""
_PAUSE: Final = 0.1


@define
class Trial:
    """The state that the clients of a trial share.

    Attributes:
        ports: The ports of the proxies in front of the replicas, which requests use in turn.
        counts: The number of each kind of event, for the report.
        stopping: Set when clients must not start new calls.
    """

    ports: Sequence[int]
    history: History
    counts: Counter[str] = field(factory=Counter)
    stopping: trio.Event = field(factory=trio.Event)
    gaps: list[float] = field(factory=list)
    """Seconds between a broken stream and its next event."""
    _tokens: int = 0
    _requests: int = 0

    @property
    def port(self) -> int:
        """The proxy for the next request."""
        self._requests += 1
        return self.ports[self._requests % len(self.ports)]

    @property
    def is_stopping(self) -> bool:
        return self.stopping.is_set()

    def now(self) -> float:
        return trio.current_time()

    def token(self, client: str) -> str:
        self._tokens += 1
        return f"{client}-{self._tokens}"

    def new_call(
        self, client: str, id: Any, tool: str, random: Random, *, session: str = "", asks: bool = False
    ) -> tuple[Call, dict[str, Any]]:
        """Return a call of a tool of the trial, and its arguments.

        Args:
            asks: Whether ``charge`` asks questions.
        """
        token = self.token(client)
        arguments: dict[str, Any] = {"token": token}
        call = Call(client, session, id, tool, token, self.now())
        match tool:
            case "echo":
                arguments = {"text": token}
                call.expected = token
            case "slow":
                call.all_marks = random.randint(2, 6)
                call.expected = token
                arguments |= {"count": call.all_marks, "pause": round(random.uniform(0.05, 0.4), 2)}
            case "charge":
                # With questions, their answers follow the token.
                call.expected = None if asks else token
                arguments |= {"asks": asks}
            case "touch":
                call.token = random.choice(DOCUMENTS)
                arguments = {"name": call.token}
        return call, arguments

    async def pause(self, random: Random, seconds: float) -> None:
        """Think, like a client between two calls."""
        with trio.move_on_after(random.uniform(0.2, 1.8) * seconds):
            await self.stopping.wait()

    async def before_retry(self) -> None:
        await trio.sleep(_PAUSE)

    def failed(self, what: str, error: Broken | trio.TooSlowError) -> None:
        reached = not isinstance(error, Broken) or error.reached
        self.counts[f"{what}: {'broken' if reached else 'unreachable'}"] += 1

    def changed(self, call: Call) -> None:
        """Note the change that a call of ``touch`` has acknowledged."""
        if call.text is not None:
            self.history.changes.append(Change(f"doc:///{call.token}", int(call.text), self.now()))

    def ended(self, call: Call) -> None:
        call.ended = self.now()
        kind = call.ending.value
        if call.ending is Ending.ANSWERED and call.text is None:
            kind = "error"
        self.counts[f"{call.tool}: {kind}"] += 1


def text_of(reply: Mapping[str, Any]) -> str:
    """Return the text of a resource that was read."""
    text: str = reply["result"]["contents"][0]["text"]
    return text


async def refusal(reply: Reply) -> str:
    """Return a refusal with its body, for people."""
    return f"{reply.status} {(await reply.read())[:200]!r}"
