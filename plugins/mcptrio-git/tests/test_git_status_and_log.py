"""Status, differences, log and show, on a real repository."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from mcptrio import Client

Repo: Any = Any
Caller: Any = Any


async def test_status_lists_every_kind_of_change(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "changed\n")
    repo.git("mv", "src/b.py", "src/c d.py")
    repo.write("new\nline", "")

    status = await call.ok("git_status")
    assert status["branch"] == "main"
    assert status["commit"] == repo.git("rev-parse", "HEAD")
    assert (status["upstream"], status["ahead"], status["operation"], status["clean"]) == (None, None, "none", False)
    entries = {entry["path"]: entry for entry in status["items"]}
    assert (entries["a.txt"]["staged"], entries["a.txt"]["unstaged"]) == ("unmodified", "modified")
    renamed = entries["src/c d.py"]
    assert (renamed["staged"], renamed["original_path"]) == ("renamed", "src/b.py")
    assert entries["new\nline"]["kind"] == "untracked"

    first = await call.ok("git_status", limit=2)
    assert (len(first["items"]), first["truncated"], first["next_cursor"]) == (2, True, "2")
    rest = await call.ok("git_status", limit=2, cursor="2")
    assert [entry["path"] for entry in first["items"] + rest["items"]] == list(entries)
    assert rest["next_cursor"] is None
    assert not (await call.ok("git_status", untracked="no"))["items"][-1]["path"].startswith("new")


async def test_status_works_before_the_first_commit_and_with_a_detached_head(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "--detach")
    status = await call.ok("git_status")
    assert (status["branch"], status["clean"]) == (None, True)
    repo.git("checkout", "-q", "--orphan", "fresh")
    status = await call.ok("git_status")
    assert (status["branch"], status["commit"]) == ("fresh", None)
    assert "nothing has been committed" in await call.refused("git_log")


async def test_status_contains_upstream_stash_and_merge(repo: Repo, call: Caller) -> None:
    repo.git("branch", "base", "HEAD~1")
    repo.git("branch", "-q", "-u", "base")
    repo.write("a.txt", "put aside\n")
    repo.git("stash", "-q")
    status = await call.ok("git_status")
    assert (status["upstream"], status["ahead"], status["behind"], status["stashes"]) == ("base", 1, 0, 1)

    repo.git("checkout", "-q", "-b", "other", "HEAD~1")
    repo.commit("Other", a_txt="gamma\n")
    with pytest.raises(AssertionError):
        repo.git("merge", "main")
    status = await call.ok("git_status")
    assert status["operation"] == "merge"
    assert [entry["kind"] for entry in status["items"] if entry["path"] == "a.txt"] == ["unmerged"]


async def test_diff_compares_work_tree_index_and_commits(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "alpha\nBETA\n")
    unstaged = await call.text("git_diff_unstaged")
    # The lines above it would name the file again.
    assert unstaged == repo.git("diff", "--no-color")[repo.git("diff", "--no-color").index("--- a/a.txt") :]
    assert unstaged.endswith("-beta\n+BETA")
    assert await call.text("git_diff_staged") == "no differences"
    repo.git("add", "a.txt")
    assert await call.text("git_diff_unstaged") == "no differences"
    assert "+BETA" in await call.text("git_diff_staged", context_lines=0)
    assert "\n alpha" not in await call.text("git_diff_staged", context_lines=0)

    assert "+BETA" in await call.text("git_diff", target="HEAD")
    assert "+x = 1" in await call.text("git_diff", target="HEAD~1..HEAD")
    assert "+x = 1" not in await call.text("git_diff", target="HEAD~1..", paths=["*.txt"])
    assert "+x = 1" in await call.text("git_diff", target="HEAD~1...main")


async def test_diff_can_be_applied(repo: Repo, call: Caller) -> None:
    repo.commit("More", old_txt="old\n", long_txt="line\n" * 30, x_txt="x\n")
    repo.write("a.txt", "index 1234..5678\n--- content\n")
    repo.write("new.txt", "new\n")
    (repo.path / "x.txt").chmod(0o755)
    (repo.path / "old.txt").unlink()
    (repo.path / "long.txt").rename(repo.path / "moved.txt")
    repo.git("add", ".")
    wanted = repo.git("write-tree")
    diff = await call.text("git_diff_staged")

    repo.git("reset", "-q", "--hard")
    patch = repo.write("../patch", diff + "\n")
    repo.git("apply", "--index", str(patch))
    assert repo.git("write-tree") == wanted
    assert diff.count("diff --git") == 4
    assert "\nindex" not in diff
    assert "\n+index 1234..5678\n+--- content" in diff


async def test_long_diff_is_read_in_parts_with_a_file_list(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "".join(f"zeile {number} ü\n" for number in range(5000)))
    text, parts = await call.whole("git_diff_unstaged")
    files, _, diff = text.partition("\n\n")
    assert files == "1 files changed:\na.txt +5000 -2"
    # Each part ends without its last line end, as the last one does.
    _, patch = repo.git("diff", "--no-color").split("--- a/a.txt", 1)
    assert diff.replace("\n", "") == f"--- a/a.txt{patch}".replace("\n", "")
    assert parts > 2
    assert len(await call.text("git_diff_unstaged")) <= 40_000


async def test_log_pages_are_not_shifted_by_new_commits(repo: Repo, call: Caller) -> None:
    for number in range(5):
        repo.commit(f"Commit {number}")
    seen: list[str] = []
    page = await call.ok("git_log", max_count=3)
    repo.commit("In between")
    seen += [commit["subject"] for commit in page["items"]]
    while page["next_cursor"]:
        page = await call.ok("git_log", max_count=3, cursor=page["next_cursor"])
        seen += [commit["subject"] for commit in page["items"]]
    assert seen == [*(f"Commit {number}" for number in range(4, -1, -1)), "Two", "One"]
    assert page["items"][-1]["parents"] == []


async def test_log_continues_after_a_message_over_the_size_limit(repo: Repo, call: Caller) -> None:
    file = repo.write("../message", "Large\n\n" + "x" * (9 * 2**20))
    repo.git("commit", "-q", "--allow-empty", "-F", str(file))
    first = await call.ok("git_log", max_count=2)
    assert [commit["subject"] for commit in first["items"]] == ["Large"]
    assert first["items"][0]["body"].startswith("xxx")
    second = await call.ok("git_log", max_count=2, cursor=first["next_cursor"])
    assert [commit["subject"] for commit in second["items"]] == ["Two", "One"]
    assert second["next_cursor"] is None


async def test_diff_with_conflicts_lists_its_files(repo: Repo, call: Caller) -> None:
    """Git prints such a diff before the list of files, and a renamed file has two names there."""
    repo.commit("Long", long_txt="line\n" * 30)
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("Side", a_txt="alpha\nside\n")
    repo.git("checkout", "-q", "main")
    repo.commit("Main", a_txt="alpha\nmain\n")
    with contextlib.suppress(AssertionError):
        repo.git("merge", "-q", "side")
    repo.git("mv", "long.txt", "src/1\t2\t.txt")
    repo.write("src/b.py", "x = 2\n")

    unstaged = await call.text("git_diff_unstaged")
    assert "++<<<<<<< HEAD" in unstaged
    assert "+x = 2" in unstaged
    staged = await call.text("git_diff_staged", paths=["src", "long.txt"])
    assert staged.startswith('diff --git a/long.txt "b/src/1\\t2\\t.txt"')


async def test_file_list_of_a_long_diff_is_bounded(repo: Repo, serve: Any) -> None:
    for number in range(700):
        repo.write(f"{'long ' * 40}{number}", "x\n")
    repo.git("add", ".")
    async with serve(repo.path, max_output_bytes=1000) as call:
        diff = await call.text("git_diff_staged")
    files, _, rest = diff.partition("\n\n")
    assert files.startswith("500 or more files changed:\nlong ")
    assert files.endswith("\n…")
    assert len(files) <= 2100
    assert rest.startswith("diff --git")
    assert len(rest) <= 1100


async def test_log_can_be_filtered(repo: Repo, call: Caller) -> None:
    async def subjects(**arguments: Any) -> list[str]:
        return [commit["subject"] for commit in (await call.ok("git_log", **arguments))["items"]]

    repo.git("tag", "v1")
    two = (await call.ok("git_log", max_count=1))["items"][0]
    assert (two["author"], two["email"], two["date"]) == ("Ann", "ann@example.com", "2026-01-02T03:04:05+01:00")
    assert (two["body"], two["refs"]) == ("Because.", ["HEAD -> main", "tag: v1"])
    assert await subjects(paths=["src"]) == ["Two"]
    assert await subjects(revision="HEAD~1") == ["One"]
    assert await subjects(revision="HEAD~1..") == ["Two"]
    assert await subjects(author="nobody") == []
    assert await subjects(message="Because") == ["Two"]
    assert await subjects(start_timestamp="2000-01-01") == ["Two", "One"]
    assert await subjects(end_timestamp="2000-01-01T00:00:00") == []
    assert await subjects(start_timestamp="1 hour ago") == ["Two", "One"]


async def test_commit_message_cannot_imitate_another_commit(repo: Repo, call: Caller) -> None:
    repo.commit("Odd\n\n" + "0" * 40 + "\n\x01\x1e\x1fcommit " + "f" * 40)
    log = await call.ok("git_log")
    assert [commit["subject"] for commit in log["items"]] == ["Odd", "Two", "One"]


async def test_show_returns_the_commit_and_its_diff(repo: Repo, call: Caller) -> None:
    commit = await call.text("git_show", revision="HEAD")
    head, _, diff = commit.partition("\n\n")
    assert head.startswith(f"commit {repo.git('rev-parse', 'HEAD')} (HEAD -> main)\nAnn <ann@example.com> 2026-")
    assert head.endswith("\n    Two\n    Because.")
    assert "+x = 1" in diff
    assert "+alpha" in await call.text("git_show", revision="HEAD~1")  # the first commit has no parent

    assert await call.text("git_show", revision="HEAD~1:a.txt") == "alpha\n"
    assert await call.text("git_show", revision="HEAD:") == "blob 11 a.txt\ntree - src\n"
    repo.git("tag", "-a", "-m", "First one", "v1")
    assert (await call.text("git_show", revision="v1")).startswith("tag: First one\n\ncommit ")

    repo.commit("GitBinary", data_png="\0\1\2")
    refusal = await call.refused("git_show", revision="HEAD:data.png")
    assert refusal == "expected a text file, got a binary one (image/png, 3 bytes)"


async def test_show_of_a_merge_lists_the_merged_changes(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.commit("Side", side_txt="s\n")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-edit", "side")

    merge = await call.text("git_show", revision="HEAD")
    assert "\nmerge of " in merge
    assert merge.count("diff --git") == merge.count("diff --git a/side.txt") == 1


async def test_file_without_newlines_is_split_between_characters(repo: Repo, serve: Any) -> None:
    text = "äöü€𝄞" * 500
    repo.commit("Long", long_txt=text)
    async with serve(repo.path, max_output_bytes=1001) as call:
        assert await call.whole("git_show", revision="HEAD:long.txt") == (text, 7)


async def test_lists_are_lines_in_the_forms_of_git(repo: Repo, call: Caller) -> None:
    head = repo.git("rev-parse", "HEAD")[:10]
    repo.git("branch", "side", "HEAD~1")
    repo.git("tag", "v1")
    repo.write("a.txt", "alpha\nchanged\n")
    repo.write("new", "")
    assert await call.text("git_status") == f"on main at {head}\n M a.txt\n?? new"
    repo.git("branch", "-q", "-u", "side", "main")
    assert await call.text("git_branch") == "* main [side: ahead 1]\n  side"
    assert await call.text("git_tag_list") == f"v1 {head} {repo.git('log', '-1', '--format=%cs')} Two"
    assert await call.text("git_grep", pattern="alp|x =") == "a.txt:1:alpha\nsrc/b.py:1:x = 1"
    blame = (await call.text("git_blame", path="a.txt")).split("\n")
    assert blame[1::2] == ["1\talpha", "2\tchanged"]
    assert blame[2].startswith("uncommitted ")
    assert await call.text("git_stash_list") == "no stashes"
    assert await call.text("git_remote_list") == "no remotes"
    assert await call.text("git_worktree_list") == f"{repo.path} main {head}"
    assert await call.text("git_list_repositories") == f"repo {repo.path}"
    assert (await call.text("git_merge_base", first="side", second="main")).endswith(f" is 0 ahead, {head} 1")


async def test_texts_of_changes_are_short(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "changed\n")
    assert await call.text("git_add", files=".") == "modified a.txt"
    assert await call.text("git_reset") == "nothing is staged"
    assert (await call.text("git_stash_push")).startswith("Saved working directory")
    assert await call.text("git_stash_push") == "No local changes to save"
    head = repo.git("rev-parse", "HEAD")[:10]
    assert await call.text("git_create_branch", branch_name="side") == f"created side at {head}"
    assert (await call.text("git_checkout", branch_name="side")).startswith(f"on side at {head}\n")
    await call.ok("git_stash_pop")
    await call.ok("git_add", files=["."])
    assert (await call.text("git_commit", message="Three")).startswith("committed ")


async def test_pages_end_before_they_are_too_long_for_a_model(repo: Repo, call: Caller) -> None:
    repo.commit("Long", long_txt="".join(f"{'word ' * 100}{number}\n" for number in range(300)))
    for tool, key, arguments in (
        ("git_grep", "line", {"pattern": "word"}),
        ("git_blame", "lines", {"path": "long.txt"}),
    ):
        cursor, count, pages = "", 0, 0
        while cursor is not None:
            result = await call.client.call_tool(tool, {"limit": 1000, "cursor": cursor, **arguments})
            text, page = result.content[0].text, result.structured_content
            assert len(text) <= 40_000
            count += sum(len(each[key]) if key == "lines" else 1 for each in page["items"])
            assert ("[more follows: pass cursor=" in text) is (page["next_cursor"] is not None)
            cursor, pages = page["next_cursor"], pages + 1
        assert (count, pages > 2) == (300, True)


async def test_file_names_that_are_not_utf8_are_escaped(repo: Repo, call: Caller) -> None:
    repo.write("caf\udce9", "x\n")
    status = await call.ok("git_status")
    assert status["items"][0]["path"] == "caf\\xe9"
    repo.git("add", "-A")
    assert "+++ b/caf\ufffd" in await call.text("git_diff_staged")


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
async def test_tools_work_in_both_eras(repo: Repo, serve: Any, revision: str) -> None:
    async with serve(repo.path, revision=revision) as call:
        client: Client = call.client
        result = await client.call_tool("git_log", {"repo_path": str(repo.path)})
        assert " Ann: Two" in result.content[0].text  # type: ignore[union-attr]
