"""The tools that apply or undo the changes of one commit: cherry-pick and revert.

The plugin registers them if ``allow_write`` is on. Each call makes a new commit on the checked-out branch, or changes
nothing.

Source: git-cherry-pick(1), git-revert(1).
"""

from __future__ import annotations

from typing import Literal

import trio
from attrs import frozen

from mcptrio import Context, ToolError, tool

from .access import GitAccess, failure_reason, messages_of
from .arguments import RepoPath
from .environment import Kind
from .head_moves import MovedHead, abort_on_conflicts, conflicts_text, moved_head, moved_text
from .status import operation_of
from .text import printable

__all__ = ["ReplayTools"]


@frozen(eq=False, repr=False)
class ReplayTools:
    """The tools that apply or undo the changes of one commit."""

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
            # Undoing a failure would also abort an operation that another program has begun.
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
            # For a merge, use the changes against its first parent, which git_show shows as well.
            options = ["--mainline=1"] if parents.count(" ") > 1 else []
            if command == "revert":
                options.append("--no-edit")
            output = await work.git(command, *options, commit, codes=(0, 1, 128))
            if output.code:
                # The same as --abort, but it also works if git reports no operation, such as after a hook has refused
                # the commit. Nothing was staged before, so only the changes of the commit are undone.
                conflicts = await abort_on_conflicts(
                    work, "reset", "--quiet", "--merge", before[1] or "HEAD", always=True
                )
                if conflicts:
                    raise ToolError(conflicts_text(command, revision, conflicts))
                if "empty" in messages_of(output):
                    raise ToolError(f"{printable(revision, 200)} changes nothing here; nothing was committed")
                raise ToolError(f"git {command} failed: {failure_reason(output)}")
            return await moved_head(work, before, messages_of(output))
