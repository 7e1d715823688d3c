"""Revision 2025-06-18: forms without defaults, sampling messages of one block, no tools in sampling.

Source: MCP 2025-06-18, schema.ts, "PrimitiveSchemaDefinition", "SamplingMessage", "CreateMessageRequest".
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from mcptrio.errors import Code, LocalProtocolError
from mcptrio.protocol.model.elicitation import ElicitFormParams
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult, SamplingMessage
from mcptrio.protocol.revisions import v2025_11_25
from mcptrio.protocol.revisions.revision import BadArguments, TaskCreation

__all__ = ["REVISION"]


def _lower_form(params: ElicitFormParams) -> ElicitFormParams:
    # Clients of this revision refuse additional members in the schema of a form.
    schema = {name: member for name, member in params.requested_schema.items() if name != "$schema"}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["properties"] = {name: _lower_primitive(name, primitive) for name, primitive in properties.items()}
    return evolve(params, requested_schema=schema)


def _lower_primitive(name: str, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "array":
        # Without the field, the form would ask another question.
        raise LocalProtocolError(
            f"expected a form that the client can show, got a multiple choice at `requestedSchema.properties.{name}`"
            " (not before revision 2025-11-25)"
        )
    lowered = dict(schema)
    if schema.get("type") != "boolean":
        # Only booleans have a default in this revision.
        lowered.pop("default", None)
    choices = lowered.pop("oneOf", None)
    if isinstance(choices, list):
        # In this revision, `enumNames` has the titles of choices.
        lowered["enum"] = [choice["const"] for choice in choices]
        lowered["enumNames"] = [choice.get("title", choice["const"]) for choice in choices]
    return lowered


def _check_one_block(message: Any) -> Any:
    # Without the other blocks, the conversation would have another meaning.
    if len(message.content) != 1:
        raise LocalProtocolError(
            f"expected one content block in a sampling message, got {len(message.content)}"
            " (not before revision 2025-11-25)"
        )
    return message


def _check_no_tools(params: CreateMessageParams) -> CreateMessageParams:
    if params.tools:
        raise LocalProtocolError("expected sampling without tools, got tools (not before revision 2025-11-25)")
    return params


REVISION: Final = evolve(
    v2025_11_25.REVISION,
    version="2025-06-18",
    elicitation_modes=frozenset({"form"}),
    url_elicitation_error=False,
    sampling_context=False,
    bad_arguments=BadArguments.PROTOCOL_ERROR,
    tasks=TaskCreation.NONE,
    http=evolve(v2025_11_25.REVISION.http, priming=False),
    codes=MappingProxyType(
        {
            Code.MISSING_CLIENT_CAPABILITY: Code.INVALID_REQUEST,
            Code.URL_ELICITATION_REQUIRED: Code.INVALID_REQUEST,
        }
    ),
    lowerings=MappingProxyType(
        {
            **v2025_11_25.REVISION.lowerings,
            ElicitFormParams: _lower_form,
            SamplingMessage: _check_one_block,
            CreateMessageResult: _check_one_block,
            CreateMessageParams: _check_no_tools,
        }
    ),
)
