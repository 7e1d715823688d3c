"""The tools that make and change branches, tags and stashes: create, check out, merge, stash.

The plugin registers them if ``allow_write`` is on. They never rewrite committed history, and never force git to
overwrite a file in the work tree.

Source: ``git_create_branch`` and ``git_checkout`` of the reference git server (2026.10.19). The other tools were
requested by its users.
"""

from __future__ import annotations

from typing import Annotated, Literal

from attrs import frozen
from msgspec import Meta, Struct

from mcptrio import Context, ToolError, tool

from .access import GitAccess, RepositoryWork, failure_reason, messages_of
from .arguments import RepoPath, check_message, check_revision
from .environment import Kind
from .head_moves import MovedHead, abort_on_conflicts, conflicts_text, moved_head, moved_text
from .rendering import short
from .text import printable

__all__ = ["BranchTools", "CreatedReference", "StashDone"]

_Index = Annotated[int, Meta(ge=0, description="0 is the newest.")]


class CreatedReference(Struct, frozen=True, kw_only=True):
    """A branch or tag that was made.

    Attributes:
        name: The name of the branch or tag.
        commit: The commit it points to.
    """

    name: str
    commit: str


class StashDone(Struct, frozen=True, kw_only=True):
    """The result of a stash operation.

    Attributes:
        commit: The id of the stash; null if nothing was stashed. It can restore a dropped stash for some time.
        output: Messages of git.
    """

    commit: str | None
    output: str


def _reference_text(reference: CreatedReference) -> str:
    return f"created {printable(reference.name)} at {short(reference.commit)}"


def _stash_text(result: StashDone) -> str:
    return (
        result.output + (f"\nstash: {short(result.commit)}" if result.commit else "")
    ).lstrip() or "nothing to stash"


@frozen(eq=False, repr=False)
class BranchTools:
    """The tools that make and change branches, tags and stashes."""

    access: GitAccess

    @tool(
        text=_reference_text,
        title="Git Create Branch",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
    )
    async def git_create_branch(
        self,
        ctx: Context,
        branch_name: str,
        repo_path: RepoPath = "",
        base_branch: Annotated[str, "Branch or revision."] = "HEAD",
    ) -> CreatedReference:
        """Create a branch without checking it out."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            await work.check_name("refs/heads/", branch_name, "branch_name")
            commit = await work.resolve(base_branch, "base_branch")
            await work.git("branch", "--no-track", "--", branch_name, commit)
        return CreatedReference(name=branch_name, commit=commit)

    @tool(
        text=moved_text,
        title="Git Checkout",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
    )
    async def git_checkout(
        self,
        ctx: Context,
        branch_name: Annotated[str, "A tag or commit gives a detached HEAD."],
        repo_path: RepoPath = "",
    ) -> MovedHead:
        """Switch to a branch. Uncommitted changes are kept; fails if they conflict."""
        check_revision(branch_name, "branch_name")
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            before = await work.head()
            # With "--" after it, the name can only be a branch or commit; otherwise it could be a file to overwrite.
            output = await work.git(
                "checkout", "--no-recurse-submodules", "--no-overwrite-ignore", "--no-progress", branch_name, "--"
            )
            return await moved_head(work, before, messages_of(output))

    @tool(text=moved_text, title="Git Merge", read_only=False, destructive=False, idempotent=True, open_world=False)
    async def git_merge(
        self,
        ctx: Context,
        branch_name: Annotated[str, "Branch, tag or commit."],
        repo_path: RepoPath = "",
        fast_forward: Literal["allow", "only", "never"] = "allow",
    ) -> MovedHead:
        """Merge into the checked-out branch. On conflicts nothing changes, and the error names the files."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            await work.resolve(branch_name, "branch_name")
            before = await work.head()
            how = {"allow": "--ff", "only": "--ff-only", "never": "--no-ff"}[fast_forward]
            output = await work.git("merge", "--no-edit", "--no-autostash", how, "--", branch_name, codes=(0, 1))
            if output.code:
                conflicts = await abort_on_conflicts(work, "merge", "--abort")
                if not conflicts:
                    raise ToolError(f"git merge failed: {failure_reason(output)}")
                raise ToolError(conflicts_text("merge", branch_name, conflicts))
            return await moved_head(work, before, messages_of(output))

    @tool(
        text=_reference_text,
        title="Git Create Tag",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
    )
    async def git_create_tag(
        self,
        ctx: Context,
        tag_name: str,
        repo_path: RepoPath = "",
        revision: str = "HEAD",
        message: Annotated[str, "Message of an annotated tag."] = "",
    ) -> CreatedReference:
        """Create a tag; existing ones are not moved."""
        check_message(message or "none", "message")
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            await work.check_name("refs/tags/", tag_name, "tag_name")
            commit = await work.resolve(revision, "revision")
            annotated = () if not message else ("--annotate", "--cleanup=whitespace", "--file=-")
            await work.git("tag", *annotated, "--", tag_name, commit, stdin=message.encode())
        return CreatedReference(name=tag_name, commit=commit)

    @tool(
        text=_stash_text, title="Git Stash Push", read_only=False, destructive=False, idempotent=False, open_world=False
    )
    async def git_stash_push(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        message: str = "",
        include_untracked: bool = False,
    ) -> StashDone:
        """Stash staged and unstaged changes, and reset to HEAD."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            options = ["--include-untracked"] if include_untracked else []
            if message:
                options.append(f"--message={printable(message)}")
            before = await _stash(work, 0)
            output = await work.git("stash", "push", *options)
            after = await _stash(work, 0)
        return StashDone(commit=None if after == before else after, output=messages_of(output))

    @tool(
        text=_stash_text, title="Git Stash Pop", read_only=False, destructive=False, idempotent=False, open_world=False
    )
    async def git_stash_pop(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        stash: _Index = 0,
        keep: Annotated[bool, "Do not drop it."] = False,
    ) -> StashDone:
        """Apply a stash and drop it. Fails if it would overwrite changes; on conflicts, writes markers and keeps it."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            commit = await _wanted_stash(work, stash)
            output = await work.git("stash", "apply" if keep else "pop", f"stash@{{{stash}}}")
        return StashDone(commit=commit, output=messages_of(output))

    @tool(
        text=_stash_text, title="Git Stash Drop", read_only=False, destructive=True, idempotent=False, open_world=False
    )
    async def git_stash_drop(self, ctx: Context, repo_path: RepoPath = "", stash: _Index = 0) -> StashDone:
        """Delete a stash without applying it."""
        async with self.access.open(ctx, repo_path, Kind.WRITE) as work:
            commit = await _wanted_stash(work, stash)
            output = await work.git("stash", "drop", f"stash@{{{stash}}}")
        return StashDone(commit=commit, output=messages_of(output))


async def _stash(work: RepositoryWork, index: int) -> str:
    return await work.text("rev-parse", "--verify", "--quiet", f"stash@{{{index}}}", codes=(0, 1, 128))


async def _wanted_stash(work: RepositoryWork, index: int) -> str:
    """Return the commit of a stash.

    Raises:
        ToolError: The stash does not exist.
    """
    commit = await _stash(work, index)
    if not commit:
        raise ToolError(f"there is no stash {index} at `stash`; {{tool:git_stash_list}} lists the stashes")
    return commit
