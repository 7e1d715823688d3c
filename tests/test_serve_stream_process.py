"""``mcptrio serve`` on sockets, and over a transport of a plugin: as processes."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.processes import HELLO, WAIT_TIMEOUT, line, run, serving

__all__: list[str] = []

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

PLUGIN = """
import trio

from mcptrio import hookimpl, tool
from mcptrio.serve.stream import serve_stream
from mcptrio.serve.stream_options import StreamOptions

@tool
async def shout(text: str) -> str:
    return text.upper()

@tool
async def nap() -> str:
    await trio.sleep(600)
    return "slept"

@hookimpl
def transports(config):
    async def serve(engine, *, stopping, task_status):
        task_status.started([f"{config['word']} here"])
        await stopping.wait()

    return {"pigeon": serve, "owl": serve}
"""

BROKEN = """
from mcptrio import hookimpl

@hookimpl
def transports():
    return {"raven": print, "http": print}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(PLUGIN)
    (tmp_path / "broken.py").write_text(BROKEN)
    return tmp_path


def greeted(connection: socket.socket) -> str:
    """Return the name of the server at the other end."""
    connection.settimeout(WAIT_TIMEOUT)
    connection.sendall(line(HELLO))
    with connection.makefile() as answers:
        name: str = json.loads(answers.readline())["result"]["serverInfo"]["name"]
    return name


def test_tcp_and_unix_sockets_are_served_until_a_signal(folder: Path) -> None:
    sockets = ("--listen=0", "--listen=unix:mcp.sock", "--listen", f"unix:{folder / 'two.sock'}")
    # Open connections that are idle do not hold it up.
    with serving(*sockets, "--plugin=own.py", cwd=folder, env={"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "600"}) as it:
        port = int(it.until(r"(?m)^serving tcp://127\.0\.0\.1:(\d+)$")[1])
        it.until(rf"(?m)^serving unix:{folder}/mcp\.sock$")
        it.until(rf"(?m)^serving unix:{folder}/two\.sock$")
        with socket.create_connection(("127.0.0.1", port)) as tcp, socket.socket(socket.AF_UNIX) as unix:
            unix.connect(str(folder / "mcp.sock"))
            assert greeted(tcp) == greeted(unix) == "mcptrio"
            it.signal(signal.SIGTERM)
            code, _ = it.end()

    assert code == 0
    assert sorted(folder.glob("*.sock")) == []
    assert "no authentication" not in it.stderr


def test_sighup_and_sigusr1_do_not_end_the_server(folder: Path) -> None:
    """A running request gets an error response when the server stops."""
    with serving(
        "--listen=unix:mcp.sock", "--plugin=own.py", cwd=folder, env={"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "0.1"}
    ) as it:
        it.until(r"(?m)^serving unix:.*/mcp\.sock$")
        with socket.socket(socket.AF_UNIX) as unix:
            unix.connect(str(folder / "mcp.sock"))
            assert greeted(unix) == "mcptrio"
            unix.sendall(line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            unix.sendall(
                line({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "nap", "arguments": {}}})
            )
            it.signal(signal.SIGUSR1)
            it.until("SIGUSR1: ignored")
            it.signal(signal.SIGHUP)
            it.until("plugins reloaded")
            it.signal(signal.SIGQUIT)
            it.until("SIGQUIT: stopping")
            with unix.makefile() as answers:
                answer = json.loads(answers.readline())
        code, _ = it.end()

    assert code == 0
    assert answer["id"] == 7
    assert answer["error"]["message"] == "the server is stopping"
    assert answer["error"]["data"] == {"retryAfter": 1.0}


def test_addresses_and_limits_of_the_file_apply_to_an_inherited_socket(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text(
        "[server]\nname = 'filed'\nmessage.bytes = 1024\n"
        "[stream]\nlisten = ['unix:filed.sock', 'fd:0']\nconnections = 1\nunix_mode = 0o660\n"
        "write_timeout = 5\nfirst_message_timeout = 5.5\n"
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        serving(
            "--transport=stream",
            "--plugin=own.py",
            cwd=folder,
            stdin=listener.fileno(),
            env={"MCPTRIO_LOG_FORMAT": "json"},
        ) as it,
    ):
        it.until('"serving tcp://127.0.0.1:')
        assert (folder / "filed.sock").stat().st_mode & 0o777 == 0o660
        with socket.create_connection(listener.getsockname()) as first, socket.socket(socket.AF_UNIX) as second:
            assert greeted(first) == "filed"
            second.connect(str(folder / "filed.sock"))
            second.settimeout(WAIT_TIMEOUT)
            second.sendall(line(HELLO))
            assert b"too many connections: the limit is 1" in second.recv(1000)
            first.sendall(line({**HELLO, "id": 7, "padding": "x" * 1024}))
            assert b"the limit is 1024 bytes" in first.recv(1000)
        it.signal(signal.SIGINT)
        assert it.end()[0] == 0
        # The server has not closed the socket that it inherited from this process.
        with socket.create_connection(listener.getsockname()):
            pass


def test_transport_of_a_plugin_is_served(folder: Path) -> None:
    """A plugin with an invalid transport is quarantined, and the others continue."""
    (folder / "mcptrio.toml").write_text("[plugins.own]\nword = 'coo'\n")
    with serving("--transport=pigeon", "--plugin=own.py", "--plugin=broken.py", cwd=folder) as it:
        it.until("(?m)^serving coo here$")
        it.signal(signal.SIGTERM)
        assert it.end()[0] == 0
    assert "broken failed, and is left out: transports failed: expected a name for a transport, other than" in it.stderr


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--transport=pidgin"], 2, "expected one of stdio, http, stream, pigeon, owl, got 'pidgin'"),
        (["--transport=raven", "--plugin=broken.py", "--strict"], 2, "plugin broken: transports failed"),
        (["--transport=stream"], 2, "expected an address in --listen or in stream.listen"),
        (["--stdio", "--listen=unix:x"], 2, "--listen: expected --http or no other transport, got stdio"),
        (["--transport=pigeon", "--listen=0"], 2, "--listen: expected --http or no other transport, got pigeon"),
        (["--listen=unix:own.py"], 1, r"cannot listen on unix:own.py: the path exists and is not a socket"),
        (["--listen=fd:0"], 1, r"cannot listen on fd:0: descriptor 0 is not a socket"),
    ],
    ids=["unknown", "strict", "nowhere", "stdio", "own", "file", "descriptor"],
)
def test_invalid_addresses_are_reported(args: list[str], code: int, message: str, folder: Path) -> None:
    ended = run("serve", "--plugin=own.py", *args, cwd=folder)

    assert re.search(re.escape(message), ended.stderr), ended.stderr
    assert ended.returncode == code
