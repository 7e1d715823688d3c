"""A file of environment variables, one on a line: ``NAME=value``.

Read where an entry names one (``envFile``).
The one rule: values are taken as they stand; there are no variables in them, and no error repeats one.

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
    """The variables of a file. A value may be quoted; ``#`` begins a comment; of a name given twice the last counts.

    Args:
        place: where the file is named.

    Raises:
        ConfigError: it cannot be read, is too large, or has a line that is no variable.
    """
    text = read_text(path, _MAX_FILE_BYTES, lambda problem: place.error(f"{path}: {problem}"))
    variables: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise ConfigError(f"{path}:{number}: expected NAME=value, got something else")
        variables[found["name"]] = _value(found["value"])
    return variables


def _value(written: str) -> str:
    quoted = _QUOTED.fullmatch(written)
    if quoted is None:
        return re.split(r"\s#", written, maxsplit=1)[0].strip()
    if quoted["double"] is not None:
        return re.sub(r"\\[nrt\"\\]", lambda found: _ESCAPES[found[0]], quoted["double"])
    return quoted["single"] if quoted["single"] is not None else quoted["back"]
