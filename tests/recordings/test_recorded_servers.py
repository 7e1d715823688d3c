"""``--record`` of real processes: over stdio, over HTTP in both eras, in workers, and with a mounted server."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
import trio

from mcptrio import Command, connect
from mcptrio.client.handlers import Handlers
from mcptrio.recording.transcript import read_transcript
from tests.processes import run, serving

__all__: list[str] = []

GARDEN = Path(__file__).parent / "garden.py"


async def carrots(_form: object) -> dict[str, str]:
    return {"value": "carrots"}


async def sow(target: str | Command, revision: str) -> str:
    async with connect(target, revision=revision, handlers=Handlers(elicit=carrots)) as client:
        result = await client.call_tool("sow", {"bed": "east"})
        return str(result.content[0].text)  # type: ignore[union-attr]


def recordings(folder: Path) -> list[Path]:
    return [*folder.glob("x.jsonl.w*")]


def sequence(path: Path) -> list[str]:
    """Return the messages of the last request and its answer, as arrows."""
    results = []
    for entry in read_transcript(path).entries:
        what = entry.method or ("error" if entry.error is not None else "result")
        results.append(f"{'-->' if entry.to_server else '<--'} {what}")
    return results[results.index("--> tools/call") :]


QUESTION = [
    "--> tools/call",
    "<-- notifications/progress",
    "<-- elicitation/create",
    "--> result",
    "<-- result",
]
ROUND_TRIP = ["--> tools/call", "<-- notifications/progress", "<-- result", "--> tools/call", "<-- result"]


def shown(revision: str) -> list[str]:
    return QUESTION if revision == "2025-11-25" else ROUND_TRIP


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_server_over_stdio_is_recorded(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "x.jsonl"
    args = (sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(GARDEN), "--record", str(path))
    assert await sow(Command(args=args), revision) == "carrots in east"

    messages = [each for each in sequence(path) if "progress" not in each]
    assert messages == [each for each in shown(revision) if "progress" not in each]
    assert {(entry.session, entry.via) for entry in read_transcript(path).entries} == {("stdio-1", "stdio")}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_server_over_http_is_recorded_without_session_ids(tmp_path: Path, revision: str) -> None:
    path, client_path = tmp_path / "x.jsonl", tmp_path / "client.jsonl"
    with serving("--http", "--port=0", f"--plugin={GARDEN}", f"--record={path}", cwd=tmp_path) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        async with connect(url, revision=revision, handlers=Handlers(elicit=carrots), record=client_path) as client:
            await client.call_tool("sow", {"bed": "east"}, progress=print)
        server.signal(signal.SIGTERM)
        server.end()

    assert sequence(path) == shown(revision)
    assert sequence(client_path) == shown(revision)
    sessions = {entry.session for entry in read_transcript(path).entries}
    if revision == "2025-11-25":
        [session] = sessions
        assert len(session) == len("http-") + 12, "a hash: the id of the session would let a reader use it"
    assert {entry.via for entry in read_transcript(path).entries} == {"http"}


async def test_each_worker_has_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text("[http]\nworkers = 2\n")
    path = tmp_path / "x.jsonl"
    with serving("--http", "--port=0", f"--plugin={GARDEN}", f"--record={path}", cwd=tmp_path) as server:
        assert await sow(f"http://127.0.0.1:{server.port}/mcp", "2026-07-28") == "carrots in east"
        with trio.fail_after(30):
            # The server is ready with its first worker, and a worker that has not begun makes no file.
            while len(recordings(tmp_path)) < 2:  # noqa: ASYNC110 - a file has no event
                await trio.sleep(0.05)
        server.signal(signal.SIGTERM)
        server.end()

    files = recordings(tmp_path)
    assert len(files) == 2
    assert sum(len(read_transcript(file).entries) for file in files) >= 4
    assert not path.exists()


async def test_messages_to_a_mounted_server_are_recorded_too(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text(
        f'[mount.plot]\ncommand = "{sys.executable}"\n'
        f'args = ["-m", "mcptrio", "serve", "--stdio", "--plugin", "{GARDEN}"]\n'
    )
    path = tmp_path / "x.jsonl"
    args = ("serve", "--stdio", "--plugin", "mount", "--record", str(path))
    command = Command(args=(sys.executable, "-m", "mcptrio", *args), cwd=tmp_path)
    async with connect(command) as client:
        await client.call_tool("plot_water", {"bed": "west"})

    transcript = read_transcript(path)
    named = [
        (entry.via, entry.to_server, entry.params["name"])
        for entry in transcript.entries
        if entry.method == "tools/call"
    ]
    assert named == [("stdio", True, "plot_water"), ("mount plot", True, "water")]
    assert {entry.via for entry in transcript.of_session(None)} == {"stdio"}, "a replay answers the own clients"


@pytest.mark.parametrize("command", [("serve", "--stdio"), ("serve", "--http", "--port=0")])
def test_file_that_cannot_be_written_ends_the_start(tmp_path: Path, command: tuple[str, ...]) -> None:
    result = run(*command, "--plugin", str(GARDEN), "--record", "none/x.jsonl", cwd=tmp_path)

    assert result.returncode == 2
    assert result.stderr.endswith("mcptrio: record: none/x.jsonl cannot be written: No such file or directory\n")


def test_call_and_shell_are_recorded(tmp_path: Path) -> None:
    for command in (("call",), ("shell",)):
        path = tmp_path / f"{command[0]}.jsonl"
        more = ("water", "bed=west") if command == ("call",) else ()
        result = run(*command, "--plugin", str(GARDEN), *more, "--record", str(path), cwd=tmp_path)

        assert result.returncode == 0, result.stderr
        assert read_transcript(path).header["side"] == "client"
        assert read_transcript(path).entries
