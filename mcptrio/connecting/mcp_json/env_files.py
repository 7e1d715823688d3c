"""Reads a file of environment variables, one ``NAME=value`` per line.

An entry names such a file in ``envFile``. Values are not expanded, and errors do not quote them.

Source: VS Code, "MCP configuration reference", envFile; the .env files of Node (``--env-file``).
"""

from __future__ import annotations

import re
from pathlib import Path

from mcptrio.connecting.mcp_json.locations import SourceLocation
from mcptrio.errors import ConfigError
from mcptrio.ground.bounded_file import read_text

__all__ = ["read_env_file"]

_MAX_FILE_BYTES = 256 * 1024
_LINE = re.compile(r"""(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(?P<value>.*)""")
_QUOTED = re.compile(
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|`(?P<back>[^`]*)`)\s*(?:\#.*)?""",
)
_ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", '\\"': '"', "\\\\": "\\"}


def read_env_file(path: Path, place: SourceLocation) -> dict[str, str]:
    """Return the variables of a file.

    Values may be quoted, ``#`` starts a comment, and the last of several values counts.

    Args:
        place: The location of ``envFile`` in the configuration, for errors.

    Raises:
        ConfigError: The file is unreadable or too large, or a line is malformed.
    """
    text = read_text(path, _MAX_FILE_BYTES, lambda problem: place.error(f"{path}: {problem}"))
    variables: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(f"{path}:{number}: expected NAME=value, got something else")
        variables[match["name"]] = _value(match["value"])
    return variables


def _value(written: str) -> str:
    quoted = _QUOTED.fullmatch(written)
    if quoted is None:
        # Without white space before it, # is part of an unquoted value.
        return re.split(r"\s#", written, maxsplit=1)[0].strip()
    if quoted["double"] is not None:
        # Escapes are processed in double quotes only.
        return re.sub(r"\\[nrt\"\\]", lambda found: _ESCAPES[found[0]], quoted["double"])
    return quoted["single"] if quoted["single"] is not None else quoted["back"]
