"""A value that an older revision does not have is changed or refused, and never lost silently."""

from __future__ import annotations

from typing import Any

import pytest

from mcptrio.errors import LocalProtocolError
from mcptrio.protocol.model.completion import CompleteParams, CompletionArgument, CompletionContext, PromptReference
from mcptrio.protocol.model.content import (
    Annotations,
    AudioContent,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult, ElicitURLParams
from mcptrio.protocol.model.lifecycle import (
    ClientCapabilities,
    ElicitationCapability,
    Implementation,
    ServerCapabilities,
)
from mcptrio.protocol.model.progress import ProgressParams
from mcptrio.protocol.model.prompts import PromptMessage
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult, SamplingMessage
from mcptrio.protocol.model.tasks import TASKS_EXTENSION, CreateTaskResult, GetTaskResult, NestedTaskResult
from mcptrio.protocol.model.tools import CallToolResult, ListToolsResult, Tool, ToolAnnotations, ToolExecution
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS

V1, V2, V3, V4, V5 = REVISIONS.values()
TEXT = TextContent(text="hello")
LINK = ResourceLink(uri="file:///a", name="a", title="The A", annotations=Annotations(priority=0.5))
TIMES: dict[str, Any] = {"created_at": "2026-11-27T09:00:00Z", "last_updated_at": "2026-11-27T09:00:01Z"}
WIRE_TIMES = {"createdAt": TIMES["created_at"], "lastUpdatedAt": TIMES["last_updated_at"]}
AUDIO = AudioContent(data="AAAA", mime_type="audio/wav")


def tool(**members: Any) -> Tool:
    return Tool(name="t", input_schema={"type": "object"}, **members)


def form(**primitive: Any) -> ElicitFormParams:
    return ElicitFormParams(
        message="?", requested_schema={"$schema": "s", "type": "object", "properties": {"x": primitive}}
    )


def test_audio_becomes_a_text_that_names_it() -> None:
    wire = V1.unstructure(CallToolResult(content=(AUDIO,)))

    (block,) = wire["content"]
    assert block["type"] == "text"
    assert "audio/wav" in block["text"]
    assert V2.unstructure(CallToolResult(content=(AUDIO,)))["content"][0]["type"] == "audio"


@pytest.mark.parametrize("revision", [V1, V2], ids=str)
def test_resource_link_becomes_a_text_with_its_uri(revision: Any) -> None:
    wire = revision.unstructure(PromptMessage(role="user", content=LINK))

    assert wire["content"] == {"type": "text", "text": "The A: file:///a", "annotations": {"priority": 0.5}}


def test_resource_link_is_kept_in_revisions_with_links() -> None:
    assert V3.unstructure(LINK)["type"] == "resource_link"


def test_unknown_block_is_written_unchanged() -> None:
    raw = {"type": "hologram", "depth": 3}
    result = LATEST.structure({"content": [raw]}, CallToolResult)

    assert result.content == (UnknownContent(type="hologram", raw=raw),)
    assert LATEST.unstructure(result)["content"] == [raw]


def test_block_of_a_later_revision_is_read_as_unknown() -> None:
    result = V1.structure({"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}, CallToolResult)

    assert isinstance(result.content[0], UnknownContent)


@pytest.mark.parametrize(
    ("revision", "expected"),
    [
        (V1, {}),
        (V2, {"annotations": {"title": "T"}}),
        (V3, {"title": "T"}),
        (V4, {"title": "T"}),
        (V5, {"title": "T"}),
    ],
    ids=lambda value: str(value) if value in REVISIONS.values() else "",
)
def test_title_of_a_tool_is_written_in_the_form_of_each_revision(revision: Any, expected: dict[str, Any]) -> None:
    wire = revision.unstructure(tool(title="T"))

    assert wire == {"name": "t", "inputSchema": {"type": "object"}, **expected}


def test_title_in_the_annotations_takes_precedence() -> None:
    wire = V2.unstructure(tool(title="T", annotations=ToolAnnotations(title="A", read_only_hint=False)))

    assert wire["annotations"] == {"title": "A", "readOnlyHint": False}


def test_execution_is_sent_in_one_revision_only() -> None:
    messages = [r.version for r in REVISIONS.values() if "execution" in r.unstructure(tool(execution=ToolExecution()))]

    assert messages == [V4.version]


@pytest.mark.parametrize("revision", [V3, V4], ids=str)
@pytest.mark.parametrize("value", [[1, 2], "x", 0, None, False], ids=repr)
def test_structured_content_that_is_not_an_object_is_wrapped(revision: Any, value: Any) -> None:
    result = CallToolResult(structured_content=value)

    assert revision.unstructure(result)["structuredContent"] == {"result": value}
    assert V5.unstructure(result)["structuredContent"] == value
    assert "structuredContent" not in V2.unstructure(result)


def test_structured_content_that_is_an_object_is_unchanged() -> None:
    assert V3.unstructure(CallToolResult(structured_content={"a": 1}))["structuredContent"] == {"a": 1}


def test_absent_structured_content_is_not_null() -> None:
    assert "structuredContent" not in V5.unstructure(CallToolResult())
    assert V5.structure({"content": [], "structuredContent": None}, CallToolResult).structured_content is None
    assert V5.structure({"content": []}, CallToolResult) == CallToolResult()


def test_structured_content_of_a_tool_result_is_wrapped() -> None:
    block = ToolResultContent(tool_use_id="1", structured_content=[1])

    assert V4.unstructure(block)["structuredContent"] == {"result": [1]}


@pytest.mark.parametrize("revision", [V3, V4], ids=str)
def test_form_is_written_without_a_mode_and_with_a_dialect_since_2025_11_25(revision: Any) -> None:
    wire = revision.unstructure(form(type="boolean", default=True))

    assert wire["requestedSchema"]["properties"] == {"x": {"type": "boolean", "default": True}}
    assert ("$schema" in wire["requestedSchema"]) is (revision is V4)
    assert "mode" not in wire


@pytest.mark.parametrize(
    ("primitive", "lowered"),
    [
        ({"type": "string", "default": "a", "title": "T"}, {"type": "string", "title": "T"}),
        ({"type": "integer", "default": 1, "minimum": 0}, {"type": "integer", "minimum": 0}),
        ({"type": "string", "enum": ["a"], "default": "a"}, {"type": "string", "enum": ["a"]}),
        (
            {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}], "default": "a"},
            {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"]},
        ),
    ],
)
def test_form_fields_are_reduced_for_2025_06_18(primitive: dict[str, Any], lowered: dict[str, Any]) -> None:
    params = form(**primitive)

    assert V3.unstructure(params)["requestedSchema"]["properties"]["x"] == lowered
    assert V4.unstructure(params)["requestedSchema"]["properties"]["x"] == primitive


def test_multi_select_field_is_refused_in_2025_06_18() -> None:
    params = form(type="array", items={"type": "string", "enum": ["a"]})

    with pytest.raises(LocalProtocolError, match=r"multiple choice at `requestedSchema\.properties\.x`"):
        V3.unstructure(params)
    assert V4.unstructure(params)["requestedSchema"] == params.requested_schema


def test_url_elicitation_needs_an_id_in_one_revision() -> None:
    params = ElicitURLParams(message="?", url="https://example.org/", elicitation_id="1")

    assert V4.unstructure(params)["elicitationId"] == "1"
    assert "elicitationId" not in V5.unstructure(params)
    with pytest.raises(LocalProtocolError, match="elicitation_id"):
        V4.unstructure(ElicitURLParams(message="?", url="https://example.org/"))
    with pytest.raises(LocalProtocolError, match="2025-06-18"):
        V3.unstructure(params)


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_one_block_is_written_without_an_array(revision: Any) -> None:
    message = SamplingMessage(role="user", content=(TEXT,))

    wire = revision.unstructure(message)

    assert wire == {"role": "user", "content": {"type": "text", "text": "hello"}}
    assert revision.structure(wire, SamplingMessage) == message


@pytest.mark.parametrize("cls", [SamplingMessage, CreateMessageResult])
def test_several_blocks_need_2025_11_25(cls: Any) -> None:
    model = {"model": "m"} if cls is CreateMessageResult else {}
    message = cls(role="user", content=(TEXT, TEXT), **model)

    assert len(V4.unstructure(message)["content"]) == 2
    with pytest.raises(LocalProtocolError, match="got 2"):
        V3.unstructure(message)


def test_tools_in_sampling_need_2025_11_25() -> None:
    params = CreateMessageParams(messages=(), max_tokens=1, tools=(tool(),))

    assert V4.unstructure(params)["tools"]
    with pytest.raises(LocalProtocolError, match="tools"):
        V3.unstructure(params)


def test_tool_use_needs_2025_11_25() -> None:
    message = SamplingMessage(role="assistant", content=(ToolUseContent(id="1", name="t", input={}),))

    with pytest.raises(LocalProtocolError, match="revision 2025-06-18 has no ToolUseContent"):
        V3.unstructure(message)


@pytest.mark.parametrize(
    ("value", "member", "since"),
    [
        (ProgressParams(progress_token=1, progress=1, message="m"), "message", V2),
        (ServerCapabilities(completions={}), "completions", V2),
        (
            CompleteParams(
                ref=PromptReference(name="p"),
                argument=CompletionArgument(name="a", value=""),
                context=CompletionContext(arguments={"b": "c"}),
            ),
            "context",
            V3,
        ),
        (Implementation(name="n", version="1", title="t"), "title", V3),
        (Implementation(name="n", version="1", website_url="https://example.org/"), "websiteUrl", V4),
        (ElicitationCapability(url={}), "url", V4),
        (ListToolsResult(tools=()), "ttlMs", V5),
        (ListToolsResult(tools=()), "cacheScope", V5),
        (ListToolsResult(tools=()), "resultType", V5),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_members_are_written_since_their_revision(value: Any, member: str, since: Any) -> None:
    says = [member in revision.unstructure(value) for revision in REVISIONS.values()]

    first = list(REVISIONS.values()).index(since)
    assert says == [index >= first for index in range(len(REVISIONS))]


def test_task_is_nested_before_the_extension() -> None:
    created = CreateTaskResult(task_id="1", status="working", ttl_ms=5, poll_interval_ms=2, **TIMES, meta={"a": 1})

    wire = V4.unstructure(created)

    task = {"taskId": "1", "status": "working", "ttl": 5, "pollInterval": 2, **WIRE_TIMES}
    assert wire == {"_meta": {"a": 1}, "task": task}
    assert V4.structure(wire, NestedTaskResult).created == created
    assert V5.unstructure(created) == {
        "resultType": "task",
        "_meta": {"a": 1},
        "taskId": "1",
        "status": "working",
        "ttlMs": 5,
        "pollIntervalMs": 2,
        **WIRE_TIMES,
    }


def test_error_of_a_tool_is_a_failed_task_before_the_extension() -> None:
    result = {"isError": True, "content": [{"type": "text", "text": "no stones"}]}
    task = GetTaskResult(task_id="1", status="completed", **TIMES, result=result)

    wire = V4.unstructure(task)

    failed = {"taskId": "1", "status": "failed", "statusMessage": "no stones", "ttl": None, **WIRE_TIMES}
    assert wire == failed
    assert V5.unstructure(task)["status"] == "completed"


@pytest.mark.parametrize("cls", [ServerCapabilities, ClientCapabilities])
def test_extension_of_tasks_is_declared_in_its_revision_only(cls: Any) -> None:
    capabilities = cls(extensions={TASKS_EXTENSION: {}, "com.example/a": {}})

    messages = [list(revision.unstructure(capabilities)["extensions"]) for revision in REVISIONS.values()]

    assert messages == [["com.example/a"]] * 4 + [[TASKS_EXTENSION, "com.example/a"]]
    assert "extensions" not in V4.unstructure(cls(extensions={TASKS_EXTENSION: {}}))


def test_responses_of_clients_have_no_result_type() -> None:
    assert V5.unstructure(ElicitResult(action="decline", meta={"a": 1})) == {"action": "decline"}
    assert V4.unstructure(ElicitResult(action="decline", meta={"a": 1})) == {"action": "decline", "_meta": {"a": 1}}
