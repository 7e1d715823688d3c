"""Scans the folders and returns a catalogue.

``SkillIndex`` runs it in a worker thread. A skill is served completely or not at all: a skill with an unreadable file,
a file outside the allowed folders, or too many files or bytes is omitted, with the reason in the catalogue. A file with
an unchanged status is not read again, unless the status is so recent that another change could have the same one.

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
from .no_follow import PathForbidden, read_all, resolve
from .uris import MANIFEST

__all__ = ["FolderScan"]

_SETTLE_SECONDS = 2.5
"""Seconds after which another change would change the times of a file. The coarsest file system has 2 seconds."""
_MAX_PROBLEMS = 100

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
"""The table of the standard library. The table of the machine could differ between replicas."""


@define
class FolderScan:
    """One scan of all folders."""

    config: Config
    before: Catalogue
    """The catalogue of the previous scan."""
    checkpoint: Callable[[], None]
    """A function that raises if the caller was cancelled."""
    _allowed_folders: tuple[str, ...] = field(init=False, factory=tuple)
    _folder: str = field(init=False, default="")
    """The allowed folder that is being scanned."""
    _folder_of: dict[str, str] = field(init=False, factory=dict)
    """The allowed folder of each skill, by the skill's path."""
    _visited: int = field(init=False, default=0)
    _problems: list[str] = field(init=False, factory=list)
    _skills: dict[str, Skill] = field(init=False, factory=dict)
    _read: dict[str, File | BadSkill] = field(init=False, factory=dict)
    """Files that were read in this scan, by path. A file of a nested skill also belongs to the outer skill."""

    def run(self) -> Catalogue:
        """Scan all folders."""
        self._allowed_folders = tuple(os.path.realpath(folder) for folder in self.config.folders)
        for folder, real in zip(self.config.folders, self._allowed_folders, strict=True):
            self._read.clear()
            self._folder = real
            if not os.path.isdir(real):
                self._add_problem(str(folder), "there is no such folder")
                continue
            # An allowed folder that is itself a skill has its own name as the path.
            prefix = folder.name if os.path.isfile(os.path.join(real, MANIFEST)) else ""
            self._scan_folder(real, prefix, ())
        return Catalogue.of(list(self._skills.values()), self._problems)

    def _scan_folder(self, real: str, path: str, ancestors: tuple[tuple[int, int], ...]) -> dict[str, str]:
        """Scan a folder, and return the files below it.

        Args:
            real: The folder, resolved.
            path: The path relative to the allowed folder; empty for the folder itself.
            ancestors: The device and inode of each folder that contains this one, to detect cycles of links.

        Returns:
            The resolved path of each file by its relative path; empty for a forbidden file.
        """
        files: dict[str, str] = {}
        try:
            status = os.stat(real)
            identity = status.st_dev, status.st_ino
            if identity in ancestors:
                self._add_problem(path, "a link leads back to a folder around it")
                return {path: ""}
            with os.scandir(real) as entries:
                links = {entry.name: entry.is_symlink() for entry in entries}
        except OSError as error:
            self._add_problem(path, error.strerror or "it cannot be listed")
            return {path: ""}
        for name, is_link in sorted(links.items()):
            self.checkpoint()
            if any(fnmatchcase(name, glob) for glob in self.config.ignore) or not _is_utf8_name(name):
                continue
            self._visited += 1
            if self._visited > self.config.max_visited:
                if self._visited == self.config.max_visited + 1:
                    self._add_problem(
                        path, f"more than {self.config.max_visited} files and folders; the others were not read"
                    )
                break
            child_path = f"{path}/{name}" if path else name
            try:
                target = os.path.join(real, name)  # resolved, unless the entry is a link
                if is_link:
                    target = resolve(target, self._allowed_folders)
                mode = os.stat(target).st_mode
            except OSError:
                files[child_path] = ""
                continue
            if not stat.S_ISDIR(mode):
                files[child_path] = target
            elif len(ancestors) >= self.config.max_depth:
                self._add_problem(child_path, f"it is more than {self.config.max_depth} folders deep")
                files[child_path] = ""
            else:
                files |= self._scan_folder(target, child_path, (*ancestors, identity))
        if path and files.get(f"{path}/{MANIFEST}"):
            self._add_skill(path, files)
        return files

    def _add_skill(self, path: str, file_paths: Mapping[str, str]) -> None:
        """Add a folder with a SKILL.md as a skill, or a problem if it cannot be served."""
        other = next((each for each in self._skills if self._collides(path, each)), None)
        if other is not None:
            self._add_problem(path, f"an earlier folder has the skill {other}, whose files would be mixed with these")
            return
        if len(self._skills) >= self.config.max_skills:
            self._add_problem(path, f"there are already {self.config.max_skills} skills")
            return
        try:
            self._skills[path] = self._skill(path, file_paths)
            self._folder_of[path] = self._folder
        except BadSkill as error:
            self._add_problem(path, str(error))

    def _collides(self, path: str, other: str) -> bool:
        """Return True if the skill of another folder has the same path, contains this path, or is inside it."""
        return self._folder_of[other] != self._folder and (
            path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")
        )

    def _skill(self, path: str, file_paths: Mapping[str, str]) -> Skill:
        config = self.config
        if self._visited > config.max_visited:
            raise BadSkill("not all of its files have been read")
        if len(file_paths) > config.max_files:
            raise BadSkill(f"expected at most {config.max_files} files, got {len(file_paths)}")
        # Checked before anything is read, because the skill may be far too large.
        self._check_size(sum(_size(real) for real in file_paths.values()))
        files = [self._file(each, real) for each, real in sorted(file_paths.items())]
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
        scanned = self._read.get(path)
        if scanned is None:
            try:
                scanned = self._scan_file(path, real)
            except BadSkill as error:
                scanned = error
            self._read[path] = scanned
        if isinstance(scanned, BadSkill):
            raise scanned
        return scanned

    def _scan_file(self, path: str, real: str) -> File:
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
        is_text = _is_utf8_text(data)
        return File(
            path=path,
            real=real,
            digest=_digest(data),
            size=len(data),
            mime_type=_mime_type(path, is_text),
            is_text=is_text,
            fingerprint=_fingerprint(status),
            is_settled=time.time() - max(status.st_mtime, status.st_ctime) > _SETTLE_SECONDS,
        )

    def _content(self, real: str) -> tuple[bytes, os.stat_result]:
        try:
            return read_all(real, self.config.max_bytes, self.checkpoint)
        except PathForbidden as error:
            raise BadSkill(f"{real}: {error}") from error
        except OSError as error:
            raise BadSkill(f"{real}: {error.strerror}") from error

    def _add_problem(self, path: str, problem: str) -> None:
        if len(self._problems) < _MAX_PROBLEMS:
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


def _is_utf8_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _is_utf8_name(name: str) -> bool:
    """Return True if a name is UTF-8. Other names have no URI."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mime_type(path: str, is_text: bool) -> str:
    suffix = os.path.splitext(path)[1].lower()
    guessed = _TYPES.get(suffix) or _MIME.guess_type(f"x{suffix}")[0]
    return guessed or ("text/plain" if is_text else "application/octet-stream")
