"""Listening and connecting on every kind of address, without removing existing files."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trio

from mcptrio.transports.socket_client import open_socket_channel
from mcptrio.transports.sockets import ListeningSockets, listen

__all__: list[str] = []

unix_only = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets and descriptors")


@contextmanager
def connected(address: str | tuple[str, int]) -> Iterator[socket.socket]:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(30)
        client.connect(address)
        yield client


def accept(listening: ListeningSockets, index: int = 0) -> None:
    """One connection that has been made."""
    accepted, _ = listening.sockets[index].accept()
    accepted.close()


def port_of(name: str) -> int:
    return int(name.rpartition(":")[2])


def test_free_port_is_bound_and_reported() -> None:
    with closing(listen("127.0.0.1:0")) as listening:
        (name,) = listening.names
        host, port = listening.sockets[0].getsockname()

        assert name == f"{host}:{port}"
        assert host == "127.0.0.1"
        assert port > 0
        assert not listening.sockets[0].getblocking()
        with connected((host, port)):
            accept(listening)


def test_configured_port_can_be_bound_again_at_once() -> None:
    """Closed connections in TIME_WAIT do not delay a restart."""
    with closing(listen("127.0.0.1:0")) as first:
        port = port_of(first.names[0])
        with connected(("127.0.0.1", port)):
            accept(first)

    with closing(listen(f"127.0.0.1:{port}")) as second:
        assert second.names == (f"127.0.0.1:{port}",)


def test_port_in_use_is_refused_by_name() -> None:
    with closing(listen("127.0.0.1:0")) as first:
        with pytest.raises(OSError, match=rf"^cannot listen on {first.names[0]}: Address already in use") as caught:
            listen(first.names[0])

    assert isinstance(caught.value.errno, int)


def has_ipv6() -> bool:
    """Return whether this machine has IPv6; Python's build option does not tell."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_ipv6_address_is_bracketed_and_accepts_no_ipv4() -> None:
    if not has_ipv6():
        with pytest.raises(OSError, match=r"cannot listen on \[::\]:0"):
            listen("[::]:0")
        return
    with closing(listen("[::]:0")) as listening:
        (name,) = listening.names
        assert name.startswith("[::]:")
        with pytest.raises(ConnectionRefusedError), connected(("127.0.0.1", port_of(name))):
            pass


def test_name_with_several_addresses_listens_on_all_with_one_port() -> None:
    with closing(listen("localhost:0")) as listening:
        ports = {port_of(name) for name in listening.names}
        found = {where[0] for *_, where in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}

        assert len(ports) == 1
        assert 1 <= len(listening.names) <= len(found)
        for index, each in enumerate(listening.sockets):
            with connected(each.getsockname()[:2]):
                accept(listening, index)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("8000", "expected host:port"),
        (":8000", "expected host:port"),
        ("", "expected host:port"),
        ("::1:8000", "expected host:port"),
        ("[localhost:80", "expected host:port"),
        ("localhost:http", "expected a port from 0 to 65535, got 'http'"),
        ("localhost:65536", "expected a port from 0 to 65535"),
        ("localhost:-1", "expected a port from 0 to 65535"),
        ("nowhere.invalid:80", "no address for host 'nowhere.invalid'"),
        ("x" * 70 + ":80", "is not a host name|no address for host"),
        ("192.0.2.1:0", "assign requested address"),
        ("unix:", "expected the path of a socket"),
        ("unix:@abstract", "expected the path of a socket"),
        ("unix:/nowhere/at/all/mcp.sock", "No such file or directory"),
        ("unix:/" + "x" * 120, "expected a path of at most 10[37] bytes, got 121"),
        ("fd:", "expected a number"),
        ("fd:-1", "expected a number"),
        ("fd:three", "expected a number"),
        ("fd:99999999999", "expected a number"),
        ("fd:12345", "descriptor 12345: Bad file descriptor"),
    ],
)
@unix_only
def test_invalid_address_is_reported(address: str, problem: str) -> None:
    with pytest.raises(OSError, match=problem) as caught:
        listen(address)

    assert str(caught.value).startswith(f"cannot listen on {address}: ")


@unix_only
def test_unix_socket_listens_with_its_permissions_and_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sock"
    with closing(listen(f"unix:{path}")) as listening:
        assert listening.names == (f"unix:{path}",)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert list(tmp_path.iterdir()) == [path]
        with connected(str(path)):
            accept(listening)

    assert not list(tmp_path.iterdir())
    listening.close()


@unix_only
def test_configured_permissions_are_independent_of_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sock"
    before = os.umask(0o077)
    try:
        listening = listen(f"unix:{path}", unix_mode=0o666)
    finally:
        os.umask(before)

    with closing(listening):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666


@unix_only
def test_permissions_apply_from_the_creation_of_the_socket(tmp_path: Path) -> None:
    """Another thread checks all the time, while the umask of the process would allow everything."""
    path = tmp_path / "mcp.sock"
    seen: set[int] = set()
    finished = threading.Event()

    def look() -> None:
        while not finished.is_set():
            try:
                seen.add(stat.S_IMODE(path.lstat().st_mode))
            except FileNotFoundError:
                pass

    looker = threading.Thread(target=look)
    before = os.umask(0)
    looker.start()
    try:
        for _ in range(100):
            listen(f"unix:{path}").close()
        with closing(listen(f"unix:{path}")):
            while not seen:
                pass
    finally:
        finished.set()
        looker.join()
        os.umask(before)

    assert seen == {0o600}


@unix_only
def test_socket_is_never_found_without_a_listener(tmp_path: Path) -> None:
    """Another starting server would consider it stale."""
    path = tmp_path / "mcp.sock"
    refused: list[OSError] = []
    made = threading.Event()
    finished = threading.Event()

    def look() -> None:
        while not finished.is_set():
            try:
                with connected(str(path)):
                    made.set()
            except (FileNotFoundError, BlockingIOError):
                pass
            except OSError as error:
                refused.append(error)

    looker = threading.Thread(target=look)
    looker.start()
    kept: list[ListeningSockets] = []
    try:
        for _ in range(50):
            kept.append(listen(f"unix:{path}"))
            path.unlink()
        kept.append(listen(f"unix:{path}"))
        assert made.wait(30)
    finally:
        finished.set()
        looker.join()
        for listening in kept:
            listening.close()

    assert not refused


@unix_only
def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    with closing(listen(f"unix:{path}")) as listening, connected(str(path)):
        accept(listening)

    assert not path.exists()


@unix_only
def test_socket_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sock"
    with closing(listen(f"unix:{path}")) as first:
        with pytest.raises(OSError, match=rf"^cannot listen on unix:{path}: another process listens there"):
            listen(f"unix:{path}")

        accept(first)  # the probe for a listening server
        with connected(str(path)):
            accept(first)


@unix_only
def test_socket_with_a_full_queue_is_not_stale(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sock"
    with closing(listen(f"unix:{path}", backlog=0)), connected(str(path)):
        with pytest.raises(OSError, match="another process listens there"):
            listen(f"unix:{path}")


@unix_only
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_path_that_is_not_a_socket_is_refused_and_kept(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mcp.sock"
    if kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    before = path.lstat()

    with pytest.raises(OSError, match="the path exists and is not a socket"):
        listen(f"unix:{path}")
    assert path.lstat().st_ino == before.st_ino
    assert list(tmp_path.iterdir()) == [path]


@unix_only
def test_foreign_path_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sock"
    first = listen(f"unix:{path}")
    path.unlink()
    with closing(listen(f"unix:{path}")) as second:
        first.close()

        with connected(str(path)):
            accept(second)


@unix_only
def test_relative_path_is_removed_after_a_change_of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listening = listen("unix:mcp.sock")
    monkeypatch.chdir("/")
    assert listening.names == (f"unix:{tmp_path / 'mcp.sock'}",)

    listening.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="the longest path needs /proc")
def test_socket_path_of_the_maximum_length_is_bound(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * (107 - len(str(tmp_path)) - 3))
    deep.mkdir()
    path = deep / "s"
    assert len(str(path)) == 107

    with closing(listen(f"unix:{path}")) as listening, connected(str(path)):
        accept(listening)
    assert not list(deep.iterdir())


@unix_only
def test_inherited_descriptor_is_duplicated_and_left_open() -> None:
    with closing(listen("127.0.0.1:0")) as own:
        number = own.sockets[0].fileno()
        with closing(listen(f"fd:{number}")) as first, closing(listen(f"fd:{number}")) as second:
            assert first.names == second.names == own.names
            assert len({number, first.sockets[0].fileno(), second.sockets[0].fileno()}) == 3

        with connected(own.sockets[0].getsockname()):
            accept(own)


@unix_only
def test_inherited_unix_socket_is_named_and_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sock"
    with socket.socket(socket.AF_UNIX) as parent:
        parent.bind(str(path))
        parent.listen()
        with closing(listen(f"fd:{parent.fileno()}")) as listening:
            assert listening.names == (f"unix:{path}",)

        assert path.exists()


@unix_only
def test_unsuitable_descriptor_is_refused_and_left_open() -> None:
    reader, writer = os.pipe()
    with socket.socket() as idle, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        for number, problem in [
            (reader, "is not a socket"),
            (idle.fileno(), "does not listen"),
            (datagrams.fileno(), "not a stream"),
        ]:
            with pytest.raises(OSError, match=f"^cannot listen on fd:{number}: descriptor {number} .*{problem}"):
                listen(f"fd:{number}")
            os.fstat(number)
    os.close(reader)
    os.close(writer)


ACTIVATED = """
import os, sys
from mcptrio.transports.sockets import listen

os.environ["LISTEN_PID"] = str(os.getpid() + int(sys.argv[1]))
try:
    listening = listen("fd:systemd")
except OSError as error:
    sys.exit(str(error))
print(*listening.names)
for each in listening.sockets:
    each.setblocking(True)
    each.accept()[0].close()
"""


@unix_only
def test_sockets_passed_by_systemd_are_served() -> None:
    """systemd passes them as descriptors from 3 on, with the process id in LISTEN_PID."""
    with closing(listen("127.0.0.1:0")) as one, closing(listen("127.0.0.1:0")) as two:
        command = f'exec 3<&{one.sockets[0].fileno()} 4<&{two.sockets[0].fileno()}; exec {sys.executable} -c "$0" 0'
        child = subprocess.Popen(
            ["/bin/bash", "-c", command, ACTIVATED],
            env={**os.environ, "LISTEN_FDS": "2"},
            pass_fds=[one.sockets[0].fileno(), two.sockets[0].fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )
        with connected(one.sockets[0].getsockname()), connected(two.sockets[0].getsockname()):
            printed, _ = child.communicate(timeout=60)

    assert (printed.split(), child.returncode) == ([*one.names, *two.names], 0)


@unix_only
@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({}, "expected sockets from systemd"),
        ({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, "are for another process"),
        ({"LISTEN_PID": "ours", "LISTEN_FDS": "many"}, "as LISTEN_FDS, got 'many'"),
        ({"LISTEN_PID": "ours", "LISTEN_FDS": "99999"}, "as LISTEN_FDS, got '99999'"),
        ({"LISTEN_PID": "ours", "LISTEN_FDS": "0"}, "got LISTEN_FDS=0"),
    ],
    ids=["none", "another-process", "no-number", "too-many", "zero"],
)
def test_invalid_variables_of_systemd_are_reported(
    variables: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LISTEN_PID", "LISTEN_FDS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(os.getpid()) if value == "ours" else value)

    with pytest.raises(OSError, match=f"^cannot listen on fd:systemd: .*{problem}"):
        listen("fd:systemd")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux tells of timers there")
async def test_client_socket_enables_tcp_keepalive() -> None:
    """A call without a timeout would otherwise wait for ever for a lost peer."""
    with closing(listen("127.0.0.1:0")) as listening:
        (name,) = listening.names
        async with open_socket_channel(f"tcp://{name}"):
            table = await trio.Path("/proc/net/tcp").read_text()
            rows = [row.split() for row in table.splitlines()[1:]]
            timers = {row[5] for row in rows if row[2].endswith(f":{port_of(name):04X}")}
    assert any(timer.startswith("02:") for timer in timers)
