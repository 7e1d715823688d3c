"""The configuration file ``mcptrio.toml``, read and checked.

Used by the command line; options given there, or in the environment, win over the file.
The one rule: whatever is wrong is said with file, line and key, before anything starts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from attrs import field, fields, frozen

from mcptrio.errors import ConfigError
from mcptrio.runtime.limits import Limits
from mcptrio.runtime.timeouts import Timeouts

__all__ = ["Config", "load_config"]


@frozen(kw_only=True)
class Config:
    """What a configuration file can say. ``None`` where it does not."""

    name: str | None = None
    instructions: str | None = None
    plugins: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """By plugin name: its own table, without the members that are the server's (``timeout``)."""
    plugin_timeouts: Mapping[str, float] = field(factory=dict)
    enable: tuple[str, ...] | None = None
    """The plugins to load; ``None``: all that are installed."""
    disable: tuple[str, ...] = ()
    timeouts: Mapping[str, float] = field(factory=dict)
    limits: Mapping[str, float] = field(factory=dict)
    http: Mapping[str, Any] = field(factory=dict)
    page_size: int | None = None
    ping_interval: float | None = None
    message_bytes: int | None = None
    audience: str | None = None
    key_files: tuple[str, ...] = ()


_SERVER: dict[str, str] = {
    "name": "a string",
    "instructions": "a string",
    "enable": "a list of strings",
    "disable": "a list of strings",
    "page_size": "an integer",
    "ping_interval": "a number",
    "message_bytes": "an integer",
    "audience": "a string",
    "key_files": "a list of strings",
}
_HTTP: dict[str, str] = {
    "host": "a string",
    "port": "an integer",
    "path": "a string",
    "allow_hosts": "a list of strings",
    "allow_origins": "a list of strings",
    "body_bytes": "an integer",
    "header_bytes": "an integer",
    "body_timeout": "a number",
    "write_timeout": "a number",
    "keep_alive": "a number",
    "streams": "an integer",
}

_FITS: dict[str, Callable[[Any], bool]] = {
    "a string": lambda value: isinstance(value, str),
    "an integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "a number": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value),
    "a list of strings": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
}


def load_config(path: Path) -> Config:
    """Read and check a file.

    Raises:
        ConfigError: it cannot be read, is not TOML, or says something else than expected.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    return _Reader(path, text).read(tables)


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def read(self, tables: dict[str, Any]) -> Config:
        self._known(tables, (), ("server", "http", "plugins"))
        server = self._table(tables, "server", ())
        self._known(server, ("server",), (*_SERVER, "timeouts", "limits"))
        values = {key: self._value(server[key], ("server", key), _SERVER[key]) for key in _SERVER if key in server}
        http = self._table(tables, "http", ())
        self._known(http, ("http",), tuple(_HTTP))
        plugins: dict[str, dict[str, Any]] = {}
        plugin_timeouts: dict[str, float] = {}
        for name, table in self._table(tables, "plugins", ()).items():
            if not isinstance(table, dict):
                raise self._error(("plugins", name), "a table", table)
            own = dict(table)
            if "timeout" in own:
                key = ("plugins", name, "timeout")
                plugin_timeouts[name] = float(self._positive(own.pop("timeout"), key, "a number"))
            plugins[name] = own
        for count in ("page_size", "message_bytes"):
            if count in values:
                self._positive(values[count], ("server", count), "an integer")
        enable = values.pop("enable", None)
        given: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return Config(
            **given,
            enable=tuple(enable) if enable is not None else None,
            plugins=plugins,
            plugin_timeouts=plugin_timeouts,
            timeouts=self._numbers(server, "timeouts", Timeouts),
            limits=self._numbers(server, "limits", Limits),
            http={key: self._value(http[key], ("http", key), _HTTP[key]) for key in _HTTP if key in http},
        )

    def _numbers(self, server: dict[str, Any], name: str, kind: Any) -> dict[str, float]:
        table = self._table(server, name, ("server",))
        known = {attribute.name: attribute.default for attribute in fields(kind)}
        self._known(table, ("server", name), tuple(known))
        numbers: dict[str, float] = {}
        for key, value in table.items():
            expected = "an integer" if isinstance(known[key], int) else "a number"
            where = ("server", name, key)
            checked = self._value(value, where, expected)
            if checked < 0 or (checked == 0 and key != "parked"):
                raise self._error(where, f"{expected} above 0", value)
            numbers[key] = checked
        return numbers

    def _table(self, tables: dict[str, Any], name: str, parents: tuple[str, ...]) -> dict[str, Any]:
        table = tables.get(name, {})
        if not isinstance(table, dict):
            raise self._error((*parents, name), "a table", table)
        return table

    def _known(self, table: dict[str, Any], parents: tuple[str, ...], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                raise self._error((*parents, key), f"one of {', '.join(known)}", key)

    def _positive(self, value: Any, key: tuple[str, ...], expected: str) -> Any:
        self._value(value, key, expected)
        if value <= 0:
            raise self._error(key, f"{expected} above 0", value)
        return value

    def _value(self, value: Any, key: tuple[str, ...], expected: str) -> Any:
        if not _FITS[expected](value):
            raise self._error(key, expected, value)
        return value

    def _error(self, key: tuple[str, ...], expected: str, value: Any) -> ConfigError:
        shown = value if isinstance(value, str) and value == key[-1] else type(value).__name__
        if isinstance(value, int | float) and not isinstance(value, bool):
            shown = repr(value)
        line = self._line_of(key)
        where = f"{self._path}:{line}" if line else str(self._path)
        return ConfigError(f"{where}: {'.'.join(key)}: expected {expected}, got {shown}")

    def _line_of(self, key: tuple[str, ...]) -> int | None:
        """Where a key stands: in its table, or as a table itself. A dotted key is found by its last part."""
        table: tuple[str, ...] = ()
        header = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+")
        for number, line in enumerate(self._lines, 1):
            found = header.match(line)
            if found:
                table = tuple(part.strip().strip("\"'") for part in found[1].split("."))
                if table == key:
                    return number
            elif table == key[:-1] and re.match(rf"\s*[\"']?{re.escape(key[-1])}[\"']?\s*[=.]", line):
                return number
        return None
