"""``shell`` at a terminal: suggestions, history, questions and notifications above the line; and as a script."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.processes import PLUGIN, AtTerminal, at_terminal, run, started, with_plugin
from tests.processes import WAIT_TIMEOUT, serving

__all__: list[str] = []

PROMPT = r"(?<=\n)mcptrio> \Z"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[AtTerminal]:
    with at_terminal(*with_plugin("shell"), cwd=tmp_path) as terminal:
        terminal.until(PROMPT)
        yield terminal


def leave(terminal: AtTerminal) -> None:
    """Check that the shell is responsive, and quit it."""
    terminal.type("\x05\x15quit\r")
    assert terminal.end() == 0
    assert terminal.echoes()


# Lines


def test_shell_lines_run_the_commands(shell: AtTerminal) -> None:
    shell.type("call take text='a b' place.city=Bonn\r")
    shell.until(r'\n\["a b", 0')
    shell.type("read note://7\r")
    shell.until("\nnote 7\n")
    shell.type("prompt moods city=Bonn --json\r")
    shell.until('"text": "How are things in Bonn')
    shell.type("complete prompt moods city B\r")
    shell.until("\nBonn\nBerlin\n")
    shell.type("ping\r")
    shell.until(r" ms\n")
    shell.type("help call\r")
    shell.until(r"Usage: call \[OPTIONS\] TOOL")
    shell.type("help\r")
    shell.until("\nquit      Leave the shell, like Ctrl-D.\n")
    shell.until(PROMPT)
    shell.type("quit\r")

    assert shell.end() == 0
    assert shell.echoes()


WRONG = [
    ("cal", "mcptrio: there is no command `cal`; did you mean `call`?"),
    ("zzz a=1", "mcptrio: there is no command `zzz`; `call NAME` calls a tool, `help` lists the commands"),
    ("call", "mcptrio: missing TOOL: pass the name of a tool; `list` shows them"),
    ("call tak", "mcptrio: the server has no tool `tak`; did you mean `take`?"),
    ("call take", r"mcptrio: missing argument: `text` \(a string\)"),
    ("call 'x", 'mcptrio: expected words, got "call \'x": No closing quotation'),
    (
        "call take --args -",
        "mcptrio: --args: expected JSON or @FILE in the shell, which reads standard input itself, got -",
    ),
    ("call take --nope", "mcptrio: No such option:? '?--nope"),
    ("log loud", r'mcptrio: log: expected one of debug, info, .*, got\s+"loud"'),
    ("watch", "mcptrio: watch: expected a URI, tools, prompts or resources"),
    ("read note:", "mcptrio: the server refused: resource not found"),
]


def test_invalid_line_does_not_end_the_shell(shell: AtTerminal) -> None:
    for line, message in WRONG:
        shell.type(f"{line}\r")
        shell.until(message)
        shell.until(PROMPT)

    leave(shell)


def test_ctrl_c_cancels_the_call_and_then_clears_the_line(shell: AtTerminal) -> None:
    shell.type("call sleep seconds=60 steps=600\r")
    shell.until("step 1")
    shell.type("\x03")
    shell.until(r"(?s)interrupted\n.*taken back|taken back.*interrupted\n")
    shell.type("half a line\x03")
    shell.until("half a line\n")
    shell.until(PROMPT)
    shell.type("call weather\r")
    shell.until('"sky": "blue"')

    leave(shell)


def test_question_during_a_call_is_prompted(shell: AtTerminal) -> None:
    shell.type("call greet formal=yes\r")
    shell.until("name: ")
    shell.type("Ann\r\rsend\r")
    shell.until("\nGood day, Ann.\n")

    leave(shell)


def test_ctrl_d_ends_the_shell(shell: AtTerminal) -> None:
    shell.type("x\x7f\x04")

    assert shell.end() == 0
    assert shell.echoes()


ASKING = """
import json, os, sys, threading, time

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def ask():
    while not os.path.exists("asked"):
        time.sleep(0.01)
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    say(id=99, method="elicitation/create", params={"message": "Who is there?", "requestedSchema": schema})

for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        server = {"name": "asking", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": server})
    elif method == "ping":
        say(id=id, result={})
        threading.Thread(target=ask, daemon=True).start()
    elif id == 99:
        open("answer", "w").write(json.dumps(message["result"]))
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "no"})
"""
"""Asks once there has been a ping and there is a file."""


def test_question_while_a_line_is_edited_restores_the_line(tmp_path: Path) -> None:
    with at_terminal("shell", "--", sys.executable, "-c", ASKING, cwd=tmp_path) as shell:
        shell.until("asking> ")
        shell.type("ping\r")
        shell.until(" ms\n")
        shell.until("asking> ")
        shell.type("help un")
        shell.until("help un")
        (tmp_path / "asked").touch()
        shell.until("Who is there?")
        shell.until("name: ")
        assert not shell.echoes()
        shell.type("Ann\r")
        shell.until("asking> help un")
        shell.type("watch\r")
        shell.until("unwatch: End all subscriptions.")
        leave(shell)

    assert json.loads((tmp_path / "answer").read_text()) == {"action": "accept", "content": {"name": "Ann"}}


def test_ctrl_c_in_a_question_cancels_only_the_question(tmp_path: Path) -> None:
    (tmp_path / "asked").touch()
    with at_terminal("shell", "--", sys.executable, "-c", ASKING, cwd=tmp_path) as shell:
        shell.until("asking> ")
        shell.type("ping\r")
        shell.until("name: ")
        shell.type("\x03")
        shell.until("asking> ")
        shell.type("help unwatch\r")
        shell.until("unwatch: End all subscriptions.")
        leave(shell)

    assert json.loads((tmp_path / "answer").read_text()) == {"action": "cancel"}


# Suggestions


COMPLETED = [
    ("wat", "watch "),
    ("call wea", "call weather "),
    ("call take te", "call take text="),
    ("call take text=x fl", "call take text=x flag="),
    ("call take flag=t", "call take flag=true "),
    ("call take place.c", "call take place.city="),
    ("prompt mo", "prompt moods "),
    ("prompt moods ci", "prompt moods city="),
    ("prompt moods city=Be", "prompt moods city=Berlin "),
    ("prompt moods city=New", "prompt moods city='New York' "),
    ("prompt moods city=Bonn mood=", "prompt moods city=Bonn mood='Bonn blues' "),
    ("read lo", "read logo://png "),
    ("read note://12", "read note://12 "),
    ("list pro", "list prompts "),
    ("log crit", "log critical "),
    ("complete res", "complete resource "),
    ("complete resource note", "complete resource note://{number} "),
    ("complete resource note://{number} ", "complete resource note://{number} number "),
    ("help unw", "help unwatch "),
    ("call nothing x", "call nothing x"),
]


def test_tab_completes_the_word(shell: AtTerminal) -> None:
    for typed, completed in COMPLETED:
        shell.type(f"{typed}\t#")  # the sign after it shows where the completion ended
        shell.until(f"> {re.escape(completed)}#")
        shell.type("\x15")

    leave(shell)


def test_tab_lists_the_completions(shell: AtTerminal) -> None:
    shell.type("call take kind=\t")
    shell.until(r"kind=a +kind=b\n")
    shell.until(r"> call take kind=")
    shell.type("\x15prompt moods city=B\t")
    shell.until(r"city=Berlin +city=Bonn\n")

    leave(shell)


def test_hint_names_missing_and_invalid_arguments(shell: AtTerminal) -> None:
    shell.type("call ta\t")
    shell.until("> call take   text=string")
    shell.type("whole=x ")
    shell.until(r'argument `whole`: expected an integer \(0 to 10\), got "x"')

    leave(shell)


# History


def test_history_is_stored_for_the_next_run(tmp_path: Path) -> None:
    for _ in range(2):
        with at_terminal(*with_plugin("shell"), cwd=tmp_path) as shell:
            shell.until(PROMPT)
            for line in ("call weather", " call take text=secret", "list prompts"):
                shell.type(f"{line}\r")
                shell.until(PROMPT)
            leave(shell)
    path = tmp_path / "state" / "mcptrio" / "history"
    assert path.read_text() == 2 * "call weather\nlist prompts\nquit\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["state"]

    with at_terminal(*with_plugin("shell"), cwd=tmp_path) as shell:
        shell.until(PROMPT)
        shell.type("\x1b[A\x1b[A")
        shell.until("> list prompts")
        shell.type("\x1b[A")
        shell.until("> call weather")
        shell.type("\x1b[B\x15call\x1b[A")  # lines with this prefix
        shell.until("> call weather")
        leave(shell)


def test_history_is_not_stored_if_disabled(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("shell", "--no-history"), cwd=tmp_path, from_nothing=True) as shell:
        shell.until(PROMPT)
        shell.type("ping\r")
        shell.until(" ms\n")
        leave(shell)

    assert os.listdir(tmp_path) == []


# Notifications


def test_changes_are_shown_above_the_line(shell: AtTerminal) -> None:
    shell.type("watch note://1\r")
    shell.until(PROMPT)
    shell.type("call touch\r")
    shell.until(r"(?s)resource note://1\n.*touched\n|touched\n.*resource note://1\n")
    shell.until(PROMPT)
    shell.type("unwatch\r")
    shell.until(PROMPT)
    shell.type("call touch\r")
    shell.until("touched\n")
    shell.until(PROMPT)

    assert shell.shown.count("resource note://1\n") == 1
    leave(shell)


def test_other_output_keeps_the_edited_line(tmp_path: Path) -> None:
    with serving("--http", "--port=0", "--plugin", "everything", cwd=tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        with at_terminal("shell", url, cwd=tmp_path) as shell:
            shell.until(PROMPT)
            # Sent after the request by which the shell subscribes to the lists.
            shell.type("ping\r")
            shell.until(" ms\n")
            shell.until(PROMPT)
            shell.type("call ech")
            shell.until("> call ech")
            assert run("call", url, "test_trigger_prompt_change", cwd=tmp_path).returncode == 0
            shell.until("the list of prompts has changed\n")
            shell.until("mcptrio> call ech")
            shell.type("o message=hi\r")
            shell.until("Echo: hi\n")
            leave(shell)


def test_log_command_sets_the_level(shell: AtTerminal) -> None:
    shell.type("log debug\r")
    shell.until(PROMPT)
    shell.type("call log\r")
    shell.until(r"\[debug\] plugin: not asked for\n")

    leave(shell)


def test_server_exit_ends_the_shell(tmp_path: Path) -> None:
    code = "import sys, os\nfrom mcptrio import tool\n\n\n@tool\nasync def die() -> str:\n    'A.'\n    os._exit(7)\n"
    (tmp_path / "mortal.py").write_text(code)
    command = [sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "mortal.py"]
    with at_terminal("shell", "--", *command, cwd=tmp_path) as shell:
        shell.until(PROMPT)
        shell.type("call die\r")
        shell.until("ended with exit code 7")

        assert shell.end() == 4


# Scripts


def test_script_is_read_from_standard_input(tmp_path: Path) -> None:
    script = b"# first\n\ncall take text=x --json\nread note://3\nprompt moods city=Bonn\n"
    result = run(*with_plugin("shell"), cwd=tmp_path, stdin=script)
    lines = result.stdout.decode().splitlines()

    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(lines[0])["content"][0]["text"].startswith('["x", 0')
    assert lines[1:] == ["note 3", "How are things in Bonn? I am fine."]


def test_script_ends_at_the_first_failing_line(tmp_path: Path) -> None:
    result = run(*with_plugin("shell"), cwd=tmp_path, stdin=b"read note://3\ncall broken\nping\n")

    assert (result.returncode, result.stdout) == (1, b"note 3\n")
    assert result.stderr.decode().endswith("line 2 failed; the remaining lines were not run\n")


def test_script_can_quit(tmp_path: Path) -> None:
    result = run(*with_plugin("shell"), cwd=tmp_path, stdin=b"quit\ncall broken\n")

    assert (result.returncode, result.stdout) == (0, b"")


def test_script_from_a_file_runs_over_http(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("call count\ncall weather")
    with serving("--http", "--port=0", "--plugin", str(PLUGIN), cwd=tmp_path) as served:
        with (tmp_path / "script").open("rb") as script:
            url = f"http://127.0.0.1:{served.port}/mcp"
            with started("shell", url, cwd=tmp_path, stdin=script.fileno()) as process:
                assert process.stdout is not None
                output = process.stdout.read()

                assert process.wait(WAIT_TIMEOUT) == 0
    assert output.splitlines()[0] == b"counted"
