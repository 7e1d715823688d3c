"""Add, reset, commit, branches, merges, tags and stashes have the effects of the user's own git."""

from __future__ import annotations

import os
from typing import Any

import trio

Repo: Any = Any
Caller: Any = Any


async def test_add_commit_and_reset_change_the_index(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "changed\n")
    repo.write("src/new.py", "y = 2\n")
    os.unlink(repo.path / "src/b.py")
    assert "nothing is staged" in await call.refused("git_commit", message="Too early")

    staged = await call.ok("git_add", files=["src", "a.txt"])
    assert {each["path"]: each["change"] for each in staged["items"]} == {
        "a.txt": "modified",
        "src/b.py": "deleted",
        "src/new.py": "added",
    }
    assert (await call.ok("git_reset"))["items"] == []
    assert (repo.path / "src/new.py").exists()
    await call.ok("git_add", files=["."])
    done = await call.ok("git_commit", message='#1 begins with a hash\n\n- and "quotes" --amend\n')
    assert (done["id"], done["branch"], done["files"]) == (repo.git("rev-parse", "HEAD"), "main", 3)
    assert repo.git("log", "-1", "--format=%B").strip() == '#1 begins with a hash\n\n- and "quotes" --amend'
    assert repo.git("status", "--porcelain") == ""


async def test_first_and_detached_commits_are_created(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "--orphan", "fresh")
    assert (await call.ok("git_reset"))["items"] == []
    await call.ok("git_add", files=["*.txt"])
    assert (await call.ok("git_commit", message="First"))["branch"] == "fresh"
    repo.git("checkout", "-q", "--detach")
    repo.write("a.txt", "d\n")
    await call.ok("git_add", files=["a.txt"])
    assert (await call.ok("git_commit", message="--amend"))["branch"] is None
    assert repo.git("log", "-1", "--format=%s") == "--amend"


async def test_unusual_file_names_are_accepted(repo: Repo, call: Caller) -> None:
    for name in ("--all", "-c", ":magic", "a b"):
        repo.write(name, "x")
    repo.write("src/not.py", "")
    staged = await call.ok("git_add", files=["--all", "-c", "./:magic", "a b"])
    assert {each["path"] for each in staged["items"]} == {"--all", "-c", ":magic", "a b"}
    assert "begins with ':'" in await call.refused("git_add", files=[":/"])
    assert "did not match any files" in await call.refused("git_add", files=["none"])


async def test_hooks_run_and_can_refuse(repo: Repo, serve: Any) -> None:
    hook = repo.path / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    repo.write("a.txt", "1\n")
    async with serve(repo.path) as call:
        await call.ok("git_add", files=["a.txt"])
        assert "not today" in await call.refused("git_commit", message="Refused")
        hook.write_text("#!/bin/sh\necho all is well\n")
        assert "all is well" in (await call.ok("git_commit", message="Taken"))["output"]
    hook.write_text("#!/bin/sh\nexit 1\n")
    repo.write("a.txt", "2\n")
    async with serve(repo.path, hooks=False) as call:
        await call.ok("git_add", files=["a.txt"])
        await call.ok("git_commit", message="No hooks")
    assert repo.git("log", "-1", "--format=%s") == "No hooks"


async def test_hook_that_hangs_is_ended_with_its_children(repo: Repo, serve: Any) -> None:
    hook = repo.path / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nsleep 1000 & sleep 1000\n")
    hook.chmod(0o755)
    repo.write("a.txt", "1\n")
    repo.git("add", "a.txt")
    async with serve(repo.path, write_timeout=0.5) as call:
        assert "did not finish within 0.5 seconds" in await call.refused("git_commit", message="Never")
        assert not (repo.path / ".git/index.lock").exists()
    # The leak fixture of the plugins' tests fails if a process is left.


async def test_child_left_by_a_hook_does_not_delay_the_call(repo: Repo, call: Caller) -> None:
    hook = repo.path / ".git/hooks/post-commit"
    hook.write_text("#!/bin/sh\nsleep 1000 &\n")
    hook.chmod(0o755)
    repo.write("a.txt", "1\n")
    await call.ok("git_add", files=["a.txt"])
    with trio.fail_after(60):
        await call.ok("git_commit", message="Made")


async def test_branches_are_created_and_checked_out(repo: Repo, call: Caller) -> None:
    made = await call.ok("git_create_branch", branch_name="feature/x", base_branch="HEAD~1")
    assert made == {"name": "feature/x", "commit": repo.git("rev-parse", "HEAD~1")}
    assert "already exists" in await call.refused("git_create_branch", branch_name="feature/x")
    for name in ("-D", "--delete", "a..b", "a b", "@{-1}", "x.lock", "HEAD"):
        await call.refused("git_create_branch", branch_name=name)
    assert repo.git("branch", "--format=%(refname:short)").split() == ["feature/x", "main"]

    head = await call.ok("git_checkout", branch_name="feature/x")
    assert (head["branch"], head["previous_branch"], head["commit"]) == ("feature/x", "main", made["commit"])
    assert (await call.ok("git_checkout", branch_name="main~1"))["branch"] is None
    await call.ok("git_checkout", branch_name="main")

    repo.write("a.txt", "precious\n")
    assert "overwritten" in await call.refused("git_checkout", branch_name="feature/x")
    assert (repo.path / "a.txt").read_text() == "precious\n"


async def test_checkout_refuses_paths_and_keeps_ignored_files(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "precious\n")
    for name in ("a.txt", ".", "HEAD:a.txt", "--", "-f", "--force", "-", "--orphan=x"):
        await call.refused("git_checkout", branch_name=name)
    assert (repo.path / "a.txt").read_text() == "precious\n"
    repo.git("checkout", "-q", "a.txt")

    repo.git("checkout", "-q", "-b", "with")
    repo.commit("Tracked here", kept_txt="tracked\n")
    repo.git("checkout", "-q", "main")
    repo.commit("Ignored here", _gitignore="kept.txt\n")
    repo.write("kept.txt", "precious\n")
    assert "kept.txt" in await call.refused("git_checkout", branch_name="with")
    assert (repo.path / "kept.txt").read_text() == "precious\n"


async def test_merge_succeeds_and_conflicts_can_be_aborted(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.commit("Side", side_txt="s\n")
    repo.git("checkout", "-q", "-b", "clash", "main~1")
    repo.commit("Clash", a_txt="other\n")
    repo.git("checkout", "-q", "main")

    assert "failed" in await call.refused("git_merge", branch_name="side", fast_forward="only")
    head = await call.ok("git_merge", branch_name="side")
    assert head["commit"] != head["previous_commit"]
    assert "Merge branch 'side'" in repo.git("log", "-1", "--format=%s")
    assert (await call.ok("git_merge", branch_name="side"))["commit"] == head["commit"]
    message = await call.refused("git_merge", branch_name="clash")
    assert "conflicts in a.txt" in message
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("rev-parse", "HEAD") == head["commit"]


async def test_commit_concludes_a_merge(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.commit("Side", side_txt="s\n")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-commit", "side")
    repo.write("loose", "")
    await call.ok("git_reset")
    assert (await call.ok("git_status"))["operation"] == "merge"
    await call.ok("git_commit", message="Merge without its files")
    assert len(repo.git("log", "-1", "--format=%P").split()) == 2


async def test_tags_are_created_and_never_moved(repo: Repo, call: Caller) -> None:
    await call.ok("git_create_tag", tag_name="v1", revision="HEAD~1")
    await call.ok("git_create_tag", tag_name="v2", message="# Second\n\nwith a body")
    assert repo.git("for-each-ref", "--format=%(objecttype) %(contents)", "refs/tags/v2").startswith("tag # Second")
    assert "already exists" in await call.refused("git_create_tag", tag_name="v1")
    await call.refused("git_create_tag", tag_name="-d")
    assert repo.git("rev-parse", "v1") == repo.git("rev-parse", "HEAD~1")


async def test_stashes_are_created_applied_and_dropped(repo: Repo, call: Caller) -> None:
    assert (await call.ok("git_stash_push"))["commit"] is None
    repo.write("a.txt", "put aside\n")
    repo.write("loose", "untracked\n")
    done = await call.ok("git_stash_push", message="--all", include_untracked=True)
    assert done["commit"] == repo.git("rev-parse", "stash@{0}")
    assert repo.git("status", "--porcelain") == ""
    await call.ok("git_stash_pop", keep=True)
    assert (repo.path / "loose").exists()
    repo.git("checkout", "-q", "a.txt")
    os.unlink(repo.path / "loose")
    await call.ok("git_stash_pop")
    assert (repo.path / "a.txt").read_text() == "put aside\n"
    assert "no stash 0" in await call.refused("git_stash_drop")
    await call.ok("git_stash_push")
    await call.ok("git_stash_drop", stash=0)
    assert repo.git("stash", "list") == ""


async def test_concurrent_writers_do_not_collide(repo: Repo, call: Caller) -> None:
    for number in range(8):
        repo.write(f"f{number}", "x")
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(lambda number=number: call.ok("git_add", files=[f"f{number}"]))
    assert (await call.text("git_diff_staged")).count("diff --git") == 8


async def test_read_only_setting_refuses_every_change(repo: Repo, serve: Any) -> None:
    async with serve(repo.path, allow_write=False, allow_network=True) as call:
        tools = {tool.name async for tool in call.client.tools()}
        assert not tools & {"git_add", "git_commit", "git_reset", "git_checkout", "git_pull", "git_clone"}
        assert {"git_fetch", "git_push"} <= tools
        assert (await call.ok("git_list_repositories"))["writable"] is False
