"""Scans the folders, and makes a catalogue.

Called in a worker thread. A skill is served as a whole or not at all: one with an unreadable file, a file outside the
allowed folders, or too many files or bytes is omitted, with the reason in the catalogue. An unchanged file is not read
again. As in git, its status decides, unless it is so recent that another change could have the same status.

Source: SEP-2640, "Resources" (complete, with digests) and "Limits"; "racy git" in git's documentation.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import stat
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from attrs import define, field

from .catalogue import Catalogue, File, Skill
from .config import Config
from .frontmatter import BadSkill, check_name, read_frontmatter
from .opening import Forbidden, read_all, resolve
from .uris import MANIFEST

__all__ = ["FolderScan"]

_SETTLED = 2.5
"""Seconds after which a change would show in a file's times; two for the coarsest file system."""
_PROBLEMS = 100

_TYPES = {
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".sh": "application/x-sh",
    ".js": "text/javascript",
    ".ts": "text/x-typescript",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".txt": "text/plain",
    ".csv": "text/csv",
    ".html": "text/html",
    ".xml": "application/xml",
}
_MIME = mimetypes.MimeTypes()
"""The standard library's own table; that of the machine would differ from one replica to the next."""


@define
class FolderScan:
    """One scan of all folders."""

    config: Config
    before: Catalogue
    """The catalogue of the last scan."""
    checkpoint: Callable[[], None]
    """A function that raises if the caller was cancelled."""
    _allowed: tuple[str, ...] = field(init=False, factory=tuple)
    _folder: str = field(init=False, default="")
    """The allowed folder that is being scanned."""
    _from: dict[str, str] = field(init=False, factory=dict)
    """The allowed folder of each skill, by the skill's path."""
    _visited: int = field(init=False, default=0)
    _problems: list[str] = field(init=False, factory=list)
    _skills: dict[str, Skill] = field(init=False, factory=dict)
    _read: dict[str, File | BadSkill] = field(init=False, factory=dict)
    """Files that were read in this scan, by path. A file of a nested skill belongs to the skill around it too."""

    def run(self) -> Catalogue:
        """Scan all folders."""
        self._allowed = tuple(os.path.realpath(folder) for folder in self.config.folders)
        for folder, real in zip(self.config.folders, self._allowed, strict=True):
            self._read.clear()
            self._folder = real
            if not os.path.isdir(real):
                self._complain(str(folder), "there is no such folder")
                continue
            # A folder that is a skill itself goes by its own name.
            above = folder.name if os.path.isfile(os.path.join(real, MANIFEST)) else ""
            self._walk(real, above, ())
        return Catalogue.of(list(self._skills.values()), self._problems)

    def _walk(self, real: str, path: str, around: tuple[tuple[int, int], ...]) -> dict[str, str]:
        """Scan a folder, and return the files below it.

        Args:
            real: the folder, resolved.
            path: relative to the allowed folder; empty for the folder itself.
            around: the folders around it, to which a link may lead back.

        Returns:
            By path: the resolved place of each file, empty if it is forbidden.
        """
        found: dict[str, str] = {}
        try:
            status = os.stat(real)
            identity = status.st_dev, status.st_ino
            if identity in around:
                self._complain(path, "a link leads back to a folder around it")
                return {path: ""}
            with os.scandir(real) as entries:
                links = {entry.name: entry.is_symlink() for entry in entries}
        except OSError as error:
            self._complain(path, error.strerror or "it cannot be listed")
            return {path: ""}
        for name, is_link in sorted(links.items()):
            self.checkpoint()
            if any(fnmatchcase(name, glob) for glob in self.config.ignore) or not _is_text(name):
                continue
            self._visited += 1
            if self._visited > self.config.max_visited:
                if self._visited == self.config.max_visited + 1:
                    self._complain(
                        path, f"more than {self.config.max_visited} files and folders; the others were not read"
                    )
                break
            below = f"{path}/{name}" if path else name
            try:
                target = os.path.join(real, name)  # a resolved folder's entries are in it, except links
                if is_link:
                    target = resolve(target, self._allowed)
                mode = os.stat(target).st_mode
            except OSError:
                found[below] = ""
                continue
            if not stat.S_ISDIR(mode):
                found[below] = target
            elif len(around) >= self.config.max_depth:
                self._complain(below, f"it is more than {self.config.max_depth} folders deep")
                found[below] = ""
            else:
                found |= self._walk(target, below, (*around, identity))
        if path and found.get(f"{path}/{MANIFEST}"):
            self._take(path, found)
        return found

    def _take(self, path: str, found: Mapping[str, str]) -> None:
        """Take a folder as a skill, if it is one."""
        other = next((each for each in self._skills if self._collides(path, each)), None)
        if other is not None:
            self._complain(path, f"an earlier folder has the skill {other}, whose files would be mixed with these")
            return
        if len(self._skills) >= self.config.max_skills:
            self._complain(path, f"there are {self.config.max_skills} skills already")
            return
        try:
            self._skills[path] = self._skill(path, found)
            self._from[path] = self._folder
        except BadSkill as error:
            self._complain(path, str(error))

    def _collides(self, path: str, other: str) -> bool:
        """Whether a skill of another folder is in the same place, or around it, or in it."""
        return self._from[other] != self._folder and (
            path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")
        )

    def _skill(self, path: str, found: Mapping[str, str]) -> Skill:
        config = self.config
        if self._visited > config.max_visited:
            raise BadSkill("not all of its files have been read")
        if len(found) > config.max_files:
            raise BadSkill(f"expected at most {config.max_files} files, got {len(found)}")
        # Before anything is read, because a skill may be far too large.
        self._check_size(sum(_size(real) for real in found.values()))
        files = [self._file(each, real) for each, real in sorted(found.items())]
        self._check_size(sum(file.size for file in files))
        manifest = next(file for file in files if file.path == f"{path}/{MANIFEST}")
        before = self.before.skills.get(manifest.uri)
        if before is not None and before.manifest is manifest:
            frontmatter = before.frontmatter
        else:
            data, _ = self._content(manifest.real)
            if _digest(data) != manifest.digest:
                raise BadSkill("SKILL.md was changed while it was being read")
            read = read_frontmatter(data)
            check_name(read, path.rpartition("/")[2])
            frontmatter = read
        return Skill(path=path, frontmatter=frontmatter, files=tuple(files))

    def _check_size(self, size: int) -> None:
        if size > self.config.max_bytes:
            raise BadSkill(f"expected at most {self.config.max_bytes} bytes, got {size}")

    def _file(self, path: str, real: str) -> File:
        done = self._read.get(path)
        if done is None:
            try:
                done = self._read_file(path, real)
            except BadSkill as error:
                done = error
            self._read[path] = done
        if isinstance(done, BadSkill):
            raise done
        return done

    def _read_file(self, path: str, real: str) -> File:
        if not real:
            raise BadSkill(f"{path}: expected a file in the allowed folders, got something else")
        try:
            before = _fingerprint(os.stat(real))
        except OSError as error:
            raise BadSkill(f"{path}: {error.strerror}") from error
        known = self.before.files.get(path)
        if known is not None and known.is_settled and (known.real, known.fingerprint) == (real, before):
            return known
        data, status = self._content(real)
        if len(data) > self.config.max_bytes:
            raise BadSkill(f"{path}: expected at most {self.config.max_bytes} bytes, got more")
        is_text = _decodes(data)
        return File(
            path=path,
            real=real,
            digest=_digest(data),
            size=len(data),
            mime_type=_mime_type(path, is_text),
            is_text=is_text,
            fingerprint=_fingerprint(status),
            is_settled=time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED,
        )

    def _content(self, real: str) -> tuple[bytes, os.stat_result]:
        try:
            return read_all(real, self.config.max_bytes, self.checkpoint)
        except Forbidden as error:
            raise BadSkill(f"{real}: {error}") from error
        except OSError as error:
            raise BadSkill(f"{real}: {error.strerror}") from error

    def _complain(self, path: str, problem: str) -> None:
        if len(self._problems) < _PROBLEMS:
            self._problems.append(f"{path or '.'}: {problem}")


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _size(real: str) -> int:
    try:
        return os.stat(real).st_size if real else 0
    except OSError:
        return 0  # reading it fails later, with the reason


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _is_text(name: str) -> bool:
    """Return whether the name is UTF-8. Other names have no URI."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mime_type(path: str, is_text: bool) -> str:
    suffix = os.path.splitext(path)[1].lower()
    guessed = _TYPES.get(suffix) or _MIME.guess_type(f"x{suffix}")[0]
    return guessed or ("text/plain" if is_text else "application/octet-stream")
