"""Reads members of ZIP archives, such as Office files and EPUBs, within limits.

Every reader of such a format opens the archive with it first, even if a library then reads the file again.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from .document import UnreadableDocument

__all__ = ["Archive", "parse_xml"]

_MAX_MEMBERS = 20_000
_MAX_MEMBER_BYTES = 128 * 1024 * 1024
_MAX_TOTAL_BYTES = 512 * 1024 * 1024
"""Maximum size of all members, unpacked."""
_MAX_RATIO = 200
"""Maximum ratio of the unpacked size to the size of the file. XML of Office files has a ratio of up to about 50."""
_ALLOWED_BYTES = 16 * 1024 * 1024
"""Unpacked size that is allowed with any ratio."""


class Archive:
    """An opened ZIP archive.

    Raises:
        UnreadableDocument: The archive is damaged, encrypted, or too large when unpacked.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise UnreadableDocument(f"the file is damaged: {error}") from error
        members = self._zip.infolist()
        # zipfile raises if a member is larger than the size in the directory, so these sizes can be relied on.
        sizes = [member.file_size for member in members]
        limit = max(_ALLOWED_BYTES, min(_MAX_TOTAL_BYTES, _MAX_RATIO * len(data)))
        if len(members) > _MAX_MEMBERS or sum(sizes) > limit or max(sizes, default=0) > _MAX_MEMBER_BYTES:
            raise UnreadableDocument(
                f"expected an archive of at most {_MAX_MEMBERS} files and {limit} bytes unpacked, "
                f"got {len(members)} files and {sum(sizes)} bytes"
            )
        if any(member.flag_bits & 1 for member in members):
            raise UnreadableDocument("the file is protected with a password; save a copy without one")

    def has(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read(self, name: str, limit: int = _MAX_MEMBER_BYTES) -> bytes:
        """Return the beginning of a member.

        Raises:
            UnreadableDocument: The member does not exist or is damaged.
        """
        try:
            with self._zip.open(name) as member:
                return member.read(limit)
        except KeyError as error:
            raise UnreadableDocument(f"the file is damaged: {name} is missing") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise UnreadableDocument(f"the file is damaged at {name}: {error}") from error

    def xml(self, name: str) -> Any:
        """Parse a member; see :func:`parse_xml`."""
        return parse_xml(self.read(name), name)


def parse_xml(data: bytes, name: str) -> Any:
    """Parse XML without entities, DTDs or the network, to a depth of 256 elements.

    Raises:
        UnreadableDocument: The XML is not well-formed.
    """
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise UnreadableDocument(f"the file is damaged at {name}: {error}") from error
