"""The standard error of a child process."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from mcptrio.protocol.messages import Notification
from mcptrio.transports import child
from mcptrio.transports.child import ChildTimeouts, open_child
from tests.transports.children import PATIENT, WAIT_TIMEOUT, heard, patient, reap, server

__all__ = ["patient"]

ROOT = Path(__file__).resolve().parent.parent.parent

THREE = """
sys.stderr.write("first\\r\\n\\n  second\\nthird, without a line end")
"""


async def test_stderr_lines_are_passed_to_a_function(tmp_path: Path) -> None:
    lines: list[str] = []
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, THREE), stderr=lines.append) as channel:
            await channel.wait()

    assert lines == ["first", "  second", "third, without a line end"]
    assert channel.last_stderr_lines == ("first", "  second", "third, without a line end")


async def test_stderr_lines_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    command = server(tmp_path, THREE)
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(command) as default:
            await default.wait()
        async with open_child(command, stderr=logging.getLogger("mine")) as mine:
            await mine.wait()

    assert [(record.name, record.levelname) for record in caplog.records] == [
        *[("mcptrio.server_stderr", "INFO")] * 3,
        *[("mine", "INFO")] * 3,
    ]
    assert caplog.records[0].getMessage() == f"{default.name}: first"


async def test_stderr_is_forwarded_to_our_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, THREE), stderr="forward") as channel:
            await channel.wait()
        err = ""
        while "third" not in err:  # a thread writes it
            await trio.sleep(0.01)
            err += capfd.readouterr().err

    assert err == "first\n  second\nthird, without a line end\n"


async def test_stderr_can_be_discarded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, THREE), stderr="drop") as channel:
            await channel.wait()

    assert channel.last_stderr_lines[0] == "first"
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


async def test_stderr_lines_arrive_while_the_server_runs(tmp_path: Path) -> None:
    code = """
    sys.stderr.write("ready\\nhalf")
    sys.stderr.flush()
    echo()
    """
    send, receive = trio.open_memory_channel[str](10)
    with trio.fail_after(WAIT_TIMEOUT):
        async with send, receive, open_child(server(tmp_path, code), stderr=send.send_nowait) as channel:
            assert await receive.receive() == "ready"
            while len(channel.last_stderr_lines) < 2:  # noqa: ASYNC110 - no event, because the line has no end
                await trio.sleep(0.01)
            assert channel.last_stderr_lines == ("ready", "half")


async def test_terminal_control_characters_are_removed_from_stderr(tmp_path: Path) -> None:
    code = r"""
    sys.stderr.buffer.write(b"\x1b[31;1mred\x1b[0m\ta\x07b\x08 \x1b]0;title\xff\xe2\x80\xaeabc\n")
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            await channel.wait()

    assert channel.last_stderr_lines == ("red\tab ]0;title\ufffdabc",)


@pytest.mark.parametrize("stderr", ["drop", "call"])
async def test_stderr_flood_does_not_block_the_server_and_is_bounded(tmp_path: Path, stderr: str) -> None:
    code = """
    for n in range(50_000):
        sys.stderr.write(f"{n} " + 200 * "x" + "\\n")
    for n in range(300):
        sys.stderr.write(100_000 * "y")
    sys.stderr.write("\\n" + 10_000 * "\\n" + "end\\n")
    say(done=True)
    echo()
    """
    count = 0

    def call(line: str) -> None:
        nonlocal count
        assert len(line) <= 2000
        count += 1

    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code), stderr="drop" if stderr == "drop" else call) as channel:
            assert await heard(channel) == {"done": True}
            await channel.send([Notification("a")])
            assert await channel.receive() == [Notification("a")]

    words = channel.last_stderr_lines
    assert len(words) == 64
    assert words[-1] == "end"
    assert words[-2] == 2000 * "y"
    assert words[-3].startswith("49999 ")
    assert count == (0 if stderr == "drop" else 50_002)


async def test_other_tasks_run_during_a_flood_of_short_lines_on_stderr(tmp_path: Path) -> None:
    """30,000 lines arrive together."""
    code = """
    say(begin=True)
    while True:
        os.write(2, 65536 * b"a\\n")
    """
    lines_logged = most = 0

    def call(line: str) -> None:
        nonlocal lines_logged
        lines_logged += 1

    with trio.fail_after(WAIT_TIMEOUT):
        times = ChildTimeouts(exit=0.1, terminate=0.1)
        async with open_child(server(tmp_path, code), stderr=call, timeouts=times) as channel:
            await heard(channel)
            while lines_logged < 100_000:
                before = lines_logged
                await trio.lowlevel.checkpoint()
                most = max(most, lines_logged - before)

    assert 0 < most < 1000


async def test_exception_of_the_stderr_function_ends_the_server(tmp_path: Path) -> None:
    """The function must not raise, but the error is not lost."""

    def call(line: str) -> None:
        raise KeyError(line)

    with trio.fail_after(WAIT_TIMEOUT), pytest.raises(KeyError, match="here"):
        async with open_child(server(tmp_path, "sys.stderr.write('here\\n')\nsys.stderr.flush()\necho()"), stderr=call):
            await trio.sleep_forever()


STUCK = """
import sys, trio
from mcptrio.protocol.messages import Notification
from mcptrio.transports.child import open_child

async def main():
    async with open_child(sys.argv[1:], stderr="forward") as channel:
        print(await channel.receive())
        while channel.last_stderr_lines[-1] != "99999":
            await trio.sleep(0.01)

trio.run(main)
"""


def start_stuck(command: list[str], redirect: str) -> subprocess.Popen[bytes]:
    """Start a process that opens a child, and whose standard error is not read."""
    return subprocess.Popen(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-c", STUCK, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("redirect", ["", "2>&-"])
async def test_unread_standard_error_does_not_block(tmp_path: Path, redirect: str) -> None:
    code = """
    for n in range(100_000):
        sys.stderr.write(f"{n}\\n")
    say(done=True)
    """
    process = start_stuck(server(tmp_path, code), redirect)
    with process:
        try:
            assert process.stdout is not None
            out = await trio.to_thread.run_sync(process.stdout.read)
            assert process.wait(WAIT_TIMEOUT) == 0
        finally:
            process.kill()

    assert b"'done': True" in out


async def test_stderr_is_read_while_the_server_is_terminated(tmp_path: Path) -> None:
    """More than a pipe holds, and in a cancelled scope."""
    code = """
    sys.stdin.read()
    sys.stderr.write(20 * (10_000 * "x" + "\\n") + "goodbye\\n")
    """
    opened = []
    with trio.fail_after(WAIT_TIMEOUT), trio.CancelScope() as scope:
        async with open_child(server(tmp_path, code)) as channel:
            opened.append(channel)
            scope.cancel()
            await trio.sleep_forever()

    assert scope.cancelled_caught
    assert [(each.returncode, each.last_stderr_lines[-1]) for each in opened] == [(0, "goodbye")]


async def test_open_standard_error_does_not_delay_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon in its own session is neither awaited nor ended."""
    monkeypatch.setattr(child, "STDERR_TIMEOUT", 0.2)  # has no effect
    code = """
    child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, start_new_session=True)
    say(pid=child.pid)
    os._exit(0)
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            pid = (await heard(channel))["pid"]
            begin = trio.current_time()
        took = trio.current_time() - begin
    os.kill(pid, signal.SIGKILL)  # so the daemon was alive
    reap(pid)

    assert took < PATIENT - 1
