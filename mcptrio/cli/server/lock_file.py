"""The lock file ``mcptrio.lock``: sorted, with a table for each entry, so that its diff is readable.

``mcptrio lock`` uses it, and so does a server with such a file next to its configuration. An invalid file is an error.

Source: TOML 1.0.0.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcptrio.cli.install.toml_text import put
from mcptrio.errors import ConfigError
from mcptrio.ground.bounded_file import read_text
from mcptrio.ground.quoting import quote
from mcptrio.plugins.lock import KINDS, Fingerprint, Kind, LockedPlugin, ToolLock

__all__ = ["lock_text", "read_lock"]

_FORMAT = 1
_MAX_FILE_BYTES = 16 * 1024 * 1024
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEAD = f"""\
# What the plugins offer, as fingerprints. Made by `mcptrio lock`; read its diff after an upgrade.
format = {_FORMAT}
"""


def lock_text(lock: ToolLock) -> str:
    """Return the text of the file, which is the same for the same tools."""
    tables = [_HEAD]
    for name, plugin in sorted(lock.plugins.items()):
        about = {"version": plugin.version, "distribution": plugin.distribution}
        tables.append(put("", ("plugins", name), {key: value for key, value in about.items() if value is not None}))
        for kind in KINDS:
            tables += [
                put("", ("plugins", name, kind, each), _entry(of)) for each, of in sorted(plugin.of(kind).items())
            ]
    return "\n".join(tables)


def read_lock(path: Path) -> ToolLock:
    if not path.exists():
        raise ConfigError(f"{path}: no such file; create it with `mcptrio lock`")
    text = read_text(path, _MAX_FILE_BYTES, lambda problem: ConfigError(f"{path}: {problem}"))
    try:
        # Deeply nested arrays exceed tomllib's recursion limit.
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: expected TOML: {error}") from error
    if tables.get("format") != _FORMAT:
        raise ConfigError(f"{path}: expected a lock file of format {_FORMAT}, got {tables.get('format', 'none')!r}")
    plugins = _mapping(path, "plugins", tables.get("plugins", {}))
    return ToolLock(plugins={name: _plugin(path, name, table) for name, table in plugins.items()})


def _plugin(path: Path, name: str, table: Any) -> LockedPlugin:
    known = _mapping(path, f"plugins.{name}", table)
    offers: dict[Kind, Mapping[str, Fingerprint]] = {
        kind: {
            each: _fingerprint(path, f"plugins.{name}.{kind}.{each}", of)
            for each, of in _mapping(path, f"plugins.{name}.{kind}", known.get(kind, {})).items()
        }
        for kind in KINDS
    }
    return LockedPlugin(version=known.get("version"), distribution=known.get("distribution"), offers=offers)


def _fingerprint(path: Path, key: str, table: Any) -> Fingerprint:
    members = dict(_mapping(path, key, table))
    sha256, hints = members.pop("sha256", None), members.pop("hints", [])
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ConfigError(f"{path}: {key}.sha256: expected 64 hexadecimal digits, got {quote(str(sha256))}")
    if not isinstance(hints, list) or not all(isinstance(each, str) for each in [*hints, *members.values()]):
        raise ConfigError(f"{path}: {key}: expected strings, got other values")
    # Keys contain underscores, because a bare key of TOML may not contain spaces.
    parts = {name.replace("_", " "): part for name, part in members.items()}
    return Fingerprint(sha256=sha256, parts=parts, hints=tuple(hints))


def _entry(fingerprint: Fingerprint) -> dict[str, Any]:
    entry: dict[str, Any] = {"sha256": fingerprint.sha256}
    entry |= {name.replace(" ", "_"): part for name, part in fingerprint.parts.items()}
    return entry | ({"hints": list(fingerprint.hints)} if fingerprint.hints else {})


def _mapping(path: Path, key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {key}: expected a table, got {type(value).__name__}")
    return value
