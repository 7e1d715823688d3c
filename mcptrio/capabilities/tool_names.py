"""References to tools in a plugin's texts: ``{tool:search}`` becomes the name that clients see, such as
``notes_search``.

Descriptions are changed when a plugin registers an entry, and error messages when they are sent. Results are not
changed, because they may contain texts of other origin; for results, authors use ``ctx.tool_name``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

__all__ = ["NameOf", "resolve_names_in_schema", "resolve_tool_names"]

NameOf: TypeAlias = Callable[[str], str]
_PREFIX = "{tool:"
_REFERENCE = re.compile(r"\{tool:([A-Za-z0-9_.-]{1,128})\}")


def resolve_tool_names(text: str, name_of: NameOf) -> str:
    """Return the text with references replaced by the names that clients see."""
    return _REFERENCE.sub(lambda found: name_of(found[1]), text) if _PREFIX in text else text


def resolve_names_in_schema(schema: Any, name_of: NameOf) -> Any:
    """Return the schema with references replaced in its descriptions."""
    if isinstance(schema, Mapping):
        return {
            key: resolve_tool_names(value, name_of)
            if key == "description" and isinstance(value, str)
            else resolve_names_in_schema(value, name_of)
            for key, value in schema.items()
        }
    if isinstance(schema, list | tuple):
        return [resolve_names_in_schema(each, name_of) for each in schema]
    return schema
