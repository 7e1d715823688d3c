"""What the configuration of a server says, wherever it was written.

Made from ``mcptrio.toml`` by :mod:`mcptrio.config_file`; empty where there is no file. Used by the command line, whose
options, given there or in the environment, win over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from mcptrio.errors import ConfigError

if TYPE_CHECKING:
    from mcptrio.config_file import Source

__all__ = [
    "LEAST_DEPTH",
    "LEAST_MESSAGE_BYTES",
    "LOG_LEVELS",
    "SQLITE_STORE",
    "Config",
    "Key",
    "is_store",
    "variable_of",
]

Key = tuple[str, ...]
"""Where something stands: ``("server", "timeouts", "idle")``."""
LOG_LEVELS = ("debug", "info", "warning", "error")

LEAST_MESSAGE_BYTES = 1024
LEAST_DEPTH = 8
"""Smaller bounds would refuse ``initialize``."""
_OF_AUTH = "MCPTRIO_AUTH_"
SQLITE_STORE = "sqlite:"
"""How a store in a file is named; the path follows."""


def is_store(word: str) -> bool:
    """Whether it names a store: ``memory`` or ``sqlite:PATH``."""
    return word == "memory" or (word.startswith(SQLITE_STORE) and len(word) > len(SQLITE_STORE))


def variable_of(key: Key) -> str:
    """The variable that sets a key: ``MCPTRIO_HTTP_PORT``."""
    return "_".join(("MCPTRIO", *key)).upper()


@frozen(kw_only=True)
class Config:
    """What a configuration file can say. ``None`` where it does not."""

    source: Source | None = None
    """Where it was read; ``None`` where there is no file."""
    variables: frozenset[Key] = frozenset()
    """The keys whose values come from the environment."""
    name: str | None = None
    instructions: str | None = None
    plugins: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """By plugin name: its table, as it is written."""
    enable: tuple[str, ...] | None = None
    """The plugins to load; ``None``: all that are installed."""
    disable: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    """As ``enable``, and none of them may fail."""
    tools: Mapping[str, Any] = field(factory=dict)
    """Which tools are offered: see :class:`mcptrio.serving.ToolPolicy`.

    ``locked``: whether only those of the lock file.
    """
    timeouts: Mapping[str, float] = field(factory=dict)
    limits: Mapping[str, float] = field(factory=dict)
    message: Mapping[str, int] = field(factory=dict)
    """Bounds of one message, over whatever transport it comes."""
    http: Mapping[str, Any] = field(factory=dict)
    stream: Mapping[str, Any] = field(factory=dict)
    log: Mapping[str, str] = field(factory=dict)
    mount: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """By name: the servers that are mounted, as they are written; see :class:`mcptrio.mounting.tables.MountTable`."""
    auth: Mapping[str, Any] | None = None
    """Its table, as it is written; see :mod:`mcptrio.auth_config`."""
    page_size: int | None = None
    list_all: bool | None = None
    ping_interval: float | None = None
    audience: str | None = None
    key_files: tuple[str, ...] = ()
    """As written; see :meth:`beside`."""

    def asks_for_auth(self, environ: Mapping[str, str]) -> bool:
        """Whether there is an ``[auth]``, or a variable that may be one of its own.

        A misspelt one among them must not leave the server open: without a table, it is an empty one.
        """
        return self.auth is not None or any(name.startswith(_OF_AUTH) for name in environ)

    def beside(self, name: str) -> Path:
        """A path in the file means one from the file's own folder."""
        return self.source.path.parent / name if self.source is not None else Path(name)

    def where(self, key: Key) -> str | None:
        """The file and the line of a key; ``None`` where there is no file."""
        return self.source.where(key) if self.source is not None else None

    def error(self, key: Key, problem: str) -> ConfigError:
        """What is wrong with a value that only its user can judge."""
        if key in self.variables:
            return ConfigError(f"{variable_of(key)}: {problem}")
        return self.source.error(key, problem) if self.source is not None else ConfigError(f"{key[-1]}: {problem}")
