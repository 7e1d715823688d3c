"""The tools that show the contents of a repository: status, differences, log, show.

The plugin registers them. They change nothing and run nothing but git.

Source: names, arguments and annotations of the reference git server (2026.10.19). Arguments that it does not have are
optional: paging, paths, and filters of the log.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Literal

import trio
from attrs import frozen
from msgspec import Meta

from mcptrio import Context, ToolError, tool

from .access import GitAccess, RepositoryWork, reason_of
from .arguments import (
    DEFAULT_BYTES,
    Cursor,
    Limit,
    MaxBytes,
    Paths,
    RepoPath,
    StartIndex,
    check_paths,
    check_plain,
    check_revision,
    limit_of,
    offset_of,
)
from .commits import LOG, Log, parse_log
from .differences import Diff, read_diff
from .showing import Shown, show
from .status import STATUS, Operation, Status, parse_status
from .text import printable

__all__ = ["GitReading", "read_status"]

_Context = Annotated[int, Meta(ge=0, le=10_000, description="Lines of context around each change.")]
_Text = Annotated[str, Meta(max_length=1000)]

_CURSOR = r"([0-9a-f]{40}|[0-9a-f]{64})(?:(\.{2,3})([0-9a-f]{40}|[0-9a-f]{64}))?:([0-9]{1,9})"
_OPERATIONS: tuple[tuple[str, Operation], ...] = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)


@frozen(eq=False, repr=False)
class GitReading:
    """The tools that show what a repository holds."""

    access: GitAccess

    @tool(title="Git Status", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_status(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        untracked: Annotated[
            Literal["no", "normal", "all"], "How to list untracked files: none, folders as one entry, or every file."
        ] = "normal",
        limit: Limit = None,
        cursor: Cursor = None,
    ) -> Status:
        """Show the state of a working tree: branch, upstream, staged, changed, untracked and conflicting files, and
        whether a merge or rebase is in progress."""
        async with self.access.open(ctx, repo_path) as work:
            return await read_status(work, untracked, limit, cursor)

    @tool(title="Git Diff Unstaged", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_diff_unstaged(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        context_lines: _Context = 3,
        paths: Paths = None,
        start_index: StartIndex = 0,
        max_bytes: MaxBytes = None,
    ) -> Diff:
        """Show the changes in the working tree that are not staged yet. Untracked files are not included. A
        long diff is returned in parts.
        """
        async with self.access.open(ctx, repo_path) as work:
            return await self._diff(work, (), context_lines, paths, start_index, max_bytes)

    @tool(title="Git Diff Staged", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_diff_staged(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        context_lines: _Context = 3,
        paths: Paths = None,
        start_index: StartIndex = 0,
        max_bytes: MaxBytes = None,
    ) -> Diff:
        """Show the staged changes, which the next commit would contain. A long diff is returned in parts."""
        async with self.access.open(ctx, repo_path) as work:
            return await self._diff(work, ("--cached",), context_lines, paths, start_index, max_bytes)

    @tool(title="Git Diff", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_diff(
        self,
        ctx: Context,
        target: Annotated[
            _Text,
            "A branch, tag or commit to compare the working tree with; or two of them: 'a..b' compares a with b, "
            "'a...b' compares their merge base with b.",
        ],
        repo_path: RepoPath = "",
        context_lines: _Context = 3,
        paths: Paths = None,
        start_index: StartIndex = 0,
        max_bytes: MaxBytes = None,
    ) -> Diff:
        """Show the differences between branches, tags or commits, or between one of them and the working tree.
        A long diff is returned in parts.
        """
        async with self.access.open(ctx, repo_path) as work:
            first, dots, second = await work.resolve_range(target, "target")
            revisions = (f"{first}...{second}",) if dots == "..." else (first, second) if dots else (first,)
            return await self._diff(work, revisions, context_lines, paths, start_index, max_bytes)

    @tool(title="Git Log", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_log(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        max_count: Annotated[int, Meta(ge=1, le=2**53 - 1, description="Maximum number of commits.")] = 10,
        start_timestamp: Annotated[
            _Text | None, "Only commits since this time: ISO 8601 (2026-01-15T14:30:00), a date, or '2 weeks ago'."
        ] = None,
        end_timestamp: Annotated[_Text | None, "Only commits until this time, in the same formats."] = None,
        revision: Annotated[
            _Text | None,
            "The newest commit: a branch, tag or commit; 'a..b' for the commits that only b has. By default HEAD.",
        ] = None,
        paths: Paths = None,
        author: Annotated[
            _Text | None, "Only commits whose author's name or address matches this regular expression."
        ] = None,
        message: Annotated[_Text | None, "Only commits whose message matches this regular expression."] = None,
        cursor: Annotated[
            Annotated[str, Meta(max_length=200)] | None,
            "next_cursor of the previous result, for older commits; repeat the other arguments.",
        ] = None,
    ) -> Log:
        """Show commits, newest first, with their full messages."""
        count = limit_of(max_count, self.access.config.max_entries)
        async with self.access.open(ctx, repo_path) as work:
            options = [
                f"--{option}={check_plain(value, where)}"
                for option, value, where in (
                    ("since", start_timestamp, "start_timestamp"),
                    ("until", end_timestamp, "end_timestamp"),
                    ("author", author, "author"),
                    ("grep", message, "message"),
                )
                if value
            ]
            behind = check_paths(paths, work.root, "paths")
            wanted, skip = revision or "HEAD", 0
            is_plain = not options and not behind and ".." not in wanted
            if cursor is not None:
                start, skip = _position(cursor)
            elif is_plain:  # it begins with the commit that is asked for, so it also says its id
                start = f"{check_revision(wanted, 'revision')}^{{commit}}"
            else:
                start = "".join(await work.resolve_range(wanted, "revision"))
            output = await work.git(
                *(*LOG, f"--max-count={count + 1}", f"--skip={skip}", *options),
                *("--end-of-options", start, "--", *behind),
                codes=(0, 128),
            )
            if output.code and not output.cut:
                await work.resolve_range(wanted, "revision")  # which says what is wrong with it
                raise ToolError(f"git log failed: {reason_of(output)}")
        commits = parse_log(output.stdout)
        if cursor is None and is_plain:
            start = commits[0].id
        truncated = output.cut or len(commits) > count
        shown = commits[:count]
        return Log(
            items=tuple(shown),
            truncated=truncated,
            next_cursor=f"{start}:{skip + len(shown)}" if truncated else None,
        )

    @tool(title="Git Show", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_show(
        self,
        ctx: Context,
        revision: Annotated[
            Annotated[str, Meta(max_length=4096)],
            "A commit, branch, tag or stash; or 'rev:path' for a file or folder in it, such as 'HEAD:src/a.py'.",
        ],
        repo_path: RepoPath = "",
        start_index: StartIndex = 0,
        max_bytes: MaxBytes = None,
    ) -> Shown:
        """Show a commit with its message and diff, or with 'rev:path' a file or folder of that commit. A long
        text is returned in parts.
        """
        limit = limit_of(max_bytes, self.access.config.max_output_bytes, DEFAULT_BYTES)
        async with self.access.open(ctx, repo_path) as work:
            [found] = await work.look_up((revision, "revision"), with_path=True)
            return await show(work, found, start=start_index, limit=limit)

    async def _diff(
        self,
        work: RepositoryWork,
        options: tuple[str, ...],
        context_lines: int,
        paths: list[str] | None,
        start: int,
        max_bytes: int | None,
    ) -> Diff:
        limit = limit_of(max_bytes, self.access.config.max_output_bytes, DEFAULT_BYTES)
        command = ("diff", "--ignore-submodules=dirty", f"--unified={context_lines}", *options)
        return await read_diff(work, command, check_paths(paths, work.root, "paths"), start=start, limit=limit)


async def read_status(work: RepositoryWork, untracked: str, limit: int | None, cursor: str | None) -> Status:
    """The status of a work tree; called by the resource too."""
    skip, most = offset_of(cursor), limit_of(limit, work.config.max_entries)
    output = await work.git(*STATUS, f"--untracked-files={untracked}")
    parsed = parse_status(output.stdout)
    headers = parsed.headers
    branch, commit = headers.get("branch.head"), headers.get("branch.oid")
    ahead, _, behind = headers.get("branch.ab", "").partition(" ")
    end = skip + most
    truncated = output.cut or len(parsed.entries) > end
    git_dir = work.repository.git_dir
    return Status(
        branch=None if branch == "(detached)" else branch,
        commit=None if commit == "(initial)" else commit,
        upstream=headers.get("branch.upstream"),
        ahead=int(ahead) if ahead else None,
        behind=-int(behind) if behind else None,
        stashes=int(headers.get("stash", "0")),
        operation=await trio.to_thread.run_sync(_operation, git_dir),
        clean=not parsed.entries,
        items=tuple(parsed.entries[skip:end]),
        truncated=truncated,
        next_cursor=str(end) if len(parsed.entries) > end else None,
    )


def _operation(git_dir: str) -> Operation:
    for file, name in _OPERATIONS:
        if os.path.exists(os.path.join(git_dir, file)):
            return name
    return "none"


def _position(cursor: str) -> tuple[str, int]:
    """The start of a log, and the number of commits shown so far."""
    found = re.fullmatch(_CURSOR, cursor)
    if found is None:
        raise ToolError(f"expected the next_cursor of a previous result at `cursor`, got {printable(cursor, 100)!r}")
    return f"{found[1]}{found[2] or ''}{found[3] or ''}", int(found[4])
