"""Fetch, pull, push and clone, with a real remote over the file protocol."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_git.clone_tool import check_url
from mcptrio_git.config import Config

from mcptrio import ToolError

Repo: Any = Any


NETWORK: dict[str, Any] = {"allow_network": True, "protocols": ["file"]}


async def test_fetch_pull_and_push_transfer_commits(repo: Repo, remote: Any, serve: Any) -> None:
    theirs = remote.commit("Theirs", t_txt="t\n")
    remote.git("push", "-q", "origin", "main", "main:refs/heads/new")
    async with serve(repo.path, **NETWORK) as call:
        fetched = await call.ok("git_fetch")
        assert {item["name"]: item["new"] for item in fetched["items"]} == {
            "refs/remotes/origin/main": theirs,
            "refs/remotes/origin/new": theirs,
        }
        assert (await call.ok("git_fetch"))["items"] == []
        assert (await call.ok("git_status"))["behind"] == 1
        pulled = await call.ok("git_pull")
        assert (pulled["branch"], pulled["new"]) == ("main", theirs)

        assert (await call.ok("git_push"))["result"] == "up_to_date"
        repo.commit("Mine", m_txt="m\n")
        assert (await call.ok("git_push", dry_run=True))["result"] == "updated"
        pushed = await call.ok("git_push")
        assert (pushed["result"], pushed["branch"], pushed["remote"]) == ("updated", "main", "origin")
        repo.git("branch", "topic")
        assert (await call.ok("git_push", branch="topic", set_upstream=True))["result"] == "created"
        assert repo.git("rev-parse", "--abbrev-ref", "topic@{u}") == "origin/topic"


async def test_push_does_not_overwrite_history(repo: Repo, remote: Any, serve: Any) -> None:
    remote.commit("Theirs", t_txt="t\n")
    remote.git("push", "-q")
    mine = repo.commit("Mine", m_txt="m\n")
    repo.git("config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    async with serve(repo.path, **NETWORK) as call:
        assert "rejected" in await call.refused("git_push")
        assert "failed" in await call.refused("git_pull")
    assert repo.git("rev-parse", "HEAD") == mine
    assert remote.git("ls-remote", "origin", "main").split()[0] == remote.git("rev-parse", "HEAD")


async def test_remote_that_is_not_a_configured_name_is_refused(
    repo: Repo, remote: Any, outside: Any, serve: Any, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    values = (
        *("--upload-pack=touch", "-c", "", ".", f"file://{outside.path}", str(outside.path), "origin/main"),
        f"ext::sh -c 'touch {marker}'",
    )
    async with serve(repo.path, **NETWORK) as call:
        for value in values:
            for tool in ("git_fetch", "git_pull", "git_push"):
                assert "expected the name of a remote (origin)" in await call.refused(tool, remote=value)
        for value in ("--delete", ":main", "+main", "main:other", "nothing"):
            await call.refused("git_push", branch=value)
            await call.refused("git_pull", branch=value)
    assert not marker.exists()


async def test_remote_that_would_run_a_program_is_refused(repo: Repo, remote: Any, serve: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    repo.git("remote", "add", "evil", f"ext::sh -c touch% {marker}")
    repo.git("config", "protocol.ext.allow", "always")
    async with serve(repo.path, **NETWORK) as call:
        assert "transport 'ext' not allowed" in await call.refused("git_fetch", remote="evil")
    async with serve(repo.path, allow_network=True) as call:
        assert "transport 'file' not allowed" in await call.refused("git_fetch")
    assert not marker.exists()


async def test_reading_a_partial_clone_fetches_nothing(repo: Repo, remote: Any, serve: Any, tmp_path: Path) -> None:
    bare, part = tmp_path / "remote.git", type(repo)(tmp_path / "part")
    repo.git("--git-dir", str(bare), "config", "uploadpack.allowFilter", "true")
    repo.git("clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{bare}", str(part.path))
    async with serve(part.path, **NETWORK) as call:
        await call.ok("git_log")
        assert "could not fetch" in await call.refused("git_show", revision="HEAD:a.txt")
        await call.ok("git_checkout", branch_name="main")
        assert await call.text("git_show", revision="HEAD:a.txt") == "alpha\nbeta\n"


async def test_clone_creates_a_repository(repo: Repo, remote: Any, serve: Any, tmp_path: Path) -> None:
    folder = tmp_path / "clones"
    url = f"file://{tmp_path}/remote.git"
    async with serve(clone_folder=str(folder), **NETWORK) as call:
        received: list[Any] = []
        result = await call.client.call_tool("git_clone", {"url": url}, progress=received.append)
        made = result.structured_content
        assert made == {
            "name": "remote",
            "path": str(folder / "remote"),
            "branch": "main",
            "commit": repo.git("rev-parse", "HEAD"),
        }
        assert [each.progress for each in received] == sorted({each.progress for each in received})
        assert any("objects: 100%" in each.message for each in received)
        assert (await call.ok("git_log", repo_path="remote"))["items"]
        assert "already exists" in await call.refused("git_clone", url=url)
        await call.ok("git_clone", url=url, name="thin", depth=1, branch="main")
        assert len((await call.ok("git_log", repo_path="thin"))["items"]) == 1
        for name in ("..", "a/b", "-x", ".git", "", "x.lock", "a" * 101):
            if name:
                await call.refused("git_clone", url=url, name=name)
        assert "failed" in await call.refused("git_clone", url=f"file://{tmp_path}/none.git")
        assert "failed" in await call.refused("git_clone", url=url, name="b", branch="no-such")
    assert {path.name for path in folder.iterdir()} == {"remote", "thin"}


async def test_silent_remote_times_out(repo: Repo, serve: Any, tmp_path: Path) -> None:
    folder = tmp_path / "clones"

    async def stay_silent(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, stay_silent, 0, host="127.0.0.1"))
        url = f"git://127.0.0.1:{listener.socket.getsockname()[1]}/a.git"
        settings = {"allow_network": True, "protocols": ["git"], "clone_folder": str(folder), "network_timeout": 0.2}
        async with serve(repo.path, **settings) as call:
            assert "did not finish within 0.2 seconds" in await call.refused("git_clone", url=url)
            repo.git("remote", "add", "silent", url)
            assert "network_timeout" in await call.refused("git_fetch", remote="silent")
        nursery.cancel_scope.cancel()
    assert list(folder.iterdir()) == []


async def test_clone_is_not_offered_without_a_folder(repo: Repo, serve: Any) -> None:
    async with serve(repo.path, **NETWORK) as call:
        assert "git_clone" not in {tool.name async for tool in call.client.tools()}


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "--upload-pack=touch",
        "-u",
        "/etc",
        "../x",
        "file:///etc",
        "http://example.com/a",
        "git://example.com/a",
        "https://ann:hunter2@example.com/a",
        "https://-oProxyCommand=x/a",
        "ssh://-oProxyCommand=x/a",
        "-oProxyCommand=x:a",
        "a@-x:b",
        "host:-x",
        "host::x",
        "https://example.com/a\nb",
        "https:///a",
        "C:\\x y",
    ],
)
def test_unsafe_clone_url_is_refused(url: str) -> None:
    with pytest.raises(ToolError) as refusal:
        check_url(url, Config())
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["https://example.com/a.git", "https://ann@example.com:8443/a/b", "ssh://git@host/a", "git@host.org:a/b.git"]
)
def test_allowed_clone_url_is_accepted(url: str) -> None:
    check_url(url, Config())
