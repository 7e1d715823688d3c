"""Checks a tool's definition against the limits of host applications and models.

``mcptrio plugins doctor`` uses this. The findings do not violate the protocol. Each one names the problem and the
programs that have it.

Source: JSON Schema 2020-12; MCP 2026-07-28, server/tools; the subsets of JSON Schema in the APIs of models, some of
which support neither exclusive bounds nor lists of types, and none of which fetches references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcptrio.plugins.naming import LONG, is_portable
from mcptrio.plugins.tokens import estimated_tokens
from mcptrio.protocol.model.tools import Tool

__all__ = ["MAX_TOKENS", "MAX_TOOL_TOKENS", "portability_warnings"]

MAX_TOKENS = 25_000
"""Tokens of all tools; above it some hosts warn, and others load tools only after a search."""
MAX_TOOL_TOKENS = 2_000
"""Tokens of one tool."""

_NOT_PORTABLE = ("exclusiveMinimum", "exclusiveMaximum")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose keys are names and not keywords."""
_VALUES = ("const", "enum", "default", "examples")
"""Keywords whose values are not schemas."""
_MAX_DEPTH = 64


def portability_warnings(tool: Tool) -> Iterator[str]:
    """Yield a sentence for each finding."""
    name = tool.name
    if not is_portable(name):
        yield f"tool {name}: some hosts accept only names of 1 to 64 characters A-Za-z0-9_-"
    elif len(name) > LONG:
        yield f"tool {name} has {len(name)} characters: some hosts truncate names over {LONG}"
    if not (tool.description or "").strip():
        yield f"tool {name} has no description: a model has to guess what it does"
    properties = tool.input_schema.get("properties")
    if isinstance(properties, dict):
        bare = [each for each, schema in properties.items() if not _is_described(schema, tool.input_schema)]
        if bare:
            yield f"tool {name}: no description of {', '.join(bare)}"
    for which, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        for problem in dict.fromkeys(_unportable(schema, 0)):
            yield f"tool {name}: its {which} schema has {problem}"
    tokens = estimated_tokens(tool)
    if tokens > MAX_TOOL_TOKENS:
        yield f"tool {name} takes about {tokens} tokens of every conversation, more than {MAX_TOOL_TOKENS}"


def _is_described(schema: Any, root: Mapping[str, Any]) -> bool:
    if not isinstance(schema, dict) or schema.get("description"):
        # A boolean schema has no place for a description.
        return True
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        target = root.get("$defs", {}).get(ref.removeprefix("#/$defs/"))
        return isinstance(target, dict) and bool(target.get("description"))
    return False


def _unportable(schema: Any, depth: int) -> Iterator[str]:
    # A schema may contain itself.
    if depth > _MAX_DEPTH:
        yield f"more than {_MAX_DEPTH} levels"
        return
    if isinstance(schema, list):
        for each in schema:
            yield from _unportable(each, depth + 1)
        return
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key in _NOT_PORTABLE:
            yield f"{key}, which some models' APIs refuse"
        elif key == "type" and isinstance(value, list):
            yield "a list of types, which some models' APIs refuse"
        elif key in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
            yield f"a reference to another document, {value}, which no host fetches"
        elif key in _NAMED and isinstance(value, dict):
            for each in value.values():
                yield from _unportable(each, depth + 1)
        elif key not in _VALUES:
            yield from _unportable(value, depth + 1)
