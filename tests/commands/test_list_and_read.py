"""``list``, ``complete``, ``ping``, ``prompt`` and ``read``: output for programs and for users."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path

import pytest

from tests.commands.plugin import PNG
from tests.commands.processes import at_terminal, run, with_plugin
from tests.distributions import one_tool

__all__: list[str] = []


def out(tmp_path: Path, *args: str, stdin: bytes = b"") -> str:
    """Return the standard output of a command that must succeed."""
    result = run(*with_plugin(*args), cwd=tmp_path, stdin=stdin)
    assert (result.returncode, result.stderr) == (0, b""), result.stderr.decode()
    return result.stdout.decode()


# list


def test_one_kind_is_listed_as_lines(tmp_path: Path) -> None:
    assert out(tmp_path, "list", "resources") == "logo://png\tAn image.\n"
    assert out(tmp_path, "list", "templates") == "note://{number}\tA note.\n"


def test_everything_is_listed_as_lines(tmp_path: Path) -> None:
    lines = [line.split("\t") for line in out(tmp_path, "list").splitlines()]

    assert ["tools", "weather", "Return a structured result."] in lines
    assert ["prompts", "moods", "Ask about moods."] in lines
    assert {line[0] for line in lines} == {"tools", "resources", "templates", "prompts"}


def test_everything_is_listed_as_json(tmp_path: Path) -> None:
    text = out(tmp_path, "list", "--json")
    document = json.loads(text)

    assert text.count("\n") == 1
    assert set(document) == {"tools", "resources", "resourceTemplates", "prompts"}
    assert document["tools"][0]["name"] == "take"
    assert document["tools"][0]["inputSchema"]["required"] == ["text"]
    assert document["resourceTemplates"][0]["uriTemplate"] == "note://{number}"


def test_kind_that_the_server_lacks_is_an_empty_list(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(one_tool("bare"))
    bare = run("list", "--plugin", "bare.py", "prompts", cwd=tmp_path)
    as_json = run("list", "--plugin", "bare.py", "prompts", "--json", cwd=tmp_path)

    assert (bare.returncode, bare.stdout) == (0, b"")
    assert json.loads(as_json.stdout) == {"prompts": []}


def test_list_at_a_terminal_shows_how_to_call(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("list"), cwd=tmp_path) as terminal:
        assert terminal.end() == 0

    assert "tools\n  take text=string" in terminal.shown
    assert "\n  weather\n    Return a structured result.\n" in terminal.shown
    assert "\n  take text=string [whole=integer] [share=number] [flag=boolean] [kind=a|b]" in terminal.shown
    assert "\n  moods city=… [mood=…]\n" in terminal.shown


# ping


def test_several_pings_are_summarized(tmp_path: Path) -> None:
    lines = out(tmp_path, "ping", "--count", "3", "--interval", "0").splitlines()
    as_json = json.loads(out(tmp_path, "ping", "--json"))

    assert len(lines) == 4
    assert re.fullmatch(r"3 sent, 0 lost: min [\d.]+, median [\d.]+, p99 [\d.]+, max [\d.]+ ms", lines[3])
    assert len(as_json["ms"]) == 1


def test_ctrl_c_summarizes_the_pings(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("ping", "--count", "9", "--interval", "60"), cwd=tmp_path) as terminal:
        terminal.until(r"\d ms")
        terminal.type("\x03")
        assert terminal.end() == 130

    assert "1 sent, 0 lost: min " in terminal.shown


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_requested_revision_is_used(tmp_path: Path, revision: str) -> None:
    assert json.loads(out(tmp_path, "ping", "--json", "--revision", revision))["revision"] == revision


# complete


def test_completion_values_are_printed(tmp_path: Path) -> None:
    assert out(tmp_path, "complete", "prompt", "moods", "city", "B") == "Bonn\nBerlin\n"
    assert out(tmp_path, "complete", "prompt", "moods", "mood", "--context", "city=Bonn") == "Bonn blues\n"
    assert out(tmp_path, "complete", "resource", "note://{number}", "number", "1") == "1\n12\n"
    assert json.loads(out(tmp_path, "complete", "prompt", "moods", "city", "--json"))["values"][2] == "New York"


# prompt


def test_prompt_is_filled_in(tmp_path: Path) -> None:
    (tmp_path / "mood").write_text("quite\nwell")
    output = out(tmp_path, "prompt", "moods", "city=New York", f"mood=@{tmp_path / 'mood'}")
    as_json = json.loads(out(tmp_path, "prompt", "moods", "city=@@home", "--json"))

    assert output == "How are things in New York? I am quite\nwell.\n"
    assert as_json["messages"][0]["content"]["text"] == "How are things in @home? I am fine."


def test_prompt_at_a_terminal_shows_the_role(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("prompt", "moods", "city=Bonn"), cwd=tmp_path) as terminal:
        assert terminal.end() == 0

    assert "user:\nHow are things in Bonn? I am fine.\n" in terminal.shown


# read


def test_resource_is_printed_unchanged(tmp_path: Path) -> None:
    result = run(*with_plugin("read", "logo://png"), cwd=tmp_path)

    assert out(tmp_path, "read", "note://7") == "note 7\n"
    assert out(tmp_path, "read", "note://7", "--output", "-") == "note 7"
    assert (result.stdout, result.stderr) == (PNG, b"")
    assert json.loads(out(tmp_path, "read", "logo://png", "--json"))["contents"] == [
        {"uri": "logo://png", "blob": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    ]


def test_resource_is_saved_without_overwriting_a_file(tmp_path: Path) -> None:
    args = with_plugin("read", "logo://png", "--output", "logo.png")
    first = run(*args, cwd=tmp_path)
    (tmp_path / "logo.png").write_bytes(b"mine")
    second = run(*args, cwd=tmp_path)

    assert (first.returncode, first.stdout) == (0, b"")
    assert first.stderr.endswith(b" bytes saved as logo.png\n")
    assert second.returncode == 2
    assert second.stderr == b"mcptrio: --output: logo.png exists; --force overwrites it\n"
    assert (tmp_path / "logo.png").read_bytes() == b"mine"
    assert run(*args, "--force", cwd=tmp_path).returncode == 0
    assert (tmp_path / "logo.png").read_bytes() == PNG


def test_resource_is_saved_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    result = run(*with_plugin("read", "note://7", "-o", "here"), cwd=tmp_path)

    assert result.returncode == 0
    assert os.listdir(tmp_path / "here") == ["7.txt"]


@pytest.mark.parametrize(
    ("answer", "code", "held"), [("yes", 0, PNG), ("no", 2, b"mine"), ("\x03", 2, b"mine")], ids=["yes", "no", "Ctrl-C"]
)
def test_user_is_asked_before_a_file_is_overwritten(tmp_path: Path, answer: str, code: int, held: bytes) -> None:
    (tmp_path / "logo.png").write_bytes(b"mine")
    with at_terminal(*with_plugin("read", "logo://png", "-o", "logo.png"), cwd=tmp_path) as terminal:
        terminal.until(r"logo.png exists; overwrite it\? \(yes/no\) ")
        terminal.type(f"{answer}\r")

        assert terminal.end() == code
    assert (tmp_path / "logo.png").read_bytes() == held


def test_bytes_are_not_written_to_a_terminal(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("read", "logo://png"), cwd=tmp_path) as terminal:
        assert terminal.end() == 0

    assert f"[resource: image/png, {len(PNG)} bytes; --output saves it]" in terminal.shown
    assert b"\x89PNG" not in terminal.raw
