"""The served skills, their files and folders.

A scan of the folders creates it; the methods, resources and tools read it. A catalogue is immutable; each scan creates
a new one.

Source: SEP-2640, "Skill Entries" and "Directory Resources".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from .uris import MANIFEST, uri_of

__all__ = ["Catalogue", "File", "Skill"]


@frozen(kw_only=True)
class File:
    """A file of a skill."""

    path: str
    """The path relative to the allowed folder: the path of the skill, a slash, and the path in the skill."""
    real: str
    """The resolved path."""
    digest: str
    size: int
    mime_type: str
    is_text: bool
    fingerprint: tuple[int, ...] = field(repr=False)
    """Differs after each change of the file."""
    is_settled: bool = field(repr=False)
    """True if every later change will change the fingerprint. Within one tick of a coarse clock, it does not."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def uri(self) -> str:
        return uri_of(self.path)


@frozen(kw_only=True)
class Skill:
    """A skill and all of its files."""

    path: str
    frontmatter: Mapping[str, Any]
    files: tuple[File, ...]
    """In the order of their paths, SKILL.md included."""

    @property
    def uri(self) -> str:
        return uri_of(f"{self.path}/{MANIFEST}")

    @property
    def manifest(self) -> File:
        """SKILL.md."""
        return next(file for file in self.files if file.path == f"{self.path}/{MANIFEST}")

    def entry(self) -> dict[str, Any]:
        """Return the entry for ``skills/list``, in wire form."""
        return {
            "uri": self.uri,
            "frontmatter": dict(self.frontmatter),
            "resources": [{"uri": file.uri, "digest": file.digest, "size": file.size} for file in self.files],
        }


@frozen(kw_only=True)
class Catalogue:
    """The skills, files and folders that are served."""

    skills: Mapping[str, Skill] = field(factory=dict)
    """The skills by URI, in the order of their paths."""
    files: Mapping[str, File] = field(factory=dict)
    """The files by path."""
    folders: Mapping[str, tuple[str, ...]] = field(factory=dict)
    """The paths of a folder's entries, by the folder's path. Outside of skills, only folders that contain skills."""
    problems: tuple[str, ...] = ()
    """Skills that are not served, with the reasons, one line each."""

    @classmethod
    def of(cls, skills: list[Skill], problems: list[str]) -> Catalogue:
        """Return a catalogue of skills, which must have unique paths."""
        skills.sort(key=lambda skill: skill.path)
        files: dict[str, File] = {}
        folders: dict[str, set[str]] = {}
        for skill in skills:
            files.update((file.path, file) for file in skill.files)
            for file in skill.files:
                path = file.path
                while parent := path.rpartition("/")[0]:
                    folders.setdefault(parent, set()).add(path)
                    path = parent
        return cls(
            skills={skill.uri: skill for skill in skills},
            files=files,
            folders={path: tuple(sorted(children)) for path, children in folders.items()},
            problems=tuple(problems),
        )
