"""Revision 2025-03-26: batches; no resource links, no structured content; a tool's title is in its annotations.

Source: MCP 2025-03-26, schema.ts, "Tool", "ToolAnnotations", "CallToolResult".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mcptrio.protocol.model.content import ResourceLink, TextContent
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.tools import Tool, ToolAnnotations
from mcptrio.protocol.revisions import v2025_06_18
from mcptrio.protocol.revisions.converter import Lowering
from mcptrio.protocol.revisions.revision import (
    BadArguments,
    ChangeDelivery,
    HTTPTraits,
    Inputs,
    LogLevel,
    NegotiationStyle,
    Revision,
)

__all__ = ["LOWERINGS", "REVISION"]


def _lower_tool(tool: Tool) -> Tool:
    # The title moves to the annotations, unless they have one. The revision has no output schemas.
    annotations = tool.annotations or ToolAnnotations()
    if tool.title is None or annotations.title is not None:
        return tool
    return evolve(tool, annotations=evolve(annotations, title=tool.title))


def _lower_resource_link(link: ResourceLink) -> TextContent:
    # A text with the URI is the best that a client without links can show.
    return TextContent(text=f"{link.title or link.name}: {link.uri}", annotations=link.annotations)


LOWERINGS: Final[Mapping[type, Lowering]] = MappingProxyType(
    {
        **v2025_06_18.LOWERINGS,
        Tool: _lower_tool,
        ResourceLink: _lower_resource_link,
    }
)

REVISION: Final = Revision(
    version="2025-03-26",
    lifecycle=NegotiationStyle.HANDSHAKE,
    inputs=Inputs.BACK_CHANNEL,
    log_level=LogLevel.SESSION,
    changes=ChangeDelivery.UNSOLICITED,
    batches=True,
    elicitation_modes=frozenset(),
    url_elicitation_error=False,
    sampling_context=False,
    bad_arguments=BadArguments.PROTOCOL_ERROR,
    http=HTTPTraits(
        sessions=True,
        get_stream=True,
        resumable=True,
        mirrored_headers=False,
        version_header=False,
        priming=False,
    ),
    codes=v2025_06_18.REVISION.codes,
    lowerings=LOWERINGS,
)
