"""``mcptrio ps`` and ``mcptrio top``: real servers, their control sockets, and a terminal."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.commands.processes import at_terminal, run
from tests.processes import HELLO, WAIT_TIMEOUT, Served, line, serving

__all__: list[str] = []

PLUGIN = '''
import time

import trio
from mcptrio import Context, tool


@tool
async def dig(ctx: Context, depth: int = 10) -> str:
    """Dig, until cancelled."""
    await ctx.report_progress(3, depth)
    await trio.sleep_forever()


@tool
async def ask(ctx: Context) -> str:
    """Ask for a name."""
    return await ctx.ask("Name?", str, key="name")


@tool
async def block() -> str:
    """Block the event loop."""
    time.sleep(60)
    return ""
'''


@pytest.fixture
def runtime() -> Iterator[Path]:
    # Not tmp_path, which is longer than the path of a socket may be.
    with TemporaryDirectory(prefix="mt") as name:
        yield Path(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "garden.py").write_text(PLUGIN)
    return tmp_path


def environment(runtime: Path) -> dict[str, str]:
    # Servers of other programs of this user are in the folder for temporary files.
    return {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(runtime)}


def ps(folder: Path, runtime: Path) -> list[dict[str, Any]]:
    result = run("ps", "--json", cwd=folder, env=environment(runtime))
    assert result.returncode == 0, result.stderr
    servers: list[dict[str, Any]] = json.loads(result.stdout)["servers"]
    # A developer's own servers may be in the folder of the login session.
    return [each for each in servers if (runtime / "mcptrio" / f"{each['pid']}.sock").exists()]


def listed(folder: Path, runtime: Path, *, until: int) -> list[dict[str, Any]]:
    """Return the servers, once there are as many."""
    deadline = time.monotonic() + WAIT_TIMEOUT
    while len(processes := ps(folder, runtime)) != until:
        assert time.monotonic() < deadline, processes
    return processes


def top(folder: Path, runtime: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    return run("top", *args, cwd=folder, env=environment(runtime))


def greeted(served: Served) -> None:
    served.send({**HELLO, "params": {**HELLO["params"], "capabilities": {"elicitation": {}}}})
    served.receive()
    served.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


def dig(served: Served) -> None:
    """Call the tool and wait for its progress."""
    params = {"name": "dig", "arguments": {}, "_meta": {"progressToken": "t"}}
    served.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params})
    assert served.receive()["method"] == "notifications/progress"


@pytest.fixture
def stdio(folder: Path, runtime: Path) -> Iterator[Served]:
    env = environment(runtime)
    with serving("--stdio", "--plugin=garden.py", cwd=folder, env=env) as served:
        greeted(served)
        yield served


def test_servers_of_each_transport_are_listed_and_leave(folder: Path, runtime: Path) -> None:
    env = environment(runtime)
    with (
        serving("--stdio", "--plugin=garden.py", cwd=folder, env=env) as stdio,
        serving("--http", "--port=0", "--plugin=garden.py", cwd=folder, env=env) as http,
        serving("--listen", f"unix:{runtime}/mcp", "--plugin=garden.py", cwd=folder, env=env) as stream,
    ):
        stdio.greet()
        dig(stdio)
        found = {each["transport"]: each for each in listed(folder, runtime, until=3)}
        table = run("ps", cwd=folder, env=env).stdout.decode().splitlines()
        assert {name: each["pid"] for name, each in found.items()} == {
            "stdio": stdio.process.pid,
            "http": http.process.pid,
            "stream": stream.process.pid,
        }
        assert found["stdio"]["sessions"] == found["stdio"]["status"]["in_flight"] == 1
        assert found["http"]["addresses"] == [f"http://127.0.0.1:{http.port}/mcp"]
        assert found["stream"]["addresses"] == [f"unix:{runtime}/mcp"]
        assert table[0].split()[:4] == ["pid", "server", "transport", "address"]
        assert any(f"http://127.0.0.1:{http.port}/mcp" in row and "garden" in row for row in table[1:])
        stdio.close_input()
        for served in (http, stream):
            served.signal(signal.SIGTERM)
        for served in (stdio, http, stream):
            served.end()
    assert list((runtime / "mcptrio").iterdir()) == []
    assert ps(folder, runtime) == []


def test_socket_is_readable_by_its_owner_only_and_takes_no_commands(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    path = runtime / "mcptrio" / f"{stdio.process.pid}.sock"

    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as reader:
        reader.settimeout(WAIT_TIMEOUT)
        reader.connect(str(path))
        # The server may already have sent everything and closed the connection.
        with suppress(BrokenPipeError):
            reader.sendall(b'{"cancel": 1}')
        data = b""
        # The server reads nothing, and closes the connection while bytes are unread, which resets it.
        with suppress(ConnectionResetError):
            while chunk := reader.recv(65536):
                data += chunk
    assert json.loads(data)["pid"] == stdio.process.pid


def test_another_user_gets_no_status(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    path = runtime / "mcptrio" / f"{stdio.process.pid}.sock"
    # Even if the permissions were wrong.
    for each, mode in ((runtime, 0o711), (path.parent, 0o711), (path, 0o666)):
        each.chmod(mode)
    read = "import os,socket,sys; os.setuid(65534); s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
    command = [sys.executable, "-c", f"{read}; sys.stdout.write(repr(s.recv(9)))", str(path)]
    # Only root can become another user.
    if os.getuid() == 0:
        result = subprocess.run(command, capture_output=True, timeout=WAIT_TIMEOUT, check=True)
        assert result.stdout == b"b''"
    # A folder that others can enter is not believed either.
    assert ps(folder, runtime) == []


def test_socket_of_a_killed_server_is_removed(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    stdio.signal(signal.SIGKILL)
    stdio.end()

    assert len(list((runtime / "mcptrio").iterdir())) == 1
    assert ps(folder, runtime) == []
    assert list((runtime / "mcptrio").iterdir()) == []


def test_blocked_server_is_listed_without_a_status(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    stdio.start_call("block")
    deadline = time.monotonic() + WAIT_TIMEOUT
    while (processes := ps(folder, runtime)[0])["status"] is not None:
        assert time.monotonic() < deadline

    assert processes["pid"] == stdio.process.pid
    # More readers than its queue has places for.
    for _ in range(10):
        with socket.socket(socket.AF_UNIX) as reader:
            reader.setblocking(False)
            reader.connect_ex(str(runtime / "mcptrio" / f"{stdio.process.pid}.sock"))
    output = top(folder, runtime).stdout.decode()
    assert f"process {stdio.process.pid}  no response: its event loop is blocked" in output


def test_each_worker_is_listed_and_its_parent_selects_all(folder: Path, runtime: Path) -> None:
    env = environment(runtime) | {"MCPTRIO_HTTP_WORKERS": "2"}
    with serving("--http", "--port=0", "--plugin=garden.py", cwd=folder, env=env) as served:
        served.until("serving http")
        processes = listed(folder, runtime, until=2)
        output = top(folder, runtime, str(served.process.pid)).stdout.decode()
        served.signal(signal.SIGTERM)
        served.end()

    assert {each["parent"] for each in processes} == {served.process.pid}
    assert all(f"pid {each['pid']}" in output for each in processes)
    assert list((runtime / "mcptrio").iterdir()) == []


def test_server_without_a_runtime_folder_uses_the_temporary_one(folder: Path, runtime: Path) -> None:
    # A service of another user, or a process of cron, has no such variable.
    env = {"XDG_RUNTIME_DIR": "", "RUNTIME_DIRECTORY": "", "TMPDIR": str(runtime)}
    with serving("--stdio", "--plugin=garden.py", cwd=folder, env=env) as served:
        served.greet()
        result = run("ps", "--json", cwd=folder, env=env)
        served.close_input()
        served.end()

    if not Path(f"/run/user/{os.getuid()}").exists():
        assert (runtime / f"mcptrio-{os.getuid()}").is_dir()
    assert served.process.pid in [each["pid"] for each in json.loads(result.stdout)["servers"]]


def test_first_status_of_a_process_is_not_sent_again(stdio: Served, runtime: Path) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT
    while not (found := list((runtime / "mcptrio").glob(f"{stdio.process.pid}*"))):
        assert time.monotonic() < deadline
    ages = []
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as reader, reader.makefile("rb") as file:
            reader.connect(str(found[0]))
            ages.append(json.loads(file.read())["age"])

    assert ages[0] < ages[1]


def test_page_in_a_pipe_is_the_tree_of_requests(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    dig(stdio)
    ask = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "ask", "arguments": {}}}
    stdio.send(ask)
    assert stdio.receive()["method"] == "elicitation/create"
    result = top(folder, runtime, str(stdio.process.pid))
    lines = result.stdout.decode().splitlines()

    assert result.returncode == 0
    assert f"pid {stdio.process.pid}, stdio, up" in lines[0]
    assert lines[0].endswith("1 session, 2 requests in flight")
    assert lines[1:3] == ["  plugin garden", "    session 1, raw, stdio"]
    assert lines[3].startswith("      dig  tools/call slow  ")
    assert lines[3].endswith("[###.......] 3 of 10")
    assert "deadline in" in lines[3]
    assert lines[4].startswith("      ask  tools/call 7  ")
    assert lines[4].endswith("waits for its client (elicitation/create)")


def test_request_that_waits_for_a_place_has_that_status(folder: Path, runtime: Path) -> None:
    env = environment(runtime)
    (folder / "mcptrio.toml").write_text("[plugins.garden]\nconcurrency = 1\n")
    with serving("--stdio", "--plugin=garden.py", cwd=folder, env=env) as served:
        greeted(served)
        dig(served)
        call = {"name": "dig", "arguments": {}}
        served.send({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call})
        deadline = time.monotonic() + WAIT_TIMEOUT
        while "dig  tools/call 7" not in (output := top(folder, runtime).stdout.decode()):
            assert time.monotonic() < deadline

    [running, waiting] = [line for line in output.splitlines() if "dig" in line]
    assert running.endswith("3 of 10")
    assert waiting.endswith("waits for a free place")


def test_text_of_a_client_cannot_steer_the_terminal(folder: Path, runtime: Path) -> None:
    env = environment(runtime)
    with serving("--stdio", "--plugin=garden.py", cwd=folder, env=env) as served:
        client = {"name": "evil\x1b[2J\u202e" + "x" * 500, "version": "1"}
        served.send({**HELLO, "params": {**HELLO["params"], "clientInfo": client}})
        served.receive()
        served.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        dig(served)
        output = top(folder, runtime).stdout.decode()

    assert "evil\\x1b[2J\\u202exxx" in output
    assert "\x1b" not in output
    assert "x" * 80 not in output


def test_page_at_a_terminal_is_renewed_until_q(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    with at_terminal("top", cwd=folder, env=environment(runtime)) as terminal:
        terminal.until("0 requests in flight")
        terminal.until("1 idle session")
        dig(stdio)
        terminal.until(r"1 request in flight")
        terminal.until(r"dig .* 3 of 10")
        terminal.type("q")
        assert terminal.end() == 0
        drawn = terminal.raw.decode()

    assert "\x1b[?1049h" in drawn
    assert drawn.rstrip().endswith("\x1b[?2004l")
    assert "\x1b[?1049l" in drawn
    # Each page overwrites the one before, and nothing clears the whole screen.
    assert drawn.count("\x1b[H") >= 2
    assert "\x1b[2J" not in drawn


def test_interrupt_ends_it_and_restores_the_terminal(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    with at_terminal("top", str(stdio.process.pid), cwd=folder, env=environment(runtime)) as terminal:
        terminal.until("plugin garden")
        terminal.type("\x03")
        assert terminal.end() == 0


def test_end_of_the_selected_server_ends_it(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    with at_terminal("top", str(stdio.process.pid), cwd=folder, env=environment(runtime)) as terminal:
        terminal.until("plugin garden")
        stdio.close_input()
        terminal.until("has ended")
        assert terminal.end() == 4


def test_more_requests_than_rows_are_counted(stdio: Served, folder: Path, runtime: Path) -> None:
    [_] = listed(folder, runtime, until=1)
    assert stdio.process.stdin is not None
    for number in range(40):
        params = {"name": "dig", "arguments": {}}
        stdio.process.stdin.write(line({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
    stdio.process.stdin.flush()
    with at_terminal("top", cwd=folder, env=environment(runtime)) as terminal:
        # 43 lines on 24 rows.
        terminal.until("… 20 more lines")
        terminal.type("q")
        assert terminal.end() == 0


@pytest.mark.parametrize("wanted", ["1", "http://127.0.0.1:1/mcp"])
def test_unknown_server_is_an_error(folder: Path, runtime: Path, wanted: str) -> None:
    result = top(folder, runtime, wanted)

    assert result.returncode == 4
    assert f'no server "{wanted}" of this user is running here' in result.stderr.decode()


def test_url_selects_a_server(folder: Path, runtime: Path) -> None:
    env = environment(runtime)
    with (
        serving("--http", "--port=0", "--plugin=garden.py", cwd=folder, env=env) as one,
        serving("--http", "--port=0", "--plugin=garden.py", cwd=folder, env=env) as other,
    ):
        origin, named = f"http://127.0.0.1:{one.port}", f"http://localhost:{one.port}"
        assert other.port
        listed(folder, runtime, until=2)
        pages = [top(folder, runtime, url).stdout.decode() for url in (f"{origin}/mcp", origin, f"{origin}/", named)]
        beginning = top(folder, runtime, f"{origin}/mc")

    for shown in pages:
        assert f"{origin}/mcp" in shown
        assert f"pid {other.process.pid}" not in shown
    assert beginning.returncode == 4


def test_isolated_plugin_is_part_of_its_server(folder: Path, runtime: Path) -> None:
    env = environment(runtime)
    (folder / "mcptrio.toml").write_text("[plugins.garden]\nisolate = true\n")
    with serving("--stdio", "--plugin=garden.py", cwd=folder, env=env) as served:
        greeted(served)
        dig(served)
        [found] = listed(folder, runtime, until=1)
        output = top(folder, runtime).stdout.decode()

    assert found["pid"] == served.process.pid
    assert "  plugin garden  isolated\n" in output
    assert "dig" in output


def test_worker_of_tasks_is_listed(folder: Path, runtime: Path) -> None:
    env = environment(runtime)
    tool = "from mcptrio import tool\n\n@tool(task='optional')\nasync def bake() -> str:\n    'Bake.'\n    return ''\n"
    (folder / "oven.py").write_text(tool)
    command = [sys.executable, "-m", "mcptrio", "worker", "--store=sqlite:tasks.db", "--plugin=oven.py"]
    with serving(command=command, cwd=folder, env=env) as served:
        served.until("waiting for tasks")
        [found] = listed(folder, runtime, until=1)

    assert (found["pid"], found["transport"]) == (served.process.pid, "worker")
