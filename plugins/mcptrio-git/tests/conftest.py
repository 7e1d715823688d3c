"""Real repositories, a repository that is not allowed, and a client of a server with the plugin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import mcptrio_git
import pytest
import trio

from mcptrio import Client, Server, connect

SECRET = "the secret outside"
_CONFIG = "[user]\n\tname = Ann\n\temail = ann@example.com\n[init]\n\tdefaultBranch = main\n"


class Repo:
    """A repository with a few commits, and the git command to inspect it."""

    def __init__(self, path: Path, environ: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.environ = environ or {}

    def git(self, *arguments: str) -> str:
        result = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            capture_output=True,
            text=True,
            env={**os.environ, **self.environ},
            timeout=60,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout.rstrip("\n")

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, message: str, **files: str) -> str:
        for name, text in files.items():
            self.write(name.replace("__", "/").replace("_", "."), text)
        if files:
            self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        head = (self.path / ".git/HEAD").read_text().strip()  # read from the file, since a git process takes longer
        return (self.path / ".git" / head.removeprefix("ref: ")).read_text().strip() if head[:4] == "ref:" else head

    def program(self, name: str, marker: Path, body: str = "cat") -> Path:
        """Return an executable that creates a marker file when it runs."""
        path = self.path.parent / name
        path.write_text(f"#!/bin/sh\ntouch '{marker}'\n{body}\n")
        path.chmod(0o755)
        return path


class Caller:
    """A client, and the results of its calls."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ok(self, tool: str, **arguments: Any) -> Any:
        """Return the structured content of a call that does not fail."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def text(self, tool: str, **arguments: Any) -> str:
        """Return the text of a call that does not fail."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.content[0].text  # type: ignore[union-attr]

    async def whole(self, tool: str, **arguments: Any) -> tuple[str, int]:
        """Return a text from all of its parts, and their number."""
        whole, offset, parts = "", 0, 0
        while True:
            text = await self.text(tool, offset=offset, **arguments)
            match = re.search(r"\n\[more follows: pass offset=(\d+)\]\Z", text)
            parts += 1
            if match is None:
                return whole + text, parts
            whole, offset = whole + text[: match.start()], int(match[1])

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Return the error of a call."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        return result.content[0].text  # type: ignore[union-attr]


Serve: TypeAlias = Callable[..., AbstractAsyncContextManager[Caller]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a temporary home, so that the user's configuration is not used."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".gitconfig").write_text(_CONFIG)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2026-01-02T03:04:05+01:00")
    return folder


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories, created once and copied for each test, which saves a dozen git processes.

    ``repo`` and ``outside``; ``with-remote`` is the former with an origin, ``remote.git``, which ``theirs`` has
    cloned.
    """
    folder = tmp_path_factory.mktemp("template")
    config = folder / "config"
    config.write_text(_CONFIG)
    environ = {
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+01:00",
    }
    repo, outside = Repo(folder / "repo", environ), Repo(folder / "outside", environ)
    for each in (repo, outside):
        each.path.mkdir()
        each.git("init", "-q")
    repo.commit("One", a_txt="alpha\n")
    repo.commit("Two\n\nBecause.", a_txt="alpha\nbeta\n", src__b_py="x = 1\n")
    outside.commit("Hidden", secret_txt=SECRET)
    bare = folder / "remote.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    connected = Repo(Path(shutil.copytree(repo.path, folder / "with-remote")), environ)
    connected.git("remote", "add", "origin", f"file://{bare}")
    connected.git("fetch", "-q")
    connected.git("branch", "-q", "-u", "origin/main")
    repo.git("clone", "-q", str(bare), str(folder / "theirs"))
    return folder


@pytest.fixture
def repo(template: Path, tmp_path: Path) -> Repo:
    """Return a repository with two commits, ``a.txt`` and ``src/b.py``."""
    return Repo(Path(shutil.copytree(template / "repo", tmp_path / "inside" / "repo")))


@pytest.fixture
def outside(template: Path, tmp_path: Path) -> Repo:
    """Return a repository that is not allowed."""
    return Repo(Path(shutil.copytree(template / "outside", tmp_path / "outside")))


@pytest.fixture
def remote(repo: Repo, template: Path, tmp_path: Path) -> Repo:
    """Return a bare repository, which is the origin of ``repo``, and another user's clone of it."""
    shutil.rmtree(repo.path)
    bare = shutil.copytree(template / "remote.git", tmp_path / "remote.git")
    for name, path in (("with-remote", repo.path), ("theirs", tmp_path / "theirs")):
        shutil.copytree(template / name, path)
        config = path / ".git/config"
        config.write_text(config.read_text().replace(str(template / "remote.git"), str(bare)))
    return Repo(tmp_path / "theirs")


@asynccontextmanager
async def _serve(*repositories: Path, revision: str | None = None, **settings: Any) -> AsyncIterator[Caller]:
    table = {"repositories": [str(path) for path in repositories], **settings}
    options: dict[str, Any] = {} if revision is None else {"revision": revision}
    with trio.fail_after(120):
        server = Server(plugins=[mcptrio_git], config={"mcptrio_git": table})
        assert server.plugins.plugins["mcptrio_git"].failure is None, server.plugins.plugins["mcptrio_git"].failure
        async with connect(server, **options) as client:
            yield Caller(client)


@pytest.fixture
def serve() -> Serve:
    return _serve


@pytest.fixture
async def call(repo: Repo) -> AsyncIterator[Caller]:
    async with _serve(repo.path) as caller:
        yield caller
