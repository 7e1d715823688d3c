"""The stdio channel in a separate process: descriptors 0, 1 and 2, children, the interpreter's exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcptrio.protocol.messages import Request, Response
from mcptrio.transports.lines import to_lines

ROOT = Path(__file__).resolve().parent.parent.parent
WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""

SERVER = """
import ctypes, os, subprocess, sys, trio
from mcptrio.protocol.messages import Request, Response
from mcptrio.transports.stdio import open_stdio
from mcptrio.transports import fd_streams as descriptors
from mcptrio.transports import stdio

async def main():
    async with open_stdio() as channel:
        while True:
            try:
                received = await channel.receive()
            except trio.EndOfChannel:
                break
            {body}
            await channel.send([Response(each.id, each.params or {{}}) for each in received])
    {after}

{before}
trio.run(main)
"""


def start(
    *, before: str = "pass", body: str = "pass", after: str = "pass", stderr: int = subprocess.PIPE, redirect: str = ""
) -> subprocess.Popen[bytes]:
    code = SERVER.format(before=before, body=body, after=after)
    return subprocess.Popen(
        ["sh", "-c", f'exec "$0" -X dev -c "$1" {redirect}', sys.executable, code],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def talk(
    data: bytes, *, before: str = "pass", body: str = "pass", after: str = "pass", redirect: str = ""
) -> tuple[bytes, bytes, int]:
    """Return the server's standard output, standard error and exit status."""
    with start(before=before, body=body, after=after, redirect=redirect) as process:
        try:
            out, err = process.communicate(data, timeout=WAIT_TIMEOUT)
        finally:
            process.kill()
    return out, err, process.returncode


REQUESTS = to_lines([Request(n, "echo", {"n": n}) for n in range(3)])
ANSWERS = to_lines([Response(n, {"n": n}) for n in range(3)])


def test_requests_are_answered_until_the_end_of_input() -> None:
    assert talk(REQUESTS) == (ANSWERS, b"", 0)


def test_stray_output_goes_to_standard_error() -> None:
    ways = (
        "print('print')",
        "print('flush', flush=True)",
        "sys.stdout.buffer.write(b'buffer')",
        "os.write(1, b'descriptor')",
        "subprocess.run(['echo', 'child'], check=True)",
        "os.system('echo shell')",
        "ctypes.CDLL(None).puts(b'puts')",
        "ctypes.CDLL(None).printf(b'formatted')",
    )
    out, err, code = talk(REQUESTS, body="; ".join(ways))

    assert (out, code) == (ANSWERS, 0)
    for message in (b"print", b"flush", b"buffer", b"descriptor", b"child", b"shell", b"puts", b"formatted"):
        assert message in err


def test_output_printed_before_the_channel_goes_to_stderr() -> None:
    """This holds while the output is in a buffer; so open the channel before anything prints."""
    out, err, code = talk(REQUESTS, before="print('early')")

    assert (out, code) == (ANSWERS, 0)
    assert b"early" in err


def test_standard_output_is_restored_after_the_channel() -> None:
    out, err, code = talk(REQUESTS, after="print('afterwards', flush=True)")

    assert (out, err, code) == (ANSWERS + b"afterwards\n", b"", 0)


def test_standard_output_is_not_restored_in_an_exiting_process() -> None:
    """An abandoned thread may print at the very end."""
    once = "import functools; open_stdio = functools.partial(open_stdio, restore=False)"
    out, err, code = talk(to_lines([Request(1, "x")]), before=once, after="print('late')")

    assert (out, code) == (to_lines([Response(1, {})]), 0)
    assert b"late" in err


def test_input_is_not_consumed_by_children() -> None:
    lines = to_lines([Request(n, "echo", {"text": "x" * 1000}) for n in range(500)])
    out, err, code = talk(lines, body="subprocess.run(['cat']); sys.stdin.read(); os.read(0, 1000)")

    assert (out.count(b"\n"), err, code) == (500, b"", 0)


def test_surviving_child_does_not_keep_the_streams_open(tmp_path: Path) -> None:
    with (tmp_path / "err").open("wb") as err:
        process = start(body="print(subprocess.Popen(['sleep', '300']).pid, flush=True)", stderr=err.fileno())
    with process:
        out, _ = process.communicate(REQUESTS[: REQUESTS.index(b"\n") + 1], timeout=WAIT_TIMEOUT)
    child = next(int(line) for line in (tmp_path / "err").read_text().splitlines() if line.isdigit())
    os.kill(child, signal.SIGKILL)  # so the child was alive

    assert (out, process.returncode) == (ANSWERS[: ANSWERS.index(b"\n") + 1], 0)


@pytest.mark.parametrize("redirect", ["<&-", "<&- 2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_missing_standard_input_is_an_end_of_input(redirect: str) -> None:
    """Another file, such as Trio's own, that got its descriptor stays intact."""
    assert talk(b"", redirect=redirect, after="await trio.sleep(0.01)") == (b"", b"", 0)


@pytest.mark.parametrize("redirect", ["2>&-", "2>&- 2</dev/null"])
def test_server_runs_without_standard_error(redirect: str) -> None:
    assert talk(REQUESTS, redirect=redirect, body="print('stray')") == (ANSWERS, b"", 0)


def test_server_without_standard_output_fails() -> None:
    out, err, code = talk(REQUESTS, redirect=">&-", body="print('stray')")

    assert (out, code) == (b"", 1)
    assert b"ConnectionClosed: standard output is closed" in err


def test_output_and_errors_can_share_a_pipe() -> None:
    """A thread writes in this case: others may fill the pipe between a poll and a write."""
    process = start(stderr=subprocess.STDOUT)
    with process:
        out, _ = process.communicate(REQUESTS, timeout=WAIT_TIMEOUT)

    assert (out, process.returncode) == (ANSWERS, 0)


def test_thread_blocked_in_a_read_does_not_delay_the_exit() -> None:
    """On systems where pipes cannot be polled, a thread reads them. The peer keeps the pipe open."""
    body = """
            await channel.send([Response(each.id, each.params or {}) for each in received])
            with trio.move_on_after(0.1):
                await channel.receive()
            break"""
    with start(before="stdio.open_reader = descriptors.ThreadReader", body=body) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(REQUESTS)
        process.stdin.flush()
        out = process.stdout.read(len(ANSWERS))
        # A delayed exit would wait until this pipe is closed.
        code = process.wait(timeout=WAIT_TIMEOUT)

        assert (out, code, process.stderr.read()) == (ANSWERS, 0, b"")
