"""``mcptrio dev``: real processes, real files, and a client that stays connected."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from mcptrio import Client, Command, MCPError, connect
from mcptrio.cli.group import cli
from mcptrio.client import ClientTimeouts, Handlers
from tests.distributions import install, one_tool
from tests.error_codes import INVALID_REQUEST, PARSE_ERROR
from tests.processes import HELLO, WAIT_TIMEOUT, Served, environment, serving

__all__: list[str] = []

TIMEOUTS = ClientTimeouts(connect=WAIT_TIMEOUT, probe=WAIT_TIMEOUT)
DEV = [sys.executable, "-m", "mcptrio", "dev"]

GARDEN = '''
import os
import time
from dataclasses import dataclass

import trio
from mcptrio import Context, resource, tool

ANSWER = "beans"


@dataclass
class Plant:
    name: str


@tool
async def grow() -> str:
    """Answers."""
    return ANSWER


@tool
async def wait(seconds: float) -> str:
    """Takes so long."""
    await trio.sleep(seconds)
    return ANSWER


@tool
async def ask(ctx: Context) -> str:
    """Asks the user."""
    plant = await ctx.ask("Which?", Plant)
    return f"{ANSWER} and {plant.name}"


@tool
async def tell(ctx: Context) -> str:
    """Tells what has changed."""
    await ctx.debug("told")
    ctx.notify_resource_updated("garden://bed")
    return ANSWER


@tool
async def freeze(until: str) -> str:
    """Holds up everything in the process."""
    while not os.path.exists(until):
        time.sleep(0.01)
    return ANSWER


@tool
async def fall() -> str:
    """Ends the process."""
    os._exit(7)


@resource("garden://bed")
async def bed() -> str:
    return ANSWER
'''


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    file = tmp_path / "garden.py"
    file.write_text(GARDEN)
    return file


def write(file: Path, text: str) -> None:
    """Write a file atomically: a partly written file would be another change."""
    beside = file.with_suffix(".half")
    beside.write_text(text)
    beside.replace(file)


def plant(garden: Path, answer: str) -> None:
    write(garden, GARDEN.replace("beans", answer))


class Log:
    """The lines of a server's log."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._more = trio.Event()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self._more.set()
        self._more = trio.Event()

    async def until(self, text: str) -> str:
        """Wait for a line that contains the text."""
        while not (found := [line for line in self.lines if text in line]):
            await self._more.wait()
        return found[-1]


@asynccontextmanager
async def developing(
    garden: Path, revision: str | None = None, *, log: Log | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Log]]:
    """A client of ``mcptrio dev --stdio``, and its log."""
    log = log or Log()
    target = Command(args=[*DEV, "--stdio", "--plugin", garden.name], env=environment(), cwd=garden.parent, stderr=log)
    with trio.fail_after(2 * WAIT_TIMEOUT):
        async with connect(target, revision=revision, timeouts=TIMEOUTS, **options) as client:
            yield client, log


@contextmanager
def raw(garden: Path) -> Iterator[Served]:
    with serving(cwd=garden.parent, command=[*DEV, "--stdio", "--plugin", garden.name]) as served:
        yield served


async def text_of(client: Client, tool: str, **arguments: Any) -> str:
    return str(getattr((await client.call_tool(tool, arguments)).content[0], "text", ""))


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_saved_change_is_served_and_notified(garden: Path, revision: str) -> None:
    async with (
        developing(garden, revision) as (client, log),
        client.subscribe(tools=True, prompts=True, resources=True) as changes,
    ):
        assert await text_of(client, "grow") == "beans"
        plant(garden, "peas")
        notified = set()
        async for change in changes:
            notified.add(change.kind)
            if len(notified) == 3:
                break

        assert notified == {"tools", "prompts", "resources"}
        assert await text_of(client, "grow") == "peas"
        assert "ms: garden.py" in await log.until("reloaded in ")


async def test_change_of_an_empty_list_is_notified(garden: Path) -> None:
    """The client connected when the server had no prompts."""
    async with developing(garden) as (client, log):
        assert [each.name async for each in client.prompts()] == []
        write(garden, f"{GARDEN}\n\nfrom mcptrio import prompt\n\n@prompt\ndef plan() -> str:\n    return ''\n")
        await log.until("reloaded in ")

        assert [each.name async for each in client.prompts()] == ["plan"]


async def test_call_in_flight_completes_or_gets_the_reason_for_the_reload(garden: Path) -> None:
    answers: dict[str, str] = {}
    async with developing(garden) as (client, log):

        async def call(name: str, seconds: float) -> None:
            try:
                answers[name] = await text_of(client, "wait", seconds=seconds)
            except MCPError as error:
                answers[name] = str(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "short", 1.5)
            nursery.start_soon(call, "long", 600.0)
            await text_of(client, "grow")
            plant(garden, "peas")
            await log.until("reloaded in ")
            assert await text_of(client, "grow") == "peas"

    assert answers["short"] == "beans"
    assert answers["long"] == "the server was reloaded because of changes in garden.py; send the request again"


async def test_failed_import_keeps_the_previous_version(garden: Path) -> None:
    async with developing(garden) as (client, log):
        assert await text_of(client, "grow") == "beans"
        write(garden, "def broken(:\n")
        await log.until("reload failed, the previous version keeps running")
        assert sum("SyntaxError" in line for line in log.lines) == 1
        assert sum("def broken(:" in line for line in log.lines) == 1
        assert not [line for line in log.lines if "mcptrio/" in line]
        assert await text_of(client, "grow") == "beans"
        plant(garden, "peas")
        await log.until("reloaded in ")
        assert await text_of(client, "grow") == "peas"


def test_failed_first_start_is_reported_and_retried(garden: Path) -> None:
    garden.write_text("def broken(:\n")
    with raw(garden) as served:
        served.send(HELLO)
        refused = served.receive()["error"]["message"]
        assert "the server could not be started; it is started again when a file changes" in refused
        assert "SyntaxError" in refused
        assert "garden.py, line 1" in refused

        served.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert served.receive()["result"] == {}

        write(garden, GARDEN)
        served.until("reloaded in ")
        served.greet()
        assert served.call("grow") == "beans"


def test_hanging_import_is_stopped_when_the_file_changes(garden: Path) -> None:
    garden.write_text("import sys, time\nsys.stderr.write('hanging\\n')\nsys.stderr.flush()\ntime.sleep(600)\n")
    with raw(garden) as served:
        served.until("hanging")
        served.send(HELLO)
        write(garden, GARDEN)

        assert served.receive()["result"]["serverInfo"]["name"] == "mcptrio"


async def test_log_level_subscriptions_and_questions_continue(garden: Path) -> None:
    received: list[Any] = []
    asked: list[str] = []

    async def answer(form: Any) -> Any:
        asked.append(form.message)
        return form.accept({"name": "kale"})

    handlers = Handlers(elicit=answer, log=lambda message: received.append(message.data))
    async with (
        developing(garden, "2025-11-25", handlers=handlers, log_level="debug") as (client, log),
        client.subscribe(["garden://bed"]) as changes,
    ):
        assert await text_of(client, "ask") == "beans and kale"
        plant(garden, "peas")
        await log.until("reloaded in ")

        # The new worker numbers its requests from the start, which the client must not notice.
        assert await text_of(client, "ask") == "peas and kale"
        assert await text_of(client, "tell") == "peas"
        async for change in changes:
            assert change.uri == "garden://bed"
            break
        while not received:  # noqa: ASYNC110 - the client has no event for it
            await trio.sleep(0.01)
        assert received == ["told"]
        assert asked == ["Which?", "Which?"]


async def test_request_state_sealed_before_a_reload_is_accepted_after_it(garden: Path) -> None:
    """The answer to a form of a multi-round-trip request reaches a worker that has not sent it."""
    log, reloaded = Log(), trio.Event()

    async def answer(form: Any) -> Any:
        plant(garden, "peas")
        await log.until("reloaded in ")
        reloaded.set()
        return form.accept({"name": "kale"})

    async with developing(garden, "2026-07-28", log=log, handlers=Handlers(elicit=answer)) as (client, _):
        assert await text_of(client, "ask") == "peas and kale"
        assert reloaded.is_set()


def test_crashed_server_is_reported(garden: Path) -> None:
    with raw(garden) as served:
        # In one write, so that it crashes as soon as it serves: a worker that has served for a while is restarted.
        served.send(HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        fallen = served.start_call("fall")
        assert served.receive()["id"] == HELLO["id"]
        answer = served.receive()
        assert answer["id"] == fallen
        assert answer["error"]["message"].startswith("the server ended before it answered")
        served.start_call("grow")
        assert "could not be started" in served.receive()["error"]["message"]

        plant(garden, "peas")
        assert {served.receive()["method"] for _ in range(3)} == {
            f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources")
        }
        assert served.call("grow") == "peas"


def test_package_folder_and_configuration_file_are_watched(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "hothouse_watched"
    lib = install(tmp_path / "lib", "mcptrio-hothouse", modules={}, hothouse="hothouse_watched")
    package.mkdir()
    (package / "__init__.py").write_text("from .deep.tools import *\n")
    (package / "deep").mkdir()
    (package / "deep" / "tools.py").write_text(one_tool("grow", "beans"))
    command = [*DEV, "--stdio", "--plugin", "hothouse"]
    with serving(cwd=tmp_path, command=command, env={"PYTHONPATH": str(lib)}) as served:
        served.greet()
        assert served.call("hothouse_grow") == "beans"
        # Two changes within a second and of equal size: the compiled file must not be used.
        for answer in ("kales", "leeks"):
            write(package / "deep" / "tools.py", one_tool("grow", answer))
            served.until(f"reloaded in .*: tools.py(?s:.*){'reloaded' if answer == 'leeks' else ''}")
        assert served.call("hothouse_grow") == "leeks"

        write(tmp_path / "mcptrio.toml", "[plugins.hothouse]\nprefix = 'warm'\n")
        served.until("reloaded in .*mcptrio.toml")
        assert served.call("warm_grow") == "leeks"


async def test_modules_imported_by_a_plugin_file_are_watched(garden: Path) -> None:
    write(garden.parent / "seeds.py", "KIND = 'carrots'\n")
    beside = "import sys; sys.path.insert(0, os.path.dirname(__file__))\nfrom seeds import KIND as ANSWER\n"
    write(garden, GARDEN.replace('ANSWER = "beans"\n', beside))
    async with developing(garden) as (client, log):
        assert await text_of(client, "grow") == "carrots"
        write(garden.parent / "seeds.py", "KIND = 'leeks'\n")
        await log.until("seeds.py")
        assert await text_of(client, "grow") == "leeks"


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
def test_invalid_messages_are_answered_as_by_a_server(garden: Path, revision: str) -> None:
    with raw(garden) as served:
        served.send({**HELLO, "params": {**HELLO["params"], "protocolVersion": revision}})
        assert served.receive()["result"]["protocolVersion"] == revision
        served.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

        assert served.process.stdin is not None
        served.process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method":\n')
        served.process.stdin.flush()
        assert served.receive()["error"]["code"] == PARSE_ERROR

        calls = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ("a", "b")]
        served.process.stdin.write(json.dumps(calls).encode() + b"\n")
        served.process.stdin.flush()
        if revision == "2025-03-26":
            assert {served.receive()["id"] for _ in calls} == {"a", "b"}
        else:
            assert served.receive()["error"]["code"] == INVALID_REQUEST

        waiting = served.start_call("wait", seconds=600)
        served.send({"jsonrpc": "2.0", "id": waiting, "method": "ping"})
        refused = served.receive()
        assert (refused["id"], refused["error"]["code"]) == (waiting, INVALID_REQUEST)
        served.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})
        assert served.call("grow") == "beans"


def test_worker_that_reads_nothing_is_replaced_and_every_request_answered(garden: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with raw(garden) as served:
        served.greet()
        served.until("started in")
        frozen = served.start_call("freeze", until=str(gate))
        # More than its pipe and its queue hold; the rest waits in the parent.
        pings = [{"jsonrpc": "2.0", "id": f"{number}-{'x' * 200}", "method": "ping"} for number in range(4000)]
        sending = threading.Thread(target=served.send, args=pings)
        sending.start()
        try:
            sending.join(1)
            plant(garden, "peas")
            served.until("reloaded in")
            answers = []
            while len(answers) <= len(pings):
                message = served.receive()
                answers += [message] if "id" in message else []
        finally:
            gate.touch()
            sending.join()

        assert {answer["id"] for answer in answers} == {frozen, *(ping["id"] for ping in pings)}
        [refusal_text] = [answer["error"]["message"] for answer in answers if answer["id"] == frozen]
        assert "send the request again" in refusal_text
        assert served.call("grow") == "peas"


def test_dev_answers_pending_requests_and_ends_with_its_client(garden: Path) -> None:
    with raw(garden) as served:
        served.greet()
        id = served.start_call("wait", seconds=0.5)
        served.close_input()

        assert [message["id"] for message in served.rest()] == [id]
        assert served.end()[0] == 0


def test_unsupported_dev_options_are_refused(garden: Path) -> None:
    for arguments in ([], ["--listen", "0"]):
        done = CliRunner().invoke(cli, ["dev", *arguments])
        assert done.exit_code == 2
        assert "expected --stdio or --http" in done.output

    with serving(cwd=garden.parent, command=[*DEV, "--http"], env={"MCPTRIO_HTTP_WORKERS": "2"}) as served:
        assert served.end()[0] == 2
        assert "MCPTRIO_HTTP_WORKERS: expected 1 with `mcptrio dev`" in served.stderr


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_session_over_http_survives_a_reload(garden: Path, revision: str) -> None:
    with serving(cwd=garden.parent, command=[*DEV, "--http", "--port", "0", "--plugin", garden.name]) as served:
        url = f"http://127.0.0.1:{await trio.to_thread.run_sync(lambda: served.port)}/mcp"
        with trio.fail_after(WAIT_TIMEOUT):
            async with connect(url, revision=revision) as client, client.subscribe(tools=True) as changes:
                assert await text_of(client, "grow") == "beans"
                write(garden, GARDEN.replace("beans", "peas").replace("def wait", "def pause"))
                async for change in changes:
                    assert change.kind == "tools"
                    break

                assert await text_of(client, "grow") == "peas"
                names = [each.name async for each in client.tools()]
                assert names == ["grow", "pause", "ask", "tell", "freeze", "fall"]
        logged = re.findall(r"request: method=(\S+) .*channel=\"?(\w+)", served.stderr)

    # The log has the requests of the client only, without those that the mount sends to its worker.
    assert {channel for _, channel in logged} == {"http"}
    assert [method for method, _ in logged].count("tools/call") == 2


def test_worker_receives_the_session_state(garden: Path) -> None:
    """The state is passed in the environment or on the command line."""
    command = [*DEV, "--stdio", "--no-plugin", "nobody"]
    with serving(cwd=garden.parent, command=command, env={"MCPTRIO_SERVER_ENABLE": "garden.py"}) as served:
        served.send(HELLO)
        assert json.dumps(served.receive()).count("no plugin `nobody` is installed") == 1
