"""A set of servers that many users have: files, Git, web pages, a memory, thinking, the time.

mcptrio is one process with six plugins; the reference servers are six processes, three in Python and three in Node.
Both have the same folder, repository and page, and get the same calls.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from environments import ROOT, Environment, NodeEnvironment, PythonEnvironment

__all__ = ["KINDS", "NODE_PACKAGES", "REFERENCES", "Asked", "Member", "World", "our_set", "reference_set", "world"]

REFERENCES: Mapping[str, str] = {
    "git": "mcp-server-git==2026.10.19",
    "fetch": "mcp-server-fetch==2026.10.24",
    "time": "mcp-server-time==2026.10.19",
}
"""Those of Python, each in its own environment, as ``uvx`` has them. Those of Node are in ``references/``."""
NODE_PACKAGES = NodeEnvironment("references", Path(__file__).resolve().parent / "references")

_PLUGINS = ("fs", "git", "fetch", "memory", "thinking", "time")
_OURS: Environment = PythonEnvironment(
    "mcptrio-plugins",
    ("-e", str(ROOT), *(part for name in _PLUGINS for part in ("-e", str(ROOT / "plugins" / f"mcptrio-{name}")))),
)

KINDS = ("files", "git", "fetch", "memory", "thinking", "time")
"""The kinds of servers; one cheap call of each is measured."""

_PAGE = (
    b"<html><head><title>Peas</title></head><body><article><h1>Peas</h1>"
    b"<p>Sow them in April, two fingers deep, and give them something to climb.</p></article></body></html>"
)


@dataclass(frozen=True)
class World:
    """The files of the servers of a set, which are deleted afterwards."""

    folder: Path
    page: str

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"


@dataclass(frozen=True)
class Asked:
    """A cheap call.

    Args:
        kind: one of ``KINDS``.
        expected: A part of the answer.
    """

    kind: str
    tool: str
    arguments: Mapping[str, Any]
    expected: str


@dataclass(frozen=True)
class Member:
    """One process of a set, and its calls."""

    interpreter: Path
    arguments: Sequence[str]
    calls: Sequence[Asked]
    variables: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder, ThreadingHTTPServer(("127.0.0.1", 0), _Site) as site:
        made = World(Path(folder), f"http://127.0.0.1:{site.server_port}/peas")
        made.files.mkdir()
        for number in range(10):
            (made.files / f"{number}.txt").write_text(f"file {number}\n")
        _make_repository(made.repository)
        thread = Thread(target=site.serve_forever, name="site")
        thread.start()
        try:
            yield made
        finally:
            site.shutdown()
            thread.join()


def our_set(made: World, home: Environment) -> Sequence[Member]:
    """
    Args:
        home: where mcptrio is; if it has nothing else, one with the plugins too is used in its place.
    """
    config = made.folder / "mcptrio.toml"
    config.write_text(
        f"[plugins.fs]\nfolders = [{json.dumps(str(made.files))}]\n"
        f"[plugins.git]\nrepositories = [{json.dumps(str(made.repository))}]\n"
        "[plugins.fetch]\nallow_private = true\n"
        f"[plugins.memory]\nfile = {json.dumps(str(made.folder / 'memory.db'))}\n"
    )
    serve = ("-m", "mcptrio", "serve", "--stdio", "--log-level=warning", f"--config={config}")
    plugins = tuple(f"--plugin={name}" for name in _PLUGINS)
    prefixes = {"files": "fs_", "memory": "memory_", "thinking": "thinking_", "time": "time_"}
    calls = [
        Asked(each.kind, prefixes.get(each.kind, "") + each.tool, each.arguments, each.expected)
        for each in _calls(made)
    ]
    return [Member((_OURS if home.isolated else home).interpreter(), (*serve, *plugins), calls)]


def reference_set(made: World) -> Sequence[Member]:
    node = NODE_PACKAGES.interpreter()
    scope = NODE_PACKAGES.home / "node_modules" / "@modelcontextprotocol"
    calls = {each.kind: [each] for each in _calls(made)}

    def of_node(package: str, *arguments: str) -> tuple[Path, Sequence[str]]:
        return node, (str(scope / package / "dist" / "index.js"), *arguments)

    def of_python(name: str, *arguments: str) -> tuple[Path, Sequence[str]]:
        home = PythonEnvironment(f"reference-{name}", (REFERENCES[name],))
        return home.interpreter(), ("-m", f"mcp_server_{name}", *arguments)

    fetch = of_python("fetch", "--allow-private-ips")
    # This server looks for node on PATH and, if it finds one, runs npm install during a call. Every page then
    # starts that node, which takes far longer than the Python code of the server.
    without_node = {"PATH": str(fetch[0].parent)}
    return [
        Member(*of_node("server-filesystem", str(made.files)), calls["files"]),
        Member(*of_python("git", "--repository", str(made.repository)), calls["git"]),
        Member(*fetch, calls["fetch"], without_node),
        Member(*of_node("server-memory"), calls["memory"], {"MEMORY_FILE_PATH": str(made.folder / "memory.jsonl")}),
        Member(*of_node("server-sequential-thinking"), calls["thinking"]),
        Member(*of_python("time"), calls["time"]),
    ]


def _calls(made: World) -> Sequence[Asked]:
    """Return the calls, with the names of the reference servers."""
    thought = {"thought": "Begin.", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 3}
    return (
        Asked("files", "list_directory", {"path": str(made.files)}, "9.txt"),
        Asked("git", "git_branch", {"repo_path": str(made.repository), "branch_type": "local"}, "main"),
        Asked("fetch", "fetch", {"url": made.page}, "two fingers deep"),
        Asked("memory", "search_nodes", {"query": "peas"}, "entities"),
        Asked("thinking", "sequentialthinking", thought, "thoughtNumber"),
        Asked("time", "get_current_time", {"timezone": "Europe/Berlin"}, "Europe/Berlin"),
    )


def _make_repository(folder: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, timeout=30)

    folder.mkdir()
    git("init", "--initial-branch=main")
    (folder / "poem.txt").write_text("Roses are red\n")
    git("add", "poem.txt")
    who = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@example.com")
    git(*who, "commit", "--no-gpg-sign", "-m", "Begin a poem")
    git("branch", "other")


class _Site(BaseHTTPRequestHandler):
    """One page, and no robots.txt."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        found = self.path == "/peas"
        body = _PAGE if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
