"""A value of the wrong type is refused with the expected type, the actual value and the path."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.errors import InvalidParams
from mcptrio.protocol.model.completion import CompleteParams
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitParams
from mcptrio.protocol.model.input_required import InputRequiredResult
from mcptrio.protocol.model.lifecycle import ServerCapabilities
from mcptrio.protocol.model.logging import SetLevelParams
from mcptrio.protocol.model.progress import ProgressParams
from mcptrio.protocol.model.prompts import GetPromptParams
from mcptrio.protocol.model.resources import ReadResourceResult
from mcptrio.protocol.model.sampling import CreateMessageParams, SamplingMessage
from mcptrio.protocol.model.tools import CallToolParams, CallToolResult, ListToolsParams, ListToolsResult, Tool
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS

TOKEN = "a string or an integer"
CONTENTS = 'an object with a member "text" or "blob"'
REFERENCE = '"ref/prompt" or "ref/resource"'
LEVELS = '"debug" or "info" or "notice" or "warning" or "error" or "critical" or "alert" or "emergency"'


@pytest.mark.parametrize(
    ("cls", "value", "message"),
    [
        (CallToolParams, None, "expected an object, got null"),
        (CallToolParams, [], "expected an object, got an array"),
        (CallToolParams, "name", 'expected an object, got "name"'),
        (CallToolParams, {}, 'expected a member "name", got none'),
        (CallToolParams, {"name": 5}, "expected a string at `name`, got 5"),
        (CallToolParams, {"name": True}, "expected a string at `name`, got true"),
        (CallToolParams, {"name": "x", "arguments": [1]}, "expected an object at `arguments`, got an array"),
        (CallToolParams, {"name": "x", "arguments": None}, "expected an object at `arguments`, got null"),
        (CallToolParams, {"name": "x", "_meta": "m"}, 'expected an object at `_meta`, got "m"'),
        (ListToolsParams, "cursor", 'expected an object, got "cursor"'),
        (ListToolsParams, {"cursor": 3}, "expected a string at `cursor`, got 3"),
        (GetPromptParams, {"name": "x", "arguments": {"a": 1}}, "expected a string at `arguments.a`, got 1"),
        (GetPromptParams, {"name": "x", "arguments": {"a b": 1}}, 'expected a string at `arguments["a b"]`, got 1'),
        (ProgressParams, {"progressToken": 1}, 'expected a member "progress", got none'),
        (
            ProgressParams,
            {"progressToken": True, "progress": 1},
            f"expected {TOKEN} at `progressToken`, got true",
        ),
        (
            ProgressParams,
            {"progressToken": 1.0, "progress": 1},
            f"expected {TOKEN} at `progressToken`, got 1.0",
        ),
        (ProgressParams, {"progressToken": 1, "progress": "1"}, 'expected a number at `progress`, got "1"'),
        (ProgressParams, {"progressToken": 1, "progress": False}, "expected a number at `progress`, got false"),
        (CreateMessageParams, {"messages": [], "maxTokens": 1.5}, "expected an integer at `maxTokens`, got 1.5"),
        (CreateMessageParams, {"messages": {}, "maxTokens": 1}, "expected an array at `messages`, got an object"),
        (SetLevelParams, {"level": "loud"}, f'expected {LEVELS} at `level`, got "loud"'),
        (SetLevelParams, {"level": ["info"]}, f"expected {LEVELS} at `level`, got an array"),
        (ServerCapabilities, {"tools": {"listChanged": 1}}, "expected true or false at `tools.listChanged`, got 1"),
        (ServerCapabilities, {"extensions": {"a/b": 1}}, 'expected an object at `extensions["a/b"]`, got 1'),
        (CallToolResult, {"content": [{"type": "text", "text": 5}]}, "expected a string at `content[0].text`, got 5"),
        (CallToolResult, {"content": [{}]}, 'expected a member "type" at `content[0]`, got none'),
        (CallToolResult, {"content": [{"type": 1}]}, "expected a string at `content[0].type`, got 1"),
        (CallToolResult, {"content": ["hello"]}, 'expected an object at `content[0]`, got "hello"'),
        (CallToolResult, {"content": [], "isError": "no"}, 'expected true or false at `isError`, got "no"'),
        (
            ListToolsResult,
            {"tools": [{"name": "y"}]},
            'expected a member "inputSchema" at `tools[0]`, got none',
        ),
        (
            ReadResourceResult,
            {"contents": [{"uri": "a"}]},
            f"expected {CONTENTS} at `contents[0]`, got an object",
        ),
        (ReadResourceResult, {"contents": [{"uri": "a", "blob": 1}]}, "expected a string at `contents[0].blob`, got 1"),
        (
            CompleteParams,
            {"ref": {"type": "ref/tool"}, "argument": {}},
            f'expected {REFERENCE} at `ref.type`, got "ref/tool"',
        ),
        (
            SamplingMessage,
            {"role": "user", "content": {"type": "text"}},
            'expected a member "text" at `content`, got none',
        ),
        (
            SamplingMessage,
            {"role": "user", "content": [{"type": "text"}]},
            'expected a member "text" at `content[0]`, got none',
        ),
        (SamplingMessage, {"role": "system", "content": []}, 'expected "user" or "assistant" at `role`, got "system"'),
        (ElicitParams, {"mode": "telepathy"}, 'expected "form" or "url" at `mode`, got "telepathy"'),
        (ElicitParams, {"mode": "url", "message": "m"}, 'expected a member "url", got none'),
        (ElicitParams, {"message": "m"}, 'expected a member "requestedSchema", got none'),
        (
            InputRequiredResult,
            {"inputRequests": {"k": {"method": "elicitation/create", "params": {"message": 1}}}},
            "expected a string at `inputRequests.k.params.message`, got 1",
        ),
    ],
)
def test_error_message_names_problem_and_path(cls: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        LATEST.structure(value, cls)

    assert caught.value.message == message


def test_huge_value_is_not_repeated() -> None:
    with pytest.raises(InvalidParams) as caught:
        LATEST.structure({"level": 'x"\n' * 10_000}, SetLevelParams)

    assert len(caught.value.message) < 250
    assert "\n" not in caught.value.message


def test_huge_name_is_not_repeated() -> None:
    with pytest.raises(InvalidParams) as caught:
        LATEST.structure({"name": "x", "arguments": {"a" * 10_000: 1}}, GetPromptParams)

    assert len(caught.value.message) < 250


def test_huge_number_is_not_repeated() -> None:
    with pytest.raises(InvalidParams, match="got a very large integer"):
        LATEST.structure({"name": 10**400}, CallToolParams)


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_unknown_members_are_ignored(revision: Any) -> None:
    params = revision.structure({"name": "x", "job": {"ttl": 1}, "x": None}, CallToolParams)

    assert params == CallToolParams(name="x")


def test_members_of_a_later_revision_are_ignored() -> None:
    value = {"name": "x", "inputResponses": 5, "requestState": []}

    assert REVISIONS["2025-11-25"].structure(value, CallToolParams) == CallToolParams(name="x")
    with pytest.raises(InvalidParams, match="inputResponses"):
        LATEST.structure(value, CallToolParams)


def test_elicitation_mode_is_ignored_before_url_elicitation() -> None:
    value = {"mode": "url", "message": "m", "requestedSchema": {"type": "object"}}

    params = REVISIONS["2025-06-18"].structure(value, ElicitParams)

    assert params == ElicitFormParams(message="m", requested_schema={"type": "object"})


def test_optional_null_reads_as_absent() -> None:
    assert LATEST.structure({"cursor": None}, ListToolsParams) == ListToolsParams()


def test_empty_cursor_is_kept() -> None:
    assert LATEST.structure({"cursor": ""}, ListToolsParams).cursor == ""
    assert LATEST.unstructure(ListToolsParams(cursor="")) == {"cursor": ""}


def test_additional_members_of_open_objects_are_kept() -> None:
    schema = {"type": "object", "$defs": {"a": {"x-own": [None, 1.5]}}, "$anchor": "a"}

    tool = LATEST.structure({"name": "x", "inputSchema": schema, "_meta": {"a/b": None}}, Tool)

    assert tool.input_schema == schema
    assert tool.meta == {"a/b": None}


def test_deeply_nested_value_is_read_or_refused() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]

    assert LATEST.structure({"name": "x", "arguments": {"a": deep}}, CallToolParams).arguments["a"] is deep


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "text", "content", "role", "_meta", "messages", "uri", "mode", "method"]),
            inner | st.sampled_from(["text", "image", "resource", "user", "url"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "cls", [CallToolParams, CallToolResult, CreateMessageParams, ElicitParams, InputRequiredResult, ReadResourceResult]
)
@settings(max_examples=60, deadline=None)
@given(value=JSON)
def test_any_json_value_is_read_or_refused(cls: Any, value: Any) -> None:
    """A hostile value raises InvalidParams only."""
    for revision in REVISIONS.values():
        with suppress(InvalidParams):
            assert revision.structure(value, cls) is not None
