"""Files and directories as resources, with completion of paths and notifications of changes.

The plugin registers them. A resource shows only what a tool shows as well.

Source: MCP 2026-07-28, server/resources; the reference filesystem server has no resources.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial

import trio
from trio.from_thread import check_cancelled

from mcptrio import Context, PluginSetup, Registrar, ResourceNotFound, ToolError, completion, hookimpl, resource
from mcptrio.types import BlobResourceContents, TextResourceContents

from .access import FileAccess, path_of, uri_of
from .errors import AccessDenied, PathNotFound, printable
from .file_watcher import FileSubscriptions, FileWatcher, Fingerprint
from .listing import list_entries
from .media import DIRECTORY, is_text
from .path_completion import complete_path
from .reading import read_bytes
from .sandbox import Sandbox
from .sizes import ENVELOPE_BYTES, how_many_fit, max_media_bytes, wire_size

__all__ = ["TEMPLATE", "FileResources"]

TEMPLATE = "file:///{+path}"

_WATCH_TIMEOUT = 5.0
"""Seconds that one check of subscribed files waits for a folder."""


class FileResources:
    """The resources of the allowed folders."""

    def __init__(self, access: FileAccess) -> None:
        self.access = access

    @resource(TEMPLATE, name="files")
    async def file(self, ctx: Context, path: str) -> TextResourceContents | BlobResourceContents:
        """A file in an allowed directory, as text or bytes; or a directory, as a listing."""
        absolute = "/" + path.lstrip("/")
        uri = uri_of(absolute)
        sandbox = await self.access.sandbox(ctx)
        lister = ctx.tool_name("list_directory")
        try:
            return await self.access.run(sandbox, absolute, lambda: self._read(sandbox, absolute, uri, lister))
        except (AccessDenied, PathNotFound) as error:
            raise ResourceNotFound(uri) from error

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """List the configured folders, and watch subscribed files. Clients know their own roots, so these are not
        listed."""
        for path in map(str, self.access.config.folders):
            name = printable(os.path.basename(path) or path)
            description = f"The allowed directory {printable(path)}: the URIs of its entries, one per line."
            folder = partial(self._folder, path)
            server.add_resource(folder, uri_of(path), name=name, description=description, mime_type=DIRECTORY)
        server.add_background(partial(self.watch, _subscriptions_of(server)))

    @completion("resource", TEMPLATE, "path")
    async def complete(self, ctx: Context, value: str) -> list[str]:
        """Return paths that begin with ``value``."""
        sandbox = await self.access.sandbox(ctx)
        work = partial(complete_path, sandbox, value, checkpoint=check_cancelled)
        return await self.access.run(sandbox, "/" + value.lstrip("/"), work)

    async def watch(self, subscriptions: FileSubscriptions) -> None:
        """Notify the subscribers of changed files, until cancelled."""
        config = self.access.config
        await FileWatcher(
            subscriptions=subscriptions,
            read_fingerprints=self.fingerprints,
            interval=config.watch_interval,
            limit=config.max_watched,
        ).run()

    async def fingerprints(self, uris: Iterable[str]) -> Mapping[str, Fingerprint]:
        """Return the fingerprints for the watcher. Files of a hanging folder are omitted, without delaying others."""
        # Roots can only be requested during a call, so files that only roots allow are not watched.
        sandbox = self.access.config.sandbox()
        fingerprints: dict[str, Fingerprint] = {}
        by_folder: dict[str, dict[str, str]] = {}
        for uri in uris:
            path = path_of(uri)
            if path is not None and sandbox.folders:
                by_folder.setdefault(sandbox.folder_of(path), {})[uri] = path
        async with trio.open_nursery() as nursery:
            for folder, paths in by_folder.items():
                nursery.start_soon(self._fingerprint_all, sandbox, folder, paths, fingerprints)
        return fingerprints

    async def _folder(self, path: str, ctx: Context) -> TextResourceContents | BlobResourceContents:
        return await self.file(ctx, path)

    async def _fingerprint_all(
        self, sandbox: Sandbox, folder: str, paths: Mapping[str, str], found: dict[str, Fingerprint]
    ) -> None:
        with trio.move_on_after(_WATCH_TIMEOUT), suppress(ToolError):
            found.update(
                await self.access.run(
                    sandbox, folder, lambda: {uri: _fingerprint(sandbox, path) for uri, path in paths.items()}
                )
            )

    def _read(self, sandbox: Sandbox, path: str, uri: str, lister: str) -> TextResourceContents | BlobResourceContents:
        status, location = sandbox.status(path)
        config = self.access.config
        if stat.S_ISDIR(status.st_mode):
            listing = list_entries(
                sandbox,
                path,
                offset=0,
                limit=config.max_entries,
                sizes=False,
                largest_first=False,
                checkpoint=check_cancelled,
            )
            lines = [uri_of(os.path.join(location.typed, entry.name)) for entry in listing.entries]
            lines = lines[: how_many_fit(lines, config.max_answer_bytes - ENVELOPE_BYTES)]
            if listing.total > len(lines):
                lines.append(f"[cut: {listing.total - len(lines)} more; {lister} shows them with offset]")
            return TextResourceContents(uri=uri, mime_type=DIRECTORY, text="\n".join(lines))
        file = read_bytes(sandbox, path, limit=config.max_read_bytes, checkpoint=check_cancelled)
        if is_text(file.data) and not file.mime_type.startswith(("image/", "audio/")):
            text = file.data.decode("utf-8", "replace")
            if (size := wire_size(text)) > (max_bytes := config.max_answer_bytes - ENVELOPE_BYTES):
                raise ToolError(
                    f"expected a file of at most {max_bytes} bytes in JSON, got {size}: {printable(path)}; "
                    "{tool:read_text_file} reads a part of it with offset and limit"
                )
            return TextResourceContents(uri=uri, mime_type=file.mime_type, text=text)
        if len(file.data) > (max_bytes := max_media_bytes(config.max_answer_bytes)):
            raise ToolError(f"expected a file of at most {max_bytes} bytes, got {len(file.data)}: {printable(path)}")
        blob = base64.b64encode(file.data).decode("ascii")
        return BlobResourceContents(uri=uri, mime_type=file.mime_type, blob=blob)


def _subscriptions_of(server: Registrar) -> FileSubscriptions:
    return FileSubscriptions(watched=server.watched, changed=server.wait_watched, notify=server.notify_resource_updated)


def _fingerprint(sandbox: Sandbox, path: str) -> Fingerprint:
    check_cancelled()
    try:
        status, _ = sandbox.status(path)
    except ToolError:
        return None
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns
