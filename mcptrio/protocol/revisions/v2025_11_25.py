"""Revision 2025-11-25, the last with a handshake.

Structured content and output schemas are objects, and a URL elicitation must have an id. A client asks for a task in
its call.

Source: MCP 2025-11-25, changelog; schema.ts, "Tool", "CallToolResult", "ElicitRequestURLParams", "CreateTaskResult";
basic/utilities/tasks.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final, cast

from attrs import asdict

from mcptrio.errors import Code, LocalProtocolError
from mcptrio.protocol.model.content import ToolResultContent
from mcptrio.protocol.model.elicitation import ElicitURLParams
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.lifecycle import ClientCapabilities, ServerCapabilities
from mcptrio.protocol.model.tasks import (
    TASKS_EXTENSION,
    CreateTaskResult,
    GetTaskResult,
    NestedTaskResult,
    TaskParams,
)
from mcptrio.protocol.model.tools import CallToolResult, Tool
from mcptrio.protocol.revisions.converter import FieldLowering
from mcptrio.protocol.revisions.output_schemas import lower_output_schema, lower_structured_content
from mcptrio.protocol.revisions.revision import (
    BadArguments,
    ChangeDelivery,
    HTTPFeatures,
    Inputs,
    LogLevel,
    NegotiationStyle,
    Revision,
    TaskCreation,
)

__all__ = ["REVISION"]


def _lower_tool(tool: Tool) -> Tool:
    if tool.output_schema is None:
        return tool
    lowered = lower_output_schema(tool.output_schema)
    # The same object if nothing has changed, because copying a thousand tools takes time.
    return tool if lowered is tool.output_schema else evolve(tool, output_schema=lowered)


def _check_elicitation_id(params: ElicitURLParams) -> ElicitURLParams:
    # In this revision, a notification with the id reports that the user has finished.
    if params.elicitation_id is None:
        raise LocalProtocolError("expected an elicitation_id for a URL elicitation, got none")
    return params


def _lower_capabilities(capabilities: ClientCapabilities | ServerCapabilities) -> Any:
    # The extension belongs to the next revision.
    if TASKS_EXTENSION not in (capabilities.extensions or {}):
        return capabilities
    others = {name: each for name, each in (capabilities.extensions or {}).items() if name != TASKS_EXTENSION}
    return evolve(capabilities, extensions=others or None)


def _nest_task(created: CreateTaskResult) -> NestedTaskResult:
    members: dict[str, Any] = asdict(cast("Any", created), recurse=False)
    return NestedTaskResult(meta=members.pop("meta"), task=GetTaskResult(**members))


def _lower_task(task: GetTaskResult | TaskParams) -> Any:
    # In this revision, a task fails if its tool returns an error.
    if task.result is None or not task.result.get("isError"):
        return task
    texts = [str(block.get("text", "")) for block in task.result.get("content", ()) if isinstance(block, dict)]
    return evolve(task, status="failed", status_message="\n".join(filter(None, texts))[:_MAX_MESSAGE] or None)


_MAX_MESSAGE: Final = 1000
"""Characters of a tool's error that the status of its task contains."""
_STRUCTURED_CONTENT: Final = FieldLowering("structured_content", lower_structured_content)

REVISION: Final = Revision(
    version="2025-11-25",
    lifecycle=NegotiationStyle.HANDSHAKE,
    inputs=Inputs.BACK_CHANNEL,
    log_level=LogLevel.SESSION,
    changes=ChangeDelivery.UNSOLICITED,
    batches=False,
    elicitation_modes=frozenset({"form", "url"}),
    url_elicitation_error=True,
    sampling_context=True,
    bad_arguments=BadArguments.TOOL_ERROR,
    tasks=TaskCreation.BY_CLIENT,
    http=HTTPFeatures(
        sessions=True,
        get_stream=True,
        resumable=True,
        mirrored_headers=False,
        version_header=True,
        priming=True,
    ),
    codes=MappingProxyType({Code.MISSING_CLIENT_CAPABILITY: Code.INVALID_REQUEST}),
    lowerings=MappingProxyType(
        {
            Tool: _lower_tool,
            CallToolResult: _STRUCTURED_CONTENT,
            ToolResultContent: _STRUCTURED_CONTENT,
            ElicitURLParams: _check_elicitation_id,
            ClientCapabilities: _lower_capabilities,
            ServerCapabilities: _lower_capabilities,
            CreateTaskResult: _nest_task,
            GetTaskResult: _lower_task,
            TaskParams: _lower_task,
        }
    ),
)
