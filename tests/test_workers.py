"""``mcptrio serve --http`` with two workers: requests, resumption, restarts, and messages between workers.

One pool serves most of these tests. A connection stays with the worker that accepted it, so a test chooses its worker
by its connection.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mcptrio.cli import main
from tests.processes import HELLO, WAIT_TIMEOUT, Served, run, serving
from tests.test_serve_http import Client

__all__: list[str] = []

MODERN = "2026-07-28"
SHUTDOWN = 0.5
"""Seconds that requests get in these tests."""
DRAIN_TIMEOUT = 1.0
"""Seconds that connections to a replaced worker get."""

PLUGIN = """
import os, sys, time

import trio
from mcptrio import Context, resource, tool


@tool
async def who() -> str:
    \"\"\"Which process this is.\"\"\"
    return str(os.getpid())


@tool
async def ask(ctx: Context) -> str:
    \"\"\"Ask for a name.\"\"\"
    answer = await ctx.ask("Name?", str, key="name")
    return f"{answer} @ {os.getpid()}"


@tool
async def hang(ctx: Context) -> str:
    \"\"\"Until cancelled.\"\"\"
    print("hanging", file=sys.stderr, flush=True)
    try:
        await trio.sleep_forever()
    finally:
        print("let go", file=sys.stderr, flush=True)


@tool
async def grow(ctx: Context, called: str) -> str:
    \"\"\"One tool more, on this process.\"\"\"
    ctx.server.add_tool(who, name=called)
    ctx.notify_resource_updated("memo://a")
    return called


@tool
async def block() -> str:
    \"\"\"Hold the event loop up.\"\"\"
    print("blocking", file=sys.stderr, flush=True)
    time.sleep(600)


@resource("memo://{name}")
async def memo(name: str) -> str:
    \"\"\"A memo.\"\"\"
    return name
"""


@contextmanager
def workers(folder: Path, *args: str, **env: str) -> Iterator[Served]:
    with serving(
        "--http",
        "--port=0",
        *args,
        cwd=folder,
        env={"MCPTRIO_HTTP_WORKERS": "2", "MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": str(SHUTDOWN), **env},
    ) as served:
        yield served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workers")
    (folder / "own.py").write_text(PLUGIN)
    return folder


@pytest.fixture(scope="module")
def pool(folder: Path) -> Iterator[Served]:
    with workers(folder, "--plugin=own.py", "--strict") as served:
        served.until("worker 1 serves")
        served.until("worker 2 serves")
        yield served


class Peer(Client):
    """One connection, and so one worker."""

    def answer(self, response: http.client.HTTPResponse) -> Any:
        """Return the last message of a response, in either form."""
        text = response.read().decode()
        if text.startswith("{"):
            return json.loads(text)
        return json.loads(re.findall(r"(?m)^data: ?(.+)$", text)[-1])

    def ask_modern(self, method: str, params: dict[str, Any], **headers: str) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        self.send("POST", message=message, mcp_protocol_version=MODERN, mcp_method=method, **headers)
        return self.receive()

    def tool(self, name: str, *, more: dict[str, Any] | None = None, **arguments: Any) -> Any:
        """Return the result of a stateless tool call."""
        params = {"name": name, "arguments": arguments, **(more or {})}
        return self.answer(self.ask_modern("tools/call", params, mcp_name=name))["result"]

    def who(self) -> int:
        return int(self.tool("who")["content"][0]["text"])

    def handshake(self) -> None:
        """Start a session of 2025-11-25 for this connection and for others with its headers."""
        capable = {**HELLO["params"], "capabilities": {"elicitation": {}}}  # type: ignore[dict-item]
        response = self.post({**HELLO, "params": capable})
        assert response.status == 200, response.read()
        self.headers = {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        response.read()
        self.tell("notifications/initialized")

    def tell(self, method: str, **params: Any) -> None:
        response = self.post({"jsonrpc": "2.0", "method": method, "params": params})
        assert response.status == 202, response.read()
        response.read()


def next_message(response: http.client.HTTPResponse) -> dict[str, Any]:
    """Return the next message of an open stream."""
    while not (line := response.readline().decode()).startswith("data: {"):
        assert line, "the stream has ended"
    message: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return message


@contextmanager
def two_workers(served: Served) -> Iterator[tuple[Peer, Peer]]:
    """Connections to two different workers."""
    with ExitStack() as stack:
        first = stack.enter_context(closing(Peer(served.port)))
        here = first.who()
        deadline = time.monotonic() + WAIT_TIMEOUT
        while True:
            with closing(Peer(served.port)) as second:
                if second.who() != here:
                    yield first, second
                    return
            assert time.monotonic() < deadline, "one worker got all the connections"
            time.sleep(0.01)


@pytest.fixture
def pair(pool: Served) -> Iterator[tuple[Peer, Peer]]:
    with two_workers(pool) as found:
        yield found


def descendants(process: int) -> set[int]:
    """The living children of a process."""
    results = set()
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (directory / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process and state != "Z":
                results.add(int(directory.name))
    return results


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def is_gone(process: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True


# Serving


def test_both_workers_answer_on_one_port(pool: Served, pair: tuple[Peer, Peer]) -> None:
    assert {peer.who() for peer in pair} == descendants(pool.process.pid)


def test_parent_loads_no_plugin_and_no_http(pool: Served) -> None:
    maps = Path(f"/proc/{pool.process.pid}/maps").read_text()

    assert "orjson" not in maps
    assert "llhttp" not in maps


def test_worker_output_is_prefixed_with_its_number(pool: Served) -> None:
    assert pool.until(r"(?m)^\[worker 1\] .* listening on http://")
    assert len(re.findall(r"(?m)^serving http://", pool.stderr)) == 1


# Messages between workers


def test_session_is_available_on_both_workers(pair: tuple[Peer, Peer]) -> None:
    first, second = pair
    first.handshake()
    second.headers = first.headers

    answer = second.answer(second.post({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}))

    assert {tool["name"] for tool in answer["result"]["tools"]} >= {"who", "ask"}


def test_server_request_is_answered_on_the_other_worker(pair: tuple[Peer, Peer]) -> None:
    first, second = pair
    here = first.who()
    first.handshake()
    second.headers = first.headers
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "ask", "arguments": {}}}
    stream = first.post(call)
    question = next_message(stream)
    field = next(iter(question["params"]["requestedSchema"]["properties"]))
    response = second.post(
        {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {field: "Ada"}}}
    )
    assert response.status == 202
    response.read()

    assert next_message(stream)["result"]["content"][0]["text"] == f"Ada @ {here}"
    stream.read()


def test_messages_of_http_with_sse_go_to_the_worker_with_the_stream(pair: tuple[Peer, Peer]) -> None:
    first, second = pair
    here = first.who()
    first.send("GET", "/sse", accept="text/event-stream")
    stream = first.receive()
    while not (line := stream.readline().decode()).startswith("data: /messages?"):
        assert line, "the stream has ended"
    endpoint = line.removeprefix("data: ").strip()
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "who", "arguments": {}}}
    for message in (HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call):
        second.send("POST", endpoint, message)
        taken = second.receive()
        assert taken.status == 202
        taken.read()

    assert next_message(stream)["result"]["serverInfo"]
    assert next_message(stream)["result"]["content"][0]["text"] == str(here)


def test_retry_reaches_the_other_worker(pair: tuple[Peer, Peer]) -> None:
    first, second = pair
    there = second.who()
    asked = first.tool("ask")
    [(key, question)] = asked["inputRequests"].items()
    field = next(iter(question["params"]["requestedSchema"]["properties"]))
    answer = {"action": "accept", "content": {field: "Ada"}}
    result = second.tool("ask", more={"requestState": asked["requestState"], "inputResponses": {key: answer}})

    assert result["content"][0]["text"] == f"Ada @ {there}"


def test_cancellation_reaches_the_other_worker(pool: Served, pair: tuple[Peer, Peer]) -> None:
    first, second = pair
    first.handshake()
    second.headers = first.headers
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "hang", "arguments": {}}}
    first.send("POST", message=call)
    pool.until("hanging")
    second.tell("notifications/cancelled", requestId=5, reason="enough")

    pool.until("let go")
    first.receive().read()


def test_changes_reach_the_listener_on_the_other_worker(pair: tuple[Peer, Peer]) -> None:
    first, second = pair
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["memo://a"]}
    stream = first.ask_modern("subscriptions/listen", {"notifications": wanted})
    assert next_message(stream)["method"] == "notifications/subscriptions/acknowledged"
    second.tool("grow", called="grown")

    methods = {next_message(stream)["method"], next_message(stream)["method"]}

    assert methods == {"notifications/tools/list_changed", "notifications/resources/updated"}


# Restarts


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="there are no signals for real time")


@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(9, "SIGKILL", id="kill"),
        pytest.param(40, "signal 40", id="real time", marks=LINUX),
    ],
)
def test_killed_worker_is_restarted(pool: Served, number: int, name: str) -> None:
    before = descendants(pool.process.pid)
    victim = min(before)
    os.kill(victim, number)
    pool.until(rf"worker \d+ was killed by {name}; another one is started")
    wait_until(lambda: len(descendants(pool.process.pid) - before) == 1, "no other worker came")
    with two_workers(pool) as pair:
        assert victim not in {peer.who() for peer in pair}


def test_reload_under_load_fails_no_request(pool: Served) -> None:
    """Requests on kept connections and on connections for one request each: every one is answered."""
    before = descendants(pool.process.pid)
    finished = threading.Event()
    failures: list[BaseException] = []
    replaced = threading.Event()
    served: list[tuple[bool, int]] = []
    """Whether all workers were replaced when a request began, and the worker that answered it."""
    port = pool.port

    def load(keep: bool) -> None:
        try:
            peer = Peer(port)
            heard = time.monotonic()
            while not finished.is_set():
                late = replaced.is_set()
                try:
                    served.append((late, peer.who()))
                except (ConnectionError, http.client.RemoteDisconnected):
                    # On a busy machine, a thread may be silent for so long that its connection was closed.
                    if time.monotonic() - heard < DRAIN_TIMEOUT:
                        raise
                    keep_on = False
                else:
                    keep_on = keep
                if not keep_on:
                    peer.close()
                    peer = Peer(port)
                heard = time.monotonic()
            peer.close()
        except (AssertionError, OSError, ValueError, http.client.HTTPException) as error:
            failures.append(error)

    threads = [threading.Thread(target=load, args=(keep,)) for keep in (True, True, False, False)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(served) > 20, "the load does not run")
        pool.signal(signal.SIGHUP)
        pool.until("all workers are replaced")
        replaced.set()
        so_far = len(served)
        wait_until(lambda: len(served) > so_far + 50 or failures, "the load does not go on")
    finally:
        finished.set()
        for thread in threads:
            thread.join()

    assert failures == []
    assert {process for late, process in served if late} <= descendants(pool.process.pid)
    assert not before & descendants(pool.process.pid)


def test_failed_reload_keeps_the_workers(pool: Served, folder: Path) -> None:
    before = descendants(pool.process.pid)
    replaced = pool.stderr.count("all workers are replaced")
    (folder / "own.py").write_text("raise RuntimeError('a slip of the pen')")
    try:
        pool.signal(signal.SIGHUP)
        pool.until(r"reload aborted, the other workers keep running: .*before it served: .*a slip of the pen")
    finally:
        (folder / "own.py").write_text(PLUGIN)
    with two_workers(pool) as pair:
        assert {peer.who() for peer in pair} == before
    assert pool.stderr.count("all workers are replaced") == replaced


def test_failed_start_is_reported_and_ends_the_parent(folder: Path) -> None:
    (folder / "broken.py").write_text("raise RuntimeError('a slip of the pen')")
    ended = run("serve", "--http", "--port=0", "--plugin=broken.py", "--strict", cwd=folder, MCPTRIO_HTTP_WORKERS="2")

    assert ended.returncode == 2
    assert re.search(r"(?m)^mcptrio: no worker serves: worker \d+ ended with 2 .*a slip of the pen", ended.stderr)


def test_invalid_configuration_is_tried_once(folder: Path) -> None:
    files = {"MCPTRIO_HTTP_TLS_CERT": "none", "MCPTRIO_HTTP_TLS_KEY": "none"}
    args = ("serve", "--http", "--port=0", "--plugin=own.py")
    ended = run(*args, cwd=folder, MCPTRIO_HTTP_WORKERS="2", **files)

    assert ended.returncode == 2
    assert "none: the certificate cannot be read: No such file" in ended.stderr
    assert "worker 3" not in ended.stderr


# Shutdown


def test_sigterm_ends_all_processes(folder: Path, tmp_path: Path) -> None:
    with workers(folder, "--plugin=own.py", MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN="600", TMPDIR=str(tmp_path)) as served:
        with two_workers(served) as (first, _):
            first.send("POST", message=HELLO)
            first.receive().read()
            assert [each.name for each in tmp_path.iterdir() if each.name.startswith("mcptrio-")]
            children = descendants(served.process.pid)
            served.signal(signal.SIGTERM)
            # An open connection and a session do not delay it.
            code, _ = served.end()

        assert code == 0
        assert all(is_gone(child) for child in children)
        assert not list(tmp_path.iterdir())


def test_second_signal_ends_all_processes_at_once(folder: Path) -> None:
    with workers(folder, "--plugin=own.py", MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN="600") as served, ExitStack() as stack:
        [first, _] = stack.enter_context(two_workers(served))
        first.call("block")
        served.until("blocking")
        children = descendants(served.process.pid)
        served.signal(signal.SIGTERM)
        served.until(r"(?m)^\S+ \S+ INFO +mcptrio.serve: SIGTERM: stopping")
        served.signal(signal.SIGTERM)
        # In a tenth of the time that the call and the shutdown would take.
        code, _ = served.end()

        assert code == 128 + signal.SIGTERM
        wait_until(lambda: all(is_gone(child) for child in children), "a worker is left")


def test_worker_whose_event_loop_is_blocked_is_replaced(folder: Path) -> None:
    with workers(folder, "--plugin=own.py", MCPTRIO_HTTP_WORKER_TIMEOUT="0.2") as served, ExitStack() as stack:
        first, second = stack.enter_context(two_workers(served))
        victim, other = first.who(), second.who()
        first.call("block")
        served.until(r"worker \d+: its event loop has been blocked for 0.2 s")
        served.until(r"worker \d+ was ended because its event loop was blocked; another one is started")
        served.until("worker 3 serves")
        assert is_gone(victim)
        # The idle worker reports that it is alive, and is kept.
        assert second.who() == other


def test_workers_do_not_outlive_their_parent(folder: Path) -> None:
    """Neither the idle worker nor the one with a blocked event loop outlives it."""
    with workers(folder, "--plugin=own.py") as served, ExitStack() as stack:
        [first, _] = stack.enter_context(two_workers(served))
        first.call("block")
        served.until("blocking")
        children = descendants(served.process.pid)
        assert len(children) == 2
        served.signal(signal.SIGKILL)
        served.end()

        wait_until(lambda: all(is_gone(child) for child in children), "a worker is left")


# Misuse


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"MCPTRIO_HTTP_WORKERS": "0"}, 'expected an integer from 1 to 1024, or "auto", got 0'),
        ({"MCPTRIO_HTTP_WORKERS": "many"}, "expected an integer from 1 to 1024, or \"auto\", got 'many'"),
        ({"MCPTRIO_HTTP_WORKERS": "2", "MCPTRIO_STORES_URL": "memory"}, "workers, which share no memory"),
    ],
    ids=["none", "many", "memory"],
)
def test_invalid_usage_is_reported(
    env: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["mcptrio", "serve", "--http"])
    with pytest.raises(SystemExit) as exited:
        main()

    assert exited.value.code == 2
    assert message in capfd.readouterr().err
