"""The configuration file ``mcptrio.toml``, read and checked.

Used by the command line, where there is such a file.
The one rule: whatever is wrong is said with file, line and key, before anything starts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from math import isnan
from pathlib import Path
from typing import Any

from attrs import fields, frozen

from mcptrio.config import LEAST_DEPTH, LEAST_MESSAGE_BYTES, Config, is_store
from mcptrio.errors import ConfigError
from mcptrio.runtime.limits import Limits
from mcptrio.runtime.timeouts import Timeouts

__all__ = ["Key", "Source", "load_config"]

Key = tuple[str, ...]
"""Where something stands: ``("server", "timeouts", "idle")``."""


class Source:
    """The text of a configuration file, for saying where in it something is wrong."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.overlay: tuple[Key, Mapping[str, Any]] = ((), {})
        """Of the profile that is used: where it stands, and what it says."""
        # What looks like a key inside a long string is none; the lines keep their numbers.
        self._lines = _LONG_STRING.sub(lambda found: '""' + "\n" * found[0].count("\n"), text).splitlines()

    def error(self, key: Key, problem: str) -> ConfigError:
        key = self._written(key)
        return ConfigError(f"{self.where(key)}: {'.'.join(key)}: {problem}")

    def where(self, key: Key) -> str:
        """The file and the line of a key: ``mcptrio.toml:3``."""
        line = self._line_of(self._written(key))
        return f"{self.path}:{line}" if line else str(self.path)

    def _written(self, key: Key) -> Key:
        """Where a key stands: in the profile, if that says it."""
        prefix, said = self.overlay
        value: Any = said
        for part in key:
            if not isinstance(value, dict) or part not in value:
                return key
            value = value[part]
        return (*prefix, *key)

    def _line_of(self, key: Key) -> int | None:
        """The line of a key, or, in a table on one line, of the nearest table around it."""
        nearest: tuple[int, int | None] = (0, None)
        table: Key = ()
        for number, line in enumerate(self._lines, 1):
            if header := _HEADER.match(line):
                found = table = _parts(header[1])
            elif assignment := _ASSIGNMENT.match(line):
                found = (*table, *_parts(assignment[1]))
            else:
                continue
            if found[: len(key)] == key:
                return number
            if found == key[: len(found)] and len(found) > nearest[0]:
                nearest = (len(found), number)
        return nearest[1]


def load_config(path: Path, profile: str | None = None) -> Config:
    """Read and check a file.

    Args:
        profile: the table ``[profiles.NAME]`` wins over what the rest of the file says.

    Raises:
        ConfigError: it cannot be read, is not TOML, or says something else than expected; or has no such profile.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8: {error.reason} at byte {error.start}") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, line = _syntax_error(str(error), text)
        raise ConfigError(f"{path}:{line}: expected TOML: {problem}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: expected TOML: nested too deeply") from error
    source = Source(path, text)
    profiles = _profiles(source, tables)
    reader = _Reader(source)
    if profile is None:
        return reader.read(tables)
    if profile not in profiles:
        near = get_close_matches(profile, profiles, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(profiles) or 'none'}"
        raise ConfigError(f"{path}: there is no profile {profile!r}; {hint}")
    reader.read(tables)
    source.overlay = (("profiles", profile), profiles[profile])
    said = profiles[profile].get("server", {})
    for name, other in (("only", "enable"), ("enable", "only")):
        if name in said:
            tables.get("server", {}).pop(other, None)
    return reader.read(_merged(tables, profiles[profile]))


def _profiles(source: Source, tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The profiles by name, each checked, and taken out of the tables."""
    profiles = tables.pop("profiles", {})
    if not isinstance(profiles, dict):
        raise source.error(("profiles",), f"expected a table, got {_said(profiles)}")
    for name, said in profiles.items():
        if not isinstance(said, dict):
            raise source.error(("profiles", name), f"expected a table, got {_said(said)}")
        _Reader(source, ("profiles", name)).read(said)
    return profiles


def _merged(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged; of anything else, and of references to variables and files, the one above counts."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = value
        if isinstance(value, dict) and isinstance(under, dict) and not _refers(value) and not _refers(under):
            merged[key] = _merged(under, value)
    return merged


def _refers(table: Mapping[str, Any]) -> bool:
    """Whether it stands for a variable or a file: ``{ "$env" = "NAME" }``."""
    return any(name.startswith("$") for name in table)


@frozen
class _Kind:
    """What a value has to be.

    Args:
        said: for messages: ``an integer above 0``.
    """

    said: str
    fits: Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value)


_BOOLEAN = _Kind("true or false", lambda value: isinstance(value, bool))
_STRING = _Kind("a string", lambda value: isinstance(value, str))
_STRINGS = _Kind(
    "a list of strings", lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value)
)
_COUNT = _Kind("an integer above 0", lambda value: _is_integer(value) and value > 0)
_NATURAL = _Kind("an integer of at least 0", lambda value: _is_integer(value) and value >= 0)
_POSITIVE = _Kind("a number above 0", lambda value: _is_number(value) and value > 0)
_NOT_NEGATIVE = _Kind("a number of at least 0", lambda value: _is_number(value) and value >= 0)
_MESSAGE_BYTES = _Kind(
    f"an integer of at least {LEAST_MESSAGE_BYTES}",
    lambda value: _is_integer(value) and value >= LEAST_MESSAGE_BYTES,
)
_DEPTH = _Kind(f"an integer of at least {LEAST_DEPTH}", lambda value: _is_integer(value) and value >= LEAST_DEPTH)
_PORT = _Kind("an integer from 0 to 65535", lambda value: _is_integer(value) and 0 <= value <= 65535)
_MODE = _Kind(
    "permissions in octal, as 0o660",
    lambda value: _is_integer(value) and 0o200 <= value <= 0o777,
)
_STORE = _Kind("memory or sqlite:PATH", lambda value: isinstance(value, str) and is_store(value))
_WORKERS = _Kind('an integer above 0, or "auto"', lambda value: value == "auto" or (_is_integer(value) and value > 0))
_PATH = _Kind("a path that begins with /", lambda value: isinstance(value, str) and value.startswith("/"))

_SERVER: dict[str, _Kind] = {
    "name": _STRING,
    "instructions": _STRING,
    "enable": _STRINGS,
    "disable": _STRINGS,
    "only": _STRINGS,
    "locked": _BOOLEAN,
    "read_only": _BOOLEAN,
    "include": _STRINGS,
    "exclude": _STRINGS,
    "page_size": _COUNT,
    "list_all": _BOOLEAN,
    "ping_interval": _NOT_NEGATIVE,
    "message_bytes": _MESSAGE_BYTES,
    "message_depth": _DEPTH,
    "message_batch": _COUNT,
    "audience": _STRING,
    "key_files": _STRINGS,
}
_HTTP: dict[str, _Kind] = {
    "host": _STRING,
    "port": _PORT,
    "path": _PATH,
    "legacy_sse": _BOOLEAN,
    "websocket": _BOOLEAN,
    "allow_hosts": _STRINGS,
    "allow_origins": _STRINGS,
    "forwarded": _STRINGS,
    "body_bytes": _MESSAGE_BYTES,
    "depth": _DEPTH,
    "batch": _COUNT,
    "header_bytes": _COUNT,
    "body_timeout": _POSITIVE,
    "write_timeout": _POSITIVE,
    "keep_alive": _POSITIVE,
    "priming": _POSITIVE,
    "retry": _NATURAL,
    "linger": _NOT_NEGATIVE,
    "idle": _NOT_NEGATIVE,
    "window": _COUNT,
    "streams": _COUNT,
    "connections": _COUNT,
    "session_rate": _NOT_NEGATIVE,
    "session_burst": _COUNT,
    "shutdown_delay": _NOT_NEGATIVE,
    "address_rate": _NOT_NEGATIVE,
    "address_burst": _COUNT,
    "addresses": _COUNT,
    "workers": _WORKERS,
    "worker_timeout": _NOT_NEGATIVE,
    "tls_cert": _STRING,
    "tls_key": _STRING,
    "tls_client_ca": _STRING,
    "tls_passphrase_file": _STRING,
    "store": _STORE,
    "http2": _BOOLEAN,
    "access_log": _BOOLEAN,
}
_STREAM: dict[str, _Kind] = {
    "listen": _STRINGS,
    "connections": _COUNT,
    "write_timeout": _POSITIVE,
    "first_within": _POSITIVE,
    "unix_mode": _MODE,
}
_TIMEOUTS: dict[str, _Kind] = {each.name: _POSITIVE for each in fields(Timeouts)}
_LIMITS: dict[str, _Kind] = {
    each.name: _NATURAL if each.name == "parked" else _COUNT if isinstance(each.default, int) else _POSITIVE
    for each in fields(Limits)
}

_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "an integer"),
    (float, "a number"),
    (list, "a list"),
    (dict, "a table"),
)
"""TOML's words for what Python makes of it; a bool is an int, and comes first."""

_LONG_STRING = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'', re.DOTALL)
_PART = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_HEADER = re.compile(rf"\s*\[+\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]+")
_ASSIGNMENT = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")


def _parts(dotted: str) -> Key:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


def _syntax_error(message: str, text: str) -> tuple[str, int]:
    """What tomllib says, and the line: it says that only in words, and ``at end of document`` for the last one."""
    problem, _, place = message.partition(" (at ")
    line = re.match(r"line (\d+)", place)
    return problem, int(line[1]) if line else max(1, len(text.splitlines()))


class _Reader:
    """
    Args:
        prefix: where the tables stand in the file.
    """

    def __init__(self, source: Source, prefix: Key = ()) -> None:
        self._source = source
        self._prefix = prefix

    def read(self, tables: dict[str, Any]) -> Config:
        tops = ("server", "http", "stream", "auth", "plugins")
        self._known(tables, (), tops if self._prefix else (*tops, "profiles"))
        server = self._table(tables, ("server",))
        self._known(server, ("server",), (*_SERVER, "timeouts", "limits"))
        values = self._values({key: server[key] for key in server if key in _SERVER}, ("server",), _SERVER)
        if "enable" in values and "only" in values:
            raise self._error(("server", "only"), "expected this or enable, got both")
        if both := sorted({*values.get("only", ())} & {*values.get("disable", ())}):
            raise self._error(("server", "only"), f"expected plugins that are not in disable, got {both[0]}")
        given: dict[str, Any] = {key: tuple(it) if isinstance(it, list) else it for key, it in values.items()}
        return Config(
            source=self._source,
            **given,
            timeouts=self._values(self._table(server, ("server", "timeouts")), ("server", "timeouts"), _TIMEOUTS),
            limits=self._values(self._table(server, ("server", "limits")), ("server", "limits"), _LIMITS),
            http=self._values(self._table(tables, ("http",)), ("http",), _HTTP),
            stream=self._values(self._table(tables, ("stream",)), ("stream",), _STREAM),
            auth=self._table(tables, ("auth",)) if "auth" in tables else None,
            plugins=self._plugins(self._table(tables, ("plugins",))),
        )

    def _error(self, key: Key, problem: str) -> ConfigError:
        return self._source.error((*self._prefix, *key), problem)

    def _plugins(self, tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {name: self._table(tables, ("plugins", name)) for name in tables}

    def _table(self, tables: dict[str, Any], key: Key) -> dict[str, Any]:
        table = tables.get(key[-1], {})
        if not isinstance(table, dict):
            raise self._error(key, f"expected a table, got {_said(table)}")
        return table

    def _known(self, table: dict[str, Any], parents: Key, known: Iterable[str]) -> None:
        names = list(known)
        for key in table:
            if key not in names:
                near = get_close_matches(key, names, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise self._error((*parents, key), f"expected one of {', '.join(names)}, got {key}{hint}")

    def _values(self, table: dict[str, Any], parents: Key, kinds: Mapping[str, _Kind]) -> dict[str, Any]:
        self._known(table, parents, kinds)
        return {name: self._value(value, (*parents, name), kinds[name]) for name, value in table.items()}

    def _value(self, value: Any, key: Key, kind: _Kind) -> Any:
        if not kind.fits(value):
            raise self._error(key, f"expected {kind.said}, got {_said(value)}")
        return value


def _said(value: Any) -> str:
    """A value in a message: short ones as they are, others by their kind."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str) and len(value) <= 40:
        return f"{value!r}"
    return next((name for kind, name in _NAMES if isinstance(value, kind)), "a date or time")
