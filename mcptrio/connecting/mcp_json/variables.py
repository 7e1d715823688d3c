"""Variables in the texts of an entry: ``${VAR}``, ``${env:VAR}``, ``${VAR:-default}``, ``${input:id}``, folders.

Used for every text of an entry but names.
The one rule: a text is gone through once, and what a variable brings is taken as it is, so no value can smuggle in
another variable; one that has no value is an error, not an empty text.

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
"""Characters of a text with its variables; no system takes a longer argument or variable."""
_MAX_QUOTED_CHARS = 80

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_OPENCODE_VARIABLE = re.compile(r"\{((?:env|file):[^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIXED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:")


class Variables:
    """
    Args:
        environ: the environment.
        workspace: what ``${workspaceFolder}`` stands for.
        inputs: what the user is asked; ``None`` where there is no file that could say what.
        is_opencode: read variables as opencode writes them, ``{env:VAR}``, and no others.
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
        """The text with its variables replaced.

        Args:
            whole: whether a text that is a variable without braces (``$NAME``) stands for its value, if it has one.

        Raises:
            ConfigError: a variable has no value, or is of a kind that is not known here.
        """
        if whole and not self._is_opencode and text.startswith("$") and text[1:] in self._environ:
            return self._environ[text[1:]]  # as Gemini CLI writes it
        pieces: list[str] = []
        length = end = 0
        for found in self._pattern.finditer(text):
            pieces += [text[end : found.start()], self._value(found[1], found[0], place)]
            length += len(pieces[-2]) + len(pieces[-1])
            end = found.end()
            if length > _MAX_TEXT_CHARS:
                break
        pieces.append(text[end:])
        if length + len(pieces[-1]) > _MAX_TEXT_CHARS:
            raise place.error(f"expected at most {_MAX_TEXT_CHARS} characters, with its variables, got more")
        return "".join(pieces)

    def _value(self, inner: str, whole: str, place: SourceLocation) -> str:
        if self._is_opencode and inner.startswith("file:"):
            raise place.error("{file:…}: expected {env:NAME}, since the contents of files are not read here")
        if inner in self._folders:
            return self._folders[inner]
        if inner.startswith("input:"):
            if self._inputs is None:
                raise place.error(f"{_shown(whole)}: expected a file that says what to ask, got an entry alone")
            return self._inputs.answer(inner.removeprefix("input:"), place)
        name, has_default, default = inner.removeprefix("env:").partition(":-")
        if "${" in default:
            raise place.error(f"${{{_shown(name)}:-…}}: expected a default without a variable in it, got one with it")
        if _NAME.fullmatch(name):
            value = self._environ.get(name)
            if value is not None:
                return value
            if has_default:
                return default
            raise place.error(f"{_shown(whole)}: expected {_shown(name)} in the environment, got nothing")
        if prefix := _PREFIXED.match(inner):
            raise place.error(
                f"${{{_shown(prefix[0])}…}}: expected a variable of the kind env: or input:, got another kind"
            )
        return whole  # a shell's ${1} or ${x%y}, say


def _shown(text: str) -> str:
    return printable(text[:_MAX_QUOTED_CHARS])
