"""A server that is killed and restarted with the same store: nothing is lost or repeated, and no client hangs."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from attrs import define, field

from mcptrio import MCPError, connect
from mcptrio.client import Handlers
from mcptrio.http.client.link import HTTPLink, open_http_link
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response
from mcptrio.protocol.revisions.registry import REVISIONS
from tests.processes import HELLO, Served, held_port, run, serving

__all__: list[str] = []

REVISION = REVISIONS["2025-11-25"]
SESSIONS = 200
LOST = "whether the request was carried out is not known"

PLUGIN = '''
import os

import trio
from mcptrio import Context, hookimpl, resource, tool

LIFE = os.getpid()


@hookimpl
def setup(server):
    async def tick():
        number = 0
        while True:
            await trio.sleep(0.25)
            await server.broadcast("notifications/tick", {"life": LIFE, "number": number})
            number += 1

    server.add_background(tick)


@tool
async def count(ctx: Context, steps: int, pause: float) -> str:
    """Report progress."""
    for step in range(steps):
        await trio.sleep(pause)
        await ctx.report_progress(step)
    return "counted"


@tool
async def nap(until: str) -> str:
    """Say nothing until there is a file of this name."""
    while not os.path.exists(until):
        await trio.sleep(0.05)
    return "rested"


@tool
async def touch(ctx: Context) -> str:
    """Tell that a resource has changed."""
    ctx.notify_resource_updated("thing://a")
    return "touched"


@resource("thing://a")
def thing() -> str:
    """A thing."""
    return "a thing"
'''


@define(eq=False)
class Home:
    """A folder with a plugin and a store, and the server in it, which is started several times."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @contextmanager
    def life(self) -> Iterator[Served]:
        env = {"MCPTRIO_STORES_URL": "sqlite:kept.db", "MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "1"}
        with serving("--http", f"--port={self.port}", "--plugin=own.py", cwd=self.folder, env=env) as served:
            assert served.port == self.port
            yield served

    def kill(self, served: Served) -> None:
        served.signal(signal.SIGKILL)
        served.end()

    def stored(self) -> dict[str, list[tuple[str, list[dict[str, Any]], bool]]]:
        """Return by session, in order of creation: each stream's name, its messages, and whether it is complete."""
        found: dict[str, list[tuple[str, list[dict[str, Any]], bool]]] = defaultdict(list)
        with closing(sqlite3.connect(self.folder / "kept.db")) as store:
            for key, session, name, complete in store.execute(
                "SELECT key, session, name, complete FROM streams ORDER BY key"
            ).fetchall():
                rows = store.execute("SELECT data FROM events WHERE stream = ? ORDER BY position", (key,))
                found[session].append((name, [orjson.loads(data) for (data,) in rows if data], bool(complete)))
        return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    (tmp_path / "own.py").write_text(PLUGIN)
    with held_port() as port:
        yield Home(tmp_path, port)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - another process changes it
        await trio.sleep(0.02)


# Two hundred clients


@define(eq=False)
class Peer:
    """A client's link, and every message that it received."""

    link: HTTPLink
    received: list[Request | Notification]
    answers: dict[str, list[Response | ErrorResponse]] = field(factory=lambda: defaultdict(list))

    async def begin(self) -> None:
        await self.link.exchange(Request("hello", "initialize", HELLO["params"]), REVISION)
        await self.link.send(Notification("notifications/initialized"), REVISION)
        self.link.start_listening(REVISION)

    async def call(self, id: str, name: str, **arguments: Any) -> None:
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": id}}
        self.answers[id].append(await self.link.exchange(Request(id, "tools/call", params), REVISION))

    @property
    def ticks(self) -> list[Any]:
        return [each.params for each in self.received if each.method == "notifications/tick"]

    def progress(self, id: str) -> list[Any]:
        params = [each.params or {} for each in self.received if each.method == "notifications/progress"]
        return [each for each in params if each["progressToken"] == id]

    def of_life(self, life: int) -> list[int]:
        return [tick["number"] for tick in self.ticks if tick["life"] == life]


@asynccontextmanager
async def peers(home: Home, number: int) -> AsyncIterator[list[Peer]]:
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(number):
            received: list[Request | Notification] = []
            link = await stack.enter_async_context(open_http_link(home.url, received.append))
            made.append(Peer(link, received))
        yield made


async def test_two_hundred_sessions_survive_a_killed_server(home: Home) -> None:
    with trio.fail_after(240):
        async with AsyncExitStack() as stack:
            with home.life() as first:
                clients = await stack.enter_async_context(peers(home, SESSIONS))
                nursery = await stack.enter_async_context(trio.open_nursery())
                async with trio.open_nursery() as beginning:
                    for client in clients:
                        beginning.start_soon(client.begin)
                for client in clients:
                    nursery.start_soon(partial(client.call, "short", "count", steps=6, pause=0.2))
                    nursery.start_soon(partial(client.call, "long", "count", steps=1000, pause=0.4))
                await until(lambda: all(each.answers["short"] and len(each.progress("long")) > 1 for each in clients))
                await until(lambda: all(len(each.of_life(first.process.pid)) > 1 for each in clients))
                home.kill(first)
            with home.life() as second:
                await until(lambda: all(each.answers["long"] for each in clients))
                await until(lambda: all(len(each.of_life(second.process.pid)) > 2 for each in clients))
                async with trio.open_nursery() as again:
                    for client in clients:
                        again.start_soon(partial(client.call, "again", "count", steps=2, pause=0.01))
                sessions = {client: client.link._session.id for client in clients if client.link._session}
                home.kill(second)
    stored = home.stored()

    assert len(set(sessions.values())) == SESSIONS
    for client in clients:
        assert {id: len(answers) for id, answers in client.answers.items()} == {"short": 1, "long": 1, "again": 1}
        [lost] = client.answers.pop("long")
        assert isinstance(lost, ErrorResponse)
        assert LOST in lost.message
        assert all(isinstance(answer, Response) for [answer] in client.answers.values())
        assert_all_came(client, stored[sessions[client]], first.process.pid)


def assert_all_came(client: Peer, streams: list[tuple[str, list[dict[str, Any]], bool]], first: int) -> None:
    """Check that the client has received the contents of the store, once and in order."""
    sent = [message.get("params", {}) for name, messages, _ in streams if name.startswith("g") for message in messages]
    # A stream that follows another one also reports that everything may have changed.
    ticks = [params for params in sent if "life" in params]
    # The last messages of the second run were not sent yet; those of the first have all arrived.
    assert client.ticks == ticks[: len(client.ticks)]
    assert all(tick["life"] != first for tick in ticks[len(client.ticks) :])
    assert client.of_life(first) == list(range(client.of_life(first)[0], client.of_life(first)[-1] + 1))
    calls = [(messages, complete) for name, messages, complete in streams if name.startswith("p")]
    assert all(complete for _, complete in calls)
    for messages, _ in calls:
        id = messages[-1]["id"]
        assert [message["params"] for message in messages[:-1]] == client.progress(id)
        assert [message for message in messages if "id" in message] == messages[-1:]
    assert {messages[-1]["id"] for messages, _ in calls} >= {"short", "long"}


# One exchange at a time


class Raw:
    """One session, with a connection for each exchange, that can send anything to the server."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.session = ""

    async def exchange(
        self, method: str, message: Any = None, *, last: str = "", enough: Callable[[str], bool] = lambda _: False
    ) -> str:
        """Return the response with its chunks, until its end or until ``enough`` is true."""
        body = b"" if message is None else orjson.dumps({"jsonrpc": "2.0", **message})
        headers = {
            "host": "127.0.0.1",
            "connection": "close",
            "accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream",
            "content-type": "application/json",
            "content-length": str(len(body)),
            "mcp-protocol-version": REVISION.version,
            "mcp-session-id": self.session,
            "last-event-id": last,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        received = ""
        async with await trio.open_tcp_stream("127.0.0.1", self.home.port) as stream:
            await stream.send_all(f"{method} /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
            while not enough(received) and (chunk := await stream.receive_some()):
                received += chunk.decode()
        return received

    async def post(self, method: str, id: int | None = None, **params: Any) -> dict[str, Any]:
        message = {"method": method, "params": params, **({} if id is None else {"id": id})}
        response = await self.exchange("POST", message)
        assert response.startswith("HTTP/1.1 20"), response
        if match := re.search(r"(?im)^mcp-session-id: *(\S+)", response):
            self.session = match[1]
        match = re.search(r"(?m)^\{.*\}", response)
        return orjson.loads(match[0]) if match else {}

    async def begin(self) -> None:
        await self.post("initialize", 0, **HELLO["params"])
        await self.post("notifications/initialized")

    async def start(self, id: int, name: str, **arguments: Any) -> str:
        """Start a call, and disconnect when its response is a stream. Return the id for the resumption."""
        call = {"method": "tools/call", "params": {"name": name, "arguments": arguments}, "id": id}
        seen = await self.exchange(
            "POST", call, enough=lambda received: re.search(r"\nid: *\S+\r?\n", received) is not None
        )
        return re.findall(r"\nid: *(\S+)", seen)[0]

    async def resume(self, last: str, began: trio.Event | None = None) -> list[dict[str, Any]]:
        """Return the rest of a stream, until its end."""

        def look(received: str) -> bool:
            if "\r\n\r\n" in received and began is not None:
                began.set()
            return False

        response = await self.exchange("GET", last=last, enough=look)
        assert response.startswith("HTTP/1.1 200"), response
        return [orjson.loads(data) for data in re.findall(r"\ndata: *(\{.*\})", response)]


@pytest.fixture
def raw(home: Home) -> Raw:
    return Raw(home)


def names_of_ends(home: Home) -> list[bool]:
    return [complete for streams in home.stored().values() for name, _, complete in streams if name.startswith("p")]


async def test_unread_responses_are_delivered_after_a_restart(home: Home, raw: Raw) -> None:
    """One response was stored before the end, and one never; the same again after a second end."""
    with trio.fail_after(240):
        with home.life() as served:
            await raw.begin()
            await raw.post("logging/setLevel", 1, level="error")
            done = await raw.start(2, "nap", until="morning")
            lost = await raw.start(3, "nap", until="doomsday")
            (home.folder / "morning").touch()
            await until(lambda: sorted(names_of_ends(home)) == [False, True])
            home.kill(served)
        for _ in range(2):
            with home.life() as served:
                [answer] = await raw.resume(done)
                [error] = await raw.resume(lost)
                assert (answer["id"], answer["result"]["content"][0]["text"]) == (2, "rested")
                assert (error["id"], LOST in error["error"]["message"]) == (3, True)
                assert (await raw.post("tools/list", 4))["result"]["tools"]
                home.kill(served)


async def test_shutdown_is_reported_to_connected_and_reconnecting_clients(home: Home, raw: Raw) -> None:
    with trio.fail_after(240):
        with home.life() as served:
            await raw.begin()
            lost = await raw.start(2, "nap", until="doomsday")
            there: list[dict[str, Any]] = []
            began = trio.Event()

            async def stay() -> None:
                there.extend(await raw.resume(await raw.start(3, "nap", until="doomsday"), began))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(stay)
                await began.wait()
                served.signal(signal.SIGTERM)
            assert (await trio.to_thread.run_sync(served.end))[0] == 0
        assert [(each["id"], LOST in each["error"]["message"]) for each in there] == [(3, True)]
        assert [path.name for path in home.folder.glob("kept.db*")] == ["kept.db"]
        with home.life() as served:
            [error] = await raw.resume(lost)
            assert (error["id"], LOST in error["error"]["message"]) == (2, True)


async def test_client_continues_after_a_killed_server(home: Home) -> None:
    ticks: list[dict[str, Any]] = []
    steps: list[float] = []
    reported: list[object] = []
    handlers = Handlers(notification=lambda method, params: ticks.append(params))

    with trio.fail_after(240):
        async with AsyncExitStack() as stack:
            first = stack.enter_context(home.life())
            connecting = connect(home.url, revision=REVISION.version, handlers=handlers, ping_interval=0)
            client = await stack.enter_async_context(connecting)
            nursery = await stack.enter_async_context(trio.open_nursery())
            listening = trio.Event()
            failure: list[str] = []

            async def listen() -> None:
                async with client.subscribe(["thing://a"]) as changes:
                    listening.set()
                    async for change in changes:
                        reported.append(change)  # noqa: PERF401 - another task reads it meanwhile

            async def count() -> None:
                arguments = {"steps": 1000, "pause": 0.1}
                with pytest.raises(MCPError) as refused:
                    await client.call_tool("count", arguments, progress=lambda each: steps.append(each.progress))
                failure.append(refused.value.message)

            nursery.start_soon(listen)
            nursery.start_soon(count)
            await listening.wait()
            await until(lambda: len(steps) > 3 and len(ticks) > 3)
            home.kill(first)
            second = stack.enter_context(home.life())
            await until(lambda: bool(failure) and any(tick["life"] == second.process.pid for tick in ticks))
            # The stream after the kill also begins with a report that everything may have changed.
            for _ in range(2):
                before = len(reported)
                await client.call_tool("touch", {})
                await until(lambda before=before: len(reported) > before)
            nursery.cancel_scope.cancel()
    lives = [tick["life"] for tick in ticks]

    assert LOST in failure[0]
    assert steps == [float(step) for step in range(len(steps))]
    assert lives == sorted(lives, key=[first.process.pid, second.process.pid].index)
    for life in set(lives):
        numbers = [tick["number"] for tick in ticks if tick["life"] == life]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


# Lost requests


@pytest.mark.parametrize(
    ("store", "code", "message"),
    [
        ("mysql:here", 2, "no installed distribution has the scheme `mysql`; expected one of `memory`, "),
        ("sqlite:", 2, "got 'sqlite:'"),
        ("sqlite:nowhere/kept.db", 1, "nowhere/kept.db: cannot be opened: No such file or directory"),
        ("sqlite:own.py", 1, "own.py: it is damaged, or no SQLite database"),
    ],
)
def test_unusable_store_ends_the_start(home: Home, store: str, code: int, message: str) -> None:
    shared = {"MCPTRIO_KEYS": "k" * 32, "MCPTRIO_SERVER_AUDIENCE": "tests"}
    serve = ("serve", "--http", "--port=0", "--plugin=own.py")
    ended = run(*serve, cwd=home.folder, MCPTRIO_STORES_URL=store, **shared)

    assert ended.returncode == code
    assert message in ended.stderr
    assert 'File "' not in ended.stderr


def test_relative_store_path_is_next_to_the_configuration(home: Home) -> None:
    (home.folder / "conf").mkdir()
    (home.folder / "conf" / "mcptrio.toml").write_text('[stores]\nurl = "sqlite:kept.db"\n')
    with serving("--http", "--port=0", "--plugin=own.py", "--config=conf/mcptrio.toml", cwd=home.folder) as served:
        assert served.port
        assert (home.folder / "conf" / "kept.db").exists()
