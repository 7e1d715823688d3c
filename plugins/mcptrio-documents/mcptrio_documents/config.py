"""The settings of the operator: ``[plugins.documents]`` in mcptrio.toml.

mcptrio creates a Config before it registers the plugin. mcptrio-fs defines the rules for folders, roots and deny.
"""

from __future__ import annotations

from pathlib import Path

import mcptrio_fs
from attrs import field, frozen
from attrs.validators import ge, gt, le

__all__ = ["Config"]

_MIB = 1024 * 1024


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are in bytes, times in seconds."""

    folders: tuple[Path, ...] = ()
    """Allowed folders, made absolute and normalised; symbolic links are not resolved."""

    roots: bool | None = None
    """Ask the client for its roots. Unset: they narrow ``folders``. True: if no folder is set, they become the
    folders. False: they are never requested."""

    deny: tuple[str, ...] = ()
    """Globs of names, such as ``.git`` or ``private*``, that are not opened, at any depth."""

    max_file_bytes: int = field(default=64 * _MIB, validator=[ge(1024), le(1024 * _MIB)])
    """Size of the largest document that is read."""

    max_pages: int = field(default=2000, validator=[ge(1), le(100_000)])
    """Maximum number of pages, slides, sheets, chapters or sections that are converted; the answer names the rest."""

    max_chars: int = field(default=36_000, validator=[ge(1000), le(1_000_000)])
    """Maximum number of characters in one answer; a larger ``limit`` is reduced. The default is about 9,000 tokens."""

    process_memory_mb: int = field(default=1024, validator=[ge(128), le(65_536)])
    """Address space of the process that converts one document, in MiB."""

    convert_timeout: float = field(default=60.0, validator=[gt(0), le(3600)])
    """Seconds for one conversion: limits both the elapsed time and the processor time."""

    max_processes: int = field(default=2, validator=[ge(1), le(64)])
    """Maximum number of concurrent conversions; further calls wait."""

    cache_bytes: int = field(default=64 * _MIB, validator=[ge(0), le(4096 * _MIB)])
    """Size of the cache of converted documents, so that further calls need not convert them again; 0 for no cache."""

    def __attrs_post_init__(self) -> None:
        self.files()  # raises for invalid globs

    def files(self) -> mcptrio_fs.Config:
        """Return the settings of mcptrio-fs for the same folders."""
        return mcptrio_fs.Config(folders=self.folders, roots=self.roots, deny=self.deny, read_only=True)
