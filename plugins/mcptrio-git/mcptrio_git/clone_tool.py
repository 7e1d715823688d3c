"""The tool that clones a repository into the configured folder.

The plugin registers it if ``clone_folder`` is set and ``allow_network`` and ``allow_write`` are on. A clone is made
under a temporary name and renamed when it is complete, so an interrupted one leaves nothing.

Source: git-clone(1), "GIT URLS"; git-remote-ext(1), whose URLs run commands and must be refused.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
from typing import Annotated

import trio
from attrs import frozen
from msgspec import Meta, Struct

from mcptrio import Context, ToolError, tool

from .access import GitAccess
from .arguments import check_name
from .config import Config
from .rendering import short
from .text import printable, redact_urls

__all__ = ["CloneTool", "Cloned", "check_url"]

_URL = r"(?P<scheme>[a-z]+)://(?:(?P<user>[^/@\s]*)@)?(?P<host>[A-Za-z0-9\[][^/@\s]*)?/\S+"
_SSH = r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9][\w.-]*:(?!:|//)[^\s-]\S*"
"""``user@host:path``, which git reaches with ssh."""
_MAX_URL_CHARS = 2000
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"


class Cloned(Struct, frozen=True, kw_only=True):
    """A cloned repository.

    Attributes:
        name: The repo_path for other tools.
        branch: The checked-out branch; null for a detached HEAD.
        commit: Null if the remote is empty.
    """

    name: str
    path: str
    branch: str | None
    commit: str | None


def _cloned_text(cloned: Cloned) -> str:
    where = f"on {printable(cloned.branch)}" if cloned.branch else "detached HEAD"
    return f"cloned {cloned.name} to {printable(cloned.path)}, {where} at {short(cloned.commit)}".removesuffix(" at ")


@frozen(eq=False, repr=False)
class CloneTool:
    """The tool that clones."""

    access: GitAccess

    @tool(
        text=_cloned_text,
        title="Git Clone",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=True,
        timeout=math.inf,
    )
    async def git_clone(
        self,
        ctx: Context,
        url: Annotated[str, "https://…, ssh://… or user@host:path."],
        name: Annotated[str, "Folder; default: last part of the URL."] = "",
        branch: Annotated[str, "Branch or tag to check out."] = "",
        depth: Annotated[int, Meta(ge=0, le=10**9, description="Newest commits to fetch; 0: all.")] = 0,
    ) -> Cloned:
        """Clone a repository, without submodules, for use with the other tools."""
        config = self.access.config
        check_url(url, config)
        clone_name = name or url.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
        if not re.fullmatch(_NAME, clone_name) or clone_name.endswith(".lock"):
            raise ToolError(
                f"expected a name of letters, digits, '.', '_' and '-' at `name`, got {printable(clone_name, 100)!r}"
            )
        options = [] if not branch else [f"--branch={check_name(branch, 'branch')}"]
        if depth:
            options.append(f"--depth={depth}")
        folder = await trio.to_thread.run_sync(_folder, config)
        target = os.path.join(folder, clone_name)
        partial = os.path.join(folder, f".{clone_name}.{secrets.token_hex(4)}.partial")
        async with self.access.open_folder(ctx, folder) as work:
            await trio.to_thread.run_sync(_check_free, target)
            try:
                await work.git("clone", "--progress", "--no-recurse-submodules", *options, "--", url, partial)
                await trio.to_thread.run_sync(_publish, partial, target)
            finally:
                with trio.CancelScope(shield=True), trio.move_on_after(_REMOVE_TIMEOUT):
                    # If a disk hangs, the thread is abandoned and the partial clone is left behind.
                    await trio.to_thread.run_sync(_remove, partial, abandon_on_cancel=True)
        async with self.access.open(ctx, target) as cloned:
            head, commit = await cloned.head()
        return Cloned(name=clone_name, path=target, branch=head, commit=commit)


_REMOVE_TIMEOUT = 60.0
"""Seconds for removing a partial clone."""


def check_url(url: str, config: Config) -> None:
    """Check the URL of a repository to clone.

    Raises:
        ToolError: The text is not a URL of an allowed protocol, or has a password.
    """
    if len(url) > _MAX_URL_CHARS:
        raise ToolError(f"expected a URL of at most {_MAX_URL_CHARS} characters at `url`, got {len(url)}")
    match = re.fullmatch(_URL, url)
    allowed = config.protocols
    if match is not None and match["scheme"] in allowed and (match["host"] or match["scheme"] == "file"):
        if match["user"] and ":" in match["user"]:
            raise ToolError("expected a URL without a password at `url`; git's credential helpers are the place for it")
        return
    if "ssh" in allowed and re.fullmatch(_SSH, url):
        return
    url_text = printable(redact_urls(url), 200)
    raise ToolError(f"expected a URL of one of the protocols {', '.join(allowed)} at `url`, got {url_text!r}")


def _folder(config: Config) -> str:
    assert config.clone_folder is not None  # the plugin registers the tool only then
    folder = os.path.realpath(os.path.expanduser(config.clone_folder))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ToolError(f"cannot make the folder for clones: {error.strerror}") from error
    return folder


def _check_free(target: str) -> None:
    if os.path.lexists(target):
        raise ToolError(f"already exists: {printable(target)}; pass another name")


def _publish(partial: str, target: str) -> None:
    _check_free(target)
    os.rename(partial, target)


def _remove(partial: str) -> None:
    shutil.rmtree(partial, ignore_errors=True)
