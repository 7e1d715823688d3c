"""A server asks the user at the terminal: by form, by URL, for sampling. In a pipe there is no user."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.commands.processes import PLUGIN, at_terminal, run, with_plugin
from tests.processes import serving

__all__: list[str] = []

BOTH = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
"""The server asks with a request, or with an incomplete result."""


def everything(*args: str) -> tuple[str, ...]:
    return (args[0], "--plugin", "everything", *args[1:])


@BOTH
def test_form_is_validated_line_by_line(tmp_path: Path, revision: str) -> None:
    with at_terminal(*with_plugin("call", "greet", "--revision", revision), cwd=tmp_path) as terminal:
        terminal.until(r"asks:\n  \| Who is there\?\n")
        terminal.until("name: ")
        terminal.type("Ann\r")
        terminal.until("age: ")
        terminal.type("999\r")
        terminal.until(r"Expected an integer \(0 to 150\), got 999\.\n")
        terminal.until("age: ")
        terminal.type("4\x7f\x15\r")  # deleted again
        terminal.until(r"Your answers for .*:\n  1\) name: Ann\n  2\) age: \(left out\)\n")
        terminal.until(r"Send\? ")
        assert not terminal.echoes()
        terminal.type("send\r")
        terminal.until("Hello, Ann!\n")

        assert terminal.end() == 0
        assert terminal.echoes()


def test_form_is_validated_while_the_user_types(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "greet"), cwd=tmp_path) as terminal:
        terminal.until("name: ")
        terminal.type("Ann\r")
        terminal.until("age: ")
        terminal.type("99")
        terminal.until("age: 99$")
        terminal.type("9")
        terminal.until(r"age: 999  expected an integer \(0 to 150\), got 999")


@pytest.mark.parametrize(("typed", "message"), [(":decline\r", "decline"), (":cancel\r", "cancel"), ("\x04", "cancel")])
def test_form_is_declined_or_cancelled(tmp_path: Path, typed: str, message: str) -> None:
    with at_terminal(*with_plugin("call", "greet"), cwd=tmp_path) as terminal:
        terminal.until("name: ")
        terminal.type(typed)
        terminal.until(f"The user chose to {message}.\n")

        assert terminal.end() == 0


@BOTH
def test_ctrl_c_in_a_form_cancels_the_call(tmp_path: Path, revision: str) -> None:
    with at_terminal(*with_plugin("call", "greet", "--revision", revision), cwd=tmp_path) as terminal:
        terminal.until("name: ")
        terminal.type("Ann\x03")
        terminal.until("mcptrio: interrupted\n")

        assert terminal.end() == 130
        assert terminal.echoes()


def test_signal_in_a_form_restores_the_terminal(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "greet"), cwd=tmp_path) as terminal:
        terminal.until("name: ")
        terminal.process.send_signal(signal.SIGTERM)

        assert terminal.end() == 143
        assert terminal.echoes()
        assert terminal.raw.rstrip().endswith(b"ended by SIGTERM")


def test_form_over_http(tmp_path: Path) -> None:
    with serving("--http", "--port=0", "--plugin", str(PLUGIN), cwd=tmp_path) as served:
        with at_terminal("call", f"http://127.0.0.1:{served.port}/mcp", "greet", cwd=tmp_path) as terminal:
            terminal.until("name: ")
            terminal.type("Bob\r\r")
            terminal.until(r"Send\? ")
            terminal.type("y\r")
            terminal.until("Hello, Bob!\n")

            assert terminal.end() == 0


def test_several_questions_are_asked_one_after_the_other(tmp_path: Path) -> None:
    """They arrive together, and all need the terminal."""
    args = everything("call", "test_input_required_result_multiple_inputs")
    with at_terminal(*args, cwd=tmp_path, env={"MCPTRIO_CLIENT_ROOTS": str(tmp_path)}) as terminal:
        asked: list[str] = []
        while asked.count("answer> ") < 2 or "name: " not in asked:
            asked.append(terminal.until(r"answer> |(?<=\n)name: ")[0])
            if asked[-1] == "answer> ":
                terminal.type("hello\r" if asked.count("answer> ") == 1 else "\r")
            else:
                terminal.type("x\r")

        assert terminal.end() == 0
    first = asked.index("answer> ")
    assert asked[first + 1] == "answer> "


# Pages


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A browser that writes the URL to a file."""
    path = tmp_path / "browser"
    path.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path / "opened"}\n')
    path.chmod(0o755)
    return path


@BOTH
@pytest.mark.parametrize(("answer", "message"), [("yes", "agreed to open the page"), ("no", "chose to decline")])
def test_url_is_opened_after_consent(tmp_path: Path, browser: Path, revision: str, answer: str, message: str) -> None:
    args = everything("call", "trigger-url-elicitation", "url=https://example.com/a?b", "--revision", revision)
    with at_terminal(*args, cwd=tmp_path, env={"BROWSER": str(browser)}) as terminal:
        terminal.until(r"URL:  https://example\.com/a\?b\n")
        terminal.until(r"Open it in your browser\? \(yes/no\) ")
        assert not (tmp_path / "opened").exists()
        terminal.type(f"{answer}\r")
        terminal.until(message)

        assert terminal.end() == 0
    assert b"\x1b[7mexample.com\x1b[0m" in terminal.raw
    assert (tmp_path / "opened").exists() == (answer == "yes")
    if answer == "yes":
        assert (tmp_path / "opened").read_text() == "https://example.com/a?b"


def test_browser_that_cannot_start_is_reported(tmp_path: Path) -> None:
    args = everything("call", "trigger-url-elicitation", "url=https://example.com/a")
    with at_terminal(*args, cwd=tmp_path, env={"BROWSER": "/no/such/browser", "PATH": "/nowhere"}) as terminal:
        terminal.until(r"\(yes/no\) ")
        terminal.type("yes\r")
        terminal.until("no browser could be started; open it yourself: https://example.com/a\n")

        assert terminal.end() == 0


# Sampling


@BOTH
def test_user_answers_in_place_of_a_model(tmp_path: Path, revision: str) -> None:
    args = everything("call", "trigger-sampling-request", "prompt=Say\x1b[2J hi", "maxTokens=7", "--revision", revision)
    with at_terminal(*args, cwd=tmp_path) as terminal:
        terminal.until(r"user:\n  \| Say\\x1b\[2J hi\n")
        terminal.until(r"at most 7 tokens")
        terminal.until("answer> ")
        terminal.type("first\r")
        terminal.until("answer> ")
        terminal.type("::second\r")
        terminal.until("answer> ")
        terminal.type("\r")
        terminal.until("from human: first\n:second\n")

        assert terminal.end() == 0
    assert b"\x1b[2J" not in terminal.raw


def test_user_declines_sampling(tmp_path: Path) -> None:
    with at_terminal(*everything("call", "trigger-sampling-request", "prompt=x"), cwd=tmp_path) as terminal:
        terminal.until("answer> ")
        terminal.type(":decline\r")
        terminal.until("the user rejected the sampling request")

        assert terminal.end() == 3


# Without a user


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_question_in_a_pipe_is_not_shown(tmp_path: Path, revision: str) -> None:
    result = run(*with_plugin("call", "greet", "--revision", revision), cwd=tmp_path)

    assert (result.returncode, result.stdout) in ((3, b""), (1, b""))
    assert b"elicitation" in result.stderr


def test_questions_can_be_disabled(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "greet"), cwd=tmp_path, env={"MCPTRIO_CLIENT_INPUT": "false"}) as terminal:
        assert terminal.end() == 3

    assert "elicitation" in terminal.shown


def test_dumb_terminal_is_read_in_whole_lines(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "greet"), cwd=tmp_path, env={"TERM": "dumb"}) as terminal:
        terminal.until("name: ")
        terminal.type("Ann\n\n")
        terminal.until(r"Send\? ")
        terminal.type("send\n")
        terminal.until("Hello, Ann!\n")

        assert terminal.end() == 0
    assert b"\x1b" not in terminal.raw


# Inputs of a file of servers


def test_inputs_of_a_file_are_asked_at_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text(
        "import os\nfrom mcptrio import tool\n\n\n@tool\nasync def token() -> str:\n    'A.'\n"
        "    return os.environ['TOKEN'][::-1]\n"
    )
    command = {"command": sys.executable, "args": ["-m", "mcptrio", "serve", "--stdio", "--plugin", "env.py"]}
    file = {
        "inputs": [{"id": "token", "type": "promptString", "description": "The token", "password": True}],
        "servers": {"mine": {**command, "env": {"TOKEN": "${input:token}"}}},
    }
    (tmp_path / "mcp.json").write_text(json.dumps(file))
    with at_terminal("call", "mcp.json#mine", "token", cwd=tmp_path, from_nothing=True) as terminal:
        terminal.until("The token: ")
        terminal.type("secret\n")
        terminal.until("terces\n")

        assert terminal.end() == 0
    assert "secret" not in terminal.shown
    assert run("call", "mcp.json#mine", "token", cwd=tmp_path).returncode == 2
    assert os.environ.get("TOKEN") is None
