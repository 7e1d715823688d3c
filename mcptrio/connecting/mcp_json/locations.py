"""Where in which file something stands, for saying that it is wrong.

Made by who reads a file or an entry, handed down with each part of it.
The one rule: an error names the place and the kind of a value, never the value.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from mcptrio.connecting.mcp_json.jsonc import JSONCDocument, Path
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import printable

__all__ = ["SourceLocation", "kind_of"]

_MAX_NAME_CHARS = 80
"""Characters of a name in an error."""


@frozen(kw_only=True)
class SourceLocation:
    """
    Args:
        source: the file, or what it is called where there is none.
        path: of the value in it.
        document: what was read; ``None`` where the value came as it is.
    """

    source: str
    path: Path = ()
    document: JSONCDocument | None = field(default=None, repr=False)

    def at(self, *steps: str | int) -> SourceLocation:
        """A part of the value."""
        return SourceLocation(source=self.source, path=(*self.path, *steps), document=self.document)

    def error(self, problem: str) -> ConfigError:
        where = self.source
        if self.document is not None:
            where += f":{self.document.line_of(self.path)}"
        path = self._shown()
        return ConfigError(f"{where}: {path}: {problem}" if path else f"{where}: {problem}")

    def _shown(self) -> str:
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{printable(step[:_MAX_NAME_CHARS])}"
        return text.removeprefix(".")


def kind_of(value: Any) -> str:
    """JSON's word for a value."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), f"a {type(value).__name__}")


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),  # which is an int, and comes first
    (str, "a text"),
    (int, "a number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "an object"),
    (type(None), "null"),
)
