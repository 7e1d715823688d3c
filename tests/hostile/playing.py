"""Plays the cases against a server, many at a time, and judges the results.

The tests of this directory use it. During the attacks, a well-behaved client sends requests without a pause, and must
get its answers.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from attrs import define

from tests.hostile.answers import Answers, NotHTTP
from tests.hostile.cases import Await, Case, Drip, Outcome, Pause, Say, get
from tests.hostile.serving import HostileServer

__all__ = [
    "HealthyClient",
    "PlayedCase",
    "ask",
    "connect",
    "healthy_clients",
    "judge",
    "play",
    "play_all",
    "rude",
    "state",
]

PROBE: Final = b"/echo?still-open"
AT_ONCE: Final = 12
"""Cases under way at the same time; more would make every one of them slow on a small machine."""
WAIT_TIMEOUT: Final = 30.0
"""Seconds in which a well-behaved client gets a response, on a busy machine."""


@define
class PlayedCase:
    """How a case ended.

    Attributes:
        end: ``open``, ``closed``, ``reset``, ``hung``, or ``malformed`` with the reason in ``problem``.
        seconds: Seconds from the first byte sent to the end of the connection.
    """

    answers: Answers
    end: str = "hung"
    problem: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        statuses = [answer.status for answer in self.answers.complete]
        return f"answers {statuses}, interim {self.answers.interim}, {self.end} {self.problem}".rstrip()


async def connect(port: int, *, window: int = 0, source: str = "") -> trio.SocketStream:
    """Connect to a port of this machine.

    Args:
        window: The size of the receive buffer in bytes, for a client that will not read; 0 for the default.
        source: The client's own address; empty for the default.
    """
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        if source:
            await sock.bind((source, 0))
        await sock.connect(("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return trio.SocketStream(sock)


def reset(stream: trio.SocketStream) -> None:
    """Close with RST."""
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


@asynccontextmanager
async def rude(stream: trio.SocketStream) -> AsyncIterator[trio.SocketStream]:
    """Reset the connection at the end of the block, also after an exception."""
    try:
        yield stream
    finally:
        reset(stream)


async def play_all(cases: Sequence[Case], ports: Mapping[str, int]) -> dict[str, PlayedCase]:
    """Play all cases, and return the outcomes by name."""
    played: dict[str, PlayedCase] = {}
    limiter = trio.CapacityLimiter(AT_ONCE)
    slow = trio.CapacityLimiter(100)

    async def one(case: Case) -> None:
        # Cases that mostly wait do not delay the others.
        async with slow if case.takes or case.deaf else limiter:
            played[case.name] = await play(case, ports[case.port])

    async with trio.open_nursery() as nursery:
        for case in cases:
            nursery.start_soon(one, case)
    return played


async def play(case: Case, port: int) -> PlayedCase:
    played = PlayedCase(Answers(head=case.head))
    start = trio.current_time()
    with trio.move_on_after(case.seconds):
        stream = await connect(port, window=4096 if case.deaf else 0)
        async with stream:
            await _Conversation(case, stream, played).run()
    played.seconds = trio.current_time() - start
    return played


class _Conversation:
    def __init__(self, case: Case, stream: trio.SocketStream, played: PlayedCase) -> None:
        self._case = case
        self._stream = stream
        self._played = played
        self._progress = trio.Event()
        self._closed = False
        self._probed = False
        self._said = False

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say, nursery)
            if self._case.deaf:
                await trio.sleep(self._case.deaf)
            await self._listen()
            nursery.cancel_scope.cancel()

    async def _say(self, nursery: trio.Nursery) -> None:
        for step in self._case.says:
            if self._closed or not await self._say_one(step):
                break
        self._said = True
        await self._probe()
        if self._played.end == "reset here":
            nursery.cancel_scope.cancel()

    async def _say_one(self, step: Say) -> bool:
        try:
            if isinstance(step, bytes):
                await self._stream.send_all(step)
            elif isinstance(step, Pause):
                await trio.sleep(step.seconds)
            elif isinstance(step, Drip):
                for byte in step.data:
                    if self._closed:
                        return False
                    await self._stream.send_all(bytes([byte]))
                    await trio.sleep(step.every)
            elif isinstance(step, Await):
                while self._played.answers.count < step.answers and not self._closed:
                    await self._progress.wait()
            elif step.reset:
                self._played.end = "reset here"
                reset(self._stream)
                return False
            else:
                await self._stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def _listen(self) -> None:
        answers, played = self._played.answers, self._played
        try:
            while True:
                try:
                    data = await self._stream.receive_some(65536)
                except trio.BrokenResourceError:
                    played.end = "reset"
                    break
                except trio.ClosedResourceError:
                    break
                if not data:
                    played.end = "closed"
                    break
                if self._case.raw:
                    answers.unread += data
                    continue
                answers.feed(bytes(data))
                self._progress.set()
                self._progress = trio.Event()
                if self._said and await self._probe():
                    return
            if not self._case.raw:
                answers.end()
        except NotHTTP as problem:
            played.end, played.problem = "malformed", str(problem)
        finally:
            self._closed = True
            self._progress.set()

    async def _probe(self) -> bool:
        """Send one more request if the connection should still be open. Return whether it was answered."""
        answers = self._played.answers.complete
        if self._probed:
            if answers and answers[-1].status == 200 and b"still-open" in answers[-1].body:
                answers.pop()
                self._played.end = "open"
                return True
            return False
        for outcome in self._case.allowed:
            if outcome.then == "open" and _fits(outcome, [answer.status for answer in answers]):
                self._probed = True
                self._played.answers.head = False
                try:
                    await self._stream.send_all(get(PROBE))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass
                break
        return False


def judge(case: Case, played: PlayedCase) -> str | None:
    """Return the problem of a case; ``None`` if there is none."""
    if case.takes is not None and not case.takes[0] <= played.seconds <= case.takes[1]:
        return f"expected {case.takes[0]} to {case.takes[1]} s, got {played.seconds:.2f} s: {played}"
    if case.raw:
        whole = played.answers.unread.endswith(b"\r\n0\r\n\r\n")
        return (
            None if played.end in ("closed", "reset", "reset here") and not whole else f"expected an end, got {played}"
        )
    statuses = [answer.status for answer in played.answers.complete]
    wrong = []
    for outcome in case.allowed:
        ends = ("open",) if outcome.then == "open" else ("closed", "reset", "reset here")
        if played.end not in ends or not _fits(outcome, statuses) or tuple(played.answers.interim) != outcome.interim:
            continue
        problem = _unseen(outcome, played)
        if problem is None:
            return None
        wrong.append(problem)
    if wrong:
        return "; ".join(wrong)
    ways = " or ".join(_shown(outcome) for outcome in case.allowed)
    return f"expected {ways}, got {played}"


def _fits(outcome: Outcome, statuses: Sequence[int]) -> bool:
    return len(statuses) == len(outcome.answers) and all(
        status in allowed for status, allowed in zip(statuses, outcome.answers, strict=True)
    )


def _shown(outcome: Outcome) -> str:
    answers = [sorted(each) if len(each) > 1 else next(iter(each)) for each in outcome.answers]
    return f"{[*outcome.interim, *answers]} then {outcome.then}"


def _unseen(outcome: Outcome, played: PlayedCase) -> str | None:
    """Return whether the application received something else."""
    for expected, answer in zip(outcome.sees, played.answers.complete, strict=False):
        if answer.status != 200:
            continue
        seen = answer.seen
        for name, value in expected.items():
            if name == "header":
                field_name, wanted = value
                got: Any = [each for header, each in seen["headers"] if header.lower() == field_name]
                if got != wanted:
                    return f"expected the application to see {field_name} as {wanted}, it saw {got}"
            elif seen[name] != value:
                return f"expected the application to see {name} {value!r}, it saw {seen[name]!r}"
    return None


@define
class HealthyClient:
    """A well-behaved client on one connection.

    Attributes:
        slowest: The time of its slowest response, in seconds.
    """

    name: str
    answered: int = 0
    slowest: float = 0.0
    failure: str = ""

    async def run(self, stream: trio.abc.Stream, pause: float) -> None:
        answers = Answers()
        try:
            while True:
                start = trio.current_time()
                try:
                    with trio.fail_after(WAIT_TIMEOUT):
                        await stream.send_all(get(b"/echo?neighbour"))
                        while not answers.complete:
                            data = await stream.receive_some(65536)
                            if not data:
                                raise NotHTTP("closed")
                            answers.feed(bytes(data))
                except (trio.TooSlowError, trio.BrokenResourceError, NotHTTP) as error:
                    self.failure = f"answer {self.answered + 1}: {type(error).__name__} {error}"
                    return
                if answers.complete.pop().status != 200:
                    self.failure = "not 200"
                    return
                self.answered += 1
                self.slowest = max(self.slowest, trio.current_time() - start)
                await trio.sleep(pause)
        finally:
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def healthy_clients(server: HostileServer, *, pause: float = 0.02) -> AsyncIterator[list[HealthyClient]]:
    """Run one client over HTTP and one over TLS for the duration of the block."""
    clients = [HealthyClient("plain"), HealthyClient("secure")]
    tls = ssl.create_default_context(cafile=server.certificate)
    async with trio.open_nursery() as nursery:
        plain = await connect(server.ports["roomy"])
        secure = trio.SSLStream(await connect(server.ports["secure"]), tls, server_hostname="127.0.0.1")
        for client, stream in zip(clients, (plain, secure), strict=True):
            nursery.start_soon(client.run, stream, pause)
        yield clients
        # Once more at the end.
        for client in clients:
            answered = client.answered
            with trio.move_on_after(WAIT_TIMEOUT):
                while client.answered == answered and not client.failure:  # noqa: ASYNC110 - there is no event for it
                    await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


async def ask(port: int, target: bytes = b"/echo") -> Any:
    """Return the JSON of a response with status 200, on a new connection."""
    answers = Answers()
    with trio.fail_after(WAIT_TIMEOUT):
        stream = await connect(port)
        async with stream:
            await stream.send_all(get(target, b"connection: close"))
            async for data in stream:
                answers.feed(bytes(data))
            answers.end()
    (answer,) = answers.complete
    assert answer.status == 200, answer
    return json.loads(answer.body)


async def state(port: int) -> Any:
    """Return the counters of the application, once nothing is in flight, or after a minute."""
    counters: Any = {}
    with trio.move_on_after(60):
        while (counters := await ask(port, b"/state"))["running"]:  # noqa: ASYNC110 - another process changes it
            await trio.sleep(0.05)
    return counters
