"""The schemas of the shipped plugins are in the subsets of JSON Schema that the APIs of models accept.

docs/tools.md has the table of the changes that hosts make before they ask for strict arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcptrio import Server
from mcptrio.plugins.discovery import installed_entry_points, served_only_by_name
from mcptrio.plugins.manager import PluginManager
from mcptrio.protocol.model.tools import Tool

__all__: list[str] = []

STRUCTURE = {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "description"}
BOUNDS = {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"}
MAX_LEVELS = 5
"""Levels of nesting that the strict schemas of OpenAI had at first; today they may have more."""


@pytest.fixture(scope="module")
def tools() -> list[Tool]:
    manager = PluginManager(strict=True)
    # The demonstration also shows what no model's API accepts, for the conformance suite.
    manager.load_installed(without=served_only_by_name())
    server = Server(plugins=manager)
    found = [each.tool for each in server.catalog.tools.registry]
    assert len(found) > 80
    assert len(installed_entry_points()) > 10
    return found


def parts(schema: Any, place: str, level: int = 0) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield each subschema with its place and its level of objects."""
    if not isinstance(schema, dict):
        return
    yield place, level, schema
    for name, each in schema.get("properties", {}).items():
        yield from parts(each, f"{place}.{name}", level + 1)
    yield from parts(schema.get("items"), f"{place}[]", level + 1)
    yield from parts(schema.get("additionalProperties"), f"{place}.*", level + 1)
    for each in schema.get("anyOf", ()):
        yield from parts(each, place, level)


def test_schemas_have_only_keywords_that_all_models_have(tools: list[Tool]) -> None:
    found = {
        f"{place}: {', '.join(more)}"
        for tool in tools
        for place, _, schema in parts(tool.input_schema, tool.name)
        if (more := sorted(set(schema) - STRUCTURE - BOUNDS - {"default"}))
    }

    assert found == set()


def test_each_value_has_a_type_and_levels_are_few(tools: list[Tool]) -> None:
    untyped = [
        place
        for tool in tools
        for place, _, schema in parts(tool.input_schema, tool.name)
        if "type" not in schema and "anyOf" not in schema
    ]
    deep = {tool.name for tool in tools for _, level, _ in parts(tool.input_schema, tool.name) if level > MAX_LEVELS}

    assert untyped == []
    assert deep == set()
