"""The settings of the operator: ``[plugins.fs]`` in mcptrio.toml, or ``MCPTRIO_FS_<KEY>`` in the environment.

mcptrio makes it before the plugin is registered. Without ``folders`` nothing can be reached, unless the client's roots
may replace them.
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
"""The largest integer that every JSON reader keeps."""


def _folders(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths absolute and normalised, each once."""
    return tuple(dict.fromkeys(_folder(os.fspath(path)) for path in paths))


def _folder(path: str) -> Path:
    if "\0" in path:
        raise ValueError(f"expected paths in 'folders', got {path!r}")
    absolute = os.path.abspath(os.path.expanduser(path))
    return Path(absolute[1:] if absolute.startswith("//") else absolute)


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are bytes, times seconds."""

    folders: tuple[Path, ...] = field(default=(), converter=_folders)
    """Allowed folders, made absolute and normalised; symbolic links are not resolved."""

    roots: bool | None = None
    """Ask the client for its roots. Unset: they narrow ``folders``. True: if no folder is set, they become the
    folders. False: they are never requested."""

    read_only: bool = False
    """Offer no tool that changes anything."""

    deny: tuple[str, ...] = ()
    """Names, as globs, that are neither shown nor opened at any depth, such as ``.git`` or ``.env*``."""

    max_read_bytes: int = field(default=10 * _MIB, validator=[ge(4), le(_MAX_JSON_INTEGER)])
    """The most that one call reads of files, whatever it asks for; also the largest file that is edited. At least 4, so
    that a page holds a character."""

    max_answer_bytes: int = field(default=8 * _MIB, validator=[ge(128 * 1024), le(_MAX_JSON_INTEGER)])
    """Maximum bytes of a resource, and of a file that is read as Base64, as JSON; at least 128 KiB. The file must fit
    as a whole: almost 6 MiB by default."""

    max_write_bytes: int = field(default=10 * _MIB, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """The largest file that is written; at least 1."""

    durable: bool = False
    """Wait until a written file and its name are on the disk, so that not even a power failure loses it. Costs two
    fsync(2) a write: a millisecond or less on an SSD, often more than ten on a hard disk."""

    max_entries: int = field(default=2000, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """The most entries in one listing, tree or search, at least 1; the rest is got by asking again."""

    max_visited: int = field(default=200_000, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """Maximum number of entries that one call reads, at least 1; a search returns a cursor for the rest."""

    step_timeout: float = field(default=60.0, validator=[gt(0), le(_MAX_JSON_INTEGER)])
    """How long the file system may take for one step of a call, above 0; a long search has many steps."""

    max_threads: int = field(default=8, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """Calls at work in one folder at a time, at least 1. Threads on a mount that hangs count until it answers."""

    watch_interval: float = field(default=1.0, validator=[ge(0.01), le(_MAX_JSON_INTEGER)])
    """Seconds between checks of a subscribed file; at least 0.01."""

    max_watched: int = field(default=1000, validator=[ge(1), le(_MAX_JSON_INTEGER)])
    """Maximum number of subscribed files that are polled, at least 1; further ones are not, and the log says so."""

    patterns: tuple[GlobPattern, ...] = field(init=False, eq=False)
    """``deny``, compiled."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(_deny_pattern(text) for text in self.deny))

    def sandbox(self) -> Sandbox:
        """The configured folders, before any client has narrowed them."""
        return Sandbox(tuple(Folder(str(path)) for path in self.folders), denied=self.patterns)


def _deny_pattern(text: str) -> GlobPattern:
    """Deny patterns name names: then no move of a directory above can bring a denied file into view."""
    name = text.removeprefix("**/").removesuffix("/**").rstrip("/")
    if "/" in name or name.startswith("!"):
        raise ValueError(f"expected globs of names such as '.env*' in 'deny', got {text!r}")
    try:
        return GlobPattern.parse(name, ignore_case=True)
    except ToolError as error:
        raise ValueError(f"{error} in 'deny'") from error
