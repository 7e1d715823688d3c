"""How a child process, and all processes that it has started, are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from mcptrio.protocol.messages import Notification
from mcptrio.transports.child import ChildTimeouts, open_child
from tests.transports.children import PATIENT, WAIT_TIMEOUT, heard, is_kept, lives, patient, reap, server

__all__ = ["patient"]

ROOT = Path(__file__).resolve().parent.parent.parent

IMPATIENT = ChildTimeouts(exit=0.3, terminate=0.3)


async def test_child_has_its_own_process_session(tmp_path: Path) -> None:
    """Ctrl-C in the terminal therefore does not reach it."""
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path)) as channel:
            assert channel.pid == os.getpgid(channel.pid) == os.getsid(channel.pid)


async def test_child_exiting_at_end_of_input_closes_at_once(tmp_path: Path) -> None:
    command = server(tmp_path, "say(ready=True)\necho()\nos._exit(4)")
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(command) as channel:
            await heard(channel)
            begin = trio.current_time()
        took = trio.current_time() - begin

    assert channel.returncode == 4
    assert took < PATIENT - 1


async def test_large_output_at_exit_does_not_block_the_child(tmp_path: Path) -> None:
    """Its messages are no longer received, and a pipe holds 64 KiB."""
    command = server(tmp_path, "say(ready=True)\nsys.stdin.read()\nsys.stdout.write(5_000_000 * 'x')")
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(command) as channel:
            await heard(channel)

    assert channel.returncode == 0
    assert channel.last_stderr_lines == ()


@pytest.mark.parametrize(
    ("code", "returncode", "least"),
    [
        ("say(ready=True)\nwhile True: signal.pause()", -signal.SIGTERM, 0.3),
        (
            "signal.signal(signal.SIGTERM, lambda *_: os._exit(6))\nsay(ready=True)\nwhile True: time.sleep(60)",
            6,
            0.3,
        ),
        ("ignore(signal.SIGTERM)\nsay(ready=True)\nwhile True: time.sleep(60)", -signal.SIGKILL, 0.6),
        ("ignore(signal.SIGTERM)\nsay(ready=True)\nos.close(1)\ntime.sleep(60)", -signal.SIGKILL, 0.6),
        ("ignore(signal.SIGTERM)\nsay(ready=True)\nwhile True: say(flood=1000 * 'x')", -signal.SIGKILL, 0.6),
        ("ignore(signal.SIGTERM)\nsay(ready=True)\nos.kill(os.getpid(), signal.SIGSTOP)", -signal.SIGKILL, 0.6),
    ],
    ids=["ignores its input", "ends when asked", "ignores everything", "closes its output", "floods", "stops itself"],
)
async def test_child_ignoring_end_of_input_is_terminated_or_killed(
    tmp_path: Path, code: str, returncode: int, least: float
) -> None:
    killed = returncode == -signal.SIGKILL
    timeouts = IMPATIENT if killed else ChildTimeouts(exit=IMPATIENT.exit, terminate=PATIENT)
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code), timeouts=timeouts) as channel:
            await channel.receive()
            begin = trio.current_time()
        took = trio.current_time() - begin

    assert channel.returncode == returncode
    assert least <= took < PATIENT - 1
    assert not lives(channel.pid)


GRANDCHILD = """
ignore({ignored})
child = os.fork()
if child == 0:
    say(pid=os.getpid())
    while True:
        time.sleep(60)
{then}
"""


@pytest.mark.parametrize("ignored", ["", "signal.SIGTERM"], ids=["polite", "stubborn"])
@pytest.mark.parametrize("then", ["os._exit(3)", "echo()\nos._exit(3)", "os.waitpid(child, 0)"])
async def test_grandchildren_end_with_the_child(tmp_path: Path, ignored: str, then: str) -> None:
    """Whether it leaves at once, with its input, or waits for that child."""
    command = server(tmp_path, GRANDCHILD.format(ignored=ignored, then=then))
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(command, timeouts=IMPATIENT) as channel:
            pid = (await heard(channel))["pid"]
            if then == "os._exit(3)":
                assert await channel.wait() == 3
            assert lives(pid)

    assert not lives(pid)
    assert not lives(channel.pid)
    with pytest.raises(ProcessLookupError):
        os.killpg(channel.pid, 0)


async def test_process_id_is_not_reused_before_the_end(tmp_path: Path) -> None:
    """Otherwise another process group could get the id, and receive our signals."""
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, "os._exit(3)")) as channel:
            assert await channel.wait() == 3
            assert is_kept(channel.pid)

    assert not is_kept(channel.pid)


async def test_grandchildren_can_write_after_the_child_has_ended(tmp_path: Path) -> None:
    """The end of the process is not the end of its output."""
    code = """
    if os.fork():
        os._exit(0)
    sys.stdin.readline()
    say(hello=True)
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            assert await channel.wait() == 0
            await channel.send([Notification("go")])
            assert await heard(channel) == {"hello": True}


async def test_shell_and_its_command_are_ended(tmp_path: Path) -> None:
    inner = server(tmp_path, "ignore(signal.SIGTERM)\nsay(pid=os.getpid())\ntime.sleep(60)")
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(["sh", "-c", '"$@"; true', "sh", *inner], timeouts=IMPATIENT) as channel:
            pid = (await heard(channel))["pid"]

    assert pid != channel.pid
    assert not lives(pid)


async def test_cancellation_at_any_moment_leaves_no_process(tmp_path: Path) -> None:
    """During the start, the exchange or the termination; the cancellation is not lost."""
    command = server(tmp_path, "ignore(signal.SIGTERM)\nsay(ready=True)\ntime.sleep(60)")
    moments = [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.35, 0.5, 0.65]
    cancelled = []

    async def try_one(seconds: float) -> None:
        with trio.move_on_after(seconds):
            async with open_child(command, timeouts=IMPATIENT) as channel:
                await channel.send([Notification("a")])
                await channel.receive()
            await trio.sleep(1)
            raise AssertionError(f"the cancellation after {seconds} s is lost")
        cancelled.append(seconds)

    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            for seconds in moments:
                nursery.start_soon(try_one, seconds)

    assert sorted(cancelled) == moments


async def test_child_is_awaited_without_pidfd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other systems, sandboxes and old kernels have no pidfd."""

    def missing(pid: int, flags: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, "echo()\nos._exit(4)")) as channel:
            with trio.move_on_after(0.1) as scope:
                await channel.wait()
            assert scope.cancelled_caught
            await channel.send([Notification("a")])
            await channel.receive()
    assert channel.returncode == 4


async def test_child_reaped_by_another_task_is_not_signalled(tmp_path: Path) -> None:
    """Its exit status is lost, and its process id may belong to another process."""
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, "os._exit(4)")) as channel:
            await trio.to_thread.run_sync(os.waitpid, channel.pid, 0)
            assert await channel.wait() == 0


PARENT = """
import sys, trio
from mcptrio.transports import child_process
from mcptrio.transports.child import ChildTimeouts, open_child

child_process.KILL_TIMEOUT = 60

async def main():
    async with open_child(sys.argv[1:], timeouts=ChildTimeouts(exit=100, terminate=100)) as channel:
        (message,) = await channel.receive()
        print(message.params["pid"], flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def start_parent(command: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Return a process that has opened a child, and the child's process id."""
    process = subprocess.Popen([sys.executable, "-c", PARENT, *command], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        return process, int(process.stdout.readline())


async def test_killed_parent_leaves_no_orphan(tmp_path: Path) -> None:
    """This holds also for a child that ignores the end of its input and every signal that it can."""
    code = """
    ignore(signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    say(pid=os.getpid())
    while True:
        time.sleep(60)
    """
    process, pid = start_parent(server(tmp_path, code))
    with process:
        alive = lives(pid)
        process.kill()
    reap(pid)

    assert alive


async def test_second_interrupt_kills_the_server_at_once(tmp_path: Path) -> None:
    """The first interrupt starts the termination, which would take 200 seconds here; the second kills the server."""
    code = f"""
    ignore(signal.SIGTERM)
    say(pid=os.getpid())
    sys.stdin.read()
    open({str(tmp_path / "ending")!r}, "w").close()
    while True:
        time.sleep(60)
    """
    process, pid = start_parent(server(tmp_path, code))
    with process, trio.fail_after(WAIT_TIMEOUT):
        try:
            process.send_signal(signal.SIGINT)
            while not (tmp_path / "ending").exists():  # noqa: ASYNC110 - another process creates it
                await trio.sleep(0.01)
            process.send_signal(signal.SIGINT)
            await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
            # The kernel delivers the parent-death signal after the end of the parent is visible.
            while lives(pid):  # noqa: ASYNC110 - another process ends
                await trio.sleep(0.01)
        finally:
            process.kill()
            reap(pid)
