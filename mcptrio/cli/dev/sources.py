"""The files of a server, and whether they have changed.

The relay of ``mcptrio dev`` uses them. Nothing is imported to find a file, because a plugin may fail to import
while its author changes it. A worker reports the other files that it has imported.

Source: importlib.util.find_spec, which imports nothing for a name without a dot.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path
from time import perf_counter
from typing import Final, TypeAlias

import click
import trio
from attrs import frozen

from mcptrio.errors import ConfigError
from mcptrio.plugins.discovery import installed_entry_points

__all__ = ["MAX_FILES", "MAX_POLL_INTERVAL", "SourceWatch", "Sources", "file_names", "imported_files"]

_log = logging.getLogger("mcptrio.dev")

MAX_POLL_INTERVAL: Final = 0.5
"""Maximum seconds between two scans. The interval is 50 times as long as a scan, so small plugins reload at once."""
_MIN_POLL_INTERVAL: Final = 0.1
SETTLE_INTERVAL: Final = 0.1
"""Seconds without a change after which a change is complete: editors and checkouts write in several steps."""
_SETTLE_TIMEOUT: Final = 5.0
"""Seconds after which a change counts as complete even if files still change."""
MAX_FILES: Final = 2_000
"""Watched files; scanning them takes 10 ms. Further files are not watched, and a warning is logged."""
_MAX_DEPTH: Final = 20
"""Levels of folders."""
_SUFFIXES: Final = frozenset(
    (".py", ".json", ".toml", ".yaml", ".yml", ".txt", ".md", ".html", ".sql", ".csv", ".jinja", ".j2")
)
"""Endings of source files. A running plugin may write other files into its package."""
_MAX_NAMED_FILES: Final = 3
"""Files that are named in a log line."""

_Stamp: TypeAlias = tuple[int, int, int]


@frozen(kw_only=True)
class Sources:
    """The files to watch.

    Args:
        files: Files to watch, whether they exist or not.
        folders: Folders whose source files are watched.
    """

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()

    @classmethod
    def of(cls, plugins: Sequence[str] | None, without: Iterable[str], files: Iterable[Path]) -> Sources:
        """Return the sources of installed plugins, and these files.

        Args:
            plugins: Names; ``None`` for all installed plugins.
            without: Names to leave out.
        """
        # The import system caches the listings of folders, so it would not find a new module.
        invalidate_caches()
        paths: list[Path] = []
        left_out = frozenset(without)
        # If only files are served, installed plugins are not looked up.
        for name, points in installed_entry_points().items() if plugins is None or plugins else ():
            if name not in left_out and (plugins is None or name in plugins):
                for point in points:
                    # find_spec imports the package of a name with a dot.
                    paths += _source_paths(point.value.partition(":")[0].partition(".")[0])
        folders = tuple(dict.fromkeys(each for each in paths if each.is_dir()))
        single = (each for each in paths if not each.is_dir())
        return cls(files=tuple(dict.fromkeys((*files, *single))), folders=folders)

    def all(self) -> Iterator[Path]:
        yield from self.files
        for folder in self.folders:
            yield from _walk(folder, _MAX_DEPTH)


class SourceWatch:
    """Polls the sources for changes.

    Args:
        find: Returns the sources; called at each :meth:`renew`, because a changed configuration may add some.
    """

    def __init__(self, find: Callable[[], Sources]) -> None:
        self._find = find
        self._sources = find()
        self._imported: tuple[Path, ...] = ()
        self._seen: Mapping[Path, _Stamp] = {}
        self._has_warned = False

    def __len__(self) -> int:
        return len(self._seen)

    def renew(self) -> None:
        """Record the current state. Call it before a worker starts, so that changes during the start are noticed."""
        # The worker reports an invalid configuration. Until it is corrected, the previous files are watched.
        with suppress(ConfigError, click.UsageError):
            self._sources = self._find()
        self._seen = self._stamps()

    def add(self, imported: Iterable[Path]) -> None:
        """Also watch the files that a worker has imported, instead of those of the previous worker."""
        self._imported = ()
        known = {path.resolve() for path in self._stamps()}
        self._imported = tuple(path for path in imported if path.resolve() not in known)
        # Files that were watched before keep their stamps, because they may have changed during the start.
        self._seen = {**self._stamps(), **self._seen}

    async def wait_for_changes(self) -> list[Path]:
        """Wait until changes since :meth:`renew` are complete, and return the changed files."""
        while True:
            began = perf_counter()
            now = self._stamps()
            if now != self._seen:
                break
            await trio.sleep(min(MAX_POLL_INTERVAL, max(_MIN_POLL_INTERVAL, 50 * (perf_counter() - began))))
        with trio.move_on_after(_SETTLE_TIMEOUT):
            while True:
                await trio.sleep(SETTLE_INTERVAL)
                before, now = now, self._stamps()
                if before == now:
                    break
        return sorted({path for path, _ in self._seen.items() ^ now.items()})

    def _stamps(self) -> dict[Path, _Stamp]:
        stamps: dict[Path, _Stamp] = {}
        for path in (*self._sources.all(), *self._imported):
            if len(stamps) >= MAX_FILES:
                if not self._has_warned:
                    self._has_warned = True
                    _log.warning("more than %d source files: the others are not watched", MAX_FILES)
                break
            # A file that does not exist has no stamp, so creating or deleting it is a change too.
            try:
                status = path.stat()
            except OSError:
                continue
            # With the inode: editors that replace a file may keep its time and size.
            stamps[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return stamps


def imported_files() -> list[str]:
    """Return the files of imported modules, without Python's, installed distributions' and mcptrio's."""
    installed = [Path(get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    mcptrio_folder = Path(__file__).resolve().parents[2]
    files: set[str] = set()
    # A copy, because another thread may import modules during the loop.
    for module in tuple(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and os.path.isabs(file) and file.endswith(".py"):
            folders = Path(file).resolve().parents
            if mcptrio_folder not in folders and not any(each in folders for each in installed):
                files.add(file)
    return sorted(files)[:MAX_FILES]


def file_names(paths: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in paths[:_MAX_NAMED_FILES])
    return names if len(paths) <= _MAX_NAMED_FILES else f"{names} and {len(paths) - _MAX_NAMED_FILES} more"


def _source_paths(module: str) -> list[Path]:
    """Return the folders of a package, or the file of a module; empty if there is none."""
    try:
        spec = find_spec(module)
    # find_spec raises ValueError for a loaded module without a spec, such as __main__.
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(each) for each in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.origin is not None and spec.has_location else []


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    inner: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # Hidden folders hold version control and caches.
                if entry.name.startswith(".") or entry.name == "__pycache__":
                    continue
                # Following a link to a folder above would never end.
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.path)
                elif os.path.splitext(entry.name)[1] in _SUFFIXES:
                    yield Path(entry.path)
    except OSError:
        return
    if depth > 0:
        for path in sorted(inner):
            yield from _walk(Path(path), depth - 1)
