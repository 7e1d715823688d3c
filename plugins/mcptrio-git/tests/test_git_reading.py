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
    unstaged = await call.ok("git_diff_unstaged")
    assert "-beta\n+BETA\n" in unstaged["diff"]
    assert unstaged["files"] == [{"path": "a.txt", "additions": 1, "deletions": 1, "original_path": None}]
    assert (await call.ok("git_diff_staged"))["diff"] == ""
    repo.git("add", "a.txt")
    assert (await call.ok("git_diff_unstaged"))["diff"] == ""
    assert "+BETA" in (await call.ok("git_diff_staged", context_lines=0))["diff"]
    assert "\n alpha" not in (await call.ok("git_diff_staged", context_lines=0))["diff"]

    assert "+BETA" in (await call.ok("git_diff", target="HEAD"))["diff"]
    assert "+x = 1" in (await call.ok("git_diff", target="HEAD~1..HEAD"))["diff"]
    assert "+x = 1" not in (await call.ok("git_diff", target="HEAD~1..", paths=["*.txt"]))["diff"]
    assert "+x = 1" in (await call.ok("git_diff", target="HEAD~1...main"))["diff"]


async def test_long_diff_is_read_in_pieces_with_a_file_list(repo: Repo, call: Caller) -> None:
    repo.write("a.txt", "".join(f"zeile {number} ü\n" for number in range(5000)))
    whole = repo.git("diff", "--no-color") + "\n"
    text, index, pieces = "", 0, 0
    while index is not None:
        piece = await call.ok("git_diff_unstaged", start_index=index, max_bytes=20_000)
        assert len(piece["diff"].encode()) <= 20_000
        assert len(piece["files"]) == (1 if index == 0 else 0)
        assert piece["truncated"] is (piece["next_index"] is not None)
        text, index, pieces = text + piece["diff"], piece["next_index"], pieces + 1
    assert text == whole
    assert pieces > 3


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

    unstaged = await call.ok("git_diff_unstaged")
    assert "++<<<<<<< HEAD" in unstaged["diff"]
    assert "+x = 2" in unstaged["diff"]
    assert "src/b.py" in {each["path"] for each in unstaged["files"]}
    staged = await call.ok("git_diff_staged", paths=["src", "long.txt"])
    assert staged["files"] == [{"path": "src/1\t2\t.txt", "additions": 0, "deletions": 0, "original_path": "long.txt"}]
    assert staged["diff"].startswith('diff --git a/long.txt "b/src/1\\t2\\t.txt"')


async def test_file_list_longer_than_a_page_is_complete(repo: Repo, serve: Any) -> None:
    for number in range(700):
        repo.write(f"{'long ' * 40}{number}", "x\n")
    repo.git("add", ".")
    async with serve(repo.path) as call:
        diff = await call.ok("git_diff_staged", max_bytes=1000)
    assert (len(diff["files"]), diff["files_truncated"], diff["truncated"]) == (500, True, True)
    assert len(diff["diff"]) <= 1000
    assert diff["diff"].startswith("diff --git")


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
    commit = await call.ok("git_show", revision="HEAD")
    assert (commit["kind"], commit["commit"]["subject"]) == ("commit", "Two")
    assert "+x = 1" in commit["text"]
    assert {file["path"] for file in commit["files"]} == {"a.txt", "src/b.py"}
    assert "+alpha" in (await call.ok("git_show", revision="HEAD~1"))["text"]  # the first commit has no parent

    file = await call.ok("git_show", revision="HEAD~1:a.txt")
    assert (file["kind"], file["text"], file["size"], file["binary"]) == ("blob", "alpha\n", 6, False)
    folder = await call.ok("git_show", revision="HEAD:src")
    assert (folder["kind"], folder["text"].split()[-1]) == ("tree", "b.py")
    repo.git("tag", "-a", "-m", "First one", "v1")
    tag = await call.ok("git_show", revision="v1")
    assert (tag["tag_message"], tag["commit"]["subject"]) == ("First one", "Two")

    repo.commit("Binary", data="\0\1\2")
    binary = await call.ok("git_show", revision="HEAD:data")
    assert (binary["text"], binary["binary"], binary["size"]) == ("", True, 3)


async def test_show_of_a_merge_lists_the_merged_changes(repo: Repo, call: Caller) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.commit("Side", side_txt="s\n")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-edit", "side")

    merge = await call.ok("git_show", revision="HEAD")
    assert len(merge["commit"]["parents"]) == 2
    assert [file["path"] for file in merge["files"]] == ["side.txt"]


async def test_file_without_newlines_is_split_between_characters(repo: Repo, call: Caller) -> None:
    text = "äöü€𝄞" * 500
    repo.commit("Long", long_txt=text)
    got, index = "", 0
    while index is not None:
        piece = await call.ok("git_show", revision="HEAD:long.txt", start_index=index, max_bytes=1001)
        got, index = got + piece["text"], piece["next_index"]
    assert got == text


async def test_file_names_that_are_not_utf8_are_escaped(repo: Repo, call: Caller) -> None:
    repo.write("caf\udce9", "x\n")
    status = await call.ok("git_status")
    assert status["items"][0]["path"] == "caf\\xe9"
    repo.git("add", "-A")
    assert (await call.ok("git_diff_staged"))["files"][0]["path"] == "caf\\xe9"


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
async def test_tools_work_in_both_eras(repo: Repo, serve: Any, revision: str) -> None:
    async with serve(repo.path, revision=revision) as call:
        client: Client = call.client
        result = await client.call_tool("git_log", {"repo_path": str(repo.path)})
        assert '"Two"' in result.content[0].text  # type: ignore[union-attr]
