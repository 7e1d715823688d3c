"""The tools that look around: branches, tags, stashes, work trees, remotes, blame, search, common ancestors.

The plugin registers them. They change nothing and run nothing but git.

Source: ``git_branch`` of the reference git server (2026.10.19); its users have asked for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

import trio
from attrs import frozen
from msgspec import Meta, Struct

from mcptrio import Context, ToolError, tool

from .access import GitAccess, reason_of
from .arguments import Cursor, Limit, Paths, RepoPath, check_paths, limit_of, offset_of
from .blaming import Blame, parse_blame
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

__all__ = ["Ancestry", "Looking"]

_Revision = Annotated[str, Meta(max_length=1000)]
_SPACES = {"local": ("refs/heads",), "remote": ("refs/remotes",), "all": ("refs/heads", "refs/remotes")}
_T = TypeVar("_T")


class Ancestry(Struct, frozen=True, kw_only=True):
    """The relation of two commits.

    Attributes:
        items: the best common ancestors, usually one; none if the histories are unrelated.
        first: the id of the first commit.
        second: the id of the second commit.
        first_only: number of commits that only the first one has.
        second_only: number of commits that only the second one has; 0 means it is an ancestor of the first.
    """

    items: tuple[str, ...]
    first: str
    second: str
    first_only: int
    second_only: int


@frozen(eq=False, repr=False)
class Looking:
    """The tools that look around."""

    access: GitAccess

    @tool(title="Git Repositories", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_list_repositories(self, ctx: Context, limit: Limit = None, cursor: Cursor = None) -> RepositoryList:
        """List the available repositories, with the names that other tools accept as repo_path."""
        names = await trio.to_thread.run_sync(self.access.repositories.names, limiter=ctx.server.threads)
        found = [RepositoryEntry(name=name, path=path) for name, path in names.items()]
        items, truncated, following = self._page(found, limit, cursor)
        return RepositoryList(
            items=items, writable=self.access.config.allow_write, truncated=truncated, next_cursor=following
        )

    @tool(title="Git Branch", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_branch(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        branch_type: Annotated[
            Literal["local", "remote", "all"], "Branches of this repository, of its remotes (as last fetched), or both."
        ] = "local",
        contains: Annotated[_Revision | None, "Only branches that contain this commit."] = None,
        not_contains: Annotated[_Revision | None, "Only branches that do not contain this commit."] = None,
        limit: Limit = None,
        cursor: Cursor = None,
    ) -> Branches:
        """List branches with their newest commit, their upstream, and which one is checked out."""
        async with self.access.open(ctx, repo_path) as work:
            conditions: list[str] = []
            if contains:
                conditions.append(f"--contains={await work.resolve(contains, 'contains')}")
            if not_contains:
                conditions.append(f"--no-contains={await work.resolve(not_contains, 'not_contains')}")
            branches = await list_branches(work, _SPACES[branch_type], tuple(conditions))
            # Where it is listed, the branch that is checked out says so itself.
            here = next(((each.name, each.commit) for each in branches if each.current), None)
            current, head = here or await work.head()
        items, truncated, following = self._page(branches, limit, cursor)
        return Branches(current=current, head=head, items=items, truncated=truncated, next_cursor=following)

    @tool(title="Git Tags", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_tag_list(
        self, ctx: Context, repo_path: RepoPath = "", limit: Limit = None, cursor: Cursor = None
    ) -> Tags:
        """List tags, newest first."""
        async with self.access.open(ctx, repo_path) as work:
            tags = await list_tags(work)
        items, truncated, following = self._page(tags, limit, cursor)
        return Tags(items=items, truncated=truncated, next_cursor=following)

    @tool(title="Git Stashes", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_stash_list(
        self, ctx: Context, repo_path: RepoPath = "", limit: Limit = None, cursor: Cursor = None
    ) -> Stashes:
        """List stashes, newest first. {tool:git_show} shows the contents of one, by its name."""
        async with self.access.open(ctx, repo_path) as work:
            output = await work.git("stash", "list", "-z", "--format=%gd%x00%H%x00%cI%x00%gs")
        items, truncated, following = self._page(parse_stashes(output.stdout), limit, cursor)
        return Stashes(items=items, truncated=truncated, next_cursor=following)

    @tool(title="Git Worktrees", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_worktree_list(
        self, ctx: Context, repo_path: RepoPath = "", limit: Limit = None, cursor: Cursor = None
    ) -> Worktrees:
        """List the working trees of a repository with their paths and checked-out branches."""
        async with self.access.open(ctx, repo_path) as work:
            output = await work.git("worktree", "list", "--porcelain", "-z")
        items, truncated, following = self._page(parse_worktrees(output.stdout), limit, cursor)
        return Worktrees(items=items, truncated=truncated, next_cursor=following)

    @tool(title="Git Remotes", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_remote_list(
        self, ctx: Context, repo_path: RepoPath = "", limit: Limit = None, cursor: Cursor = None
    ) -> Remotes:
        """List the remotes of a repository with their URLs, without passwords."""
        async with self.access.open(ctx, repo_path) as work:
            output = await work.git("config", "-z", "--get-regexp", r"^remote\..+\.(url|pushurl)$", codes=(0, 1))
        items, truncated, following = self._page(parse_remotes(output.stdout), limit, cursor)
        return Remotes(items=items, truncated=truncated, next_cursor=following)

    @tool(title="Git Blame", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_blame(
        self,
        ctx: Context,
        path: Annotated[str, Meta(min_length=1, max_length=4096, description="A file, relative to the repository.")],
        repo_path: RepoPath = "",
        revision: Annotated[
            _Revision | None, "Read the file from this revision; by default from the working tree."
        ] = None,
        start_line: Annotated[int, Meta(ge=1, le=2**31 - 1, description="The first line, from 1.")] = 1,
        limit: Annotated[
            Annotated[int, Meta(ge=1, le=2**31 - 1)] | None, "Maximum number of lines; by default 100."
        ] = None,
        cursor: Cursor = None,
    ) -> Blame:
        """Show the commit and author of each line of a file; consecutive lines of one commit are one entry."""
        start = offset_of(cursor) if cursor else start_line
        count = limit_of(limit, self.access.config.max_entries)
        async with self.access.open(ctx, repo_path) as work:
            [checked] = check_paths([path], work.root, "path")
            at = (await work.resolve(revision, "revision"),) if revision else ()
            # One line more tells whether there are more; git takes an end beyond the file for its end.
            arguments = ("blame", "--porcelain", "--no-textconv", "-L", f"{start},+{count + 1}", *at, "--", checked)
            output = await work.git(*arguments, codes=(0, 128))
        if output.code and not output.cut:
            if b"has only 0 lines" in output.stderr:
                return Blame(path=checked, items=(), truncated=False, next_cursor=None)
            raise ToolError(f"git blame failed: {reason_of(output)}")
        hunks = parse_blame(output.stdout, count)
        if output.cut and not hunks:  # one line is longer than all that is read
            hunks = parse_blame(output.stdout + b"\n", count)
        lines = sum(len(hunk.lines) for hunk in hunks)
        more = output.cut or output.stdout.count(b"\n\t") > count
        return Blame(path=checked, items=tuple(hunks), truncated=more, next_cursor=str(start + lines) if more else None)

    @tool(title="Git Grep", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_grep(
        self,
        ctx: Context,
        pattern: Annotated[str, Meta(min_length=1, max_length=1000, description="An extended regular expression.")],
        repo_path: RepoPath = "",
        revision: Annotated[_Revision | None, "Search the files of this revision; by default the working tree."] = None,
        paths: Paths = None,
        ignore_case: Annotated[bool, "Ignore upper and lower case."] = False,
        fixed_strings: Annotated[bool, "The pattern is a literal text, not a regular expression."] = False,
        limit: Limit = None,
        cursor: Cursor = None,
    ) -> Matches:
        """Search the tracked files of a repository for lines that match a pattern. Binary files are skipped."""
        if "\0" in pattern or "\n" in pattern:
            raise ToolError("expected an expression for one line at `pattern`, got one with a line end or NUL")
        skip, count = offset_of(cursor), limit_of(limit, self.access.config.max_entries)
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
        end = skip + count
        return Matches(
            items=tuple(parse_matches(data, skip, count)),
            truncated=output.cut or total > end,
            next_cursor=str(end) if total > end else None,
        )

    @tool(title="Git Merge Base", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def git_merge_base(
        self,
        ctx: Context,
        first: Annotated[_Revision, "A branch, tag or commit."],
        second: Annotated[_Revision, "The other branch, tag or commit."],
        repo_path: RepoPath = "",
    ) -> Ancestry:
        """Find the best common ancestors of two commits, and count the commits that only one of them has."""
        async with self.access.open(ctx, repo_path) as work:
            one, other = (found.id for found in await work.look_up((first, "first"), (second, "second")))
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
        self, found: Sequence[_T], limit: int | None, cursor: str | None
    ) -> tuple[tuple[_T, ...], bool, str | None]:
        start = offset_of(cursor)
        end = start + limit_of(limit, self.access.config.max_entries)
        truncated = len(found) > end
        return tuple(found[start:end]), truncated, str(end) if truncated else None
