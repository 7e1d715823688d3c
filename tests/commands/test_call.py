"""``call``: arguments, results, saved files, and the output during the call."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.progress import progress_line
from mcptrio.client.calls import Progress
from tests.commands.plugin import HOSTILE, PNG
from tests.commands.processes import PLUGIN, at_terminal, run, with_plugin
from tests.processes import serving

__all__: list[str] = []


def call(
    tmp_path: Path, *args: str, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    result = run(*with_plugin("call", *args), cwd=tmp_path, stdin=stdin, env=env)
    assert result.returncode == 0, result.stderr.decode()
    return result


# Arguments


def test_arguments_of_every_kind_are_sent(tmp_path: Path) -> None:
    words = ["text=5", "whole=7", "share=1", "flag=true", "kind=b", "tags=x", "tags=y z", "numbers=[1,2]"]
    more = ["place.city=Bonn", "place.tags=old", "place.floor=2", "maybe=null", "anything:=[null]"]
    result = call(tmp_path, "take", *words, *more)

    assert json.loads(result.stdout) == [
        "5",
        7,
        1,
        True,
        "b",
        ["x", "y z"],
        [1, 2],
        {"city": "Bonn", "floor": 2, "tags": ["old"]},
        None,
        [None],
    ]


@pytest.mark.parametrize("way", ["@", "-", "{"])
def test_json_arguments_are_read_from_text_file_or_stdin(tmp_path: Path, way: str) -> None:
    text = '{"text": "base", "place": {"city": "Bonn"}}'
    (tmp_path / "args.json").write_text(text)
    given = {"@": f"@{tmp_path / 'args.json'}", "-": "-", "{": text}[way]
    result = call(tmp_path, "take", "--args", given, "place.floor=3", stdin=text.encode() if way == "-" else b"")
    report: list[Any] = json.loads(result.stdout)

    assert (report[0], report[7]) == ("base", {"city": "Bonn", "floor": 3, "tags": []})


def test_invalid_argument_is_not_sent(tmp_path: Path) -> None:
    result = run(*with_plugin("call", "take", "text=x", "whole=99"), cwd=tmp_path)

    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr == b"mcptrio: arguments: expected a number <= 10 at `whole`, got 99\n"


def test_invalid_argument_is_sent_with_no_check(tmp_path: Path) -> None:
    """The error is that of the server."""
    result = run(*with_plugin("call", "take", "text=x", "whole=99", "--no-check"), cwd=tmp_path)

    assert result.returncode == 1
    assert b"99" in result.stderr


@pytest.mark.parametrize("word", ["whole=many", "no_such=1"])
def test_unparsable_argument_is_sent_with_no_check(word: str, tmp_path: Path) -> None:
    result = run(*with_plugin("call", "take", "text=x", word, "--no-check"), cwd=tmp_path)

    assert result.returncode == 1
    assert not result.stderr.startswith(b"mcptrio: argument")


def test_roots_option_names_the_servers_folders(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    result = call(tmp_path, "folders", env={"MCPTRIO_CLIENT_ROOTS": f"a b{os.pathsep}{tmp_path}"})

    assert result.stdout.decode() == f"{(tmp_path / 'a b').as_uri()}, {tmp_path.as_uri()}\n"


# Results


def test_text_is_written_unchanged_to_a_pipe(tmp_path: Path) -> None:
    assert call(tmp_path, "hostile").stdout.decode() == f"{HOSTILE}\n"


def test_text_cannot_control_the_terminal(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "hostile"), cwd=tmp_path) as terminal:
        assert terminal.end() == 0

    assert "\\x1b[2J\\x1b]0;owned\\x07left\\u202eright\nnext\n" in terminal.shown
    assert b"\x1b[2J" not in terminal.raw
    assert b"\x07" not in terminal.raw


def test_unencodable_characters_are_escaped(tmp_path: Path) -> None:
    result = call(tmp_path, "hostile", env={"PYTHONIOENCODING": "ascii"})

    assert result.stdout.decode() == f"{HOSTILE}\n".replace("\u202e", "\\u202e")


def test_structured_content_is_shown_once(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "weather"), cwd=tmp_path) as terminal:
        assert terminal.end() == 0

    assert terminal.shown.count('"degrees": 21.5') == 1
    assert json.loads(call(tmp_path, "weather").stdout) == {"degrees": 21.5, "sky": "blue"}


def test_text_of_its_own_is_shown_without_the_structured_content(tmp_path: Path) -> None:
    (tmp_path / "beds.py").write_text(
        "from mcptrio import tool\n\n\n@tool(text=lambda count: f'{count} beds')\n"
        "async def beds() -> int:\n    return 3\n"
    )
    with at_terminal("call", "--plugin", "beds.py", "beds", cwd=tmp_path) as terminal:
        assert terminal.end() == 0
    piped = run("call", "--plugin", "beds.py", "beds", cwd=tmp_path)

    assert "3 beds\n--json shows the structured content too" in terminal.shown
    assert (piped.stdout, piped.stderr) == (b"3 beds\n", b"")


def test_json_prints_the_whole_result(tmp_path: Path) -> None:
    failed = run(*with_plugin("call", "broken", "--json"), cwd=tmp_path)
    result = json.loads(call(tmp_path, "weather", "--json").stdout)

    assert result["structuredContent"] == {"degrees": 21.5, "sky": "blue"}
    assert (failed.returncode, failed.stderr) == (1, b"")
    assert json.loads(failed.stdout)["isError"] is True


def test_binary_content_is_summarized(tmp_path: Path) -> None:
    result = call(tmp_path, "files")

    assert result.stdout.decode() == "here they are\nnote://1  (a note, text/plain)\n"
    assert result.stderr.decode().splitlines() == [
        f"[image: image/png, {len(PNG)} bytes; --output saves it]",
        f"[audio: audio/wav, {len(PNG)} bytes; --output saves it]",
        f"[resource: application/octet-stream, {len(PNG)} bytes; --output saves it]",
    ]


def test_binary_content_is_saved_under_safe_names(tmp_path: Path) -> None:
    for _ in range(2):
        call(tmp_path, "files", "--output", "new/folder")
    call(tmp_path, "files", "--json", "-o", "new/folder")

    assert sorted(os.listdir(tmp_path / "new" / "folder")) == [
        "files-2.png",
        "files-2.wav",
        "files-3.png",
        "files-3.wav",
        "files.png",
        "files.wav",
        "hidden_name-2.bin",
        "hidden_name-3.bin",
        "hidden_name.bin",
    ]
    assert (tmp_path / "new" / "folder" / "files.png").read_bytes() == PNG


def test_output_printed_by_a_plugin_goes_to_stderr(tmp_path: Path) -> None:
    result = call(tmp_path, "printing")

    assert result.stdout == b"returned by the tool\n"
    assert b"printed by the tool\n" in result.stderr


# Progress and logs


def test_progress_in_a_pipe_is_written_as_lines(tmp_path: Path) -> None:
    assert call(tmp_path, "count").stderr.startswith(b"count:  33% step 1\n")


async def test_progress_in_a_pipe_is_limited_to_one_line_a_second(autojump_clock: trio.abc.Clock) -> None:
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with progress_line(Console(out, err), "count") as report:
        for step in range(1, 10):
            report(Progress(step, 10, f"step {step}"))
            await trio.sleep(0.3)

    assert err.getvalue() == "count:  10% step 1\ncount:  50% step 5\ncount:  90% step 9\n"


def test_progress_bar_at_a_terminal_is_removed_at_the_end(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "sleep", "seconds=0.4", "steps=4"), cwd=tmp_path) as terminal:
        terminal.until(r"sleep \[######\.{18}\]  25% step 1")
        terminal.until(r"sleep \[#{18}\.{6}\]  75% step 3")
        assert terminal.end() == 0

    assert terminal.raw.endswith(b"\r\x1b[Kawake\r\n")


def test_progress_bar_is_not_in_the_result(tmp_path: Path) -> None:
    read, write = os.pipe()
    with at_terminal(*with_plugin("call", "sleep", "seconds=0.2"), cwd=tmp_path, stdout=write) as terminal:
        os.close(write)
        assert terminal.end() == 0
    with os.fdopen(read, "rb") as result:
        assert result.read() == b"awake\n"
    assert "step 1" in terminal.shown


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_log_messages_are_written_to_stderr(tmp_path: Path, revision: str) -> None:
    plain = call(tmp_path, "log", "--revision", revision).stderr.decode()
    all_of_them = call(
        tmp_path, "log", "--revision", revision, env={"MCPTRIO_CLIENT_LOG_LEVEL": "debug"}
    ).stderr.decode()
    none = call(tmp_path, "log", "--revision", revision, env={"MCPTRIO_CLIENT_LOG_LEVEL": "off"}).stderr.decode()

    warning = '[warning] plugin: {"disk": "full\\u001b[31m"}\n'
    assert plain == warning
    assert all_of_them == f"[debug] plugin: not asked for\n{warning}"
    assert none == ""


def test_log_messages_are_coloured_by_severity(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "log"), cwd=tmp_path) as terminal:
        assert terminal.end() == 0
    with at_terminal(*with_plugin("call", "log"), cwd=tmp_path, env={"NO_COLOR": "1"}) as plain:
        assert plain.end() == 0

    assert b"\x1b[33m[warning]\x1b[0m plugin: " in terminal.raw
    assert b"\x1b[33m" not in plain.raw


def test_ctrl_c_cancels_the_call(tmp_path: Path) -> None:
    with at_terminal(*with_plugin("call", "sleep", "seconds=60", "steps=600"), cwd=tmp_path) as terminal:
        terminal.until("step 1")
        terminal.type("\x03")
        terminal.until("the call was taken back")
        terminal.until("mcptrio: interrupted\n")

        assert terminal.end() == 130


def test_call_over_http(tmp_path: Path) -> None:
    with serving("--http", "--port=0", "--plugin", str(PLUGIN), cwd=tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        result = run("call", url, "take", "text=x", "tags=a", cwd=tmp_path)
        counted = run("call", url, "count", cwd=tmp_path)

    assert (result.returncode, json.loads(result.stdout)[5]) == (0, ["a"])
    assert counted.stdout == b"counted\n"
    assert counted.stderr.startswith(b"count:  33% step 1\n")
