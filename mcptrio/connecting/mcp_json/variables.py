"""Expands variables in the strings of an entry.

It supports ``${VAR}``, ``${env:VAR}``, ``${VAR:-default}``, ``${input:id}`` and folders such as ``${workspaceFolder}``.
All strings except names are expanded. A variable without a value is an error.

Source: VS Code, "Variables reference"; Claude Code, "Environment variable expansion in .mcp.json"; Cursor, "Config
interpolation".
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from mcptrio.connecting.mcp_json.inputs import DeclaredInputs
from mcptrio.connecting.mcp_json.locations import SourceLocation
from mcptrio.ground.quoting import printable

__all__ = ["Variables"]

_MAX_TEXT_CHARS = 128 * 1024
"""Length of a string after expansion; no system accepts a longer argument or variable."""
_MAX_QUOTED_CHARS = 80

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_OPENCODE_VARIABLE = re.compile(r"\{((?:env|file):[^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIXED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:")


class Variables:
    """Expands the variables of one file or entry.

    Args:
        workspace: The value of ``${workspaceFolder}``.
        inputs: The file's inputs; ``None`` for an entry without a file.
        is_opencode: Expand only the variables of opencode, ``{env:VAR}``.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        workspace: Path,
        inputs: DeclaredInputs | None = None,
        *,
        is_opencode: bool = False,
    ) -> None:
        self._pattern = _OPENCODE_VARIABLE if is_opencode else _VARIABLE
        self._is_opencode = is_opencode
        self._environ = environ
        self.workspace = workspace
        self._inputs = inputs
        self._folders = {
            "workspaceFolder": str(workspace),
            "workspaceFolderBasename": workspace.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }

    def expand(self, text: str, place: SourceLocation, *, whole: bool = False) -> str:
        """Return the text with its variables replaced.

        Args:
            whole: True to also expand a text that is exactly ``$NAME``, if that variable is set.

        Raises:
            ConfigError: A variable has no value or an unknown kind.
        """
        if whole and not self._is_opencode and text.startswith("$") and text[1:] in self._environ:
            # Gemini CLI writes variables without braces.
            return self._environ[text[1:]]
        pieces: list[str] = []
        length = end = 0
        # One pass: a variable inside a value is not expanded, so no value can bring in another secret.
        for match in self._pattern.finditer(text):
            pieces += [text[end : match.start()], self._value(match[1], match[0], place)]
            length += len(pieces[-2]) + len(pieces[-1])
            end = match.end()
            # Stops early, because many variables in a short text can expand to gigabytes.
            if length > _MAX_TEXT_CHARS:
                break
        pieces.append(text[end:])
        if length + len(pieces[-1]) > _MAX_TEXT_CHARS:
            raise place.error(f"expected at most {_MAX_TEXT_CHARS} characters, with its variables, got more")
        return "".join(pieces)

    def _value(self, inner: str, whole: str, place: SourceLocation) -> str:
        if self._is_opencode and inner.startswith("file:"):
            raise place.error("{file:…}: expected {env:NAME}, because mcptrio does not read such files")
        if inner in self._folders:
            return self._folders[inner]
        if inner.startswith("input:"):
            if self._inputs is None:
                raise place.error(f"{_clip(whole)}: expected a file that declares the input, got an entry alone")
            return self._inputs.answer(inner.removeprefix("input:"), place)
        name, has_default, default = inner.removeprefix("env:").partition(":-")
        # The pattern ends at the first brace, which would cut such a default in two.
        if "${" in default:
            raise place.error(f"${{{_clip(name)}:-…}}: expected a default without a variable, got one with a variable")
        if _NAME.fullmatch(name):
            value = self._environ.get(name)
            if value is not None:
                return value
            if has_default:
                return default
            raise place.error(f"{_clip(whole)}: expected {_clip(name)} in the environment, got nothing")
        if prefix := _PREFIXED.match(inner):
            raise place.error(
                f"${{{_clip(prefix[0])}…}}: expected a variable of the kind env: or input:, got another kind"
            )
        # Unchanged: it may be shell syntax such as ${1} or ${x%y}.
        return whole


def _clip(text: str) -> str:
    return printable(text[:_MAX_QUOTED_CHARS])
