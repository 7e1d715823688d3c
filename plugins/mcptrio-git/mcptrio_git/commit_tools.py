"""The tools that make a commit: add, reset, restore, commit.

The plugin registers them if ``allow_write`` is on. Git makes the commit with the hooks, signing, filters and line ends
of the user's configuration.

Source: names, arguments and annotations of the reference git server (2026.10.19), which refuses empty commits as well.
"""

from __future__ import annotations

import os
from typing import Annotated

import trio
from attrs import frozen
from msgspec import Meta, Struct

from mcptrio import Context, ToolError, tool

from .access import GitAccess, RepositoryWork, messages_of
from .arguments import RepoPath, check_message, check_paths
from .differences import FileChange, list_staged
from .environment import Kind
from .rendering import how_many_fit, short
from .text import printable

__all__ = ["CommitTools", "Committed", "Staged"]

_MAX_NAMED = 50
"""Maximum number of restored paths in the result."""


class Staged(Struct, frozen=True, kw_only=True):
    """The staged files.

    Attributes:
        items: The files that a commit would change.
        truncated: There are more items.
    """

    items: tuple[FileChange, ...]
    truncated: bool


class Committed(Struct, frozen=True, kw_only=True):
    """A new commit.

    Attributes:
        id: Its full id.
        branch: Its branch; null on a detached HEAD, where only the id leads back to the commit.
        files: Number of changed files.
        output: Messages of git and of the hooks.
    """

    id: str
    branch: str | None
    files: int
    output: str


def _staged_text(staged: Staged) -> str:
    lines = [f"{each.change} {printable(each.path, 4096)}" for each in staged.items]
    visible_lines = lines[: how_many_fit(lines, str)]
    if staged.truncated or len(visible_lines) < len(lines):
        visible_lines.append("[more files are staged]")
    return "\n".join(visible_lines) or "nothing is staged"


def _committed_text(result: Committed) -> str:
    where = f"on {printable(result.branch)}" if result.branch else "on a detached HEAD"
    return f"committed {short(result.id)} {where}, {result.files} files\n{result.output}".rstrip()


@frozen(eq=False, repr=False)
class CommitTools:
    """The tools that make a commit."""

    access: GitAccess

    @tool(text=_staged_text, title="Git Add", read_only=False, destructive=False, idempotent=True, open_world=False)
    async def git_add(
        self,
        ctx: Context,
        files: Annotated[list[str], Meta(min_length=1, description="Files, folders or globs; '.' for all.")],
        repo_path: RepoPath = "",
    ) -> Staged:
        """Stage changed, new and deleted files; returns all staged ones."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            await work.git("add", "--", *check_paths(files, work.root, "files"))
            return await self._staged_files(work)

    @tool(text=_staged_text, title="Git Reset", read_only=False, destructive=True, idempotent=True, open_world=False)
    async def git_reset(self, ctx: Context, repo_path: RepoPath = "") -> Staged:
        """Unstage all staged changes. Working tree files are not changed."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            # Without a path, git reset would end a merge in progress.
            await work.git("reset", "--quiet", "--", ".")
            return await self._staged_files(work)

    @tool(title="Git Restore", read_only=False, destructive=True, idempotent=True, open_world=False)
    async def git_restore(
        self,
        ctx: Context,
        paths: Annotated[list[str], Meta(min_length=1)],
        repo_path: RepoPath = "",
        source: Annotated[str, "Revision. Default: the index."] = "",
        staged: Annotated[bool, "Restore only the index."] = False,
    ) -> str:
        """Restore files or folders and discard their changes, which cannot be recovered."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            checked = check_paths(paths, work.root, "paths")
            options = ["--staged" if staged else "--worktree"]
            if source:
                options.append(f"--source={await work.resolve(source, 'source')}")
            await work.git("restore", "--no-progress", "--no-recurse-submodules", *options, "--", *checked)
        return f"restored {', '.join(printable(path) for path in checked[:_MAX_NAMED])}" + (
            f" and {len(checked) - _MAX_NAMED} more" if len(checked) > _MAX_NAMED else ""
        )

    @tool(
        text=_committed_text, title="Git Commit", read_only=False, destructive=False, idempotent=False, open_world=False
    )
    async def git_commit(
        self,
        ctx: Context,
        message: str,
        repo_path: RepoPath = "",
    ) -> Committed:
        """Commit the staged changes, or complete a merge in progress. Hooks can refuse it."""
        check_message(message, "message")
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            staged = await list_staged(work)
            merging = os.path.join(work.repository.git_dir, "MERGE_HEAD")
            if not staged and not await trio.to_thread.run_sync(os.path.exists, merging):
                raise ToolError("nothing is staged; {tool:git_add} stages files")
            # A message from standard input cannot be an option. cleanup=whitespace keeps lines that begin with "#".
            output = await work.git("commit", "--cleanup=whitespace", "--file=-", stdin=message.encode())
            branch, commit = await work.head()
        return Committed(id=commit or "", branch=branch, files=len(staged), output=messages_of(output))

    async def _staged_files(self, work: RepositoryWork) -> Staged:
        items = await list_staged(work)
        max_count = self.access.config.max_entries
        return Staged(items=tuple(items[:max_count]), truncated=len(items) > max_count)
