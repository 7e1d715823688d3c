"""Locations in a configuration file, for error messages.

The readers of files and entries pass a SourceLocation along with each part. Errors name a location and the kind of a
value, never the value.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from mcptrio.connecting.mcp_json.jsonc import JSONCDocument, Path
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import printable

__all__ = ["SourceLocation", "kind_of"]

_MAX_NAME_CHARS = 80
"""Characters of a name that an error quotes."""


@frozen(kw_only=True)
class SourceLocation:
    """The location of a value.

    Args:
        source: Path of the file, or a name for a value without a file.
        path: Path of the value in the document.
        document: The parsed document; ``None`` for a value without a file.
    """

    source: str
    path: Path = ()
    document: JSONCDocument | None = field(default=None, repr=False)

    def at(self, *steps: str | int) -> SourceLocation:
        """Return the location of a part of the value."""
        return SourceLocation(source=self.source, path=(*self.path, *steps), document=self.document)

    def error(self, problem: str) -> ConfigError:
        where = self.source
        if self.document is not None:
            where += f":{self.document.line_of(self.path)}"
        path = self._path_text()
        return ConfigError(f"{where}: {path}: {problem}" if path else f"{where}: {problem}")

    def _path_text(self) -> str:
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{printable(step[:_MAX_NAME_CHARS])}"
        return text.removeprefix(".")


def kind_of(value: Any) -> str:
    """Return JSON's word for the type of a value."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), f"a {type(value).__name__}")


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),  # first, because bool is a subclass of int
    (str, "a string"),
    (int, "a number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "an object"),
    (type(None), "null"),
)
