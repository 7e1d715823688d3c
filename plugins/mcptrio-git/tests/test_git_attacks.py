"""Attacks: options as arguments, other repositories, programs of a repository, floods, hangs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

Repo: Any = Any
Caller: Any = Any

SECRET = "the secret outside"

OPTIONS = (
    "--output=/tmp/owned",
    "-c core.pager=touch",
    "--all",
    "^HEAD",
    "",
    "HEAD\n--all",
    "HEAD\0",
    "--",
    "nothing-of-that-name",
    ":/One",
    "HEAD:a.txt",
)


async def test_revision_is_not_read_as_an_option(call: Caller) -> None:
    for value in OPTIONS:
        await call.refused("git_log", revision=value or "-")
        await call.refused("git_checkout", branch_name=value)
        if value not in (":/One", "HEAD:a.txt"):
            await call.refused("git_show", revision=value)


@pytest.mark.parametrize("value", ["--output=/tmp/owned", "^HEAD"])
async def test_option_instead_of_a_revision_is_refused_by_every_tool(call: Caller, value: str) -> None:
    for tool, argument, others in (
        ("git_diff", "target", {}),
        ("git_merge_base", "first", {"second": "HEAD"}),
        ("git_create_branch", "base_branch", {"branch_name": "x"}),
        ("git_create_tag", "revision", {"tag_name": "x"}),
        ("git_blame", "revision", {"path": "a.txt"}),
        ("git_grep", "revision", {"pattern": "x"}),
        ("git_branch", "contains", {}),
        ("git_branch", "not_contains", {}),
        ("git_merge", "branch_name", {}),
        ("git_cherry_pick", "commit", {}),
        ("git_revert", "commit", {}),
        ("git_restore", "source", {"paths": ["a.txt"]}),
        ("git_log", "line_range", {"paths": ["a.txt"]}),
    ):
        await call.refused(tool, **{argument: value}, **others)


async def test_other_arguments_are_not_read_as_options(repo: Repo, call: Caller) -> None:
    for argument in ("start_timestamp", "end_timestamp", "author", "message"):
        assert "leading '-'" in await call.refused("git_log", **{argument: "--output=x"})
    for cursor in ("-1", "1;2", "HEAD:0", f"{'a' * 40}:-1", f"--output=x{'a' * 40}:0"):
        await call.refused("git_log", cursor=cursor)
        await call.refused("git_status", cursor=cursor)
    assert (await call.ok("git_grep", pattern="--open-files-in-pager=touch"))["items"] == []
    assert (await call.ok("git_grep", pattern="-O/bin/touch"))["items"] == []
    await call.refused("git_blame", path="--output=x")
    await call.refused("git_grep", pattern="a\nb")
    assert not list(repo.path.parent.rglob("x"))


async def test_path_outside_the_repository_is_refused(repo: Repo, outside: Repo, call: Caller) -> None:
    os.symlink(outside.path, repo.path / "link")
    secret = outside.path / "secret.txt"
    for path in ("../../outside/secret.txt", str(secret), "link/secret.txt", ":(top)../x", "src/../../repo2"):
        for tool, arguments in (
            ("git_add", {"files": [path]}),
            ("git_restore", {"paths": [path]}),
            ("git_log", {"paths": [path], "line_range": "1,1"}),
            ("git_log", {"paths": [path], "line_range": "secret"}),
            ("git_blame", {"path": path}),
            ("git_diff_unstaged", {"paths": [path]}),
            ("git_grep", {"pattern": ".", "paths": [path]}),
        ):
            result = await call.client.call_tool(tool, arguments)
            assert SECRET not in str(result.content), (tool, path)
            if tool == "git_add":
                assert result.is_error, path
    for revision in ("HEAD:../../outside/secret.txt", "HEAD:link/secret.txt", ":link", f"HEAD:{secret}"):
        assert SECRET not in await call.refused("git_show", revision=revision)


async def test_repository_that_is_not_allowed_is_refused(
    repo: Repo, outside: Repo, call: Caller, serve: Any, tmp_path: Path
) -> None:
    os.symlink(outside.path, repo.path / "link")
    for path in (
        str(outside.path),
        f"{repo.path}/link",
        f"{repo.path}/../../outside",
        str(repo.path.parent),
        str(tmp_path),
        "/",
        "../outside",
        "~",
        "/nothing/there",
        "a\0b",
        str(repo.path) + "2",
    ):
        message = await call.refused("git_log", repo_path=path)
        assert "Hidden" not in message
    assert (await call.ok("git_log", repo_path=f"{repo.path}/src/b.py"))["items"]
    assert (await call.ok("git_log", repo_path=f"{repo.path}/.git/hooks"))["items"]
    async with serve() as nothing:
        assert "no repository is allowed: set repositories" in await nothing.refused("git_status")


async def test_existence_of_an_outside_path_is_not_revealed(outside: Repo, call: Caller, tmp_path: Path) -> None:
    there = await call.refused("git_log", repo_path=str(tmp_path / "home"))
    not_there = await call.refused("git_log", repo_path=str(tmp_path / "hole"))
    assert there.replace("home", "hole") == not_there


async def test_folder_inside_a_repository_allows_only_that_repository(repo: Repo, serve: Any) -> None:
    """If the home folder is a repository, a folder in it allows only the repository in that folder."""
    nested = type(repo)(repo.path / "other" / "nested")
    nested.path.mkdir(parents=True)
    nested.git("init", "-q")
    nested.commit("Nested", n_txt="n")
    async with serve(repo.path / "src") as call:
        assert (await call.ok("git_log"))["items"][0]["subject"] == "Two"
        assert "not an allowed" in await call.refused("git_log", repo_path=str(nested.path))
    async with serve(repo.path) as call:
        assert (await call.ok("git_log", repo_path=str(nested.path)))["items"][0]["subject"] == "Nested"


async def test_folder_of_repositories_allows_each_of_them(repo: Repo, outside: Repo, serve: Any) -> None:
    deep = type(repo)(repo.path.parent / "group" / "deep")
    deep.path.mkdir(parents=True)
    deep.git("init", "-q")
    deep.commit("Deep")
    async with serve(repo.path.parent) as call:
        assert (await call.ok("git_log"))["items"][0]["subject"] == "Two"
        assert (await call.ok("git_log", repo_path=str(deep.path)))["items"][0]["subject"] == "Deep"
        assert "not an allowed" in await call.refused("git_log", repo_path=str(outside.path))


async def test_repository_with_data_outside_is_refused(repo: Repo, outside: Repo, call: Caller, serve: Any) -> None:
    lure = repo.path / "lure"
    for way in ("file", "link", "commondir", "worktree"):
        lure.mkdir()
        if way == "file":
            (lure / ".git").write_text(f"gitdir: {outside.path}/.git\n")
        elif way == "link":
            os.symlink(outside.path / ".git", lure / ".git")
        elif way == "commondir":
            (lure / ".git").mkdir()
            (lure / ".git/HEAD").write_text("ref: refs/heads/main\n")
            (lure / ".git/commondir").write_text(f"{outside.path}/.git\n")
        else:
            shutil.rmtree(lure)
            outside.git("worktree", "add", "-q", "--detach", str(lure))
        message = await call.refused("git_show", repo_path=str(lure), revision="HEAD:secret.txt")
        assert "data outside the allowed repositories" in message, way
        shutil.rmtree(lure)
    async with serve(repo.path, outside.path) as both:
        outside.git("worktree", "prune")
        outside.git("worktree", "add", "-q", "--detach", str(lure))
        assert await both.text("git_show", repo_path=str(lure), revision="HEAD:secret.txt") == SECRET


async def test_work_tree_of_an_allowed_repository_is_allowed_anywhere(repo: Repo, call: Caller, tmp_path: Path) -> None:
    tree = type(repo)(tmp_path / "elsewhere" / "tree")
    repo.git("worktree", "add", "-q", "-b", "side", str(tree.path))
    tree.write("a.txt", "changed\n")
    assert (await call.ok("git_status", repo_path=str(tree.path)))["branch"] == "side"
    await call.ok("git_add", repo_path=str(tree.path), files=["a.txt"])
    await call.ok("git_commit", repo_path=str(tree.path), message="In the tree")

    pose = tmp_path / "pose"
    pose.mkdir()
    shutil.copy(tree.path / ".git", pose / ".git")
    (pose / "mine").write_text("x")
    assert "not an allowed" in await call.refused("git_status", repo_path=str(pose))


async def test_foreign_work_tree_is_refused(repo: Repo, outside: Repo, call: Caller) -> None:
    repo.git("config", "core.worktree", str(outside.path))
    for tool, arguments in (
        ("git_status", {}),
        ("git_add", {"files": ["secret.txt"]}),
        ("git_diff", {"target": "HEAD"}),
    ):
        assert "core.worktree" in await call.refused(tool, **arguments)
    repo.git("config", "core.worktree", str(repo.path))
    assert (await call.ok("git_status"))["clean"] is True


async def test_cached_git_configuration_is_invalidated_by_a_change(
    repo: Repo, outside: Repo, call: Caller, tmp_path: Path
) -> None:
    """The configured programs are read once, and again when a configuration file changes."""
    marker = tmp_path / "marker"
    program = str(repo.program("program", marker))
    included, config = tmp_path / "included", repo.path / ".git/config"
    before = config.read_text()
    (repo.path / ".gitattributes").write_text("* filter=evil\n")

    async def look() -> None:
        for _ in range(2):
            await trio.sleep(0.05)  # until the file's change time has settled; before that nothing is cached
            repo.write("a.txt", "alpha\nbeta\n")  # equal content, so git has to read it
            assert await call.text("git_diff_unstaged") == "no differences"
        assert not marker.exists()

    await look()
    repo.git("config", "filter.evil.clean", program)
    await look()
    config.write_text(before)
    await look()
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "filter.evil.clean", program)
    await look()
    config.write_text(f"{before}[include]\n\tpath = {included}\n")
    await look()
    included.write_text(f'[filter "evil"]\n\tclean = {program}\n')  # which no file of the repository shows
    await look()
    repo.git("config", "core.worktree", str(outside.path))
    assert "core.worktree" in await call.refused("git_status")


async def test_submodules_are_separate_repositories(repo: Repo, outside: Repo, call: Caller) -> None:
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(outside.path), "sub")
    repo.git("commit", "-q", "-m", "With a submodule")
    (repo.path / "sub/secret.txt").write_text("changed")
    assert (await call.ok("git_status"))["clean"] is True
    assert (await call.ok("git_status", repo_path=f"{repo.path}/sub"))["clean"] is False


async def test_bare_repository_is_allowed_only_if_named(repo: Repo, serve: Any, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    async with serve(bare) as call:
        assert (await call.ok("git_log"))["items"][0]["subject"] == "Two"
        assert "work tree" in await call.refused("git_status")
    # In a work tree it is only files, with a configuration that would run a program.
    shutil.copytree(bare, repo.path / "inner")
    marker = tmp_path / "marker"
    repo.git("--git-dir", str(repo.path / "inner"), "config", "core.bare", "false")
    program = repo.program("monitor", marker)
    repo.git("--git-dir", str(repo.path / "inner"), "config", "core.fsmonitor", str(program))
    async with serve(repo.path) as call:
        assert (await call.ok("git_status", repo_path=f"{repo.path}/inner"))["branch"] == "main"
    assert not marker.exists()


async def test_reading_runs_no_program_of_the_repository(repo: Repo, call: Caller, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    program = str(repo.program("program", marker))
    attributes = b"* diff=evil filter=evil\nsrc/* filter=a=b\nodd filter=\xff\n"
    (repo.path / ".gitattributes").write_bytes(attributes)
    repo.write("odd", "1\n")
    repo.git("add", ".gitattributes", "odd")
    for name in ("pre-commit", "post-index-change", "post-checkout", "reference-transaction"):
        hook = repo.path / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
        hook.chmod(0o755)
    for key in (
        *("core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.sshCommand", "diff.external"),
        *("diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge"),
        *("filter.a=b.process", "gpg.program", "pager.log", "pager.status", "pager.diff", "alias.status"),
    ):
        repo.git("config", key, program)
    repo.git("config", "filter.evil.required", "true")
    with (repo.path / ".git/config").open("ab") as file:
        file.write(b'[filter "\xff"]\n\tclean = ' + os.fsencode(program) + b"\n")
    repo.git("config", "log.showSignature", "true")
    # The git commands of the test would run the programs too, so the test changes the files directly.
    os.utime(repo.path / "a.txt", (1, 1))
    (repo.path / "src/b.py").write_text("x = 2\n")
    (repo.path / "odd").write_text("2\n")
    marker.unlink(missing_ok=True)

    await call.ok("git_status")
    await call.ok("git_diff_unstaged")
    await call.ok("git_diff_staged")
    await call.ok("git_diff", target="HEAD~1")
    await call.ok("git_log")
    await call.ok("git_show", revision="HEAD")
    await call.ok("git_show", revision="HEAD:a.txt")
    await call.ok("git_blame", path="src/b.py")
    await call.ok("git_grep", pattern="x")
    await call.ok("git_branch", branch_type="all")
    await call.ok("git_stash_list")
    await call.client.get_prompt("review-diff", {})
    await call.client.read_resource("git://repo/HEAD/a.txt")
    assert not marker.exists()
    assert not (repo.path / ".git/index.lock").exists()


async def test_writing_without_hooks_runs_no_program(repo: Repo, serve: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    program = str(repo.program("program", marker))
    repo.write(".gitattributes", "* filter=evil merge=evil\n")
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "merge.evil.driver", "core.editor"):
        repo.git("config", key, program)
    for name in ("pre-commit", "commit-msg", "post-commit", "post-checkout", "post-merge", "reference-transaction"):
        hook = repo.path / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
        hook.chmod(0o755)
    async with serve(repo.path, hooks=False) as call:
        await call.ok("git_add", files=["."])
        await call.ok("git_commit", message="Attributes")
        await call.ok("git_create_branch", branch_name="side", base_branch="HEAD~1")
        await call.ok("git_checkout", branch_name="side")
        repo.write("a.txt", "gamma\n")
        await call.ok("git_add", files=["."])
        await call.ok("git_commit", message="Gamma")
        await call.ok("git_stash_push")
        await call.ok("git_merge", branch_name="main")
    assert not marker.exists()


async def test_signing_and_transport_programs_do_not_run_without_hooks(repo: Repo, serve: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    program = str(repo.program("program", marker, body="exit 1"))
    for key, value in (
        *(("commit.gpgSign", "true"), ("tag.gpgSign", "true"), ("gpg.program", program)),
        *(("core.sshCommand", program), ("credential.helper", f"!{program}"), ("core.alternateRefsCommand", program)),
        *(("remote.ssh.url", "ssh://localhost.invalid/x"), ("remote.file.url", f"file://{repo.path}")),
        *(("remote.file.uploadpack", program), ("remote.file.receivepack", program)),
    ):
        repo.git("config", key, value)
    async with serve(repo.path, hooks=False, allow_network=True, protocols=["ssh", "file"]) as call:
        repo.write("a.txt", "gamma\n")
        await call.ok("git_add", files=["a.txt"])
        await call.refused("git_commit", message="Nobody here has a key")
        await call.refused("git_create_tag", tag_name="v1", message="Nor now")
        await call.refused("git_fetch", remote="ssh")
        await call.refused("git_push", remote="ssh")
        await call.ok("git_fetch", remote="file")
        assert (await call.ok("git_push", remote="file"))["result"] == "up_to_date"
    assert not marker.exists()


async def test_git_variables_of_the_environment_are_ignored(
    repo: Repo, outside: Repo, call: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    program = str(repo.program("program", marker))
    monkeypatch.setenv("GIT_DIR", str(outside.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(outside.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(outside.path / ".git/index"))
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "GIT_ASKPASS", "GIT_EDITOR"):
        monkeypatch.setenv(name, program)
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor={program}'")
    (repo.path / "a.txt").write_text("changed\n")

    assert (await call.ok("git_log"))["items"][0]["subject"] == "Two"
    assert "+changed" in await call.text("git_diff_unstaged")
    assert not marker.exists()


async def test_output_flood_is_truncated_and_its_command_ended(repo: Repo, serve: Any) -> None:
    (repo.path / "a.txt").write_text("x" * 200_000 + "\n" + "y\n" * 400_000)
    async with serve(repo.path, max_output_bytes=5000) as call:
        diff = await call.text("git_diff_unstaged")
        assert len(diff) <= 5100
        assert "[more follows: pass offset=" in diff
    for number in range(30):
        repo.write(f"many/{number}", "")
    async with serve(repo.path, max_entries=7) as call:
        status = await call.ok("git_status", untracked="all", limit=10**9)
        assert (len(status["items"]), status["next_cursor"]) == (7, "7")


async def test_slow_command_ends_at_its_timeout_and_on_cancellation(
    repo: Repo, serve: Any, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """The command is a replacement for git that starts a child and hangs."""
    started = tmp_path / "started"
    slow = repo.path.parent / "slow-git"
    slow.write_text(
        f"#!/bin/sh\n[ \"$1\" = version ] && exec git version\n(sleep 1000) & touch '{started}'; sleep 1000\n"
    )
    slow.chmod(0o755)
    mock_clock.rate = 1.0

    async def until_started() -> None:
        while not started.exists():  # noqa: ASYNC110
            await trio.sleep(0.01)

    async def late() -> None:
        await until_started()
        mock_clock.jump(30)

    async with serve(repo.path, git=str(slow), read_timeout=30) as call, trio.open_nursery() as nursery:
        nursery.start_soon(late)
        assert "did not finish within 30 seconds" in await call.refused("git_status")
    started.unlink()
    async with serve(repo.path, git=str(slow)) as call, trio.open_nursery() as nursery:
        nursery.start_soon(call.client.call_tool, "git_status", {})
        await until_started()
        nursery.cancel_scope.cancel()


async def test_long_call_reports_its_duration(repo: Repo, call: Caller, tmp_path: Path) -> None:
    hook, reported = repo.path / ".git/hooks/pre-commit", tmp_path / "told"
    hook.write_text(f"#!/bin/sh\nuntil [ -e '{reported}' ]; do sleep 0.05; done\n")
    hook.chmod(0o755)
    repo.write("a.txt", "1\n")
    await call.ok("git_add", files=["a.txt"])
    received: list[Any] = []

    def hear(progress: Any) -> None:
        received.append(progress)
        reported.touch()

    await call.client.call_tool("git_commit", {"message": "Slow"}, progress=hear)
    assert received[0].progress >= 1
    assert "git commit" in received[0].message


async def test_error_names_an_old_or_missing_git(repo: Repo, serve: Any) -> None:
    old = repo.path.parent / "old-git"
    old.write_text("#!/bin/sh\necho git version 2.11.0\n")
    old.chmod(0o755)
    async with serve(repo.path, git=str(old)) as call:
        assert "expected git 2.36 or newer, got 'git version 2.11.0'" in await call.refused("git_status")
    async with serve(repo.path, git="no-such-git") as call:
        assert "'no-such-git' was not found" in await call.refused("git_status")
