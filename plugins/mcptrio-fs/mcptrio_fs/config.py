"""What the operator may set: ``[plugins.fs]`` in mcptrio.toml, and the environment.

Called once, when the plugin is registered. The one rule: a key that is not known, or a value of the wrong kind, is an
error that names it; nothing is guessed.

Source: the keys are fields of ``Config``; ``MCPTRIO_FS_<KEY>`` in the environment wins over the file.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

from attrs import field, fields_dict, frozen

from mcptrio.errors import ConfigError, ToolError

from .patterns import Pattern
from .sandbox import Folder, Sandbox

__all__ = ["Config"]

_PREFIX = "MCPTRIO_FS_"
_MIB = 1024 * 1024


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are bytes, times seconds."""

    folders: tuple[str, ...] = ()
    """Allowed folders, absolute and normalised. In the environment separated as PATH is."""

    roots: bool | None = None
    """Ask the client for its roots. Unset: they narrow ``folders``. True: where no folder is set, they are the folders
    too. False: they are never asked for."""

    read_only: bool = False
    """Offer no tool that changes anything."""

    deny: tuple[str, ...] = ()
    """Names, as globs, that are neither shown nor opened at any depth, such as ``.git`` or ``.env*``."""

    max_read_bytes: int = 10 * _MIB
    """The most that one call reads of files, whatever it asks for; also the largest file that is edited."""

    max_write_bytes: int = 10 * _MIB
    """The largest file that is written."""

    max_entries: int = 2000
    """The most entries in one listing, tree or search; the rest is got by asking again."""

    max_visited: int = 200_000
    """The most entries that one call looks at; a search says where it stopped and can be continued from there."""

    step_timeout: float = 60.0
    """How long the file system may take for one step of a call; a long search has many steps."""

    max_threads: int = 8
    """Calls at work in one folder at a time. Threads on a mount that hangs count until it answers."""

    watch_interval: float = 1.0
    """How often a file is looked at while somebody is subscribed to it."""

    max_watched: int = 1000
    """Subscribed files that are looked at; those beyond are not, and the log says so."""

    patterns: tuple[Pattern, ...] = field(init=False, eq=False)
    """``deny``, compiled."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(_deny_pattern(text) for text in self.deny))

    @classmethod
    def load(cls, settings: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Config:
        """Read the settings.

        Args:
            settings: the table ``[plugins.fs]``.
            environ: the environment; ``os.environ`` unless given.

        Raises:
            ConfigError: a key is unknown or a value does not fit.
        """
        environ = os.environ if environ is None else environ
        known = [name for name, attribute in fields_dict(cls).items() if attribute.init]
        for key in settings:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; expected one of {', '.join(known)}"
                raise ConfigError(f"unknown key {key!r} @ plugins.fs{hint}")
        values: dict[str, Any] = {}
        for name in known:
            variable = _PREFIX + name.upper()
            if variable in environ:
                values[name] = _parse(name, environ[variable], variable)
            elif name in settings:
                values[name] = _check(name, settings[name], f"plugins.fs.{name}")
        values["folders"] = tuple(dict.fromkeys(_folder(path) for path in values.get("folders", ())))
        return cls(**values)

    def sandbox(self) -> Sandbox:
        """The configured folders, before any client has narrowed them."""
        return Sandbox(tuple(Folder(path) for path in self.folders), denied=self.patterns)


_LISTS = ("folders", "deny")
_FLAGS = ("roots", "read_only")
_SECONDS = ("step_timeout", "watch_interval")
_LEAST = {"max_read_bytes": 3, "watch_interval": 0.009}
"""A page of a file holds at least one character, and watching leaves time for something else."""


def _parse(name: str, text: str, where: str) -> Any:
    """A value from the environment."""
    if name in _LISTS:
        return tuple(part for part in text.split(os.pathsep) if part)
    if name in _FLAGS:
        flag = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(text.strip().lower())
        if flag is None:
            raise ConfigError(f"expected true or false @ {where}, got {text!r}")
        return flag
    try:
        number: float = float(text) if name in _SECONDS else int(text)
    except ValueError as error:
        raise ConfigError(f"expected a number @ {where}, got {text!r}") from error
    return _check(name, number, where)


def _check(name: str, value: Any, where: str) -> Any:
    """A value from the file."""
    if name in _LISTS:
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item for item in value):
            raise ConfigError(f"expected a list of strings @ {where}, got {value!r}")
        return tuple(value)
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise ConfigError(f"expected true or false @ {where}, got {value!r}")
        return value
    kinds = (int, float) if name in _SECONDS else (int,)
    least = _LEAST.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least < value < 2**53:
        raise ConfigError(f"expected a number greater than {least} @ {where}, got {value!r}")
    return value


def _folder(path: str) -> str:
    if "\0" in path:
        raise ConfigError(f"expected a path @ plugins.fs.folders, got {path!r}")
    absolute = os.path.abspath(os.path.expanduser(path))
    return absolute[1:] if absolute.startswith("//") else absolute


def _deny_pattern(text: str) -> Pattern:
    """Deny patterns name names: then no move of a directory above can bring a denied file into view."""
    name = text.removeprefix("**/").removesuffix("/**").rstrip("/")
    if "/" in name or name.startswith("!"):
        raise ConfigError(f"expected the glob of a name such as '.env*' @ plugins.fs.deny, got {text!r}")
    try:
        return Pattern.parse(name, ignore_case=True)
    except ToolError as error:
        raise ConfigError(f"{error} @ plugins.fs.deny") from error
