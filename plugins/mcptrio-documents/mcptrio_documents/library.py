"""Opens documents in the allowed folders, and keeps converted ones.

The tools call it. A document is opened for each call, so that the rules of the folders hold for each call, and
converted only if it has changed since.
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

_PIECE = 256 * 1024
_ENTRY_WEIGHT = 4096
_PART_WEIGHT = 200
"""Bytes of a part without its text."""

_Key: TypeAlias = tuple[str, int, int, int, int]
"""The real path, device, inode, size and time of change."""


class _Opened(NamedTuple):
    key: _Key
    name: str
    data: bytes
    """Empty if the document is kept already."""


class DocumentLibrary:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.access = FileAccess(config.files(), plugin="documents")
        self._converter = DocumentConverter(config)
        self._kept: OrderedDict[_Key, tuple[PagedDocument, int]] = OrderedDict()
        self._weight = 0

    async def get(self, ctx: Context, path: str) -> PagedDocument:
        """Return the document at a path.

        Raises:
            ToolError: the path is not allowed, nothing is there, or it cannot be converted.
        """
        sandbox = await self.access.sandbox(ctx)
        opened = await self.access.run(sandbox, path, lambda: self._open(sandbox, path))
        kept = self._kept.get(opened.key)
        if kept is not None:
            self._kept.move_to_end(opened.key)
            return kept[0]
        try:
            document = await self._converter.convert(opened.data, opened.name)
        except ToolError as error:
            raise ToolError(f"{opened.name}: {error}") from error
        self._keep(opened.key, document)
        return document

    def _open(self, sandbox: Sandbox, path: str) -> _Opened:
        limit = self.config.max_file_bytes
        with sandbox.open_file(path) as (descriptor, status, location):
            name = os.path.basename(location.typed)
            if status.st_size > limit:
                raise ToolError(f"{name}: expected a document of at most {limit} bytes, got {status.st_size}")
            key = (location.real, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if key in self._kept:
                return _Opened(key, name, b"")
            data = bytearray()
            while len(data) <= limit and (piece := os.read(descriptor, _PIECE)):
                check_cancelled()
                data += piece
            return _Opened(key, name, bytes(data[:limit]))

    def _keep(self, key: _Key, document: PagedDocument) -> None:
        # A character takes one to four bytes, in most documents one or two.
        weight = _ENTRY_WEIGHT + sum(_PART_WEIGHT + 2 * len(part.text) for part in document.parts)
        if key in self._kept or weight > self.config.cache_bytes:
            return
        self._kept[key] = document, weight
        self._weight += weight
        while self._weight > self.config.cache_bytes:
            self._weight -= self._kept.popitem(last=False)[1][1]
