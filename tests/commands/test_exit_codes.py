"""The exit codes of commands, and their one-line errors."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from mcptrio.cli.group import cli
from tests.commands.processes import PLUGIN, at_terminal, run, started, with_plugin
from tests.distributions import one_tool
from tests.processes import WAIT_TIMEOUT, serving

__all__: list[str] = []

SILENT = "import sys\nfor line in sys.stdin: pass"
STUBBORN = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}
    },
    "tools/list": {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]},
}
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32601, "message": "no"}}
    if message["method"] == "tools/call":
        open("called", "w").close()
    elif message["method"] in RESULTS:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]}), flush=True)
    elif "id" in message:
        print(json.dumps(answer), flush=True)
open("ended", "w").close()
while True:
    time.sleep(60)
"""
"""Exits neither at the end of its input nor at a signal."""


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (with_plugin("call", "weather"), 0, ""),
        (with_plugin("call", "broken"), 1, "mcptrio: broken reported an error:\nit is broken\nbeyond repair\n"),
        (with_plugin("call", "brocken"), 2, "mcptrio: the server has no tool `brocken`; did you mean `broken`?\n"),
        (with_plugin("call", "take"), 2, "mcptrio: missing argument: `text` (a string)\n"),
        (
            with_plugin("call", "brocken", "--no-check"),
            3,
            "mcptrio: the server refused: no such tool: `brocken`; did you mean `broken`? (-32602)\n",
        ),
        (with_plugin("read", "note:"), 3, "mcptrio: the server refused: resource not found: note: (-32002)\n"),
        (with_plugin("prompt", "moods"), 2, "mcptrio: missing argument: `city` (The city to ask about)\n"),
        (with_plugin("prompt", "moods", "town=x"), 2, "mcptrio: argument `town`: no such argument; expected one of "),
        (with_plugin("prompt", "moods", "city:=5"), 2, "mcptrio: argument `city`: expected city=TEXT"),
        (with_plugin("prompt", "mood"), 2, "mcptrio: the server has no prompt `mood`; did you mean `moods`?\n"),
        (
            with_plugin("call", "greet"),
            3,
            "mcptrio: the server asks a question, which needs a terminal: run the command without a pipe (",
        ),
        (
            with_plugin("call", "weather", "--args", "[1]"),
            2,
            'mcptrio: --args: expected a JSON object such as {"city": "Oslo"}, got "[1]"\n',
        ),
        (
            with_plugin("call", "weather", "--args", "{city: 1}"),
            2,
            'mcptrio: --args: expected a JSON object such as {"city": "Oslo"}, got "{city: 1}"; line 1, column 2: '
            "expecting property name enclosed in double quotes; in a shell put all of it in single quotes\n",
        ),
        (
            ("ping", "--", "no-such-program"),
            4,
            "mcptrio: cannot start no-such-program: 'no-such-program' was not found",
        ),
        (
            ("call", "add", "a=2"),
            4,
            "no mcp.json in this folder has a server of this name either. To call a tool of a plugin: "
            "`mcptrio call --plugin FILE.py add …`\n",
        ),
        (("ping", "http://127.0.0.1:9/mcp"), 4, "mcptrio: cannot connect to 127.0.0.1:9: Connection refused; is the "),
        (
            ("ping", "127.0.0.1:9/mcp"),
            2,
            "mcptrio: TARGET: expected a URL, a command or the name of a server, "
            'got "127.0.0.1:9/mcp"; did you mean http://127.0.0.1:9/mcp?\n',
        ),
        (("run", "nosuch.py"), 2, "mcptrio: FILE.py: no such file: nosuch.py\n"),
        (
            ("list", "no-such-17"),
            4,
            "not found in PATH; no mcp.json in this folder has a server of this name either; "
            "if no-such-17 is a plugin, pass --plugin no-such-17\n",
        ),
        (("ping", "--", sys.executable, "-c", "import sys; sys.exit('my last words')"), 4, "my last words"),
        (("ping", "--timeout", "0.5", "--", sys.executable, "-c", SILENT), 4, "did not answer within 0.5 s"),
        (
            with_plugin("call", "sleep", "steps=1", "--timeout", "5"),
            5,
            # The time that has passed, which may be some hundredths more.
            " s; --timeout SECONDS waits longer",
        ),
    ],
    ids=lambda value: " ".join(value[:1] + value[-2:]) if isinstance(value, tuple) else None,
)
def test_exit_code_and_error_line(tmp_path: Path, args: tuple[str, ...], code: int, message: str) -> None:
    result = run(*args, cwd=tmp_path)

    assert (result.returncode, message in result.stderr.decode()) == (code, True), result.stderr.decode()
    assert result.stderr.count(b"\n") == message.count("\n") or not message.endswith("\n")
    assert (result.stdout == b"") == bool(code)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("read", "x:y"), "the server has no resources"),
        (("prompt", "x"), "the server has no prompts"),
        (("complete", "prompt", "x", "y"), "the server has no completions"),
        (("watch", "x:y"), "the server has no subscriptions to x:y"),
    ],
)
def test_missing_capability_is_not_reported_as_a_refusal(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    (tmp_path / "garden.py").write_text(one_tool("water"))
    command, *rest = args
    result = run(command, "--plugin", "garden.py", *rest, cwd=tmp_path)

    assert (result.returncode, result.stderr.decode()) == (2, f"mcptrio: {message}\n")


def test_last_output_of_a_server_is_on_separate_lines_at_a_terminal(tmp_path: Path) -> None:
    source = "import sys; print(*range(100, 150), sep='\\n', file=sys.stderr); sys.exit(3)"
    with at_terminal("ping", "--", sys.executable, "-c", source, cwd=tmp_path) as person:
        assert person.end() == 4

    *_, reason, last_words = person.shown.partition("mcptrio: ")[2].partition("it said:\n")
    assert reason
    assert last_words == "".join(f"  {number}\n" for number in range(140, 150))


def test_lost_connection_exits_with_4(tmp_path: Path) -> None:
    with serving("--http", "--port=0", "--plugin", str(PLUGIN), cwd=tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        with started("call", url, "sleep", "seconds=60", "steps=600", cwd=tmp_path) as calling:
            assert calling.stderr is not None
            assert b"step 1" in calling.stderr.readline()
            served.signal(signal.SIGKILL)
            output = calling.stderr.read().decode()

            assert calling.wait(WAIT_TIMEOUT) == 4, output
    assert output.splitlines()[-1].startswith("mcptrio: ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_cancels_the_call(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """The server receives the cancellation, and has time to handle it."""
    args = with_plugin("call", "sleep", "seconds=60", "steps=600")
    with started(*args, cwd=tmp_path) as process:
        assert process.stderr is not None
        assert b"step 1" in process.stderr.readline()
        process.send_signal(number)
        output = process.stderr.read().decode()

        assert process.wait(WAIT_TIMEOUT) == code
    assert "the call was taken back" in output
    assert output.endswith("mcptrio: interrupted\n" if number == signal.SIGINT else "mcptrio: ended by SIGTERM\n")


def test_second_signal_exits_at_once(tmp_path: Path) -> None:
    """The command does not wait for the server."""
    command = [sys.executable, "-c", STUBBORN]
    with started("call", "--verbose", "wait", "--", *command, cwd=tmp_path) as process:
        until_there(tmp_path / "called")
        process.send_signal(signal.SIGINT)
        # The first signal was handled, and the command waits for the server.
        until_there(tmp_path / "ended")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)

        assert process.wait(WAIT_TIMEOUT) == 130
        assert process.stderr is not None
        # This message is written after the server has ended.
        assert b"interrupted" not in process.stderr.read()


def until_there(path: Path) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path.name}"
        time.sleep(0.01)


def test_closed_pipe_ends_the_command_without_an_error(tmp_path: Path) -> None:
    with started(*with_plugin("ping", "--count", "1000", "--interval", "0.01"), cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().endswith(b" ms\n")
        process.stdout.close()

        assert process.stderr.read() == b""
        assert process.wait(WAIT_TIMEOUT) == 0


def test_verbose_shows_the_traceback(tmp_path: Path) -> None:
    short = run("ping", "http://127.0.0.1:9/mcp", cwd=tmp_path).stderr.decode()
    long = run("ping", "http://127.0.0.1:9/mcp", "--verbose", cwd=tmp_path).stderr.decode()

    assert short.count("\n") == 1
    assert 'File "' in long
    assert short in long


@pytest.mark.parametrize("name", ["list", "call", "read", "prompt", "complete", "watch", "ping", "inspect", "shell"])
def test_exit_codes_are_in_the_help(name: str) -> None:
    command = cli.commands[name]
    text = " ".join(command.get_help(click.Context(command)).split())

    for words in (
        "0 done",
        "1 the tool reported an error",
        "2 invalid usage",
        "3 the server refused",
        "4 no connection",
    ):
        assert words in text
    assert "5 no answer in time; 130 interrupted" in text


def test_command_works_with_closed_standard_streams(tmp_path: Path) -> None:
    result = subprocess.run(
        ["sh", "-c", f'{sys.executable} -m mcptrio ping --plugin "$0" <&- >&- 2>&-', str(PLUGIN)],
        cwd=tmp_path,
        timeout=WAIT_TIMEOUT,
        check=False,
    )

    assert result.returncode == 0
