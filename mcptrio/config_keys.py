"""The keys of the configuration, each declared once: its table, its name and the values it takes.

``mcptrio.toml`` and the environment are read by these tables: ``port`` of ``[http]`` is ``MCPTRIO_HTTP_PORT``. In the
environment lists are separated by commas, numbers and truth are written as in TOML, and relative paths begin at the
current folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from math import isnan
from pathlib import Path
from typing import Any

from attrs import fields, frozen

from mcptrio.config import LEAST_DEPTH, LEAST_MESSAGE_BYTES, LOG_LEVELS, SQLITE_STORE, Key, is_store, variable_of
from mcptrio.errors import ConfigError
from mcptrio.protocol.model.logging import LEVELS
from mcptrio.runtime.limits import ServerLimits
from mcptrio.runtime.timeouts import Timeouts

__all__ = ["CLIENT", "TABLES", "Kind", "read_environment", "said"]


@frozen
class Kind:
    """The values that a key takes.

    Args:
        said: for messages: ``an integer above 0``.
        fits: whether a value is one of them.
        parse: makes a value of the text of a variable; raises ValueError for a text that stands for none.
    """

    said: str
    fits: Callable[[Any], bool]
    parse: Callable[[str], Any] = str


def _boolean(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _absolute(text: str) -> str:
    return str(Path(text).expanduser().absolute())


def _files(text: str) -> list[str]:
    return [_absolute(part) for part in _list(text)]


def _plugins(text: str) -> list[str]:
    """Names of plugins, and files with their whole paths."""
    return [_absolute(part) if part.endswith(".py") else part for part in _list(text)]


def _store(text: str) -> str:
    path = text.removeprefix(SQLITE_STORE)
    return text if path == text or not path else f"{SQLITE_STORE}{_absolute(path)}"


def _workers(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _octal(text: str) -> int:
    return int(text.removeprefix("0o"), 8)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value)


_BOOLEAN = Kind("true or false", lambda value: isinstance(value, bool), _boolean)
_STRING = Kind("a string", lambda value: isinstance(value, str))
_STRINGS = Kind(
    "a list of strings", lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value), _list
)
_COUNT = Kind("an integer above 0", lambda value: _is_integer(value) and value > 0, int)
_NATURAL = Kind("an integer of at least 0", lambda value: _is_integer(value) and value >= 0, int)
_POSITIVE = Kind("a number above 0", lambda value: _is_number(value) and value > 0, float)
_SHARE = Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1, float)
_NOT_NEGATIVE = Kind("a number of at least 0", lambda value: _is_number(value) and value >= 0, float)
_MESSAGE_BYTES = Kind(
    f"an integer of at least {LEAST_MESSAGE_BYTES}",
    lambda value: _is_integer(value) and value >= LEAST_MESSAGE_BYTES,
    int,
)
_DEPTH = Kind(f"an integer of at least {LEAST_DEPTH}", lambda value: _is_integer(value) and value >= LEAST_DEPTH, int)
_PORT = Kind("an integer from 0 to 65535", lambda value: _is_integer(value) and 0 <= value <= 65535, int)
_MODE = Kind("permissions in octal, as 0o660", lambda value: _is_integer(value) and 0o200 <= value <= 0o777, _octal)
_STORE = Kind("memory or sqlite:PATH", lambda value: isinstance(value, str) and is_store(value), _store)
_WORKERS = Kind(
    'an integer from 1 to 1024, or "auto"',
    lambda value: value == "auto" or (_is_integer(value) and 0 < value <= 1024),
    _workers,
)
_FILE = Kind("a string", lambda value: isinstance(value, str), _absolute)
_FILES = Kind(_STRINGS.said, _STRINGS.fits, _files)
_PLUGINS = Kind(_STRINGS.said, _STRINGS.fits, _plugins)
_LEVEL = Kind(f"one of {', '.join(LOG_LEVELS)}", lambda value: value in LOG_LEVELS)
_FORMAT = Kind("text or json", lambda value: value in ("text", "json"))
_FOLDERS = Kind(
    "folders that exist, separated by commas", lambda value: all(Path(item).is_dir() for item in value), _files
)
_CLIENT_LEVEL = Kind(f"one of {', '.join(LEVELS)} or off", lambda value: value in (*LEVELS, "off"))
_CLIENT_TRANSPORT = Kind("auto, http or sse", lambda value: value in ("auto", "http", "sse"))
_CREDENTIALS = Kind("keyring, or the path of a file", bool, lambda text: text if text == "keyring" else _absolute(text))
_PATH = Kind("a path that begins with /", lambda value: isinstance(value, str) and value.startswith("/"))

_SERVER: dict[str, Kind] = {
    "name": _STRING,
    "instructions": _STRING,
    "enable": _PLUGINS,
    "disable": _STRINGS,
    "only": _PLUGINS,
    "page_size": _COUNT,
    "list_all": _BOOLEAN,
    "ping_interval": _NOT_NEGATIVE,
    "audience": _STRING,
    "key_files": _FILES,
}
_HTTP: dict[str, Kind] = {
    "host": _STRING,
    "port": _PORT,
    "path": _PATH,
    "legacy_sse": _BOOLEAN,
    "websocket": _BOOLEAN,
    "allow_hosts": _STRINGS,
    "allow_origins": _STRINGS,
    "forwarded": _STRINGS,
    "header_bytes": _COUNT,
    "body_timeout": _POSITIVE,
    "write_timeout": _POSITIVE,
    "keepalive_interval": _POSITIVE,
    "idle_timeout": _NOT_NEGATIVE,
    "streams": _COUNT,
    "connections": _COUNT,
    "session_rate": _NOT_NEGATIVE,
    "session_burst": _COUNT,
    "parse_share": _SHARE,
    "shutdown_delay": _NOT_NEGATIVE,
    "address_rate": _NOT_NEGATIVE,
    "address_burst": _COUNT,
    "workers": _WORKERS,
    "worker_timeout": _NOT_NEGATIVE,
    "tls_cert": _FILE,
    "tls_key": _FILE,
    "tls_client_ca": _FILE,
    "tls_passphrase_file": _FILE,
    "store": _STORE,
    "http2": _BOOLEAN,
    "access_log": _BOOLEAN,
}
_STREAM: dict[str, Kind] = {
    "listen": _STRINGS,
    "connections": _COUNT,
    "write_timeout": _POSITIVE,
    "first_message_timeout": _POSITIVE,
    "unix_mode": _MODE,
}
_TIMEOUTS: dict[str, Kind] = {each.name: _POSITIVE for each in fields(Timeouts)}
_OF_PROGRAMS = ("listen_streams", "logs_per_second", "outbox", "state_bytes")
"""Bounds that only a program sets."""
_LIMITS: dict[str, Kind] = {
    each.name: _NATURAL if each.name == "parked" else _COUNT if isinstance(each.default, int) else _POSITIVE
    for each in fields(ServerLimits)
    if each.name not in _OF_PROGRAMS
}

_MESSAGE: dict[str, Kind] = {"bytes": _MESSAGE_BYTES, "depth": _DEPTH, "batch": _COUNT}
_TOOLS: dict[str, Kind] = {
    "read_only": _BOOLEAN,
    "include": _STRINGS,
    "exclude": _STRINGS,
    "locked": _BOOLEAN,
}
_LOG: dict[str, Kind] = {"level": _LEVEL, "format": _FORMAT}

TABLES: Mapping[Key, Mapping[str, Kind]] = {
    ("server",): _SERVER,
    ("server", "timeouts"): _TIMEOUTS,
    ("server", "limits"): _LIMITS,
    ("server", "message"): _MESSAGE,
    ("tools",): _TOOLS,
    ("http",): _HTTP,
    ("stream",): _STREAM,
    ("log",): _LOG,
}
"""By where the table stands. ``[auth]`` and the tables of plugins are read by their own classes."""

CLIENT: Mapping[Key, Mapping[str, Kind]] = {
    ("client",): {
        "credentials": _CREDENTIALS,
        "inherit_env": _BOOLEAN,
        "input": _BOOLEAN,
        "log_level": _CLIENT_LEVEL,
        "roots": _FOLDERS,
        "tls_ca": _FILE,
        "tls_cert": _FILE,
        "tls_key": _FILE,
        "transport": _CLIENT_TRANSPORT,
    }
}
"""What the commands that talk to a server read from the environment alone: a file in the current folder may have come
with somebody else's project, and must not decide which authorities are trusted."""

_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "an integer"),
    (float, "a number"),
    (list, "a list"),
    (dict, "a table"),
)
"""TOML's words for what Python makes of it; a bool is an int, and comes first."""


def read_environment(
    environ: Mapping[str, str], tables: Mapping[Key, Mapping[str, Kind]] = TABLES, *, page: str = "deployment"
) -> dict[Key, Any]:
    """The values that variables like ``MCPTRIO_HTTP_PORT`` give, by key.

    Args:
        page: the page of the documentation that lists the variables.

    Raises:
        ConfigError: a variable with such a prefix stands for no key, or its value does not fit.
    """
    known = {
        variable_of((*table, name)): ((*table, name), kind) for table in tables for name, kind in tables[table].items()
    }
    prefixes = tuple({f"MCPTRIO_{table[0].upper()}_" for table in tables})
    found = {}
    for variable, text in environ.items():
        if not variable.startswith(prefixes):
            continue
        if variable not in known:
            near = get_close_matches(variable, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"docs/{page}.md lists the keys"
            raise ConfigError(f"{variable}: there is no such setting; {hint}")
        key, kind = known[variable]
        try:
            value = kind.parse(text)
        except (ValueError, KeyError):
            value = None
        if value is None or not kind.fits(value):
            raise ConfigError(f"{variable}: expected {kind.said}, got {said(text)}")
        found[key] = value
    return found


def said(value: Any) -> str:
    """A value in a message: short ones as they are, others by their kind."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str) and len(value) <= 40:
        return f"{value!r}"
    return next((name for kind, name in _NAMES if isinstance(value, kind)), "a date or time")
