"""Warnings about tool definitions that some hosts and models do not support."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from mcptrio.plugins.portability import explained_parameters, portability_warnings
from mcptrio.plugins.tokens import estimated_tokens
from mcptrio.protocol.model.tools import Tool

__all__: list[str] = []


def made(name: str = "look", description: str | None = "Look at it.", defs: Any = None, **schema: Any) -> Tool:
    more = {"$defs": defs} if defs else {}
    return Tool(name=name, description=description, input_schema={"type": "object", **schema, **more})


def test_token_estimate_uses_the_bytes_that_a_model_reads() -> None:
    text = '{"name":"look","description":"Lo\u00f6k","inputSchema":{"type":"object"}}'

    tool = evolve(made(description="Lo\u00f6k"), title="Look", output_schema={"type": "object"})

    assert estimated_tokens(tool) == -(-len(text.encode()) // 4)


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (made(name="a.b"), "tool a.b: some hosts accept only names of 1 to 64 characters A-Za-z0-9_-"),
        (made(name="a" * 41), f"tool {'a' * 41} has 41 characters: some hosts truncate names over 40"),
        (made(description=" "), "tool look has no description: a model has to guess what it does"),
        (
            made(description="Look now."),
            "tool look: expected a description that says what it does and returns, got 'Look now.'",
        ),
        (
            made(description="a b " * 300),
            "tool look: its description has 1199 characters, and some models' APIs refuse more than 1024",
        ),
        (made(properties={"a": {}, "b": {"description": "b"}}), "tool look: no description of a"),
        (
            made(defs={"a": {"$ref": "b.json#/x"}}),
            "tool look: its input schema has a reference to another document, b.json#/x, which no host fetches",
        ),
        (
            made(allOf=[{"items": {"type": ["string"]}}]),
            "tool look: its input schema has a list of types, which some models' APIs refuse",
        ),
        (
            made(title="a" * 9000),
            "tool look takes about 2272 tokens of every conversation, more than 2000",
        ),
    ],
)
def test_unportable_schema_yields_a_warning(tool: Tool, message: str) -> None:
    assert list(portability_warnings(tool)) == [message]


def test_portable_schema_yields_no_warning() -> None:
    properties = {
        "type": {"const": {"type": ["x"]}, "description": "Names are no keywords, values no schemas."},
        "exclusiveMinimum": {"$ref": "#/$defs/a"},
    }

    assert list(portability_warnings(made(properties=properties, defs={"a": {"description": "a", "minimum": 1}}))) == []


def test_parameters_that_explain_themselves_need_no_description() -> None:
    properties: dict[str, Any] = {"path": {}, "old_name": {}, "maxCount": {}, "entities": {}, "shared": {}}
    properties["kind"] = {"enum": ["a", "b"]}
    tool = made(description="Return the entity there.", properties=properties)
    other = made(name="other", properties={"shared": {"description": "Explained here."}})

    explained = explained_parameters([tool, other])
    assert list(portability_warnings(tool)) == ["tool look: no description of shared"]
    assert list(portability_warnings(tool, explained)) == []


def test_deeply_nested_schema_yields_a_warning() -> None:
    schema: dict[str, Any] = {}
    for _ in range(200):
        schema = {"not": schema}

    assert list(portability_warnings(made(**schema))) == ["tool look: its input schema has more than 64 levels"]
