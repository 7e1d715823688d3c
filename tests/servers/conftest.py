"""Servers of other projects: installed in parallel, started as their users start them, stopped before the run ends.

A server over stdio is a command, which the test's client starts; one over HTTP is a URL, and runs for all tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGTERM
from threading import Thread
from typing import TypeAlias

import pytest
from attrs import frozen

from mcptrio import Endpoint
from tests.node import Node, find_node
from tests.processes import serving
from tests.servers.environment import install
from tests.servers.ways import WAIT_TIMEOUT, Way

__all__: list[str] = []

HERE = Path(__file__).resolve().parent
REFERENCE_MODULES = ("mcp_server_fetch.server", "mcp_server_git.server", "mcp_server_time.server")

PATHS = {"http": "/mcp", "json": "/json/mcp", "stateless": "/stateless/mcp", "sse": "/old/sse"}

PAGES = {
    "/robots.txt": ("text/plain", "User-agent: *\nDisallow: /private\n"),
    "/page": (
        "text/html",
        "<html><head><title>A page</title></head><body><h1>Hello</h1><p>Some words.</p></body></html>",
    ),
    "/private": ("text/plain", "not for robots"),
}
"""Path to kind and text."""

Command: TypeAlias = tuple[str, ...]


@frozen(kw_only=True)
class Installed:
    """The installed packages."""

    node: Node
    packages: Path
    """The folder that contains ``node_modules``."""
    pythons: dict[str, Path]
    """The Python of each environment, by the major version of the SDK that the reference servers use in it."""

    @property
    def everything(self) -> Path:
        scope = self.packages / "node_modules" / "@modelcontextprotocol"
        return scope / "server-everything" / "dist" / "index.js"


@pytest.fixture(scope="session")
def installed() -> Installed:
    """Install in parallel: each installation waits for its registry half of the time."""
    node = find_node()
    with ThreadPoolExecutor() as pool:
        packages = pool.submit(node.install, HERE)
        pythons = {
            generation: pool.submit(install, HERE / f"reference-{generation}.txt", REFERENCE_MODULES)
            for generation in ("v1", "v2")
        }
        return Installed(
            node=node,
            packages=packages.result(),
            pythons={generation: python.result() for generation, python in pythons.items()},
        )


# Written for these tests, with the official SDKs


@pytest.fixture(scope="session")
def python_sdk_command() -> Command:
    return (sys.executable, str(HERE / "python_sdk_server.py"), "stdio")


@pytest.fixture(scope="session")
def python_sdk_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL without a path: ``/mcp``, ``/json/mcp``, ``/stateless/mcp`` and ``/old/sse`` are served."""
    with running((sys.executable, str(HERE / "python_sdk_server.py"), "http"), tmp_path_factory) as url:
        yield url


@pytest.fixture(scope="session")
def typescript_sdk_command(installed: Installed) -> Command:
    script = str(HERE / "typescript_sdk_server.mjs")
    return (str(installed.node.binary), script, str(installed.packages), "stdio")


@pytest.fixture(scope="session")
def typescript_sdk_url(typescript_sdk_command: Command, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL without a path: ``/mcp``, ``/json/mcp`` and ``/stateless/mcp`` are served."""
    with running((*typescript_sdk_command[:-1], "http"), tmp_path_factory) as url:
        yield url


@pytest.fixture(scope="session")
def way(request: pytest.FixtureRequest) -> Way:
    """Return the indirect parameter of the test."""
    given: Way = request.param
    return given


@pytest.fixture(scope="session")
def target(way: Way, request: pytest.FixtureRequest) -> Command | Endpoint:
    """Return the target of the way; session-scoped, so that its server does not count as a leak of a test."""
    if way.transport == "stdio":
        command: Command = request.getfixturevalue(f"{way.sdk}_sdk_command")
        return command
    url = request.getfixturevalue(f"{way.sdk}_sdk_url")
    return Endpoint(url=url + PATHS[way.transport], transport="sse" if way.transport == "sse" else "http")


# server-everything


@pytest.fixture(scope="session")
def everything_command(installed: Installed) -> Command:
    return (str(installed.node.binary), str(installed.everything), "stdio")


@pytest.fixture(scope="session")
def everything_http_url(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(announced(installed, "streamableHttp"), tmp_path_factory, PORT="0") as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="session")
def everything_sse_url(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(announced(installed, "sse"), tmp_path_factory, PORT="0") as url:
        yield f"{url}/sse"


# The reference servers in Python


@pytest.fixture(scope="session", params=["v1", "v2"])
def reference_generation(request: pytest.FixtureRequest) -> str:
    """Return the major version of the SDK; tests with a reference server use both."""
    generation: str = request.param
    return generation


@pytest.fixture(scope="session")
def reference_python(installed: Installed, reference_generation: str) -> Path:
    return installed.pythons[reference_generation]


@pytest.fixture(scope="session")
def time_command(reference_python: Path) -> Command:
    return (str(reference_python), "-m", "mcp_server_time", "--local-timezone", "Europe/Zurich")


@pytest.fixture
def git_command(reference_python: Path, repository: Path) -> Command:
    return (str(reference_python), "-m", "mcp_server_git", "--repository", str(repository))


@pytest.fixture(scope="session")
def fetch_command(reference_python: Path, reference_generation: str) -> Command:
    # The server looks for node on PATH, and then has npm install packages in the middle of a call.
    command = ("/usr/bin/env", f"PATH={reference_python.parent}", str(reference_python), "-m", "mcp_server_fetch")
    may_be_local = ("--allow-private-ips",) if reference_generation == "v2" else ()
    return (*command, "--user-agent", "mcptrio-tests", *may_be_local)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits on ``main``, a branch ``other``, a staged file and an untracked one."""
    folder = tmp_path / "repository"
    folder.mkdir()

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, timeout=WAIT_TIMEOUT)

    git("init", "--initial-branch=main")
    git("config", "user.name", "Tester")
    git("config", "user.email", "tester@example.com")
    (folder / "poem.txt").write_text("Roses are red\n")
    git("add", "poem.txt")
    git("commit", "--no-gpg-sign", "-m", "Begin a poem")
    (folder / "poem.txt").write_text("Roses are red\nViolets are blue\n")
    git("commit", "--no-gpg-sign", "-am", "Go on")
    git("branch", "other")
    (folder / "staged.txt").write_text("staged\n")
    git("add", "staged.txt")
    (folder / "poem.txt").write_text("Roses are red\nViolets are blue\nSugar is sweet\n")
    return folder


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Return the URL without a path: robots may read ``/page`` but not ``/private``; ``/missing`` does not exist."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = Thread(target=server.serve_forever, name="site")
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def announced(installed: Installed, transport: str) -> Command:
    """Return the command of server-everything, changed so that it prints its port."""
    announce = (HERE / "announce.mjs").as_uri()
    return (str(installed.node.binary), "--import", announce, str(installed.everything), transport)


@contextmanager
def running(command: Sequence[str], folders: pytest.TempPathFactory, **env: str) -> Iterator[str]:
    """Run a server over HTTP, and stop it at the end.

    Returns:
        Its URL, without a path.
    """
    folder = folders.mktemp("server")
    with serving(command=command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as served:
        yield served.until(r"serving (http://[^/\s]+)")[1]
        served.signal(SIGTERM)
        code, _ = served.end()
        assert code in (0, -SIGTERM), served.stderr


class _Site(BaseHTTPRequestHandler):
    """A small site, part of which is disallowed for robots."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind, text = PAGES.get(self.path, ("text/plain", ""))
        body = text.encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
