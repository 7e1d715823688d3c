"""Checks a tool's definition against the limits of host applications and models.

``mcptrio plugins doctor`` uses this. No finding violates the protocol. Each warning names the problem and the programs
that are affected.

Source: JSON Schema 2020-12; MCP 2026-07-28, server/tools; the subsets of JSON Schema in the APIs of models. Some of
these support neither exclusive bounds nor lists of types, and none fetches references.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from mcptrio.plugins.naming import MAX_UNTRUNCATED_CHARS, is_portable
from mcptrio.plugins.tokens import estimated_tokens
from mcptrio.protocol.model.tools import Tool

__all__ = ["MAX_TOKENS", "MAX_TOOL_TOKENS", "explained_parameters", "portability_warnings"]

MAX_TOKENS = 25_000
"""Tokens of all tools. With more, some hosts warn, and others load tools only after a search."""
MAX_TOOL_TOKENS = 2_000
"""Tokens of one tool."""

_MAX_DESCRIPTION_CHARS = 1024
"""Characters of a description; the API of OpenAI refuses longer ones."""
_MIN_WORDS = 3
"""Words of a description; a shorter one hardly says more than the name."""
_PLAIN_NAMES = frozenset(
    {"content", "cursor", "end", "id", "ids", "limit", "message", "name", "names", "offset", "path", "paths", "query"}
    | {"start", "stdin", "text", "timeout", "timezone", "title", "url", "urls"}
)
"""Parameters that need no description, because every model knows them."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_NOT_PORTABLE = ("exclusiveMinimum", "exclusiveMaximum")
"""Keywords that some models' APIs refuse."""
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose values are mappings from names to schemas."""
_VALUE_KEYWORDS = ("const", "enum", "default", "examples")
"""Keywords whose values are not schemas."""
_MAX_DEPTH = 64


def explained_parameters(tools: Iterable[Tool]) -> frozenset[str]:
    """Return the names of the parameters that a description of any of the tools explains."""
    return frozenset(
        each
        for tool in tools
        for each, schema in _properties(tool).items()
        if _is_described(schema, tool.input_schema) or _singular(each) in map(_singular, _words(tool.description or ""))
    )


def portability_warnings(tool: Tool, explained: AbstractSet[str] = frozenset()) -> Iterator[str]:
    """Yield a sentence for each finding.

    Args:
        explained: The parameters that other tools of the plugin explain.
    """
    name = tool.name
    if not is_portable(name):
        yield f"tool {name}: some hosts accept only names of 1 to 64 characters A-Za-z0-9_-"
    elif len(name) > MAX_UNTRUNCATED_CHARS:
        yield f"tool {name} has {len(name)} characters: some hosts truncate names over {MAX_UNTRUNCATED_CHARS}"
    yield from _description_warnings(tool, explained)
    for which, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        for problem in dict.fromkeys(_schema_problems(schema, 0)):
            yield f"tool {name}: its {which} schema has {problem}"
    tokens = estimated_tokens(tool)
    if tokens > MAX_TOOL_TOKENS:
        yield f"tool {name} takes about {tokens} tokens of every conversation, more than {MAX_TOOL_TOKENS}"


def _description_warnings(tool: Tool, explained: AbstractSet[str]) -> Iterator[str]:
    """Yield the findings about the descriptions of a tool and of its parameters."""
    name, description = tool.name, (tool.description or "").strip()
    if not description:
        yield f"tool {name} has no description: a model has to guess what it does"
    elif len(description.split()) < _MIN_WORDS:
        yield f"tool {name}: expected a description that says what it does and returns, got {description!r}"
    elif len(description) > _MAX_DESCRIPTION_CHARS:
        yield (
            f"tool {name}: its description has {len(description)} characters, and some models' APIs refuse more than"
            f" {_MAX_DESCRIPTION_CHARS}"
        )
    # Words of the description explain a parameter too: "Return the entities with these names".
    words = {_singular(word) for word in _words(description)}
    undescribed = [
        each
        for each, schema in _properties(tool).items()
        if not (each in explained or _is_plain(each, words) or _is_described(schema, tool.input_schema))
    ]
    if undescribed:
        yield f"tool {name}: no description of {', '.join(undescribed)}"


def _properties(tool: Tool) -> Mapping[str, Any]:
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _is_plain(name: str, described: set[str]) -> bool:
    """Return whether the name of a parameter explains it: several words, a usual name, or a word of the description."""
    words = _words(name)
    return (
        name in _PLAIN_NAMES or len(words) > 1 or any(len(word) > 1 and _singular(word) in described for word in words)
    )


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _singular(word: str) -> str:
    return word.removesuffix("s") if not word.endswith("ies") else f"{word[:-3]}y"


def _is_described(schema: Any, root: Mapping[str, Any]) -> bool:
    """Return whether a schema has a description, or needs none."""
    # A boolean schema cannot have a description, and the values of an enum need none.
    if not isinstance(schema, dict) or schema.get("description") or "enum" in schema:
        return True
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        target = root.get("$defs", {}).get(ref.removeprefix("#/$defs/"))
        return isinstance(target, dict) and bool(target.get("description"))
    return False


def _schema_problems(schema: Any, depth: int) -> Iterator[str]:
    """Yield the parts of a schema that some host or model refuses."""
    # A schema may contain itself.
    if depth > _MAX_DEPTH:
        yield f"more than {_MAX_DEPTH} levels"
        return
    if isinstance(schema, list):
        for each in schema:
            yield from _schema_problems(each, depth + 1)
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
        elif key in _SCHEMA_MAPS and isinstance(value, dict):
            for each in value.values():
                yield from _schema_problems(each, depth + 1)
        elif key not in _VALUE_KEYWORDS:
            yield from _schema_problems(value, depth + 1)
