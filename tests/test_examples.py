"""The examples run as their docstrings describe, with a client, in the relevant revisions."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import Server
from tests.error_codes import INVALID_PARAMS, RESOURCE_NOT_FOUND
from tests.interaction.applies import REVISIONS
from tests.interaction.client import Peer
from tests.interaction.wires import HTTPWire, PipeWire

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
WAIT_TIMEOUT = 60.0
BOTH_ERAS = (REVISIONS[-2], REVISIONS[-1])

both_eras = pytest.mark.parametrize("revision", BOTH_ERAS)
every_revision = pytest.mark.parametrize("revision", REVISIONS)


def how_to_run(example: str) -> list[str]:
    """Return the command in the docstring, with the mcptrio of this Python."""
    text = (ROOT / "examples" / f"{example}.py").read_text("utf-8")
    match = re.search(r"^Run it: (mcptrio .*)$", text, re.MULTILINE)
    assert match, f"{example}: the docstring does not say how to run it"
    return [sys.executable, "-m", *shlex.split(match[1])]


@asynccontextmanager
async def process(example: str, revision: str, *, config: str = "", **options: Any) -> AsyncIterator[Peer]:
    """Run the example in a separate process, with a client. The process must exit with 0 at the end of its input."""
    command = how_to_run(example)
    if config:
        command += ["--config", config]
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            server: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )
            )
            assert server.stdin is not None
            assert server.stdout is not None
            async with server.stdin, server.stdout:
                wire = PipeWire(server.stdout, server.stdin)  # type: ignore[arg-type]
                peer = Peer(revision=revision, wire=wire, nursery=nursery, seconds=WAIT_TIMEOUT, **options)
                await nursery.start(peer.run)
                await peer.begin()
                yield peer
                await wire.half_close()
                await peer.ended.wait()
                await server.wait()


def load(example: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{example}", ROOT / "examples" / f"{example}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def running(example: str) -> AsyncIterator[tuple[trio.Nursery, Any]]:
    """Run the example's ``main`` on a free port, and cancel it at the end like Ctrl-C; yield its start value."""
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            started = await nursery.start(load(example).main, 0)
            yield nursery, started
            nursery.cancel_scope.cancel()


async def http_peer(nursery: trio.Nursery, url: str, revision: str) -> Peer:
    port = int(re.findall(r":(\d+)", url)[0])
    peer = Peer(revision=revision, wire=HTTPWire(port), nursery=nursery, seconds=WAIT_TIMEOUT)
    await nursery.start(peer.run)
    await peer.begin()
    return peer


def test_every_example_has_a_test() -> None:
    tested = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]

    assert EXAMPLES
    assert [example for example in EXAMPLES if not any(name.startswith(example) for name in tested)] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_docstring_of_every_example_has_its_command(example: str) -> None:
    source = (ROOT / "examples" / f"{example}.py").read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""

    assert re.search(rf"^Run it: .*examples/{example}\.py", docstring, re.MULTILINE)


@every_revision
async def test_hello_example_answers(revision: str) -> None:
    async with process("hello", revision) as peer:
        assert await peer.text("greet", {"name": "Ada"}) == "Hello, Ada!"
        read = await peer.request("resources/read", {"uri": "hello://readme"})
        assert read["contents"][0]["text"] == "It greets."
        got = await peer.request("prompts/get", {"name": "greeting", "arguments": {"name": "Ada", "formal": "true"}})
        assert got["messages"][0]["content"]["text"] == "Greet Ada formally, in one sentence."


@both_eras
async def test_progress_example_reports_and_stops_when_cancelled(revision: str) -> None:
    async with process("progress", revision) as peer:
        counted = await peer.start_call("count", {"to": 5, "pause": 0.01}, meta={"progressToken": "p"})
        assert (await counted.result())["content"][0]["text"] == "5"
        reports = [note["progress"] for note in peer.notes("notifications/progress")]
        assert reports[-1] == 5
        assert reports == sorted(set(reports))

        gathered = await peer.call("gather", {"seconds": [0, 30], "timeout": 2})
        assert json.loads(gathered["content"][0]["text"]) == ["done", "too slow"]

        # A cancelled request gets no response.
        endless = await peer.start_call("count", {"to": 10_000, "pause": 1}, meta={"progressToken": "q"})
        await peer.until(lambda message: message.get("params", {}).get("progressToken") == "q")
        await peer.notify("notifications/cancelled", {"requestId": endless.id})
        assert len(await peer.text("checksum", {"text": "x", "rounds": 100})) == 64
        assert "at least 1 round" in await peer.failure("checksum", {"text": "x", "rounds": 0})
        assert endless.answer is None


@both_eras
async def test_garden_example_answers(revision: str, tmp_path: Path) -> None:
    beds, config = tmp_path / "garden.txt", tmp_path / "mcptrio.toml"
    beds.write_text("sage")
    config.write_text(f"[plugins.garden]\nfile = {json.dumps(str(beds))}\n")
    async with process("garden", revision, config=str(config)) as peer:
        assert json.loads(await peer.text("water", {"bed": "mint", "liters": 2})) == {"bed": "mint", "liters": 2}
        read = await peer.request("resources/read", {"uri": "garden://beds/sage"})
        assert read["contents"][0]["text"] == "sage: 0 l"
    assert beds.read_text().split() == ["sage", "mint"]


def test_tests_of_the_garden_example_pass_in_60_lines() -> None:
    path = ROOT / "examples" / "garden.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_TIMEOUT)

    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout
    assert len(path.read_text("utf-8").splitlines()) <= 60


@pytest.mark.parametrize("parked", [True, False])
@every_revision
async def test_elicit_example_completes_with_an_accepted_form(revision: str, parked: bool, tmp_path: Path) -> None:
    config = tmp_path / "mcptrio.toml"
    config.write_text(f"[server.limits]\nparked = {1000 if parked else 0}\n")

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked = params["requestedSchema"]["properties"]
        content = {"guests": 3, "area": "terrace"} if "guests" in asked else dict.fromkeys(asked, "Ada")
        return {"action": "accept", "content": content}

    options = {"capabilities": {"elicitation": {}}, "answers": {"elicitation/create": answer}}
    async with process("elicit", revision, config=str(config), **options) as peer:
        if revision in REVISIONS[2:]:
            assert await peer.text("book") == "Table 1 for 3, terrace, in the name of Ada."
            assert await peer.text("book", {"guests": 2}) == "Table 2 for 2, inside, in the name of Ada."
            assert len(peer.asked) == 3
        else:
            assert "`guests`" in await peer.failure("book")
            assert await peer.text("book", {"guests": 2}) == "Table 1 for 2, inside."


@both_eras
async def test_elicit_example_accepts_a_declined_form(revision: str) -> None:
    options = {
        "capabilities": {"elicitation": {}},
        "answers": {"elicitation/create": lambda params: {"action": "decline"}},
    }
    async with process("elicit", revision, **options) as peer:
        assert await peer.text("book") == "The user does not want a table."


@both_eras
async def test_notes_example_answers_and_notifies(revision: str, tmp_path: Path) -> None:
    config = tmp_path / "mcptrio.toml"
    config.write_text(f"[plugins.notes]\nfile = {str(tmp_path / 'notes.json')!r}\n")
    async with process("notes", revision, config=str(config)) as peer:
        await peer.watch(uris=["notes:///shopping"])
        assert await peer.text("write", {"name": "shopping", "text": "milk"}) == "1 notes"
        assert (await peer.until("notifications/resources/updated"))["params"]["uri"] == "notes:///shopping"
        read = await peer.request("resources/read", {"uri": "notes:///shopping"})
        assert (read["contents"][0]["text"], read["contents"][0]["mimeType"]) == ("milk", "text/markdown")
        answer = await peer.request(
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "notes:///{name}"},
                "argument": {"name": "name", "value": "sh"},
            },
        )
        assert answer["completion"]["values"] == ["shopping"]
        assert json.loads((await peer.call("search", {"words": "MILK"}))["content"][0]["text"]) == ["shopping"]
        got = await peer.request("prompts/get", {"name": "summarize", "arguments": {"name": "shopping"}})
        assert "milk" in got["messages"][0]["content"]["text"]
        missing = await peer.error("resources/read", {"uri": "notes:///none"})
        assert missing["code"] == (RESOURCE_NOT_FOUND if peer.handshake else INVALID_PARAMS)
        assert "no note" in await peer.failure("delete", {"name": "none"})

    async with process("notes", revision, config=str(config)) as peer:
        read = await peer.request("resources/read", {"uri": "notes:///shopping"})
        assert read["contents"][0]["text"] == "milk", "the notes were not kept"
        assert await peer.text("delete", {"name": "shopping"}) == "deleted"


@both_eras
async def test_custom_method_example_answers(revision: str) -> None:
    async with process("custom_method", revision) as peer:
        for file in ("docs/a", "docs/b", "src/c"):
            await peer.notify("com.example/touched", {"file": file})
        # A notification is handled concurrently with later requests, so the first of them may be faster.
        indexed = 0
        while indexed < 2:
            indexed += (await peer.request("com.example/reindex", {"folder": "docs"}))["indexed"]
        assert sorted(note["file"] for note in peer.notes("com.example/indexed")) == ["docs/a", "docs/b"]
        refused = await peer.error("com.example/reindex", {"folder": 1})
        assert refused["code"] == INVALID_PARAMS
        assert "at `params.folder`" in refused["message"]
        if not peer.handshake:
            discovered = await peer.request("server/discover")
            assert discovered["capabilities"]["extensions"] == {"com.example/index": {"notifies": True}}


@both_eras
async def test_embed_example_serves_within_an_application(revision: str) -> None:
    async with running("embed") as (nursery, url):
        peer = await http_peer(nursery, url, revision)
        assert await peer.text("set_pause", {"seconds": 0}) == "one step every 0.001 s"
        await peer.watch(uris=["counter://value"])
        await peer.until("notifications/resources/updated")
        read = await peer.request("resources/read", {"uri": "counter://value"})
        assert int(read["contents"][0]["text"]) >= 10


@both_eras
async def test_mount_quart_example_serves_below_a_path(revision: str) -> None:
    async with running("mount_quart") as (nursery, url):
        peer = await http_peer(nursery, url, revision)
        assert await peer.text("sign", {"name": "Ada"}) == "Ada is guest number 1"
        host, port = url.removeprefix("http://").split(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(f"GET /guests HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            response = b"".join([chunk async for chunk in stream])
        assert json.loads(response.rpartition(b"\r\n\r\n")[2]) == {"guests": ["Ada"]}


async def test_own_transport_example_serves_two_clients() -> None:
    """The transport runs in a separate process, with two clients, one of which breaks its connection."""
    example = load("own_transport")
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            # The server prints its address on standard error.
            server: trio.Process = await nursery.start(
                partial(trio.run_process, how_to_run("own_transport"), stderr=subprocess.PIPE, cwd=ROOT)
            )
            assert server.stderr is not None
            received = b""
            while not (match := re.search(rb"serving lsp://127.0.0.1:(\d+)\n", received)):
                received += await server.stderr.receive_some()
            port = int(match[1])
            async with await trio.open_tcp_stream("127.0.0.1", port) as stranger:
                assert await example.ask(port, "hey") == "HEY"
                await stranger.send_all(b"GET / HTTP/1.1\r\n\r\n")
                assert await stranger.receive_some() == b""
            assert await example.ask(port, "still here") == "STILL HERE"
            server.terminate()
            assert await server.wait() == 0


def printed_by(example: str) -> str:
    """Return the output of the example, run as in its docstring."""
    command = [sys.executable, f"examples/{example}.py"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_client_example_prints_its_output() -> None:
    printed = printed_by("client")

    assert "3 of 1000\nleft early" in printed
    assert printed.endswith("Table 1 for 4, inside, in the name of Ada.\n")


def test_asyncio_host_example_prints_its_output() -> None:
    assert printed_by("asyncio_host") == (
        "3 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\nleft early, and cancelled the call\n"
    )


@both_eras
async def test_asyncio_library_example_shares_a_loop_between_calls(revision: str) -> None:
    async with process("asyncio_library", revision) as peer:
        await peer.call("publish", {"page": "beans"})
        assert await peer.text("next_page") == "beans"


async def test_cancelled_call_of_the_asyncio_library_example_is_cancelled_in_asyncio() -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with mcptrio.connect(Server(plugins=[load("asyncio_library")])) as client:
            assert "asyncio" in [thread.name for thread in threading.enumerate()]
            with trio.move_on_after(0.2) as waiting:
                await client.call_tool("next_page", {})
            await trio.testing.wait_all_tasks_blocked()
            await client.call_tool("publish", {"page": "peas"})
            # The cancelled call would have taken the page.
            assert (await client.call_tool("next_page", {})).text == "peas"

    assert waiting.cancelled_caught
    assert "asyncio" not in [thread.name for thread in threading.enumerate()]


async def test_thread_of_the_asyncio_library_example_ends_if_the_server_is_cancelled() -> None:
    with trio.fail_after(WAIT_TIMEOUT), trio.CancelScope() as scope:
        async with Server(plugins=[load("asyncio_library")]).open():
            assert "asyncio" in [thread.name for thread in threading.enumerate()]
            scope.cancel()
            await trio.sleep_forever()

    assert "asyncio" not in [thread.name for thread in threading.enumerate()]


def test_host_example_reads_calls_and_answers() -> None:
    """Each input line is a call, a yes or a no, or an answer to a server."""
    messages = [
        'hello_greet {"name": "Ada"}',
        "yes",
        'hello_greet {"name": "Bob"}',
        "no",
        "tables_book",
        "yes",
        "yes",
        '{"guests": 3}',
        "yes",
        '{"value": "Ada"}',
        "nothing_like_it",
    ]
    command = [sys.executable, "examples/host.py"]
    result = subprocess.run(
        command, cwd=ROOT, input="\n".join(messages), capture_output=True, text=True, timeout=180, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert "hello_greet: " in result.stdout
    where = Path(sys.executable).name
    assert f'call the tool greet of hello ({where}): {{"name":"Ada"}}' in result.stdout
    assert "Hello, Ada!" in result.stdout
    assert "not approved: greet" in result.stdout
    assert "Table 1 for 3, inside, in the name of Ada." in result.stdout
    assert "no such tool: `nothing_like_it`" in result.stdout
