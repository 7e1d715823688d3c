"""The settings of the operator: ``[plugins.git]`` in mcptrio.toml, or ``MCPTRIO_GIT_<KEY>`` in the environment.

mcptrio creates a Config before it registers the plugin. Tools that it forbids are not offered. Without ``repositories``
and ``clone_folder``, no repository can be used.
"""

from __future__ import annotations

from pathlib import Path

from attrs import Attribute, field, frozen
from attrs.validators import ge, le

__all__ = ["PROTOCOLS", "Config"]

PROTOCOLS = ("https", "ssh", "http", "git", "file")
"""The values that ``protocols`` may contain. ``ext::`` is not allowed, because it runs any command."""


def _check_protocols(_: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    unknown = [name for name in value if name not in PROTOCOLS]
    if unknown:
        raise ValueError(f"{attribute.name}: expected protocols among {', '.join(PROTOCOLS)}, got {unknown[0]!r}")


def _check_paths(_: object, attribute: Attribute[tuple[Path, ...]], value: tuple[Path, ...]) -> None:
    for path in value:
        if not str(path).strip() or "\0" in str(path):
            raise ValueError(f"{attribute.name}: expected paths of repositories or folders, got {str(path)!r}")


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are in bytes, times in seconds."""

    repositories: tuple[Path, ...] = field(default=(), validator=_check_paths)
    """Allowed repositories: each entry is a repository, a path in one, or a folder of repositories. A folder allows all
    repositories below it; a path in a repository allows only that repository."""

    clone_folder: Path | None = None
    """The folder for new clones, whose repositories are allowed too. Unset: the clone tool is not offered."""

    allow_write: bool = True
    """Offer the tools that change a repository on this machine: add, commit, branch, checkout and so on."""

    allow_network: bool = False
    """Offer the tools that contact remotes: fetch and push, with ``allow_write`` also pull and clone."""

    hooks: bool = True
    """Run the hooks of a repository, and the programs that its own configuration names (filters, merge drivers, signing
    programs, ssh, credential helpers), when a call changes it or contacts a remote. Reading never runs them."""

    protocols: tuple[str, ...] = field(default=("https", "ssh"), validator=_check_protocols)
    """The protocols that are allowed for remotes: ``https``, ``ssh``, ``http``, ``git``, ``file``."""

    git: str = "git"
    """The git command, version 2.36 or newer: a name that is looked up in PATH, or an absolute path."""

    max_output_bytes: int = field(default=1024 * 1024, validator=[ge(1000), le(64 * 1024 * 1024)])
    """Maximum bytes of a diff or file in one result; 1000 to 64 MiB."""

    max_entries: int = field(default=1000, validator=[ge(1), le(100_000)])
    """Maximum entries of a list in one result; 1 to 100000."""

    max_processes: int = field(default=8, validator=[ge(1), le(1000)])
    """Maximum number of concurrent git processes, 1 to 1000; further calls wait."""

    read_timeout: float = field(default=60.0, validator=[ge(0.1), le(86400)])
    """Seconds for a call that reads; 0.1 to a day."""

    write_timeout: float = field(default=300.0, validator=[ge(0.1), le(86400)])
    """Seconds for a call that changes something, hooks included; 0.1 to a day."""

    network_timeout: float = field(default=900.0, validator=[ge(0.1), le(86400)])
    """Seconds for a call that contacts a remote; 0.1 to a day."""
