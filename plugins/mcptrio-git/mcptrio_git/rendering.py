"""The texts of results for models: a line for each entry, in the forms that git prints.

The tools pass these functions as ``text=``. Structured content has the full ids and all fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from .blame import Blame, Hunk
from .commits import Commit, Log
from .differences import Diff, FileStat
from .listings import (
    Match,
    Matches,
    Remote,
    Remotes,
    RepositoryEntry,
    RepositoryList,
    Stash,
    Stashes,
    Worktree,
    Worktrees,
)
from .references import Branch, Branches, Tag, Tags
from .status import Status, StatusEntry
from .text import printable, truncate

__all__ = [
    "MAX_PAGE_CHARS",
    "blame_text",
    "branch_line",
    "branches_text",
    "commit_header",
    "commit_text",
    "continuation_note",
    "diff_text",
    "how_many_fit",
    "hunk_text",
    "log_text",
    "match_line",
    "matches_text",
    "remote_line",
    "remotes_text",
    "repositories_text",
    "repository_line",
    "short",
    "stash_line",
    "stashes_text",
    "status_line",
    "status_text",
    "tag_line",
    "tags_text",
    "worktree_line",
    "worktrees_text",
]

MAX_PAGE_CHARS = 36_000
"""Maximum length of one page, about 9,000 tokens. By default, mcptrio cuts results at 40,000 characters."""

_MAX_FILES_CHARS = 2_000
_ID_CHARS = 10
_LETTERS = {
    "unmodified": " ",
    "modified": "M",
    "type_changed": "T",
    "added": "A",
    "deleted": "D",
    "renamed": "R",
    "copied": "C",
    "unmerged": "U",
}
_T = TypeVar("_T")


def how_many_fit(items: Sequence[_T], line: Callable[[_T], str]) -> int:
    """Return how many of the first items fit into one page; at least one unless there are none."""
    total = 0
    for count, item in enumerate(items):
        total += len(line(item)) + 1
        if total > MAX_PAGE_CHARS and count:
            return count
    return len(items)


def short(id: str | None) -> str:
    """Abbreviate an id. Git accepts the abbreviation as a revision."""
    return (id or "")[:_ID_CHARS]


def continuation_note(offset: int | None) -> str:
    """Return the line with the next offset; empty for the last part."""
    return "" if offset is None else f"\n[more follows: pass offset={offset}]"


def status_text(status: Status) -> str:
    head = f"on {printable(status.branch)}" if status.branch else "detached HEAD"
    facts = [f"{head} at {short(status.commit)}" if status.commit else f"{head}, no commits yet"]
    if status.upstream:
        facts.append(f"upstream {printable(status.upstream)}")
        if status.ahead is not None and status.behind is not None:
            facts.append(f"ahead {status.ahead}, behind {status.behind}")
    if status.operation != "none":
        facts.append(f"{status.operation} in progress")
    if status.stashes:
        facts.append(f"stashes: {status.stashes}")
    if status.clean:
        facts.append("clean")
    return _list_text([", ".join(facts), *map(status_line, status.items)], status.truncated, status.next_cursor)


def status_line(entry: StatusEntry) -> str:
    letters = _LETTERS[entry.staged] + _LETTERS[entry.unstaged]
    if entry.kind in ("untracked", "ignored"):
        letters = "??" if entry.kind == "untracked" else "!!"
    before = f"{printable(entry.original_path, 4096)} -> " if entry.original_path else ""
    return f"{letters} {before}{printable(entry.path, 4096)}"


def log_text(log: Log) -> str:
    return _list_text(list(map(commit_text, log.items)), log.truncated, log.next_cursor, "no commits")


def commit_text(commit: Commit) -> str:
    head = f"{short(commit.id)} {commit.date[:10]} {printable(commit.author)}: {printable(commit.subject)}"
    head += _refs(commit)
    return head + _indent(commit.body)


def commit_header(commit: Commit) -> str:
    lines = [f"commit {commit.id}{_refs(commit)}"]
    if len(commit.parents) > 1:
        lines.append(f"merge of {' '.join(map(short, commit.parents))}")
    lines.append(f"{printable(commit.author)} <{printable(commit.email)}> {commit.date}")
    if (commit.committer, commit.committed) != (commit.author, commit.date):
        lines.append(f"committer: {printable(commit.committer)} {commit.committed}")
    return "\n".join([*lines, f"    {printable(commit.subject)}"]) + _indent(commit.body)


def diff_text(diff: Diff) -> str:
    """Return a part of a diff. The first part of a long diff begins with the changed files."""
    if not diff.diff and not diff.truncated:
        return "no differences"
    files = ""
    if diff.truncated and diff.files:
        lines = [_file_line(each) for each in diff.files]
        listed = "\n".join(lines)
        if len(listed) > _MAX_FILES_CHARS:
            lines = listed[:_MAX_FILES_CHARS].split("\n")[:-1]
        hidden = "…\n" if len(lines) < len(diff.files) or diff.files_truncated else ""
        count = f"{len(diff.files)}{' or more' if diff.files_truncated else ''}"
        files = f"{count} files changed:\n" + "".join(f"{line}\n" for line in lines) + f"{hidden}\n"
    return f"{files}{diff.diff.removesuffix(chr(10))}{continuation_note(diff.next_offset)}"


def branches_text(branches: Branches) -> str:
    lines = list(map(branch_line, branches.items))
    if branches.current is None and branches.head:
        lines.insert(0, f"detached HEAD at {short(branches.head)}")
    return _list_text(lines, branches.truncated, branches.next_cursor, "no branches")


def branch_line(branch: Branch) -> str:
    tracking = f": {branch.tracking}" if branch.tracking else ""
    upstream = f" [{printable(branch.upstream)}{tracking}]" if branch.upstream else ""
    return f"{'* ' if branch.current else '  '}{printable(branch.name)}{upstream}"


def tags_text(tags: Tags) -> str:
    return _list_text(list(map(tag_line, tags.items)), tags.truncated, tags.next_cursor, "no tags")


def tag_line(tag: Tag) -> str:
    return f"{printable(tag.name)} {short(tag.target)} {tag.date[:10]} {printable(tag.subject, 200)}"


def stashes_text(stashes: Stashes) -> str:
    return _list_text(list(map(stash_line, stashes.items)), stashes.truncated, stashes.next_cursor, "no stashes")


def stash_line(stash: Stash) -> str:
    return f"{printable(stash.name)} {stash.date[:10]} {printable(stash.message, 200)}"


def worktrees_text(trees: Worktrees) -> str:
    return _list_text(list(map(worktree_line, trees.items)), trees.truncated, trees.next_cursor, "no work trees")


def worktree_line(tree: Worktree) -> str:
    where = "bare" if tree.bare else printable(tree.branch) if tree.branch else "detached"
    notes = [f"locked {printable(tree.locked)}".rstrip()] if tree.locked is not None else []
    notes += [f"prunable {printable(tree.prunable)}".rstrip()] if tree.prunable is not None else []
    return " ".join([printable(tree.path, 4096), where, short(tree.commit), *notes]).rstrip()


def remotes_text(remotes: Remotes) -> str:
    return _list_text(list(map(remote_line, remotes.items)), remotes.truncated, remotes.next_cursor, "no remotes")


def remote_line(remote: Remote) -> str:
    push = f" (push: {printable(remote.push_url)})" if remote.push_url else ""
    return f"{printable(remote.name)} {printable(remote.url)}{push}"


def repositories_text(listed: RepositoryList) -> str:
    lines = list(map(repository_line, listed.items))
    if not listed.writable:
        lines.insert(0, "read-only:")
    return _list_text(lines, listed.truncated, listed.next_cursor, "no repositories")


def repository_line(entry: RepositoryEntry) -> str:
    return f"{printable(entry.name)} {printable(entry.path, 4096)}"


def matches_text(matches: Matches) -> str:
    return _list_text(list(map(match_line, matches.items)), matches.truncated, matches.next_cursor, "no matches")


def match_line(match: Match) -> str:
    return f"{printable(match.path, 4096)}:{match.line}:{match.text}"


def blame_text(blame: Blame) -> str:
    return _list_text(list(map(hunk_text, blame.items)), blame.truncated, blame.next_cursor, "no lines")


def hunk_text(hunk: Hunk) -> str:
    commit = short(hunk.commit) or "uncommitted"
    head = f"{commit} {hunk.date[:10]} {printable(hunk.author)}: {printable(hunk.summary, 200)}"
    return "\n".join([head, *(f"{number}\t{line}" for number, line in enumerate(hunk.lines, hunk.start_line))])


def _refs(commit: Commit) -> str:
    return f" ({printable(', '.join(commit.refs))})" if commit.refs else ""


def _file_line(file: FileStat) -> str:
    counts = "binary" if file.additions is None else f"+{file.additions} -{file.deletions}"
    before = f"{printable(file.original_path, 4096)} -> " if file.original_path else ""
    return f"{before}{printable(file.path, 4096)} {counts}"


def _indent(body: str) -> str:
    return "".join(f"\n    {line}".rstrip(" ") for line in body.split("\n")) if body else ""


def _list_text(lines: list[str], truncated: bool, cursor: str | None, empty: str = "") -> str:
    if cursor is not None:
        lines = [*lines, f"[more follows: pass cursor={truncate(cursor, 200)}]"]
    elif truncated:
        lines = [*lines, "[the list is cut; narrow the search to see the rest]"]
    return "\n".join(lines) or empty
