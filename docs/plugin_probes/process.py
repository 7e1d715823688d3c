"""Measures a server's process: time to its first response, memory, size of a response.

It writes JSON by hand, because our client would refuse a response of 50 MB, whose size is the result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import trio
from attrs import frozen

__all__ = ["Measured", "measured_call", "measured_start"]

_KEPT = 1 << 20
_MOST = 400 << 20
"""Bytes of an answer that are read."""


@frozen
class Measured:
    """A measured response.

    Args:
        milliseconds: the time until it arrived.
        answer: its first bytes.
        size: its size in bytes.
        memory: the maximum resident memory in MiB.
    """

    milliseconds: float
    answer: bytes
    size: int
    memory: float


async def measured_start(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Measured:
    """From the start of the process to its list of tools."""
    return await _measure(command, cwd, env, "tools/list", {}, 30.0, since_start=True)


async def measured_call(
    command: Sequence[str],
    tool: str,
    arguments: Mapping[str, Any],
    *,
    cwd: Path,
    env: Mapping[str, str],
    seconds: float = 30.0,
) -> Measured:
    """One call of a new process.

    Raises:
        trio.TooSlowError: no answer in these seconds.
    """
    return await _measure(command, cwd, env, "tools/call", {"name": tool, "arguments": dict(arguments)}, seconds)


async def _measure(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    method: str,
    params: Mapping[str, Any],
    seconds: float,
    *,
    since_start: bool = False,
) -> Measured:
    began = trio.current_time()
    whole = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MCPTRIO", "NODE_"))}
    process = await trio.lowlevel.open_process(
        command, cwd=cwd, env={**whole, **env}, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with trio.fail_after(seconds):
            info = {"name": "compare", "version": "1"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
            await process.stdin.send_all(_line("initialize", hello, 0))
            await _read_line(process.stdout)
            if not since_start:
                began = trio.current_time()
            initialized = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
            await process.stdin.send_all(initialized + _line(method, params, 1))
            answer, size = await _read_line(process.stdout)
        took = (trio.current_time() - began) * 1000
        status = await trio.Path(f"/proc/{process.pid}/status").read_text("ascii")
        most = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return Measured(took, answer, size, int(most.split()[1]) / 1024)
    finally:
        process.kill()
        with trio.CancelScope(shield=True), trio.move_on_after(5):
            await process.wait()
        await process.stdin.aclose()
        await process.stdout.aclose()


def _line(method: str, params: Mapping[str, Any], id: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


async def _read_line(stream: trio.abc.ReceiveStream) -> tuple[bytes, int]:
    """The beginning of the next answer, and its size. Notifications are left out."""
    kept = b""
    size = 0
    while size < _MOST:
        chunk = await stream.receive_some(1 << 20)
        if not chunk:
            raise EOFError("the server has ended")
        size += len(chunk)
        kept = (kept + chunk)[:_KEPT] if len(kept) < _KEPT else kept
        if chunk.endswith(b"\n") and b'"method"' not in kept[:60]:
            return kept, size
        if chunk.endswith(b"\n"):
            kept, size = b"", 0
    return kept, size
