"""The channel to a child process. Its end: test_child_process.py. Its standard error: test_child_stderr.py."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from mcptrio.abc import MessageChannel
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.messages import Incoming, Malformed, Notification, Request, Response
from mcptrio.serving import MessageLimits
from mcptrio.transports import child
from mcptrio.transports.child import SAFE, ChildTimeouts, open_child
from tests.error_codes import PARSE_ERROR
from tests.transports.children import WAIT_TIMEOUT, heard, patient, server

__all__ = ["patient"]

IMPATIENT = ChildTimeouts(exit=0.2, terminate=0.2, write=0.3)


def shorten_exit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for the exit status, which does not arrive while the server runs."""
    monkeypatch.setattr(child, "EXIT_CODE_TIMEOUT", 0.2)
    monkeypatch.setattr(child, "STDERR_TIMEOUT", 0.05)


# Messages


async def test_messages_are_sent_and_received(tmp_path: Path) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path)) as channel:
            port: MessageChannel = channel
            assert port.name == Path(sys.executable).name
            assert channel.returncode is None
            assert await channel.closed_reason() == "the server is running"

            await channel.send([Request(1, "a"), Response(2, {})])
            received = await channel.receive()
            while len(received) < 2:
                received += await channel.receive()
            assert received == [Request(1, "a"), Response(2, {})]

    assert channel.returncode == 0
    assert await channel.wait() == 0


async def test_large_message_is_sent_and_received(tmp_path: Path) -> None:
    """10 MB; the server reads it completely before it responds."""
    text = "x" * 10_000_000
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path)) as channel:
            await channel.send([Response(1, {"text": text})])
            assert await channel.receive() == [Response(1, {"text": text})]


async def test_other_output_between_messages_is_reported_as_malformed(tmp_path: Path) -> None:
    code = """
    print("Starting...", flush=True)
    say(n=1)
    os.write(1, b"\\xff\\xfe{\\n")
    say(n=2)
    """
    received: list[Incoming] = []
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            while len(received) < 4:
                received += await channel.receive()

    rubbish = [each.reply.code for each in received if isinstance(each, Malformed)]
    assert rubbish == [PARSE_ERROR, PARSE_ERROR]
    assert [each for each in received if not isinstance(each, Malformed)] == [
        Notification("said", {"n": 1}),
        Notification("said", {"n": 2}),
    ]


@pytest.mark.parametrize("line", ['{"jsonrpc":"2.0","id":7,"result":{%s}}', '{"result":{%s},"jsonrpc":"2.0","id":7}'])
async def test_report_of_a_response_over_the_limit_names_its_request(tmp_path: Path, line: str) -> None:
    code = f"""
    print('{line}' % ('"text":"' + 200_000 * "x" + '"'))
    say(after=True)
    """
    received: list[Incoming] = []
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code), limits=MessageLimits(bytes=100_000)) as channel:
            while len(received) < 2:
                received += await channel.receive()

    report, after = received
    assert isinstance(report, Malformed)
    assert (report.answers, report.reply.id) == (7, None)
    assert "the limit is 100000 bytes" in report.reply.message
    assert after == Notification("said", {"after": True})


async def test_concurrent_servers_get_their_own_messages(tmp_path: Path) -> None:
    command = server(tmp_path)
    answers = []

    async def talk(n: int) -> None:
        async with open_child(command) as channel:
            await channel.send([Request(n, "ping")])
            answers.extend(await channel.receive())

    with trio.fail_after(3 * WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(talk, n)

    assert sorted(each.id for each in answers if isinstance(each, Request)) == list(range(20))


# Ends


async def test_error_contains_the_exit_status_of_the_server(tmp_path: Path) -> None:
    code = """
    say(last=True)
    raise ModuleNotFoundError("No module named 'nope'")
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            assert await heard(channel) == {"last": True}
            for _ in range(2):
                with pytest.raises(trio.EndOfChannel):
                    await channel.receive()
            reason = await channel.closed_reason()
            assert channel.returncode == 1
            with pytest.raises(ConnectionClosed, match="exit code 1"):
                await channel.send([Notification("a")])

    assert reason.startswith("the server ended with exit code 1; it said: Traceback")
    assert reason.endswith("| ModuleNotFoundError: No module named 'nope'")
    assert "\n" not in reason
    assert await channel.closed_reason() == reason


async def test_error_contains_the_signal_that_killed_the_server(tmp_path: Path) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")) as channel:
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()
            assert await channel.closed_reason() == "the server was ended by SIGKILL"
            assert channel.returncode == -9


async def test_closed_output_of_a_running_server_ends_the_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_exit_wait(monkeypatch)
    code = """
    say(last=True)
    os.close(1)
    sys.stdin.read()
    os._exit(0)
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            await heard(channel)
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()
            lives_on = await channel.closed_reason()

    assert lives_on == "the server closed its standard output but is still running"
    assert await channel.closed_reason() == lives_on
    assert channel.returncode == 0


async def test_exit_code_that_follows_the_end_of_output_is_reported(tmp_path: Path) -> None:
    code = """
    os.close(1)
    time.sleep(0.1)
    sys.exit("too old")
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()
            assert await channel.closed_reason() == "the server ended with exit code 1; it said: too old"


async def test_last_line_without_a_line_end_is_received(tmp_path: Path) -> None:
    code = """sys.stdout.write('{"jsonrpc":"2.0","id":1,"result":{}}')"""
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            assert await channel.receive() == [Response(1, {})]
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()


async def test_exit_of_the_server_during_a_send_is_reported(tmp_path: Path) -> None:
    code = """
    os.read(0, 1000)
    sys.exit("out of memory")
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            with pytest.raises(ConnectionClosed) as caught:
                await channel.send([Notification("a", {"text": "x" * 10_000_000})])

    assert str(caught.value) == "the server ended with exit code 1; it said: out of memory"


async def test_closed_input_of_a_running_server_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_exit_wait(monkeypatch)
    code = """
    os.close(0)
    say(closed=True)
    signal.pause()
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code), timeouts=IMPATIENT) as channel:
            await heard(channel)
            for _ in range(2):
                with pytest.raises(ConnectionClosed, match=r"the server's standard input is closed: .*Broken pipe"):
                    await channel.send([Notification("a")])


async def test_server_that_stops_reading_closes_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_exit_wait(monkeypatch)
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, "signal.pause()"), timeouts=IMPATIENT) as channel:
            for _ in range(2):
                with pytest.raises(ConnectionClosed, match=r"server's standard input was not read for 0.3 seconds"):
                    await channel.send([Notification("a", {"text": "x" * 1_000_000})])


async def test_slow_reader_receives_a_large_message_completely(tmp_path: Path) -> None:
    """A send that is cancelled meanwhile finishes its line."""
    gate = tmp_path / "gate"
    code = f"""
    while not os.path.exists({str(gate)!r}):
        time.sleep(0.01)
    text = sys.stdin.readline()
    say(length=len(json.loads(text)["params"]["text"]), next=sys.stdin.readline())
    """
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, code)) as channel:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.send, [Notification("a", {"text": "x" * 1_000_000})])
                await trio.testing.wait_all_tasks_blocked(0.01)
                nursery.cancel_scope.cancel()
                gate.touch()
            assert nursery.cancel_scope.cancelled_caught
            await channel.send([Notification("b")])
            answer = await heard(channel)

    assert answer["length"] == 1_000_000
    assert '"b"' in answer["next"]


async def test_closing_wakes_the_waiting_task(tmp_path: Path) -> None:
    async def expect_closed(task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        with pytest.raises(ConnectionClosed, match="the channel was closed"):
            await channel.receive()

    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path)) as channel, trio.open_nursery() as nursery:
            await nursery.start(expect_closed)
            await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.start_soon(channel.aclose)
            await channel.aclose()
            assert channel.returncode == 0
            with pytest.raises(ConnectionClosed, match="the channel was closed"):
                await channel.send([Notification("a")])


async def test_any_task_can_wait_for_the_exit(tmp_path: Path) -> None:
    codes = []

    async def wait() -> None:
        codes.append(await channel.wait())

    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, "sys.stdin.readline(); os._exit(5)")) as channel:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(wait)
                with trio.move_on_after(0.02) as scope:
                    await channel.wait()
                assert scope.cancelled_caught
                await channel.send([Notification("end")])

    assert codes == [5, 5, 5]


# Starts


@pytest.mark.parametrize(
    ("command", "cwd", "problem"),
    [
        (["no-such-command-17"], None, "cannot start no-such-command-17: 'no-such-command-17' was not found in PATH"),
        (["/no/such", "--x y"], None, "cannot start such: '/no/such' was not found"),
        ([__file__], None, "cannot be executed: Permission denied"),
        (["/"], None, "'/' cannot be executed: Permission denied"),
        (["true"], "/no/such", "cannot start true: '/no/such', the working directory: No such file or directory"),
        (["true"], __file__, "the working directory: Not a directory"),
        (["tr\0ue"], None, "embedded null byte"),
        (["x" * 5000], None, "File name too long"),
    ],
)
async def test_start_failure_is_raised_with_its_cause(command: list[str], cwd: str | None, problem: str) -> None:
    with pytest.raises(ConnectionClosed) as caught:
        async with open_child(command, cwd=cwd):
            pass

    assert str(caught.value).endswith(problem) or problem in str(caught.value)
    assert len(str(caught.value)) < 6000


async def test_script_without_its_interpreter_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)

    with pytest.raises(ConnectionClosed, match="was not found"):
        async with open_child([str(script)]):
            pass


@pytest.mark.parametrize("command", ["npx server", "", []])
async def test_command_that_is_not_a_list_of_strings_is_refused(command: str | list[str]) -> None:
    with pytest.raises(ValueError, match="command: expected a program and its arguments"):
        async with open_child(command):
            pass


@pytest.mark.parametrize("wrong", [{"exit": 0}, {"exit": math.inf}, {"terminate": math.inf}, {"write": -1}])
def test_infinite_timeouts_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ChildTimeouts(**wrong)


SAY_ENVIRONMENT = "say(**os.environ)"


async def test_secrets_in_the_environment_are_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_TOKEN", "secret")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("SHELL", "() { :; }; echo run")
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, SAY_ENVIRONMENT), env={"GIVEN": "1", "TERM": "dumb"}) as channel:
            environment = await heard(channel)

    assert "OUR_TOKEN" not in environment
    assert "SHELL" not in environment
    assert environment["PATH"] == os.environ["PATH"]
    assert (environment["LC_TIME"], environment["GIVEN"], environment["TERM"]) == ("C", "1", "dumb")
    assert {name for name in environment if not name.startswith("LC_")} <= {*SAFE, "GIVEN"}


async def test_complete_environment_is_inherited_if_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_TOKEN", "secret")
    monkeypatch.setenv("TERM", "xterm")
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(server(tmp_path, SAY_ENVIRONMENT), env={"TERM": "dumb"}, inherit_env=True) as channel:
            environment = await heard(channel)

    assert (environment["OUR_TOKEN"], environment["TERM"]) == ("secret", "dumb")


async def test_server_starts_in_the_working_directory(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    command = server(tmp_path, "say(cwd=os.getcwd())")
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_child(command, cwd=there) as channel:
            assert Path((await heard(channel))["cwd"]) == there
        async with open_child(command) as channel:
            assert Path((await heard(channel))["cwd"]) == Path.cwd()


async def test_server_inherits_only_its_three_streams(tmp_path: Path) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with (
            open_child(server(tmp_path)),
            open_child(
                server(tmp_path, "say(fds=sorted(os.listdir('/proc/self/fd')), blocking=os.get_blocking(0))")
            ) as channel,
        ):
            result = await heard(channel)

    # The fourth descriptor is that of the listing.
    assert result == {"fds": ["0", "1", "2", "3"], "blocking": True}


async def test_exceptions_of_the_block_are_unchanged(tmp_path: Path) -> None:
    """The nursery inside does not wrap them in a group."""
    cause = ValueError("cause")
    error = KeyError("error")
    opened = []
    with pytest.raises(KeyError) as caught:  # noqa: PT012 - the exception passes through the context
        async with open_child(server(tmp_path)) as channel:
            opened.append(channel)
            raise error from cause

    assert caught.value is error
    assert error.__cause__ is cause
    assert [each.returncode for each in opened] == [0]
