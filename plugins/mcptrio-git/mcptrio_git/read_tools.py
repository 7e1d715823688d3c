"""The tools that show the contents of a repository: status, differences, log, show.

The plugin registers them. They change nothing and run no program except git.

Source: names, arguments and annotations of the reference git server (2026.10.19). The additional arguments for paging,
paths and filters of the log are optional.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import trio
from attrs import frozen
from msgspec import Meta

from mcptrio import Context, PluginSetup, ToolError, hookimpl, tool

from .access import GitAccess, RepositoryWork, failure_reason
from .arguments import (
    Limit,
    Offset,
    Paths,
    RepoPath,
    check_line_range,
    check_option_value,
    check_paths,
    check_revision,
    parse_cursor,
)
from .commits import LOG, Log, parse_log
from .differences import read_diff
from .examples import in_repository
from .objects import show
from .process import Output
from .rendering import MAX_PAGE_CHARS, commit_text, diff_text, how_many_fit, log_text, status_line, status_text
from .status import STATUS, Status, operation_of, parse_status
from .text import printable

__all__ = ["GitReadTools", "read_status"]

_FUNCTIONS = Path(__file__).with_name("functions.gitattributes")
_MAX_CONTEXT = 10_000
_Context = Annotated[int, Meta(ge=0)]

_CURSOR = r"([0-9a-f]{40}|[0-9a-f]{64})(?:(\.{2,3})([0-9a-f]{40}|[0-9a-f]{64}))?:([0-9]{1,9})"


@frozen(eq=False, repr=False)
class GitReadTools:
    """The tools that show the contents of a repository."""

    access: GitAccess

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """Check the configured paths once the server has started."""
        server.add_background(self.access.report_missing)

    @tool(
        text=status_text,
        title="Git Status",
        read_only=True,
        examples=in_repository(),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_status(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        untracked: Annotated[Literal["no", "normal", "all"], "all includes files in new folders."] = "normal",
        limit: Limit = 100,
        cursor: str = "",
    ) -> Status:
        """Show branch, upstream, changed files, and whether a merge or rebase is in progress."""
        async with self.access.open(ctx, repo_path) as work:
            return await read_status(work, untracked, limit, cursor)

    @tool(
        title="Git Diff Unstaged",
        read_only=True,
        examples=in_repository(),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_diff_unstaged(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        context_lines: _Context = 3,
        paths: Paths = (),
        offset: Offset = 0,
    ) -> str:
        """Diff the working tree against the index; without untracked files."""
        async with self.access.open(ctx, repo_path) as work:
            return await self._diff(work, (), context_lines, paths, offset)

    @tool(
        title="Git Diff Staged",
        read_only=True,
        examples=in_repository(),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_diff_staged(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        context_lines: _Context = 3,
        paths: Paths = (),
        offset: Offset = 0,
    ) -> str:
        """Diff the staged changes."""
        async with self.access.open(ctx, repo_path) as work:
            return await self._diff(work, ("--cached",), context_lines, paths, offset)

    @tool(
        title="Git Diff",
        read_only=True,
        examples=in_repository(target="HEAD"),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_diff(
        self,
        ctx: Context,
        target: Annotated[
            str,
            "Revision (against the working tree), 'a..b', or 'a...b' (b since their merge base).",
        ],
        repo_path: RepoPath = "",
        context_lines: _Context = 3,
        paths: Paths = (),
        offset: Offset = 0,
    ) -> str:
        """Diff two revisions, or one and the working tree."""
        async with self.access.open(ctx, repo_path) as work:
            first, dots, second = await work.resolve_range(target, "target")
            revisions = (f"{first}...{second}",) if dots == "..." else (first, second) if dots else (first,)
            return await self._diff(work, revisions, context_lines, paths, offset)

    @tool(
        text=log_text,
        title="Git Log",
        read_only=True,
        examples=in_repository(max_count=100),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_log(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        max_count: Limit = 10,
        start_timestamp: Annotated[str, "Since: ISO 8601, or '2 weeks ago'."] = "",
        end_timestamp: str = "",
        revision: Annotated[str, "Revision, or range 'a..b'."] = "HEAD",
        paths: Paths = (),
        author: Annotated[str, "Regular expression."] = "",
        message: str = "",
        line_range: Annotated[str, "Only changes to lines '10,20' or function 'main' of the one path."] = "",
        cursor: Annotated[str, "Repeat the other arguments with it."] = "",
    ) -> Log:
        """List commits with their messages, newest first."""
        count = min(max_count, self.access.config.max_entries)
        async with self.access.open(ctx, repo_path) as work:
            options = [
                f"--{option}={check_option_value(value, where)}"
                for option, value, where in (
                    ("since", start_timestamp, "start_timestamp"),
                    ("until", end_timestamp, "end_timestamp"),
                    ("author", author, "author"),
                    ("grep", message, "message"),
                )
                if value
            ]
            behind = check_paths(paths, work.root, "paths")
            if line_range:
                # -L prints a patch by default, which git_show shows instead. -L replaces the filter by path.
                options += [check_line_range(line_range, behind), "--no-patch", "--no-textconv", "--no-ext-diff"]
                behind = []
            wanted, skip = revision or "HEAD", 0
            is_plain = not options and not behind and ".." not in wanted
            if cursor:
                start, skip = _parse_log_cursor(cursor)
            elif is_plain:  # the output begins with the requested commit, so its id need not be resolved first
                start = f"{check_revision(wanted, 'revision')}^{{commit}}"
            else:
                start = "".join(await work.resolve_range(wanted, "revision"))
            output = await work.git(
                *(*LOG, f"--max-count={count + 1}", f"--skip={skip}", *options),
                *("--end-of-options", start, "--", *behind),
                options=("-c", f"core.attributesFile={_FUNCTIONS}") if line_range else (),
                codes=(0, 128),
            )
            if output.code and not output.cut:
                await work.resolve_range(wanted, "revision")  # raises a better message if the revision is invalid
                raise ToolError(f"git log failed: {_reason(output, line_range)}")
        commits = parse_log(output.stdout)
        if not cursor and is_plain:
            start = commits[0].id
        page = commits[:count]
        page = page[: how_many_fit(page, commit_text)]
        truncated = output.cut or len(commits) > len(page)
        return Log(
            items=tuple(page),
            truncated=truncated,
            next_cursor=f"{start}:{skip + len(page)}" if truncated else None,
        )

    @tool(
        title="Git Show",
        read_only=True,
        examples=in_repository(revision="HEAD"),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_show(
        self,
        ctx: Context,
        revision: Annotated[str, "Commit, branch, tag or stash; or a path in it, as 'HEAD:src/a.py'."],
        repo_path: RepoPath = "",
        offset: Offset = 0,
    ) -> str:
        """Show a commit with message and diff, or a file or folder of it."""
        async with self.access.open(ctx, repo_path) as work:
            [git_object] = await work.resolve_all((revision, "revision"), with_path=True)
            path = revision.partition(":")[2]
            return await show(work, git_object, path=path, start=offset, limit=self._max_page_bytes)

    @property
    def _max_page_bytes(self) -> int:
        """Maximum number of bytes of text in one result."""
        return min(MAX_PAGE_CHARS, self.access.config.max_output_bytes)

    async def _diff(
        self,
        work: RepositoryWork,
        options: tuple[str, ...],
        context_lines: int,
        paths: tuple[str, ...],
        start: int,
    ) -> str:
        command = ("diff", "--ignore-submodules=dirty", f"--unified={min(context_lines, _MAX_CONTEXT)}", *options)
        checked = check_paths(paths, work.root, "paths")
        return diff_text(await read_diff(work, command, checked, start=start, limit=self._max_page_bytes))


async def read_status(work: RepositoryWork, untracked: str, limit: int, cursor: str) -> Status:
    """Return the status of a work tree. The resource calls it as well."""
    skip, max_count = parse_cursor(cursor), min(limit, work.config.max_entries)
    output = await work.git(*STATUS, f"--untracked-files={untracked}")
    parsed = parse_status(output.stdout)
    headers = parsed.headers
    branch, commit = headers.get("branch.head"), headers.get("branch.oid")
    ahead, _, behind = headers.get("branch.ab", "").partition(" ")
    page = parsed.entries[skip : skip + max_count]
    page = page[: how_many_fit(page, status_line)]
    end = skip + len(page)
    truncated = output.cut or len(parsed.entries) > end
    git_dir = work.repository.git_dir
    return Status(
        branch=None if branch == "(detached)" else branch,
        commit=None if commit == "(initial)" else commit,
        upstream=headers.get("branch.upstream"),
        ahead=int(ahead) if ahead else None,
        behind=-int(behind) if behind else None,
        stashes=int(headers.get("stash", "0")),
        operation=await trio.to_thread.run_sync(operation_of, git_dir),
        clean=not parsed.entries,
        items=tuple(page),
        truncated=truncated,
        next_cursor=str(end) if len(parsed.entries) > end else None,
    )


def _reason(output: Output, line_range: str) -> str:
    reason = failure_reason(output)
    if line_range[:1].isdigit() or not reason.endswith("no match"):
        return reason
    return f"found no function {line_range!r}; pass lines such as '10,20' instead"


def _parse_log_cursor(cursor: str) -> tuple[str, int]:
    """Return the start of a log, and the number of commits on the previous pages."""
    match = re.fullmatch(_CURSOR, cursor)
    if match is None:
        raise ToolError(f"expected the cursor of a previous page at `cursor`, got {printable(cursor, 100)!r}")
    return f"{match[1]}{match[2] or ''}{match[3] or ''}", int(match[4])
