"""The tools that make a commit: add, reset, commit.

The plugin registers them if ``allow_write`` is on. The commit is the one that the user's own git would make, with git's
hooks, signing, filters and line ends.

Source: names, arguments and annotations of the reference git server (2026.10.19); it refuses empty commits too.
"""

from __future__ import annotations

import os
from typing import Annotated

import trio
from attrs import frozen
from msgspec import Meta, Struct

from mcptrio import Context, ToolError, tool

from .access import GitAccess, RepositoryWork, said_by
from .arguments import RepoPath, check_paths
from .differences import FileChange, list_staged
from .environment import Kind

__all__ = ["Committed", "Staged", "Staging"]


class Staged(Struct, frozen=True, kw_only=True):
    """The staged files.

    Attributes:
        items: the files that a commit would change.
        truncated: there are more.
    """

    items: tuple[FileChange, ...]
    truncated: bool


class Committed(Struct, frozen=True, kw_only=True):
    """A new commit.

    Attributes:
        id: its full id.
        branch: its branch; null on a detached HEAD, which only the id can find again.
        files: number of changed files.
        output: messages of git and of the hooks.
    """

    id: str
    branch: str | None
    files: int
    output: str


@frozen(eq=False, repr=False)
class Staging:
    """The tools that make a commit."""

    access: GitAccess

    @tool(title="Git Add", read_only=False, destructive=False, idempotent=True, open_world=False)
    async def git_add(
        self,
        ctx: Context,
        files: Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=4096)]],
            Meta(
                min_length=1,
                max_length=1000,
                description="Files and folders, relative to the repository, also deleted ones; '.' for everything.",
            ),
        ],
        repo_path: RepoPath = "",
    ) -> Staged:
        """Stage the current contents of files for the next commit."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            await work.git("add", "--", *check_paths(files, work.root, "files"))
            return await self._staged(work)

    @tool(title="Git Reset", read_only=False, destructive=True, idempotent=True, open_world=False)
    async def git_reset(self, ctx: Context, repo_path: RepoPath = "") -> Staged:
        """Unstage all changes. Files in the working tree are not changed; contents that are only in the index
        are lost."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            # With a path, a merge that is going on stays one.
            await work.git("reset", "--quiet", "--", ".")
            return await self._staged(work)

    @tool(title="Git Commit", read_only=False, destructive=False, idempotent=False, open_world=False)
    async def git_commit(
        self,
        ctx: Context,
        message: Annotated[str, Meta(min_length=1, max_length=100_000, description="The commit message.")],
        repo_path: RepoPath = "",
    ) -> Committed:
        """Commit the staged changes. The repository's hooks run, unless the server is configured otherwise, and
        can reject the commit. Completes a merge that is in progress.
        """
        if not message.strip() or "\0" in message:
            raise ToolError("expected a commit message at `message`, got an empty one or one with NUL")
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            staged = await list_staged(work)
            merging = os.path.join(work.repository.git_dir, "MERGE_HEAD")
            if not staged and not await trio.to_thread.run_sync(os.path.exists, merging):
                raise ToolError("nothing is staged; {tool:git_add} stages files")
            # From standard input a message cannot be an option, and a line that begins with "#" stays.
            output = await work.git("commit", "--cleanup=whitespace", "--file=-", stdin=message.encode())
            branch, commit = await work.head()
        return Committed(id=commit or "", branch=branch, files=len(staged), output=said_by(output))

    async def _staged(self, work: RepositoryWork) -> Staged:
        items = await list_staged(work)
        most = self.access.config.max_entries
        return Staged(items=tuple(items[:most]), truncated=len(items) > most)
