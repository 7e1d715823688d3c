"""Files of commits and the status of repositories as resources, with completion.

The plugin registers them. A resource shows only what a tool shows as well. In a URI, a branch such as ``feature/x`` is
written ``feature:x``: a variable of the template cannot contain a slash, and a reference cannot contain a colon.

Source: MCP 2026-07-28, server/resources; RFC 6570. The reference git server has no resources.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from urllib.parse import quote

import trio
from attrs import frozen

from mcptrio import Blob, Context, ResourceNotFound, ToolError, completion, resource
from mcptrio.types import BlobResourceContents, TextResourceContents

from .access import GitAccess, RepositoryWork
from .arguments import check_revision
from .objects import is_binary, kind_of, list_tree, read_blob
from .read_tools import read_status
from .references import reference_names
from .repositories import UnknownRepository
from .status import Status

__all__ = ["FILE", "STATUS_OF", "RepositoryResources", "paths_in"]

FILE = "git://{repo}/{rev}/{+path}"
STATUS_OF = "git://{repo}/status"

_MAX_PATHS = 2000


@frozen(eq=False, repr=False)
class RepositoryResources:
    """The resources of repositories, which URIs identify by name."""

    access: GitAccess

    @resource(FILE, name="git-file", title="File of a commit")
    async def file(self, ctx: Context, repo: str, rev: str, path: str) -> TextResourceContents | BlobResourceContents:
        """A file of a branch, tag or commit; or a folder, as the URIs of its entries. The path '.' is the top, and
        'feature:x' the branch feature/x."""
        revision, limit = rev.replace(":", "/"), self.access.config.max_output_bytes
        uri = _uri(repo, revision, path)
        try:
            check_revision(revision, "rev")
            async with self.access.open(ctx, _check_repository_name(repo)) as work:
                commit = await work.text(
                    *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
                    codes=(0, 1, 128),
                )
                kind, id = await kind_of(work, commit, path) if commit else ("", "")
                if kind == "tree":
                    entries, more = await list_tree(work, id, max_count=self.access.config.max_entries)
                    above = "" if path.strip("/") in ("", ".") else path.strip("/") + "/"
                    lines = [_uri(repo, revision, above + entry.name) for entry in entries]
                    lines += [f"# there is more; {ctx.tool_name('git_show')} shows it"] if more else []
                    return TextResourceContents(uri=uri, mime_type="text/uri-list", text="\n".join(lines))
                data = await read_blob(work, id, limit=limit) if kind == "blob" else b""
        except UnknownRepository as error:
            raise ResourceNotFound(uri) from error
        if kind != "blob":
            raise ResourceNotFound(uri)
        if data is None:
            raise ToolError(f"larger than {limit} bytes; {{tool:git_show}} reads it in parts")
        guessed = mimetypes.guess_type(path)[0]
        if is_binary(data) or (guessed or "").startswith(("image/", "audio/", "video/")):
            mime_type = guessed or "application/octet-stream"
            block = Blob(data, mime_type).contents(uri)
            assert isinstance(block, BlobResourceContents)
            return block
        return TextResourceContents(uri=uri, mime_type=guessed or "text/plain", text=data.decode("utf-8", "replace"))

    @resource(STATUS_OF, name="git-status", title="Status of a repository", mime_type="application/json")
    async def status(self, ctx: Context, repo: str) -> Status:
        """The state of a working tree, as {tool:git_status} shows it."""
        try:
            async with self.access.open(ctx, _check_repository_name(repo)) as work:
                return await read_status(work, "normal", 100, "")
        except UnknownRepository as error:
            raise ResourceNotFound(f"git://{quote(repo, safe='')}/status") from error

    @completion("resource", FILE, "repo")
    async def complete_repo(self, ctx: Context, value: str) -> list[str]:
        """Return names of repositories."""
        return list(await trio.to_thread.run_sync(self.access.repositories.names, limiter=ctx.server.threads))

    @completion("resource", STATUS_OF, "repo")
    async def complete_status(self, ctx: Context, value: str) -> list[str]:
        """Return names of repositories."""
        return await self.complete_repo(ctx, value)

    @completion("resource", FILE, "rev")
    async def complete_rev(self, ctx: Context, value: str, arguments: Mapping[str, str]) -> list[str]:
        """Return names of branches and tags, with colons instead of slashes."""
        try:
            async with self.access.open(ctx, arguments.get("repo", "")) as work:
                names = await reference_names(work, "refs/heads", "refs/tags", "refs/remotes")
        except ToolError:
            return []
        return ["HEAD", *(name.replace("/", ":") for name in names)]

    @completion("resource", FILE, "path")
    async def complete_path(self, ctx: Context, value: str, arguments: Mapping[str, str]) -> list[str]:
        """Return files and folders of the commit that begin with the typed text; folders end in a slash."""
        try:
            async with self.access.open(ctx, arguments.get("repo", "")) as work:
                commit = await work.resolve(arguments.get("rev", "HEAD").replace(":", "/"), "rev")
                return await paths_in(work, commit, value)
        except ToolError:
            return []


async def paths_in(work: RepositoryWork, commit: str, typed: str) -> list[str]:
    """Return paths of a commit that begin with ``typed``."""
    folder, slash, start = typed.rpartition("/")
    kind, id = await kind_of(work, commit, folder or ".")
    if kind != "tree":
        return []
    entries, _ = await list_tree(work, id, max_count=_MAX_PATHS)
    return [
        folder + slash + entry.name + ("/" if entry.is_folder else "")
        for entry in entries
        if entry.name.startswith(start)
    ]


def _check_repository_name(repo: str) -> str:
    """Return the name of a repository. A URI cannot contain the path of a repository, only its name."""
    if not repo or repo.startswith("~"):
        raise UnknownRepository(f"no repository is called {repo!r}")
    return repo


def _uri(repo: str, revision: str, path: str) -> str:
    return f"git://{quote(repo, safe='')}/{quote(revision.replace('/', ':'), safe=':')}/{quote(path, safe='/')}"
