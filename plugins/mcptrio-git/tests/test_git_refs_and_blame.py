"""Branches, tags, stashes, work trees, remotes, blame, search, ancestors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcptrio_git.listings import parse_worktrees

Repo: Any = Any
Caller: Any = Any


async def test_branches_are_listed(repo: Repo, call: Caller) -> None:
    repo.git("branch", "old", "HEAD~1")
    repo.git("branch", "-q", "-u", "old", "main")
    repo.git("update-ref", "refs/remotes/origin/feature/x", "HEAD")
    repo.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/feature/x")

    local = await call.ok("git_branch", branch_type="local")
    assert (local["current"], local["head"]) == ("main", repo.git("rev-parse", "HEAD"))
    assert [(each["name"], each["current"], each["upstream"], each["tracking"]) for each in local["items"]] == [
        ("main", True, "old", "ahead 1"),
        ("old", False, None, ""),
    ]
    remote = await call.ok("git_branch", branch_type="remote")
    assert [(each["name"], each["kind"], each["subject"]) for each in remote["items"]] == [
        ("origin/feature/x", "remote", "Two")
    ]

    async def names(**arguments: str) -> list[str]:
        return [each["name"] for each in (await call.ok("git_branch", branch_type="all", **arguments))["items"]]

    assert await names(contains="HEAD") == ["main", "origin/feature/x"]
    assert await names(not_contains="HEAD") == ["old"]
    page = await call.ok("git_branch", branch_type="all", limit=2)
    assert page["next_cursor"] == "2"
    rest = await call.ok("git_branch", branch_type="all", limit=2, cursor="2")
    assert [each["name"] for each in rest["items"]] == ["origin/feature/x"]
    repo.git("checkout", "-q", "--detach")
    assert (await call.ok("git_branch"))["current"] is None


async def test_tags_are_listed(repo: Repo, call: Caller) -> None:
    repo.git("tag", "light", "HEAD~1")
    repo.git("tag", "-a", "-m", "Annotated", "v1/heavy")

    tags = {tag["name"]: tag for tag in (await call.ok("git_tag_list"))["items"]}
    assert tags["light"]["target"] == repo.git("rev-parse", "HEAD~1")
    assert (tags["light"]["annotated"], tags["light"]["tagger"], tags["light"]["subject"]) == (False, None, "One")
    assert tags["v1/heavy"]["target"] == repo.git("rev-parse", "HEAD")
    assert (tags["v1/heavy"]["annotated"], tags["v1/heavy"]["tagger"]) == (True, "Ann")


async def test_stashes_and_work_trees_are_listed(repo: Repo, call: Caller, tmp_path: Path) -> None:
    assert (await call.ok("git_stash_list"))["items"] == []
    repo.write("a.txt", "put aside\n")
    repo.git("stash", "push", "-q", "-m", "for later")
    [stash] = (await call.ok("git_stash_list"))["items"]
    assert (stash["name"], stash["message"]) == ("stash@{0}", "On main: for later")
    assert "+put aside" in await call.text("git_show", revision="stash@{0}")

    repo.git("worktree", "add", "-q", "-b", "side", str(repo.path.parent / "side"))
    repo.git("worktree", "lock", "--reason", "in use", str(repo.path.parent / "side"))
    main, side = (await call.ok("git_worktree_list"))["items"]
    assert (main["path"], main["branch"], main["locked"], main["bare"]) == (str(repo.path), "main", None, False)
    assert (side["branch"], side["locked"]) == ("side", "in use")
    assert parse_worktrees(b"worktree /x\0bare\0\0")[0].bare


async def test_remotes_are_listed_without_passwords(repo: Repo, call: Caller) -> None:
    assert (await call.ok("git_remote_list"))["items"] == []
    repo.git("remote", "add", "origin", "https://ann:hunter2@example.com/a.git")
    repo.git("remote", "set-url", "--push", "origin", "git@example.com:a.git")
    repo.git("remote", "add", "a.b", "https://ghp_token@example.com/b.git")

    first, origin = (await call.ok("git_remote_list"))["items"]
    assert first == {"name": "a.b", "url": "https://***@example.com/b.git", "push_url": None}
    assert origin["url"] == "https://***@example.com/a.git"
    assert origin["push_url"] == "git@example.com:a.git"


async def test_blame_is_paginated(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "alpha\nbeta\nnot yet\n")
    blame = await call.ok("git_blame", path="a.txt")
    assert [(hunk["summary"], hunk["start_line"], hunk["lines"]) for hunk in blame["items"][:2]] == [
        ("One", 1, ["alpha"]),
        ("Two", 2, ["beta"]),
    ]
    assert blame["items"][0]["date"] == "2026-01-02T03:04:05+01:00"
    assert (blame["items"][2]["commit"], blame["items"][2]["lines"]) == (None, ["not yet"])
    assert blame["truncated"] is False

    page = await call.ok("git_blame", path="./src/../a.txt", limit=2)
    assert (page["path"], page["truncated"], page["next_cursor"]) == ("a.txt", True, "3")
    page = await call.ok("git_blame", path="a.txt", limit=2, cursor="3")
    assert ([hunk["start_line"] for hunk in page["items"]], page["next_cursor"]) == ([3], None)
    assert (await call.ok("git_blame", path="a.txt", revision="HEAD~1"))["items"][0]["lines"] == ["alpha"]

    repo.commit("Empty", empty="")
    assert (await call.ok("git_blame", path="empty"))["items"] == []
    assert "no such path" in await call.refused("git_blame", path="none")
    assert "has only 3 lines" in await call.refused("git_blame", path="a.txt", start_line=100)


async def test_blame_continues_after_a_line_longer_than_the_limit(repo: Repo, call: Caller) -> None:
    repo.commit("Long", long_txt="x" * (9 * 2**20) + "\nshort\n")
    first = await call.ok("git_blame", path="long.txt")
    assert [(hunk["start_line"], hunk["lines"][0][:3]) for hunk in first["items"]] == [(1, "xxx")]
    second = await call.ok("git_blame", path="long.txt", cursor=first["next_cursor"])
    assert [hunk["lines"] for hunk in second["items"]] == [["short"]]
    assert second["next_cursor"] is None


async def test_grep_is_paginated(repo: Repo, call: Caller) -> None:
    repo.commit("Words", w_txt="".join(f"word {number}\n" for number in range(25)), src__w_py="a.c\nabc Word\n")

    found = await call.ok("git_grep", pattern="^x =")
    assert found["items"] == [{"path": "src/b.py", "line": 1, "column": 1, "text": "x = 1"}]
    seen, cursor = [], None
    while True:
        page = await call.ok("git_grep", pattern="word", limit=10, **({"cursor": cursor} if cursor else {}))
        seen += [match["line"] for match in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == list(range(1, 26))
    assert len((await call.ok("git_grep", pattern="word", ignore_case=True))["items"]) == 26
    assert [m["text"] for m in (await call.ok("git_grep", pattern="a.c", fixed_strings=True))["items"]] == ["a.c"]
    assert len((await call.ok("git_grep", pattern="word", paths=["src"], ignore_case=True))["items"]) == 1
    at = await call.ok("git_grep", pattern="alpha", revision="HEAD~2")
    assert at["items"] == [{"path": "a.txt", "line": 1, "column": 1, "text": "alpha"}]
    assert (await call.ok("git_grep", pattern="nowhere"))["items"] == []
    assert "failed" in await call.refused("git_grep", pattern="(")


async def test_merge_base_is_found(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.commit("S1")
    repo.commit("S2")

    found = await call.ok("git_merge_base", first="main", second="side")
    assert found["items"] == [repo.git("rev-parse", "main~1")]
    assert (found["first_only"], found["second_only"]) == (1, 2)
    repo.git("checkout", "-q", "--orphan", "alone")
    repo.commit("Alone")
    assert (await call.ok("git_merge_base", first="main", second="alone"))["items"] == []


async def test_repositories_are_listed_with_names(repo: Repo, outside: Repo, serve: Any) -> None:
    async with serve(repo.path, outside.path) as call:
        listed = await call.ok("git_list_repositories")
        assert {each["name"]: each["path"] for each in listed["items"]} == {
            "repo": str(repo.path),
            "outside": str(outside.path),
        }
        assert (await call.ok("git_log", repo_path="outside"))["items"][0]["subject"] == "Hidden"
        assert "expected a repository at `repo_path`" in await call.refused("git_log")
        assert "no repository is called 'nothing'" in await call.refused("git_log", repo_path="nothing")
