"""The tools that contact remotes: fetch, pull, push.

The plugin registers them if ``allow_network`` is on. A remote must be the name of one of the repository's remotes, so
it cannot be a URL or an option. History is never overwritten.

Source: git-fetch(1), git-pull(1), git-push(1), "OUTPUT". The reference git server has none of these tools.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from attrs import frozen
from msgspec import Struct

from mcptrio import Context, ToolError, tool

from .access import GitAccess, RepositoryWork, failure_reason, messages_of
from .arguments import RepoPath
from .environment import Kind
from .rendering import short
from .text import name_text, printable, redact_urls, text_of, truncate

__all__ = ["FetchTools", "Fetched", "PullTool", "Pulled", "Pushed", "Reference"]

_Branch = Annotated[str, "Default: checked-out one."]
_MAX_REFERENCES = 500


class Reference(Struct, frozen=True, kw_only=True):
    """A reference that has changed.

    Attributes:
        old: The previous id; null if it is new.
        new: The current id; null if it was deleted.
    """

    name: str
    old: str | None
    new: str | None


class Fetched(Struct, frozen=True, kw_only=True):
    """The result of a fetch.

    Attributes:
        items: The changed branches and tags, at most 500.
        truncated: There are more items.
        output: Messages of git.
    """

    items: tuple[Reference, ...]
    truncated: bool
    output: str


class Pulled(Struct, frozen=True, kw_only=True):
    """The result of a pull.

    Attributes:
        branch: The branch that was moved forward.
        old: The commit before; null before the first.
        new: The present commit.
        output: Messages of git.
    """

    branch: str | None
    old: str | None
    new: str | None
    output: str


class Pushed(Struct, frozen=True, kw_only=True):
    """The result of a push.

    Attributes:
        result: Whether the remote's branch was moved, made, or was up to date.
        summary: git's summary, such as the ids before and after.
        output: Messages of git, the hooks and the remote.
    """

    remote: str
    branch: str
    result: Literal["updated", "created", "up_to_date"]
    summary: str
    output: str


def _fetched_text(fetched: Fetched) -> str:
    lines = [
        f"{printable(each.name)} {short(each.old) or 'new'} -> {short(each.new) or 'deleted'}" for each in fetched.items
    ]
    lines += ["[more references have changed]"] if fetched.truncated else []
    return "\n".join(lines) or "nothing new"


def _pulled_text(pulled: Pulled) -> str:
    if pulled.old == pulled.new:
        return f"{printable(pulled.branch or 'HEAD')} is up to date at {short(pulled.new)}"
    return f"{printable(pulled.branch or 'HEAD')} {short(pulled.old)} -> {short(pulled.new)}\n{pulled.output}".rstrip()


def _pushed_text(pushed: Pushed) -> str:
    line = f"{printable(pushed.remote)} {printable(pushed.branch)}: {pushed.result} {pushed.summary}"
    return f"{line.rstrip()}\n{pushed.output}".rstrip()


@frozen(eq=False, repr=False)
class FetchTools:
    """The tools that fetch and push, which do not change the work tree."""

    access: GitAccess

    @tool(
        text=_fetched_text,
        title="Git Fetch",
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=True,
        timeout=math.inf,
    )
    async def git_fetch(self, ctx: Context, repo_path: RepoPath = "", remote: str = "origin") -> Fetched:
        """Download branches and tags of a remote; the working tree is not changed."""
        async with self.access.open(ctx, repo_path, Kind.NETWORK) as work:
            await _check_remote(work, remote)
            before = await _references(work)
            output = await work.git(
                "fetch", "--progress", "--no-recurse-submodules", *_upload_pack_option(work), "--", remote
            )
            after = await _references(work)
        changed = [
            Reference(name=name, old=before.get(name), new=after.get(name))
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        ]
        return Fetched(
            items=tuple(changed[:_MAX_REFERENCES]),
            truncated=len(changed) > _MAX_REFERENCES,
            output=_without_progress(messages_of(output)),
        )

    @tool(
        text=_pushed_text,
        title="Git Push",
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=True,
        timeout=math.inf,
    )
    async def git_push(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        remote: str = "origin",
        branch: _Branch = "",
        set_upstream: bool = False,
        dry_run: bool = False,
    ) -> Pushed:
        """Push a branch to the same name on a remote, without force: fails if the remote has other commits."""
        async with self.access.open(ctx, repo_path, Kind.NETWORK) as work:
            await _check_remote(work, remote)
            branch = branch or (await work.head())[0] or ""
            if not branch:
                raise ToolError("expected a branch at `branch`: HEAD is detached; pass a branch")
            reference = await work.check_name("refs/heads/", branch, "branch")
            if not await work.text("rev-parse", "--verify", "--quiet", reference, codes=(0, 1, 128)):
                raise ToolError(f"no such branch at `branch`: {printable(branch, 200)!r}")
            options = [*(["--set-upstream"] if set_upstream else []), *(["--dry-run"] if dry_run else [])]
            if not work.config.hooks:
                options.append("--receive-pack=git-receive-pack")  # for the reason in _upload_pack_option
            output = await work.git(
                *("push", "--porcelain", "--progress", "--recurse-submodules=no", "--no-follow-tags", *options),
                *("--", remote, f"{reference}:{reference}"),
                codes=(0, 1),
            )
        flag, summary = _parse_pushed(output.stdout)
        if output.code or flag not in _PUSHED:
            raise ToolError(f"git push failed: {_without_progress(failure_reason(output))}")
        return Pushed(
            remote=remote,
            branch=branch,
            result=_PUSHED[flag],
            summary=summary,
            output=_without_progress(messages_of(output)),
        )


@frozen(eq=False, repr=False)
class PullTool:
    """The tool that pulls, which changes the checked-out branch."""

    access: GitAccess

    @tool(
        text=_pulled_text,
        title="Git Pull",
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=True,
        timeout=math.inf,
    )
    async def git_pull(
        self,
        ctx: Context,
        repo_path: RepoPath = "",
        remote: str = "origin",
        branch: _Branch = "",
    ) -> Pulled:
        """Fetch a branch and fast-forward the checked-out branch to it. Fails if they have diverged; then fetch and
        merge."""
        async with self.access.open(ctx, repo_path, Kind.NETWORK) as work:
            await _check_remote(work, remote)
            current, old = await work.head()
            branch = branch or current or ""
            if not branch:
                raise ToolError("expected a branch at `branch`: HEAD is detached; check out a branch first")
            reference = await work.check_name("refs/heads/", branch, "branch")
            output = await work.git(
                *("pull", "--progress", "--ff-only", "--no-rebase", "--no-autostash", "--no-recurse-submodules"),
                *(*_upload_pack_option(work), "--", remote, reference),
            )
            _, new = await work.head()
        return Pulled(branch=current, old=old, new=new, output=_without_progress(messages_of(output)))


_PUSHED: dict[str, Literal["updated", "created", "up_to_date"]] = {" ": "updated", "*": "created", "=": "up_to_date"}


def _upload_pack_option(work: RepositoryWork) -> tuple[str, ...]:
    """Return the option that makes git ignore a configured program for the remote end.

    For ``file`` URLs, that program would run on this machine.
    """
    return () if work.config.hooks else ("--upload-pack=git-upload-pack",)


async def _check_remote(work: RepositoryWork, remote: str) -> None:
    """Check that the repository has a remote of this name.

    Raises:
        ToolError: The repository has no remote of this name.
    """
    names = (await work.text("remote")).splitlines()
    if remote not in names:
        known_names = ", ".join(printable(name, 100) for name in names[:20]) or "none"
        raise ToolError(f"expected the name of a remote ({known_names}) at `remote`, got {printable(remote, 200)!r}")


async def _references(work: RepositoryWork) -> dict[str, str]:
    output = await work.git(
        "for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes", "refs/tags", kind=Kind.READ
    )
    pairs = (line.partition(b" ") for line in output.stdout.split(b"\n")[:-1])
    return {name_text(name): name_text(id) for id, _, name in pairs}


def _parse_pushed(output: bytes) -> tuple[str, str]:
    """Return the flag and the summary of the pushed reference: ``<flag> TAB <from>:<to> TAB <summary>``."""
    for line in text_of(output).split("\n"):
        flag, _, rest = line.partition("\t")
        if len(flag) == 1 and "\t" in rest:
            return flag, truncate(redact_urls(rest.partition("\t")[2]), 500)
    return "", ""


def _without_progress(output: str) -> str:
    return "\n".join(line for line in output.split("\n") if "% (" not in line)
