"""The tools that inspect a repository: branches, tags, stashes, work trees, remotes, blame, search, common ancestors.

The plugin registers them. They change nothing and run no program except git.

Source: ``git_branch`` of the reference git server (2026.10.19). The other tools were requested by its users.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

import trio
from attrs import frozen
from msgspec import Meta, Struct
from msgspec.structs import replace

from mcptrio import Context, ToolError, tool

from .access import GitAccess, failure_reason
from .arguments import Limit, Paths, RepoPath, check_paths, parse_cursor
from .blame import Blame, Hunk, parse_blame
from .examples import in_repository
from .listings import (
    Matches,
    Remotes,
    RepositoryEntry,
    RepositoryList,
    Stashes,
    Worktrees,
    parse_matches,
    parse_remotes,
    parse_stashes,
    parse_worktrees,
)
from .references import Branches, Tags, list_branches, list_tags
from .rendering import (
    MAX_PAGE_CHARS,
    blame_text,
    branch_line,
    branches_text,
    how_many_fit,
    hunk_text,
    match_line,
    matches_text,
    remote_line,
    remotes_text,
    repositories_text,
    repository_line,
    short,
    stash_line,
    stashes_text,
    tag_line,
    tags_text,
    worktree_line,
    worktrees_text,
)

__all__ = ["Ancestry", "GitInspection"]

_REFERENCE_PREFIXES = {"local": ("refs/heads",), "remote": ("refs/remotes",), "all": ("refs/heads", "refs/remotes")}
_T = TypeVar("_T")
_MAX_PATTERN_CHARS = 1000
_MAX_LINE = 2**31 - 1
"""The largest line number that git accepts."""


class Ancestry(Struct, frozen=True, kw_only=True):
    """The relation of two commits.

    Attributes:
        items: The best common ancestors, usually one; none if the histories are unrelated.
        first: The id of the first commit.
        second: The id of the second commit.
        first_only: Number of commits that only the first one has.
        second_only: Number of commits that only the second one has; 0 means it is an ancestor of the first.
    """

    items: tuple[str, ...]
    first: str
    second: str
    first_only: int
    second_only: int


def _ancestry_text(ancestry: Ancestry) -> str:
    bases = "merge base " + " ".join(ancestry.items) if ancestry.items else "no common ancestor"
    first, second = (
        f"{short(ancestry.first)} is {ancestry.first_only} ahead",
        f"{short(ancestry.second)} {ancestry.second_only}",
    )
    return f"{bases}; {first}, {second}"


@frozen(eq=False, repr=False)
class GitInspection:
    """The tools that inspect a repository."""

    access: GitAccess

    @tool(
        text=repositories_text,
        title="Git Repositories",
        read_only=True,
        examples=[{}],
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_list_repositories(self, ctx: Context, limit: Limit = 100, cursor: str = "") -> RepositoryList:
        """List the repositories for repo_path, which is optional if there is only one."""
        names = await trio.to_thread.run_sync(self.access.repositories.names, limiter=ctx.server.threads)
        entries = [RepositoryEntry(name=name, path=path) for name, path in names.items()]
        items, truncated, following = self._page(entries, limit, cursor, repository_line)
        return RepositoryList(
            items=items, writable=self.access.config.allow_write, truncated=truncated, next_cursor=following
        )

    @tool(
        text=branches_text,
        title="Git Branch",
        read_only=True,
        examples=in_repository(branch_type="all"),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_branch(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        branch_type: Literal["local", "remote", "all"] = "local",
        contains: Annotated[str, "Only branches with this commit."] = "",
        not_contains: str = "",
        limit: Limit = 100,
        cursor: str = "",
    ) -> Branches:
        """List branches with their upstream; * marks the checked-out one."""
        async with self.access.open(ctx, repo_path) as work:
            conditions: list[str] = []
            if contains:
                conditions.append(f"--contains={await work.resolve(contains, 'contains')}")
            if not_contains:
                conditions.append(f"--no-contains={await work.resolve(not_contains, 'not_contains')}")
            branches = await list_branches(work, _REFERENCE_PREFIXES[branch_type], tuple(conditions))
            # If the checked-out branch is in the list, git need not run again.
            here = next(((each.name, each.commit) for each in branches if each.current), None)
            current, head = here or await work.head()
        items, truncated, following = self._page(branches, limit, cursor, branch_line)
        return Branches(current=current, head=head, items=items, truncated=truncated, next_cursor=following)

    @tool(
        text=tags_text,
        title="Git Tags",
        read_only=True,
        examples=in_repository(),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_tag_list(self, ctx: Context, repo_path: RepoPath = "", limit: Limit = 100, cursor: str = "") -> Tags:
        """List tags, newest first."""
        async with self.access.open(ctx, repo_path) as work:
            tags = await list_tags(work)
        items, truncated, following = self._page(tags, limit, cursor, tag_line)
        return Tags(items=items, truncated=truncated, next_cursor=following)

    @tool(
        text=stashes_text,
        title="Git Stashes",
        read_only=True,
        examples=in_repository(),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_stash_list(
        self, ctx: Context, repo_path: RepoPath = "", limit: Limit = 100, cursor: str = ""
    ) -> Stashes:
        """List stashes, newest first; {tool:git_show} shows one by its name."""
        async with self.access.open(ctx, repo_path) as work:
            output = await work.git("stash", "list", "-z", "--format=%gd%x00%H%x00%cI%x00%gs")
        items, truncated, following = self._page(parse_stashes(output.stdout), limit, cursor, stash_line)
        return Stashes(items=items, truncated=truncated, next_cursor=following)

    @tool(
        text=worktrees_text,
        title="Git Worktrees",
        read_only=True,
        examples=in_repository(),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_worktree_list(
        self, ctx: Context, repo_path: RepoPath = "", limit: Limit = 100, cursor: str = ""
    ) -> Worktrees:
        """List work trees with path, branch and commit."""
        async with self.access.open(ctx, repo_path) as work:
            output = await work.git("worktree", "list", "--porcelain", "-z")
        items, truncated, following = self._page(parse_worktrees(output.stdout), limit, cursor, worktree_line)
        return Worktrees(items=items, truncated=truncated, next_cursor=following)

    @tool(
        text=remotes_text,
        title="Git Remotes",
        read_only=True,
        examples=in_repository(),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_remote_list(
        self, ctx: Context, repo_path: RepoPath = "", limit: Limit = 100, cursor: str = ""
    ) -> Remotes:
        """List remotes with their URLs."""
        async with self.access.open(ctx, repo_path) as work:
            output = await work.git("config", "-z", "--get-regexp", r"^remote\..+\.(url|pushurl)$", codes=(0, 1))
        items, truncated, following = self._page(parse_remotes(output.stdout), limit, cursor, remote_line)
        return Remotes(items=items, truncated=truncated, next_cursor=following)

    @tool(text=blame_text, title="Git Blame", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_blame(
        self,
        ctx: Context,
        path: str,
        repo_path: RepoPath = "",
        revision: Annotated[str, "Default: working tree."] = "",
        start_line: Annotated[int, Meta(ge=1)] = 1,
        limit: Limit = 100,
        cursor: str = "",
    ) -> Blame:
        """Show which commit and author changed each line of a file last."""
        start = parse_cursor(cursor) if cursor else min(start_line, _MAX_LINE)
        count = min(limit, self.access.config.max_entries)
        async with self.access.open(ctx, repo_path) as work:
            [checked] = check_paths([path], work.root, "path")
            at = (await work.resolve(revision, "revision"),) if revision else ()
            # One line more than requested shows whether there are more. Git accepts an end beyond that of the file.
            arguments = ("blame", "--porcelain", "--no-textconv", "-L", f"{start},+{count + 1}", *at, "--", checked)
            output = await work.git(*arguments, codes=(0, 128))
        if output.code and not output.cut:
            if b"has only 0 lines" in output.stderr:
                return Blame(path=checked, items=(), truncated=False, next_cursor=None)
            raise ToolError(f"git blame failed: {failure_reason(output)}")
        hunks = parse_blame(output.stdout, count)
        if output.cut and not hunks:  # a single line is longer than the limit
            hunks = parse_blame(output.stdout + b"\n", count)
        hunks, left_out = _first_page(hunks)
        lines = sum(len(hunk.lines) for hunk in hunks)
        more = left_out or output.cut or output.stdout.count(b"\n\t") > count
        return Blame(path=checked, items=tuple(hunks), truncated=more, next_cursor=str(start + lines) if more else None)

    @tool(
        text=matches_text,
        title="Git Grep",
        read_only=True,
        examples=in_repository(pattern="."),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_grep(
        self,
        ctx: Context,
        pattern: Annotated[str, "Extended regular expression."],
        repo_path: RepoPath = "",
        revision: Annotated[str, "Default: working tree."] = "",
        paths: Paths = (),
        ignore_case: bool = False,
        fixed_strings: Annotated[bool, "Search literally."] = False,
        limit: Limit = 100,
        cursor: str = "",
    ) -> Matches:
        """Search tracked text files for lines that match; returns path:line:text."""
        if not 0 < len(pattern) <= _MAX_PATTERN_CHARS or "\0" in pattern or "\n" in pattern:
            raise ToolError(f"`pattern`: expected 1 to {_MAX_PATTERN_CHARS} characters without line breaks or NUL")
        skip, count = parse_cursor(cursor), min(limit, self.access.config.max_entries)
        async with self.access.open(ctx, repo_path) as work:
            options = ["--fixed-strings" if fixed_strings else "--extended-regexp"]
            if ignore_case:
                options.append("--ignore-case")
            at = (await work.resolve(revision, "revision"),) if revision else ()
            output = await work.git(
                *("grep", "-z", "-n", "-I", "--column", "--full-name", "--no-color", "--no-textconv"),
                *("--no-recurse-submodules", "--no-break", "--no-heading", *options, "-e", pattern),
                *(*at, "--", *check_paths(paths, work.root, "paths")),
                codes=(0, 1),
            )
        data = output.stdout[: output.stdout.rfind(b"\n") + 1]
        if at:  # "<id>:" precedes each path
            data = b"\n".join(line[len(at[0]) + 1 :] for line in data.split(b"\n"))
        total = data.count(b"\n")
        matches = parse_matches(data, skip, count)
        fit = how_many_fit(matches, match_line)
        end = skip + (fit if fit < len(matches) else count)
        return Matches(
            items=tuple(matches[:fit]),
            truncated=output.cut or total > end,
            next_cursor=str(end) if total > end else None,
        )

    @tool(
        text=_ancestry_text,
        title="Git Merge Base",
        read_only=True,
        examples=in_repository(first="HEAD", second="HEAD"),
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def git_merge_base(
        self,
        ctx: Context,
        first: str,
        second: str,
        repo_path: RepoPath = "",
    ) -> Ancestry:
        """Find the merge base of the commits first and second, and how many commits each is ahead."""
        async with self.access.open(ctx, repo_path) as work:
            one, other = (found.id for found in await work.resolve_all((first, "first"), (second, "second")))
            bases = await work.text("merge-base", "--all", one, other, codes=(0, 1))
            counts = await work.text("rev-list", "--left-right", "--count", f"{one}...{other}")
        first_only, _, second_only = counts.partition("\t")
        return Ancestry(
            items=tuple(bases.split()),
            first=one,
            second=other,
            first_only=int(first_only),
            second_only=int(second_only),
        )

    def _page(
        self, items: Sequence[_T], limit: int, cursor: str, line: Callable[[_T], str]
    ) -> tuple[tuple[_T, ...], bool, str | None]:
        start = parse_cursor(cursor)
        page = items[start : start + min(limit, self.access.config.max_entries)]
        page = page[: how_many_fit(page, line)]
        end = start + len(page)
        truncated = len(items) > end
        return tuple(page), truncated, str(end) if truncated else None


def _first_page(hunks: list[Hunk]) -> tuple[list[Hunk], bool]:
    """Return the hunks and lines that fit into one page, and True if lines were left out."""
    page: list[Hunk] = []
    room = MAX_PAGE_CHARS
    for hunk in hunks:
        lines = hunk.lines
        while len(lines) > (not page) and len(hunk_text(replace(hunk, lines=lines))) > room:
            lines = lines[: len(lines) * 3 // 4]
        if lines:
            page.append(replace(hunk, lines=lines))
            room -= len(hunk_text(page[-1])) + 1
        if len(lines) < len(hunk.lines):
            return page, True
    return page, False
