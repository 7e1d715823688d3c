"""The tools that apply the changes of one commit again: cherry-pick and revert.

The plugin registers them if ``allow_write`` is on. Each makes a new commit on the checked-out branch, or changes
nothing.

Source: git-cherry-pick(1), git-revert(1).
"""

from __future__ import annotations

from typing import Literal

import trio
from attrs import frozen

from mcptrio import Context, ToolError, tool

from .access import GitAccess, reason_of, said_by
from .arguments import RepoPath
from .environment import Kind
from .moving import MovedHead, aborted, conflicts_text, moved_head, moved_text
from .status import operation_of
from .text import printable

__all__ = ["Replaying"]


@frozen(eq=False, repr=False)
class Replaying:
    """The tools that apply the changes of one commit again."""

    access: GitAccess

    @tool(
        text=moved_text,
        title="Git Cherry-pick",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
    )
    async def git_cherry_pick(self, ctx: Context, commit: str, repo_path: RepoPath = "") -> MovedHead:
        """Copy a commit onto the checked-out branch. On conflicts nothing changes."""
        return await self._replay(ctx, repo_path, "cherry-pick", commit)

    @tool(
        text=moved_text,
        title="Git Revert",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
    )
    async def git_revert(self, ctx: Context, commit: str, repo_path: RepoPath = "") -> MovedHead:
        """Make a commit that undoes a commit. On conflicts nothing changes."""
        return await self._replay(ctx, repo_path, "revert", commit)

    async def _replay(
        self, ctx: Context, repo_path: str, command: Literal["cherry-pick", "revert"], revision: str
    ) -> MovedHead:
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            commit = await work.resolve(revision, "commit")
            # An abort would end an operation that another program has begun.
            operation = await trio.to_thread.run_sync(operation_of, work.repository.git_dir)
            if operation != "none":
                raise ToolError(f"expected no operation in progress, got a {operation}; finish or abort it first")
            staged = await work.git("diff", "--cached", "--quiet", kind=Kind.READ, codes=(0, 1))
            if staged.code:
                raise ToolError(
                    f"expected nothing staged before a {command}, got changes; commit or unstage them first"
                )
            before = await work.head()
            parents = await work.text("rev-list", "--parents", "--max-count=1", commit)
            # Of a merge, the changes that it brought into its first parent, as git_show shows them.
            options = ["--mainline=1"] if parents.count(" ") > 1 else []
            if command == "revert":
                options.append("--no-edit")
            output = await work.git(command, *options, commit, codes=(0, 1, 128))
            if output.code:
                # As --abort does it, and also where git has begun and reports no operation, such as after a hook's
                # refusal. Nothing was staged, so only the changes of the commit are undone.
                conflicts = await aborted(work, "reset", "--quiet", "--merge", before[1] or "HEAD", always=True)
                if conflicts:
                    raise ToolError(conflicts_text(command, revision, conflicts))
                if "empty" in said_by(output):
                    raise ToolError(f"{printable(revision, 200)} changes nothing here; nothing was committed")
                raise ToolError(f"git {command} failed: {reason_of(output)}")
            return await moved_head(work, before, said_by(output))
