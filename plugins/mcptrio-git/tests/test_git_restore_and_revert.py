"""Restore, cherry-pick, revert and the history of lines have the effects of the user's own git, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

Repo: Any = Any
Caller: Any = Any


async def test_restore_discards_changes_of_named_paths_only(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "changed\n")
    repo.write("src/b.py", "changed\n")

    assert await call.text("git_restore", paths=["a.txt"]) == "restored a.txt"
    assert (repo.path / "a.txt").read_text() == "alpha\nbeta\n"
    assert (repo.path / "src/b.py").read_text() == "changed\n"
    assert "did not match any" in await call.refused("git_restore", paths=["none"])
    await call.refused("git_restore", paths=[])


async def test_restore_takes_files_of_a_revision_or_unstages_them(repo: Repo, call: Caller) -> None:
    await call.text("git_restore", paths=["."], source="HEAD~1")
    assert (repo.path / "a.txt").read_text() == "alpha\n"
    assert repo.git("diff", "--cached", "--name-only") == ""

    await call.ok("git_add", files=["a.txt"])
    await call.text("git_restore", paths=["a.txt"], staged=True)
    assert repo.git("diff", "--cached", "--name-only") == ""
    assert (repo.path / "a.txt").read_text() == "alpha\n"


async def test_revert_and_cherry_pick_make_a_commit(repo: Repo, call: Caller) -> None:
    wanted = repo.git("rev-parse", "HEAD")
    done = await call.ok("git_revert", commit="HEAD")
    assert (done["previous_commit"], done["branch"]) == (wanted, "main")
    assert done["commit"] == repo.git("rev-parse", "HEAD")
    assert (repo.path / "a.txt").read_text() == "alpha\n"
    assert repo.git("log", "-1", "--format=%s") == 'Revert "Two"'

    assert (await call.text("git_cherry_pick", commit=wanted[:10])).startswith("on main at ")
    assert (repo.path / "a.txt").read_text() == "alpha\nbeta\n"
    assert repo.git("log", "-1", "--format=%s") == "Two"


async def test_merge_is_reverted_against_its_first_parent(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("Side", side_txt="side\n")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "--no-edit", "side")

    await call.ok("git_revert", commit="HEAD")
    assert not (repo.path / "side.txt").exists()


@pytest.mark.parametrize("tool", ["git_revert", "git_cherry_pick"])
async def test_conflicts_change_nothing(repo: Repo, call: Caller, tool: str) -> None:
    wanted = repo.commit("Three", a_txt="alpha\ngamma\n")
    repo.commit("Four", a_txt="alpha\ndelta\n")
    if tool == "git_cherry_pick":
        repo.git("checkout", "-q", "-b", "other", "HEAD~2")
        repo.commit("Other", a_txt="alpha\nother\n")
    repo.write("src/b.py", "uncommitted\n")
    head = repo.git("rev-parse", "HEAD")

    assert "conflicts in a.txt; the " in await call.refused(tool, commit=wanted)
    assert repo.git("rev-parse", "HEAD") == head
    assert repo.git("status", "--porcelain") == "M src/b.py" or repo.git("status", "--porcelain") == " M src/b.py"
    assert (await call.ok("git_status"))["operation"] == "none"


async def test_uncommitted_changes_are_not_overwritten(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "mine\n")

    assert "failed" in await call.refused("git_revert", commit="HEAD")
    assert (repo.path / "a.txt").read_text() == "mine\n"
    assert (await call.ok("git_status"))["operation"] == "none"


async def test_staged_changes_are_kept_apart(repo: Repo, call: Caller) -> None:
    repo.write("src/b.py", "staged\n")
    repo.git("add", "-A")

    assert "expected nothing staged before a revert" in await call.refused("git_revert", commit="HEAD")
    assert repo.git("diff", "--cached", "--name-only") == "src/b.py"


async def test_commit_without_effect_or_refused_by_a_hook_leaves_nothing(repo: Repo, call: Caller) -> None:
    head = repo.git("rev-parse", "HEAD")
    repo.git("branch", "same", "HEAD~1")
    repo.git("checkout", "-q", "same")
    repo.commit("Same", a_txt="alpha\nbeta\n", src__b_py="x = 1\n")
    assert "changes nothing here; nothing was committed" in await call.refused("git_cherry_pick", commit=head)
    assert (await call.ok("git_status"))["operation"] == "none"

    repo.git("checkout", "-q", "main")
    hook = repo.path / ".git/hooks/prepare-commit-msg"
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "not today" in await call.refused("git_revert", commit="HEAD")
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("rev-parse", "HEAD") == head


async def test_operation_of_the_user_is_not_aborted(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.commit("Side", a_txt="side\n")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-commit", "-s", "ours", "side")

    assert "got a merge; finish or abort it first" in await call.refused("git_revert", commit="HEAD")
    assert (await call.ok("git_status"))["operation"] == "merge"


async def test_log_follows_lines_of_one_file(repo: Repo, call: Caller) -> None:
    for number in range(3):
        repo.commit(f"End {number}", a_txt=f"alpha\nbeta\n{number}\n")
    repo.commit("Other", other_txt="x\n")

    async def subjects(**arguments: Any) -> list[str]:
        log = await call.ok("git_log", paths=["a.txt"], **arguments)
        return [each["subject"] for each in log["items"]]

    assert await subjects(line_range="1,1") == ["One"]
    assert await subjects(line_range="2,2", max_count=1) == ["Two"]
    assert await subjects(line_range="3,3") == ["End 2", "End 1", "End 0"]
    page = await call.ok("git_log", paths=["a.txt"], line_range="3,3", max_count=1)
    assert await subjects(line_range="3,3", cursor=page["next_cursor"]) == ["End 1", "End 0"]
    assert "has only 3 lines" in await call.refused("git_log", paths=["a.txt"], line_range="9,9")
    for arguments in ({"paths": []}, {"paths": ["a.txt", "other.txt"]}):
        assert "expected one path" in await call.refused("git_log", line_range="1,2", **arguments)
    for value in ("1", "/x/,+1", "1,2:b", "-1,2", "a.*", "a b", "-a", ":a", "é", "a" * 201):
        assert "expected lines such as '10,20'" in await call.refused("git_log", line_range=value, paths=["a.txt"])


async def test_log_follows_a_function(repo: Repo, call: Caller) -> None:
    python = "class Square:\n    def area(self):\n        return {}\n\n    def area2(self):\n        return {}\n"
    repo.commit("Two", shapes_py=python.format(1, 1), shapes_c="int one(void)\n{\n\treturn 1;\n}\n")
    repo.commit("Second", shapes_py=python.format(1, 2), shapes_c="int one(void)\n{\n\treturn 1;\n}\n")
    repo.commit("First", shapes_py=python.format(2, 2), shapes_c="int one(void)\n{\n\treturn 2;\n}\n")

    async def subjects(path: str, name: str) -> list[str]:
        log = await call.ok("git_log", paths=[path], line_range=name)
        return [each["subject"] for each in log["items"]]

    assert await subjects("shapes.py", "area") == ["First", "Two"]
    assert await subjects("shapes.py", "area2") == ["Second", "Two"]
    # For git, a class ends at its first method.
    assert await subjects("shapes.py", "Square") == ["Two"]
    assert await subjects("shapes.c", "one") == ["First", "Two"]
    message = await call.refused("git_log", paths=["shapes.py"], line_range="are")
    assert message == "git log failed: found no function 'are'; pass lines such as '10,20' instead"


async def test_long_line_does_not_hold_up_the_search_for_a_function(repo: Repo, call: Caller) -> None:
    repo.commit("Long", long_py="def f(a): " + "x are" * 1_000_000 + "\n")

    with trio.fail_after(30):
        assert "no function 'are" in await call.refused("git_log", paths=["long.py"], line_range="are_")


async def test_programs_of_a_diff_driver_are_not_run(repo: Repo, call: Caller, tmp_path: Path) -> None:
    script, traces = tmp_path / "driver", tmp_path / "traces"
    script.write_text(f"#!/bin/sh\ntouch {traces}\n")
    script.chmod(0o755)
    for key in ("textconv", "command"):
        repo.git("config", f"diff.python.{key}", str(script))
    repo.commit("Two", shapes_py="def area():\n    return 1\n")

    assert len((await call.ok("git_log", paths=["shapes.py"], line_range="area"))["items"]) == 1
    assert not traces.exists()
