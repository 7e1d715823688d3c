"""The settings of the operator: ``[plugins.fs]`` in mcptrio.toml, or ``MCPTRIO_FS_<KEY>`` in the environment.

mcptrio creates a Config before it registers the plugin. Without ``folders`` no file can be accessed, unless ``roots``
lets the client's roots replace them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from attrs import field, frozen
from attrs.validators import ge, gt, le

from mcptrio.errors import ToolError

from .patterns import GlobPattern
from .sandbox import Folder, Sandbox

__all__ = ["Config"]

_MIB = 1024 * 1024
_MAX_JSON_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader preserves."""


def _folders(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the paths made absolute and normalised, without duplicates."""
    return tuple(dict.fromkeys(_folder(os.fspath(path)) for path in paths))


def _folder(path: str) -> Path:
    if "\0" in path:
        raise ValueError(f"expected paths in 'folders', got {path!r}")
    absolute = os.path.abspath(os.path.expanduser(path))
    return Path(absolute[1:] if absolute.startswith("//") else absolute)


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are in bytes, times in seconds."""

    folders: tuple[Path, ...] = field(default=(), converter=_folders)
    """Allowed folders, made absolute and normalised; symbolic links are not resolved."""

    roots: bool | None = None
    """Ask the client for its roots. Unset: they narrow ``folders``. True: if no folder is set, they become the
    folders. False: they are never requested."""

    read_only: bool = False
    """Do not offer the tools that change files."""

    deny: tuple[str, ...] = ()
    """Globs of names, such as ``.git`` or ``.env*``, that are neither shown nor opened, at any depth."""

    max_read_bytes: int = field(default=10 * _MIB, validator=[ge(4), le(_MAX_JSON_INTEGER)])
    """Maximum bytes that one call reads from files; also the size of the largest file that is edited. At least 4, so
    that a page holds a character."""

    max_answer_bytes: int = field(default=8 * _MIB, validator=[ge(128 * 1024), le(_MAX_JSON_INTEGER)])
    """Maximum size in JSON of a resource and of a file that is read as Base64; at least 128 KiB. A file in Base64 must
    fit as a whole, so it has almost 6 MiB by default."""

    max_write_bytes: int = field(default=10 * _MIB, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """Size of the largest file that is written; at least 1."""

    durable: bool = False
    """Wait until a written file and its name are on the disk, so that a power failure cannot lose it. This takes two
    fsync(2) for each write: a millisecond or less on an SSD, often more than ten on a hard disk."""

    max_entries: int = field(default=2000, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """Maximum number of entries in one listing, tree or search, at least 1; further calls return the rest."""

    max_visited: int = field(default=200_000, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """Maximum number of entries that one call reads, at least 1; a search returns a cursor for the rest."""

    step_timeout: float = field(default=60.0, validator=[gt(0), le(_MAX_JSON_INTEGER)])
    """Seconds that the file system may take for one step of a call, above 0. A long search has many steps."""

    max_threads: int = field(default=8, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """Concurrent calls in one folder, at least 1. A thread on a hanging mount counts until the mount answers."""

    watch_interval: float = field(default=1.0, validator=[ge(0.01), le(_MAX_JSON_INTEGER)])
    """Seconds between checks of a subscribed file; at least 0.01."""

    max_watched: int = field(default=1000, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """Maximum number of subscribed files that are polled, at least 1. A warning is logged if there are more."""

    patterns: tuple[GlobPattern, ...] = field(init=False, eq=False)
    """``deny``, compiled."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(_deny_pattern(text) for text in self.deny))

    def sandbox(self) -> Sandbox:
        """Return the configured folders, before any client has narrowed them."""
        return Sandbox(tuple(Folder(str(path)) for path in self.folders), denied=self.patterns)


def _deny_pattern(text: str) -> GlobPattern:
    """Compile a deny pattern, which must match single names.

    A pattern for a path would no longer match after one of its directories was renamed.
    """
    name = text.removeprefix("**/").removesuffix("/**").rstrip("/")
    if "/" in name or name.startswith("!"):
        raise ValueError(f"expected globs of names such as '.env*' in 'deny', got {text!r}")
    try:
        return GlobPattern.parse(name, ignore_case=True)
    except ToolError as error:
        raise ValueError(f"{error} in 'deny'") from error
