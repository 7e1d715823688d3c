"""The fields and types that each revision lacks, as a table: a change to a history is a change here."""

from __future__ import annotations

import attrs

from mcptrio.protocol.model.fields import class_history, exists_in, field_history
from mcptrio.protocol.revisions.registry import REVISIONS
from tests.protocol.model_classes import CLASSES

LACKS = {
    "####-": [
        "CreateMessageParams.meta",
        "ElicitFormParams.meta",
        "ElicitResult.meta",
        "ElicitURLParams.elicitation_id",
        "ElicitURLParams.meta",
        "ListRootsResult.meta",
        "RootsCapability.list_changed",
    ],
    "-####": ["AudioContent", "ProgressParams.message", "ServerCapabilities.completions", "Tool.annotations"],
    "--###": [
        "Annotations.last_modified",
        "AudioContent.meta",
        "BlobResourceContents.meta",
        "CallToolResult.structured_content",
        "ClientCapabilities.elicitation",
        "CompleteParams.context",
        "EmbeddedResource.meta",
        "ImageContent.meta",
        "Implementation.title",
        "Prompt.meta",
        "Prompt.title",
        "PromptArgument.title",
        "PromptReference.title",
        "Resource.meta",
        "Resource.title",
        "ResourceLink",
        "ResourceTemplate.meta",
        "ResourceTemplate.title",
        "Root.meta",
        "TextContent.meta",
        "TextResourceContents.meta",
        "Tool.meta",
        "Tool.output_schema",
        "Tool.title",
    ],
    "---##": [
        "CreateMessageParams.tool_choice",
        "CreateMessageParams.tools",
        "ElicitURLParams",
        "ElicitationCapability.form",
        "ElicitationCapability.url",
        "Implementation.description",
        "Implementation.icons",
        "Implementation.website_url",
        "Prompt.icons",
        "Resource.icons",
        "ResourceLink.icons",
        "ResourceTemplate.icons",
        "SamplingCapability.context",
        "SamplingCapability.tools",
        "SamplingMessage.meta",
        "Tool.icons",
        "ToolResultContent",
        "ToolUseContent",
    ],
    "---#-": ["CallToolParams.task", "ClientCapabilities.tasks", "ServerCapabilities.tasks", "Tool.execution"],
    "----#": [
        "CacheableResult.cache_scope",
        "CacheableResult.ttl_ms",
        "CallToolParams.input_responses",
        "CallToolParams.request_state",
        "GetPromptParams.input_responses",
        "GetPromptParams.request_state",
        "GetTaskResult.error",
        "GetTaskResult.input_requests",
        "GetTaskResult.result",
        "ReadResourceParams.input_responses",
        "ReadResourceParams.request_state",
        "TaskParams.error",
        "TaskParams.input_requests",
        "TaskParams.result",
    ],
}
"""By the revisions that have it, oldest first: ``--###`` is since 2025-06-18."""


def lacks(version: str) -> set[str]:
    """The classes and fields that are not written in a revision."""
    missing = set()
    for cls in CLASSES:
        if not exists_in(version, since=class_history(cls).since):
            missing.add(cls.__name__)
        for attribute in attrs.fields(cls):
            history = field_history(attribute)
            if not attribute.inherited and not exists_in(version, since=history.since, until=history.until):
                missing.add(f"{cls.__name__}.{attribute.name}")
    return missing


def table() -> dict[str, list[str]]:
    """The losses by the revisions that do not have them."""
    missing = {version: lacks(version) for version in REVISIONS}
    found: dict[str, list[str]] = {}
    for name in sorted(set().union(*missing.values())):
        found.setdefault("".join("-" if name in missing[version] else "#" for version in REVISIONS), []).append(name)
    return found


def test_fields_missing_from_each_revision() -> None:
    assert table() == LACKS


def test_types_lowered_for_each_revision() -> None:
    lowered = {version: sorted(cls.__name__ for cls in r.lowerings) for version, r in REVISIONS.items()}

    assert lowered == {
        "2024-11-05": sorted([*lowered["2025-03-26"], "AudioContent"]),
        "2025-03-26": sorted([*lowered["2025-06-18"], "ResourceLink"]),
        "2025-06-18": sorted(
            [
                *lowered["2025-11-25"],
                "CreateMessageParams",
                "CreateMessageResult",
                "ElicitFormParams",
                "SamplingMessage",
            ]
        ),
        "2025-11-25": [
            "CallToolResult",
            "ClientCapabilities",
            "CreateTaskResult",
            "ElicitURLParams",
            "GetTaskResult",
            "ServerCapabilities",
            "TaskParams",
            "Tool",
            "ToolResultContent",
        ],
        "2026-07-28": [],
    }
