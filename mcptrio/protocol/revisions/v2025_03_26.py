"""Revision 2025-03-26: batches; no resource links, no structured content; a tool's title is in its annotations.

Source: MCP 2025-03-26, schema.ts, "Tool", "ToolAnnotations", "CallToolResult".
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mcptrio.protocol.model.content import ResourceLink, TextContent
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.tools import Tool, ToolAnnotations
from mcptrio.protocol.revisions import v2025_06_18

__all__ = ["REVISION"]


def _lower_tool(tool: Tool) -> Tool:
    # In this revision, the title is in the annotations. A title that the author has set there is kept.
    annotations = tool.annotations or ToolAnnotations()
    if tool.title is None or annotations.title is not None:
        return tool
    return evolve(tool, annotations=evolve(annotations, title=tool.title))


def _lower_resource_link(link: ResourceLink) -> TextContent:
    # A client without links can at least show the URI.
    return TextContent(text=f"{link.title or link.name}: {link.uri}", annotations=link.annotations)


REVISION: Final = evolve(
    v2025_06_18.REVISION,
    version="2025-03-26",
    batches=True,
    elicitation_modes=frozenset(),
    http=evolve(v2025_06_18.REVISION.http, version_header=False),
    lowerings=MappingProxyType(
        {**v2025_06_18.REVISION.lowerings, Tool: _lower_tool, ResourceLink: _lower_resource_link}
    ),
)
