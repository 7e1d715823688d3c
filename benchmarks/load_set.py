"""Load on a set of servers: our one process with six plugins, or the six reference servers.

An answer is a line with an id. The first answer of each kind is compared with the expected text, and an error in any
answer ends the measurement.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from processes import Process, shared_memory_of, started
from results import MIB, Figures
from scale import Scale
from servers import OURS, Server
from sets import KINDS, Asked, Member, our_set, reference_set, world

__all__ = ["MEMORY", "START", "measure_set", "set_row"]

START = "start of the set, ms"
MEMORY = "memory of the set, MiB"
_AFTER = "memory of the set after calls, MiB"

_CLIENT = {"name": "benchmark", "version": "1"}
_INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
_SLOWEST = 30.0
"""Seconds for one answer."""


def set_row(kind: str | None) -> str:
    """Return the name of a row.

    Args:
        kind: ``None`` for one call of each at the same time.
    """
    return f"set, {kind or 'one of each'}, calls/s"


def measure_set(server: Server, scale: Scale) -> Figures:
    """Return the milliseconds until all have listed their tools, the memory, and the calls a second of each kind."""
    with world() as made:
        members = our_set(made, server.home) if server.name == OURS.name else reference_set(made)
        starts = []
        for _ in range(scale.starts - 1):
            with ExitStack() as stack:
                starts.append(_start(members, stack)[0])
        with ExitStack() as stack:
            took, conversations = _start(members, stack)
            at_rest = sum(shared_memory_of(each.process) for each in conversations)
            for conversation in conversations:
                conversation.look()
            figures = {START: [*starts, took], MEMORY: [at_rest / MIB]}
            for kind in (None, *KINDS):
                asking = [(each, numbers) for each in conversations if (numbers := each.numbers(kind))]
                _call(asking, scale.seconds / 4)
                figures[set_row(kind)] = [_call(asking, scale.seconds)]
            figures[_AFTER] = [sum(shared_memory_of(each.process) for each in conversations) / MIB]
            return figures


def _start(members: Sequence[Member], stack: ExitStack) -> tuple[float, list[_Conversation]]:
    """Start all processes at once. Return them, and the milliseconds until the last has listed its tools."""
    began = time.perf_counter()
    conversations = []
    for member in members:
        process = started(member.interpreter, member.arguments, pipes=True, variables=member.variables)
        conversations.append(_Conversation(stack.enter_context(process), member.calls))
        conversations[-1].send(_line("initialize", _INITIALIZE))
    waiting = dict.fromkeys(conversations, False)
    while waiting:
        for conversation in _readable(list(waiting)):
            for answer in conversation.answers():
                if not waiting[conversation]:
                    waiting[conversation] = True
                    conversation.send(_INITIALIZED + _line("tools/list", {}))
                else:
                    del waiting[conversation]
                    conversation.check(answer)
    return (time.perf_counter() - began) * 1000, conversations


def _call(asking: Sequence[tuple[_Conversation, Sequence[int]]], seconds: float) -> float:
    """Return the answers a second. The calls are sent again when all have been answered."""
    answered = 0
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        for conversation, numbers in asking:
            conversation.call(numbers)
        for conversation, numbers in asking:
            conversation.wait(len(numbers))
            answered += len(numbers)
    return answered / (time.perf_counter() - began)


class _Conversation:
    """The conversation with one process of a set."""

    def __init__(self, process: Process, calls: Sequence[Asked]) -> None:
        self.process = process
        self.calls = calls
        self._lines = [
            _line("tools/call", {"name": each.tool, "arguments": each.arguments}, id)
            for id, each in enumerate(calls, 1)
        ]
        self._rest = b""

    def numbers(self, kind: str | None) -> list[int]:
        """Return the numbers of the calls of a kind, or of all."""
        return [number for number, call in enumerate(self.calls) if kind in (None, call.kind)]

    def check(self, listed: bytes) -> None:
        """Raise RuntimeError if the list lacks a tool that is called."""
        names = {tool["name"] for tool in json.loads(listed)["result"]["tools"]}
        if missing := {call.tool for call in self.calls} - names:
            raise RuntimeError(f"expected a list of tools, got one without {', '.join(missing)}")

    def look(self) -> None:
        """Make every call once, and check its answer."""
        for call, line in zip(self.calls, self._lines, strict=True):
            self.send(line)
            answer = self.wait(1)[0]
            if call.expected.encode() not in answer:
                raise RuntimeError(f"expected {call.expected!r} of {call.tool}, got {answer[:500]!r}")

    def call(self, numbers: Sequence[int]) -> None:
        """Send the calls with these numbers."""
        self.send(b"".join(self._lines[number] for number in numbers))

    def wait(self, count: int) -> list[bytes]:
        """Wait for this number of answers, and return them."""
        got: list[bytes] = []
        while len(got) < count:
            _readable([self])
            got += self.answers()
        return got

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        while data:
            data = data[os.write(self.process.stdin.fileno(), data) :]

    def answers(self) -> list[bytes]:
        """Return the complete answers received so far. Any other message is an error."""
        chunk = os.read(self.fileno(), 1 << 16)
        if not chunk:
            raise RuntimeError("the server has ended")
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        found = [line for line in lines if b'"result":' in line or b'"error":' in line]
        for line in found:
            if b'"error":' in line or b'"isError":true' in line:
                raise RuntimeError(f"expected an answer, got {line[:500]!r}")
        return found

    def fileno(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()


def _readable(conversations: Sequence[_Conversation]) -> list[_Conversation]:
    ready, _, _ = select.select(conversations, [], [], _SLOWEST)
    if not ready:
        raise RuntimeError(f"expected an answer within {_SLOWEST:g} s")
    return ready


def _line(method: str, params: Mapping[str, Any], id: int = 0) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"
