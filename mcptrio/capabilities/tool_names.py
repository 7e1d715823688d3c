"""Tool names in a plugin's texts: ``{tool:search}`` becomes the name that clients see, such as ``notes_search``.

Used for descriptions when a plugin registers an entry, and for the messages of its errors. Results are not changed,
because they may contain text of others; authors use ``ctx.tool_name`` there.
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
    """Return the text with references replaced by the names that clients see."""
    return _REFERENCE.sub(lambda found: name_of(found[1]), text) if _BEGINNING in text else text


def schema_with_names(schema: Any, name_of: NameOf) -> Any:
    """Return the schema with references replaced in its descriptions. A property named ``description`` is not one."""
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
