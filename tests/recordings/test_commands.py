"""``mcptrio show`` and ``mcptrio replay``, as a user runs them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from mcptrio import Server, connect
from mcptrio.client.handlers import Handlers
from tests.processes import run
from tests.recordings import garden

__all__: list[str] = []

GARDEN = Path(__file__).parent / "garden.py"
MCPTRIO = shlex.join((sys.executable, "-m", "mcptrio"))
SERVE = f"{MCPTRIO} serve --stdio --plugin {GARDEN}"


async def carrots(_form: object) -> dict[str, str]:
    return {"value": "carrots"}


async def record(path: Path, revision: str = "2025-11-25") -> None:
    server = Server("garden", plugins=[garden])
    async with connect(server, revision=revision, handlers=Handlers(elicit=carrots), record=path) as client:
        # The command `call` lists the tools first.
        assert [tool async for tool in client.tools()]
        await client.call_tool("water", {"bed": "west"})
        await client.call_tool("sow", {"bed": "east"})
        result = await client.call_tool("water", {"bed": "west", "litres": "many"})
        assert result.is_error


def rows(printed: str) -> list[list[str]]:
    """Return number, arrow and text of each row."""
    results = []
    for line in printed.splitlines()[1:]:
        number, _, _, arrow, *text = line.split()
        results.append([number, arrow, " ".join(word for word in text if not word[0].isdecimal() and word != "ms")])
    return results


async def test_recording_is_shown_as_a_sequence(tmp_path: Path) -> None:
    await record(tmp_path / "x.jsonl")
    result = run("show", "x.jsonl", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert [text for _, *text in rows(result.stdout)] == [
        ["-->", "initialize"],
        ["<--", "initialize ok"],
        ["-->", "notifications/initialized"],
        ["-->", "tools/list"],
        ["<--", "tools/list ok"],
        ["-->", "tools/call water"],
        ["<--", "tools/call water ok"],
        ["-->", "tools/call sow"],
        ["<--", "notifications/progress the bed is ready"],
        ["<--", "elicitation/create What goes into east?"],
        ["-->", "elicitation/create What goes into east? accept"],
        ["<--", "tools/call sow ok"],
        ["-->", "tools/call water"],
        ["<--", "tools/call water tool error"],
    ]
    assert result.stderr.startswith("14 messages of the client garden, recorded by mcptrio ")


async def test_filters_choose_messages(tmp_path: Path) -> None:
    await record(tmp_path / "x.jsonl")
    errors = run("show", "x.jsonl", "--errors", cwd=tmp_path)
    method = run("show", "x.jsonl", "--method", "elicitation/create", cwd=tmp_path)
    session = run("show", "x.jsonl", "--session", "memory-2", cwd=tmp_path)

    assert [arrow for _, arrow, _ in rows(errors.stdout)] == ["-->", "<--"]
    assert "tool error" in errors.stdout
    assert [arrow for _, arrow, _ in rows(method.stdout)] == ["<--", "-->"]
    assert session.returncode == 2
    assert session.stderr == "mcptrio: x.jsonl: there is no session `memory-2`; there are: memory-1\n"


async def test_one_message_is_shown_in_full(tmp_path: Path) -> None:
    await record(tmp_path / "x.jsonl")
    result = run("show", "x.jsonl", "--message", "6", cwd=tmp_path)
    beyond = run("show", "x.jsonl", "--message", "99", cwd=tmp_path)

    shown = json.loads(result.stdout)
    assert shown["message"]["params"]["arguments"] == {"bed": "west"}
    assert (shown["session"], shown["to_server"]) == ("memory-1", True)
    assert beyond.stderr == "mcptrio: --message: expected a number up to 14, got 99\n"


def test_another_file_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("beans\n")
    for name, problem in (
        ("notes.txt", "expected a recording that --record has written, got another file"),
        ("none.jsonl", "cannot be read: No such file or directory"),
    ):
        result = run("show", name, cwd=tmp_path)
        assert (result.returncode, result.stderr) == (2, f"mcptrio: {name}: {problem}\n")


# Replaying


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_recorded_server_is_a_target_of_other_commands(tmp_path: Path, revision: str) -> None:
    await record(tmp_path / "x.jsonl", revision)
    target = f"{MCPTRIO} replay x.jsonl --as server --speed max"
    known = run("call", target, "water", "bed=west", "--no-check", cwd=tmp_path)
    other = run("call", target, "water", "bed=north", "--no-check", cwd=tmp_path)

    assert (known.returncode, known.stdout) == (0, "west: 2 litres\n"), known.stderr
    assert other.returncode == 3
    assert 'the nearest has {"arguments":{"bed":"west"},"name":"water"}' in other.stderr


async def test_recorded_server_can_be_mounted(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with connect(Server("garden", plugins=[garden], record=path)) as client:
        for listing in (client.tools(), client.resources(), client.resource_templates()):
            _ = [entry async for entry in listing]
        await client.call_tool("water", {"bed": "west", "litres": 2})
    (tmp_path / "mcptrio.toml").write_text(
        f'[mount.plot]\ncommand = "{sys.executable}"\n'
        f'args = ["-m", "mcptrio", "replay", "{path}", "--as", "server", "--speed", "max"]\n'
    )
    result = run("call", "--plugin", "mount", "plot_water", "bed=west", "litres=2", cwd=tmp_path)

    assert (result.returncode, result.stdout) == (0, "west: 2 litres\n"), result.stderr


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_recorded_client_gets_the_same_results(tmp_path: Path, revision: str) -> None:
    await record(tmp_path / "x.jsonl", revision)
    result = run("replay", "x.jsonl", "--as", "client", SERVE, cwd=tmp_path)

    assert (result.returncode, result.stdout) == (0, ""), result.stdout
    assert result.stderr.endswith("4 requests repeated, 0 with a different result\n")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_other_results_are_shown_unless_they_are_ignored(tmp_path: Path, revision: str) -> None:
    await record(tmp_path / "x.jsonl", revision)
    changed = tmp_path / "garden.py"
    changed.write_text(GARDEN.read_text().replace("{litres} litres", "{litres} buckets"))
    command = ("replay", "x.jsonl", "--as", "client", f"{MCPTRIO} serve --stdio --plugin {changed}")
    differs = run(*command, cwd=tmp_path)
    same = run(*command, "--ignore", "content.*.text", cwd=tmp_path)

    assert differs.returncode == 1
    assert differs.stdout.startswith(
        'tools/call {"name": "water", "arguments": {"bed": "west"}}\n--- recorded\n+++ live\n'
    )
    assert '-        "text": "west: 2 litres",\n+        "text": "west: 2 buckets",\n' in differs.stdout
    assert differs.stderr.endswith("4 requests repeated, 1 with a different result\n")
    assert (same.returncode, same.stdout) == (0, "")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--as", "client"), "missing TARGET: pass the server that gets the recorded requests"),
        (("--as", "server", "http://x"), "TARGET and --ignore can only be used with --as client"),
        (("--as", "server", "--speed", "fast"), "expected a number from 0, or max, got 'fast'"),
        (("--as", "server", "--speed", "-1"), "expected a number from 0, or max, got '-1'"),
    ],
)
def test_invalid_usage_is_explained(tmp_path: Path, args: tuple[str, ...], problem: str) -> None:
    (tmp_path / "x.jsonl").write_text('{"mcptrio_recording": 1}\n')
    result = run("replay", "x.jsonl", *args, cwd=tmp_path)

    assert result.returncode == 2
    assert problem in result.stderr
