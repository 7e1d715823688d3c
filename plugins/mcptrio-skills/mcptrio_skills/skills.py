"""The methods of the extension, the resources, and the lifespan that keeps them up to date.

mcptrio registers them. The folders are scanned before an entry is returned, and a file is read when it is requested, so
the digests in an entry match the files.

Source: SEP-2640 (io.modelcontextprotocol/skills); MCP 2026-07-28, server/resources.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

import trio
from attrs import field, frozen
from trio.from_thread import check_cancelled

from mcptrio import (
    Blob,
    InvalidParams,
    PluginSetup,
    Registrar,
    ResourceNotFound,
    completion,
    hookimpl,
    lifespan,
    method,
    resource,
)
from mcptrio.types import BlobResourceContents, ReadResourceResult, TextResourceContents

from .catalogue import Catalogue, File
from .config import Config
from .index import SkillIndex
from .instructions import instructions_for
from .no_follow import read_all
from .paging import decode_cursor, encode_cursor, text_param
from .read_tools import SkillReadTools
from .scan import FolderScan
from .uris import TEMPLATE, uri_of

__all__ = ["EXTENSION", "Skills"]

EXTENSION = "io.modelcontextprotocol/skills"

_DIRECTORY = "inode/directory"
_COMPLETE = {"resultType": "complete"}
"""Required in each result of the extension; ignored in older revisions."""
_MAX_FILES_PER_PAGE = 5000
"""Maximum files on one page of skills, about a megabyte."""
_MAX_CHILDREN = 1000
"""Maximum entries on one page of a folder."""
_MAX_COMPLETIONS = 1000

_log = logging.getLogger("mcptrio_skills")


@frozen
class Skills:
    """The skills of one configuration."""

    config: Config
    _index: SkillIndex = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_index", SkillIndex(self.config))

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """Advertise the extension, add the tools for clients without it, and watch for changes."""
        server.add_extension(EXTENSION, {"directoryRead": True})
        server.add(SkillReadTools(self._index, self._read))
        server.add_background(self._watch)

    @hookimpl
    def doctor(self) -> Sequence[str]:
        """Return the skills that are not served, with the reasons."""
        return FolderScan(self.config, Catalogue(), lambda: None).run().problems

    @method("skills/list", capability=EXTENSION)
    async def list_skills(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the entries of the skills in the order of their URIs."""
        catalogue = await self._index.refresh()
        uris = sorted(catalogue.skills)
        start = decode_cursor("skills", params, uris)
        page: list[str] = []
        rows = 0
        for uri in uris[start : start + self.config.page_size]:
            rows += len(catalogue.skills[uri].files)
            if page and rows > _MAX_FILES_PER_PAGE:
                break
            page.append(uri)
        result: dict[str, Any] = {"skills": [catalogue.skills[uri].entry() for uri in page], **self._caching()}
        if start + len(page) < len(uris):
            result["nextCursor"] = encode_cursor("skills", page[-1])
        return result

    @method("skills/get", capability=EXTENSION)
    async def get_skill(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the entry of one skill."""
        uri = text_param(params, "uri")
        catalogue = await self._index.refresh()
        skill = catalogue.skills.get(uri)
        if skill is None:
            raise InvalidParams(f"no skill is served at {uri[:200]}", data={"uri": uri})
        return {"skill": skill.entry(), **self._caching()}

    @method("resources/directory/read", capability=EXTENSION)
    async def read_directory(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the contents of one folder, not recursively."""
        uri = text_param(params, "uri")
        catalogue = await self._index.refresh()
        path = next((path for path in catalogue.folders if uri_of(path) == uri), None)
        if path is None:
            raise InvalidParams(f"expected the URI of a folder that is served, got {uri[:200]}", data={"uri": uri})
        children = catalogue.folders[path]
        start = decode_cursor(uri, params, children)
        page = children[start : start + _MAX_CHILDREN]
        result: dict[str, Any] = {**_COMPLETE, "resources": [_child(catalogue, child) for child in page]}
        if start + len(page) < len(children):
            result["nextCursor"] = encode_cursor(uri, page[-1])
        return result

    @resource(TEMPLATE, name="skill-files", title="Files of skills")
    async def file(self, path: str) -> ReadResourceResult:
        """A file of a skill: its instructions (SKILL.md) or a file that they refer to. A folder is returned as the URIs
        of its files."""
        return await self._read(path)

    @completion("resource", TEMPLATE, "path")
    async def complete(self, value: str) -> list[str]:
        """Return the paths that begin with ``value``."""
        paths = self._index.catalogue.files
        return [path for path in paths if path.startswith(value)][:_MAX_COMPLETIONS]

    # Implementation

    async def _read(self, path: str) -> ReadResourceResult:
        catalogue = self._index.catalogue
        if path not in catalogue.files and path not in catalogue.folders:
            catalogue = await self._index.refresh()
        caching = {"ttl_ms": round(self.config.ttl * 1000), "cache_scope": self._cache_scope()}
        if path in catalogue.folders:
            uris = "\n".join(uri_of(child) for child in catalogue.folders[path])
            listing = TextResourceContents(uri=uri_of(path), mime_type=_DIRECTORY, text=uris)
            return ReadResourceResult(contents=(listing,), **caching)
        file = catalogue.files.get(path)
        if file is None:
            raise ResourceNotFound(uri_of(path))
        try:
            data = await self._index.run(partial(self._content, file))
        except OSError as error:
            _log.info("%s cannot be read any more: %s", path, error)
            raise ResourceNotFound(file.uri) from error
        return ReadResourceResult(contents=(_contents(file, data),), **caching)

    def _content(self, file: File) -> bytes:
        data, _ = read_all(file.real, self.config.max_bytes, check_cancelled)
        if len(data) > self.config.max_bytes:
            raise OSError(f"it has grown beyond {self.config.max_bytes} bytes")
        return data

    def _cache_scope(self) -> Any:
        return "public" if self.config.public else "private"

    def _caching(self) -> dict[str, Any]:
        return {**_COMPLETE, "ttlMs": round(self.config.ttl * 1000), "cacheScope": self._cache_scope()}

    # While the server is open

    @lifespan
    async def opened(self, server: Registrar) -> AsyncGenerator[None]:
        """Scan before the first request, and keep each SKILL.md in the list of resources while the server is open."""
        listed: set[str] = set()

        def changed(before: Catalogue, after: Catalogue) -> None:
            self._update_listing(server, listed, before, after)
            for path in before.files.keys() | after.files.keys():
                if _digest_of(before, path) != _digest_of(after, path):
                    server.notify_resource_updated(uri_of(path))

        self._index.changed = changed
        if not self.config.folders:
            _log.warning('no skill is served: set folders = ["/absolute/path"] in [plugins.skills] of mcptrio.toml')
        await self._index.refresh()
        forget = server.add_instructions(lambda: instructions_for(self._index.catalogue, server.tool_name))
        try:
            yield
        finally:
            forget()
            for uri in listed:
                server.remove_resource(uri)

    def _update_listing(self, server: Registrar, listed: set[str], before: Catalogue, after: Catalogue) -> None:
        """List each SKILL.md as a resource, in the order of the catalogue. If one has changed, all are listed again."""
        if listed and _listed_parts(before) == _listed_parts(after):
            return
        for uri in listed:
            server.remove_resource(uri)
        listed.clear()
        for uri, skill in after.skills.items():
            manifest = skill.manifest
            try:
                server.add_resource(
                    partial(self._read, manifest.path),
                    uri,
                    name=skill.frontmatter["name"],
                    description=skill.frontmatter["description"],
                    mime_type=manifest.mime_type,
                    size=manifest.size,
                )
            except ValueError as error:
                _log.warning("%s is not listed: %s", uri, error)
            else:
                listed.add(uri)

    async def _watch(self) -> None:
        interval = self.config.watch_interval or math.inf
        while True:
            await trio.sleep(interval)
            await self._index.refresh()


def _digest_of(catalogue: Catalogue, path: str) -> str | None:
    file = catalogue.files.get(path)
    return file.digest if file is not None else None


def _listed_parts(catalogue: Catalogue) -> list[tuple[Any, ...]]:
    """Return the parts of the skills that the list of resources shows."""
    return [(uri, skill.frontmatter["description"], skill.manifest.size) for uri, skill in catalogue.skills.items()]


def _child(catalogue: Catalogue, path: str) -> dict[str, Any]:
    """Return a file or folder as a resource in wire form."""
    uri = uri_of(path)
    file = catalogue.files.get(path)
    if file is None:
        return {"uri": uri, "name": path.rpartition("/")[2], "mimeType": _DIRECTORY}
    skill = catalogue.skills.get(uri)
    child: dict[str, Any] = {"uri": uri, "name": file.name, "mimeType": file.mime_type, "size": file.size}
    if skill is not None:
        child |= {"name": skill.frontmatter["name"], "description": skill.frontmatter["description"]}
    return child


def _contents(file: File, data: bytes) -> TextResourceContents | BlobResourceContents:
    if file.is_text:
        try:
            return TextResourceContents(uri=file.uri, mime_type=file.mime_type, text=data.decode())
        except UnicodeDecodeError:
            pass  # changed since the last scan
    contents = Blob(data, file.mime_type).contents(file.uri)
    assert isinstance(contents, BlobResourceContents)
    return contents
