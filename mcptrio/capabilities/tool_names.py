"""Tools named in a plugin's own texts: ``{tool:search}`` becomes the name that clients see, such as ``notes_search``.

Used when a plugin offers something, for descriptions, and when something of it fails, for the error.
The one rule: only what the author wrote is looked at: descriptions and error messages, never results, which may be
anybody's text. What the author puts into a result is named with ``ctx.tool_name``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

__all__ = ["NameOf", "schema_with_names", "with_names"]

NameOf: TypeAlias = Callable[[str], str]
_BEGINNING = "{tool:"
_REFERENCE = re.compile(r"\{tool:([A-Za-z0-9_.-]{1,128})\}")


def with_names(text: str, name_of: NameOf) -> str:
    """The text, with the names that clients see in the place of references."""
    return _REFERENCE.sub(lambda found: name_of(found[1]), text) if _BEGINNING in text else text


def schema_with_names(schema: Any, name_of: NameOf) -> Any:
    """The same, with names in its descriptions; a property that is called ``description`` is no text."""
    if isinstance(schema, Mapping):
        return {
            key: with_names(value, name_of)
            if key == "description" and isinstance(value, str)
            else schema_with_names(value, name_of)
            for key, value in schema.items()
        }
    if isinstance(schema, list | tuple):
        return [schema_with_names(each, name_of) for each in schema]
    return schema
