"""The configuration file ``mcptrio.toml``, read and checked.

Used by the command line, where there is such a file.
The one rule: whatever is wrong is said with file, line and key, before anything starts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcptrio.config import Config, Key, variable_of
from mcptrio.config_keys import TABLES, Kind, read_environment, said
from mcptrio.errors import ConfigError

__all__ = ["Source", "load_config"]


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
        prefix, value = self.overlay
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


def load_config(path: Path | None, profile: str | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Read and check a file, and the environment, which wins over it.

    Args:
        path: ``None`` reads the environment alone.
        profile: the table ``[profiles.NAME]`` wins over the rest of the file.
        environ: the environment; ``None`` reads the file alone.

    Raises:
        ConfigError: it cannot be read, is not TOML, or a value is not as expected; or there is no such profile.
    """
    told = read_environment(environ or {})
    tables: dict[str, Any] = {}
    source = None
    if path is not None:
        source, tables = _read(path)
        tables = _with_profile(source, tables, profile)
    return _Reader(source, variables=told).read(_with_environment(tables, told))


def _read(path: Path) -> tuple[Source, dict[str, Any]]:
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
    return Source(path, text), tables


def _with_profile(source: Source, tables: dict[str, Any], profile: str | None) -> dict[str, Any]:
    """The tables with those of a profile merged in; all of it is checked."""
    profiles = _profiles(source, tables)
    _Reader(source).read(tables)
    if profile is None:
        return tables
    if profile not in profiles:
        near = get_close_matches(profile, profiles, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(profiles) or 'none'}"
        raise ConfigError(f"{source.path}: there is no profile {profile!r}; {hint}")
    source.overlay = (("profiles", profile), profiles[profile])
    _make_room(tables, profiles[profile].get("server", {}))
    return _merged(tables, profiles[profile])


def _with_environment(tables: dict[str, Any], told: Mapping[Key, Any]) -> dict[str, Any]:
    above: dict[str, Any] = {}
    for key, value in told.items():
        table = above
        for part in key[:-1]:
            table = table.setdefault(part, {})
        table[key[-1]] = value
    _make_room(tables, above.get("server", {}))
    return _merged(tables, above)


def _make_room(tables: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Drop ``enable`` below ``only``, and the other way round: one takes the place of the other."""
    for name, other in (("only", "enable"), ("enable", "only")):
        if name in above:
            tables.get("server", {}).pop(other, None)


def _profiles(source: Source, tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The profiles by name, each checked, and taken out of the tables."""
    profiles = tables.pop("profiles", {})
    if not isinstance(profiles, dict):
        raise source.error(("profiles",), f"expected a table, got {said(profiles)}")
    for name, table in profiles.items():
        if not isinstance(table, dict):
            raise source.error(("profiles", name), f"expected a table, got {said(table)}")
        _Reader(source, ("profiles", name)).read(table)
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
        source: the file; ``None`` if the environment alone is read.
        prefix: where the tables stand in the file.
        variables: the keys whose values come from the environment.
    """

    def __init__(self, source: Source | None, prefix: Key = (), variables: Iterable[Key] = ()) -> None:
        self._source = source
        self._prefix = prefix
        self._variables = frozenset(variables)

    def read(self, tables: dict[str, Any]) -> Config:
        tops = (*dict.fromkeys(table[0] for table in TABLES), "auth", "plugins", "mount")
        self._known(tables, (), tops if self._prefix else (*tops, "profiles"))
        server = self._table(tables, ("server",))
        inner = {table[1]: self._table(server, table) for table in TABLES if len(table) > 1}
        self._known(server, ("server",), (*TABLES["server",], *inner))
        of_server = {key: value for key, value in server.items() if key not in inner}
        values = self._values(of_server, ("server",))
        if "enable" in values and "only" in values:
            raise self._error(("server", "only"), "expected this or enable, got both")
        if both := sorted({*values.get("only", ())} & {*values.get("disable", ())}):
            raise self._error(("server", "only"), f"expected plugins that are not in disable, got {both[0]}")
        given: dict[str, Any] = {key: tuple(it) if isinstance(it, list) else it for key, it in values.items()}
        others: dict[str, Any] = {name: self._values(table, ("server", name)) for name, table in inner.items()}
        for table in TABLES:
            if len(table) == 1 and table != ("server",):
                others[table[0]] = self._values(self._table(tables, table), table)
        return Config(
            source=self._source,
            variables=self._variables,
            **given,
            **others,
            auth=self._table(tables, ("auth",)) if "auth" in tables else None,
            plugins=self._tables(tables, "plugins"),
            mount=self._tables(tables, "mount"),
        )

    def _error(self, key: Key, problem: str) -> ConfigError:
        if key in self._variables:
            return ConfigError(f"{variable_of(key)}: {problem}")
        key = (*self._prefix, *key)
        return ConfigError(f"{'.'.join(key)}: {problem}") if self._source is None else self._source.error(key, problem)

    def _tables(self, tables: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
        """The tables inside a table, by name."""
        outer = self._table(tables, (key,))
        return {name: self._table(outer, (key, name)) for name in outer}

    def _table(self, tables: dict[str, Any], key: Key) -> dict[str, Any]:
        table = tables.get(key[-1], {})
        if not isinstance(table, dict):
            raise self._error(key, f"expected a table, got {said(table)}")
        return table

    def _known(self, table: dict[str, Any], parents: Key, known: Iterable[str]) -> None:
        names = list(known)
        for key in table:
            if key not in names:
                near = get_close_matches(key, names, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise self._error((*parents, key), f"expected one of {', '.join(names)}, got {key}{hint}")

    def _values(self, table: dict[str, Any], parents: Key) -> dict[str, Any]:
        kinds = TABLES[parents]
        self._known(table, parents, kinds)
        return {name: self._value(value, (*parents, name), kinds[name]) for name, value in table.items()}

    def _value(self, value: Any, key: Key, kind: Kind) -> Any:
        if not kind.fits(value):
            raise self._error(key, f"expected {kind.said}, got {said(value)}")
        return value
