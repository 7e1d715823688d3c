"""Opens documents in the allowed folders, and caches converted ones.

The tools call it. Each call opens the file, so that the rules for folders apply to each call. The file is converted
only if it has changed since it was cached.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import NamedTuple, TypeAlias

from mcptrio_fs import FileAccess
from mcptrio_fs.sandbox import Sandbox
from trio.from_thread import check_cancelled

from mcptrio import Context, ToolError

from .config import Config
from .converter import DocumentConverter
from .document import PagedDocument

__all__ = ["DocumentLibrary"]

_CHUNK_BYTES = 256 * 1024
_ENTRY_BYTES = 4096
_PART_BYTES = 200
"""Approximate bytes of a part without its text."""

_Key: TypeAlias = tuple[str, int, int, int, int]
"""The resolved path, device, inode, size and modification time."""


class _Opened(NamedTuple):
    key: _Key
    name: str
    data: bytes
    """The content of the file; empty if the document is cached."""


class DocumentLibrary:
    """The documents of the allowed folders, with a cache of converted ones."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.access = FileAccess(config.files(), plugin="documents")
        self._converter = DocumentConverter(config)
        self._cache: OrderedDict[_Key, tuple[PagedDocument, int]] = OrderedDict()
        self._cached_bytes = 0

    async def get(self, ctx: Context, path: str) -> PagedDocument:
        """Return the document at a path.

        Raises:
            ToolError: The path is not allowed or does not exist, or the document cannot be converted.
        """
        sandbox = await self.access.sandbox(ctx)
        opened = await self.access.run(sandbox, path, lambda: self._open(sandbox, path))
        cached = self._cache.get(opened.key)
        if cached is not None:
            self._cache.move_to_end(opened.key)
            return cached[0]
        try:
            document = await self._converter.convert(opened.data, opened.name)
        except ToolError as error:
            raise ToolError(f"{opened.name}: {error}") from error
        self._add_to_cache(opened.key, document)
        return document

    def _open(self, sandbox: Sandbox, path: str) -> _Opened:
        limit = self.config.max_file_bytes
        with sandbox.open_file(path) as (descriptor, status, location):
            name = os.path.basename(location.typed)
            if status.st_size > limit:
                raise ToolError(f"{name}: expected a document of at most {limit} bytes, got {status.st_size}")
            key = (location.real, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if key in self._cache:
                return _Opened(key, name, b"")
            data = bytearray()
            while len(data) <= limit and (piece := os.read(descriptor, _CHUNK_BYTES)):
                check_cancelled()
                data += piece
            return _Opened(key, name, bytes(data[:limit]))

    def _add_to_cache(self, key: _Key, document: PagedDocument) -> None:
        # Python stores a character in one, two or four bytes, in most documents in one or two.
        size = _ENTRY_BYTES + sum(_PART_BYTES + 2 * len(part.text) for part in document.parts)
        if key in self._cache or size > self.config.cache_bytes:
            return
        self._cache[key] = document, size
        self._cached_bytes += size
        while self._cached_bytes > self.config.cache_bytes:
            self._cached_bytes -= self._cache.popitem(last=False)[1][1]
