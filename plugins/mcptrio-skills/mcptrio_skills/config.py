"""The operator's settings: ``[plugins.skills]`` in mcptrio.toml.

mcptrio or an embedding program creates a Config. The operator can lower the limits of the extension but not raise them.

Source: SEP-2640 (io.modelcontextprotocol/skills), "Limits".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, instance_of, le

__all__ = ["MAX_FILES", "MAX_SKILL_BYTES", "Config"]

MAX_FILES = 512
MAX_SKILL_BYTES = 16 * 1024 * 1024
"""Limits of one skill. Every host accepts skills within these limits."""


def _count(low: int, high: int) -> Any:
    return and_(instance_of(int), ge(low), le(high))


def _seconds(low: float, high: float) -> Any:
    return and_(instance_of((int, float)), ge(low), le(high))


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are bytes, times seconds."""

    folders: tuple[Path, ...] = ()
    """Absolute paths of folders with skills. A folder with a SKILL.md is a skill, at any depth. If skills of two
    folders have the same relative path, that of the first folder is served."""

    ignore: tuple[str, ...] = (".*", "__pycache__", "*.pyc", "node_modules", "*~")
    """Globs of names that are not served at any depth."""

    max_files: int = field(default=MAX_FILES, validator=_count(1, MAX_FILES))
    """Maximum files of one skill, 1 to 512; a skill with more is not served."""

    max_bytes: int = field(default=MAX_SKILL_BYTES, validator=_count(1, MAX_SKILL_BYTES))
    """Maximum size of all files of one skill, 1 to 16 MiB; a larger skill is not served."""

    max_skills: int = field(default=1000, validator=_count(1, 100_000))
    """Maximum skills that are served, 1 to 100,000: the first in the order of their paths."""

    max_visited: int = field(default=100_000, validator=_count(1, 10**7))
    """Maximum files and folders that are scanned, 1 to 10,000,000; further ones are not served."""

    max_depth: int = field(default=12, validator=_count(1, 64))
    """Maximum depth of folders, 1 to 64; deeper ones are not served."""

    page_size: int = field(default=50, validator=_count(1, 1000))
    """Maximum skills on one page of ``skills/list``, 1 to 1000; a page with many files is shorter."""

    watch_interval: float = field(default=2.0, validator=_seconds(0, 86_400))
    """Seconds between two scans for changes, 0 to 86,400; 0 to scan only at requests."""

    ttl: float = field(default=0.0, validator=_seconds(0, 10**7))
    """Seconds for which clients may cache a result, 0 or more."""

    public: bool = False
    """Allow shared caches to store results. Only if everybody may see the skills."""

    def __attrs_post_init__(self) -> None:
        folders = []
        for path in self.folders:
            text = os.path.expanduser(path)
            if not os.path.isabs(text) or "\0" in text:
                raise ValueError(f"folders: expected an absolute path, got {str(path)!r}")
            folders.append(Path(os.path.normpath(text)))
        object.__setattr__(self, "folders", tuple(dict.fromkeys(folders)))
        for glob in self.ignore:
            if not glob or "/" in glob:
                raise ValueError(f"ignore: expected the glob of a name such as '*.pyc', got {glob!r}")
