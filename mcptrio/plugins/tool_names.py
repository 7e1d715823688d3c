"""Replaces tool names in the descriptions of a plugin's entries.

``Contributions`` uses this directly after registration, before any client can see the entries.
"""

from __future__ import annotations

from mcptrio.capabilities.prompts import PromptEntry
from mcptrio.capabilities.resource_index import ResourceEntry
from mcptrio.capabilities.tool_names import NameOf, schema_with_names, with_names
from mcptrio.capabilities.tools import ToolEntry
from mcptrio.protocol.model.fields import evolve

__all__ = ["name_tools_in"]


def name_tools_in(entry: object, name_of: NameOf) -> None:
    """Replace names in the descriptions of an entry that was just registered."""
    if isinstance(entry, ToolEntry):
        tool = entry.tool
        if entry.mark.listed is None:  # not in tools of other servers, whose text is not the author's
            entry.tool = evolve(
                tool,
                description=_described(tool.description, name_of),
                input_schema=schema_with_names(tool.input_schema, name_of),
                output_schema=schema_with_names(tool.output_schema, name_of),
            )
    elif isinstance(entry, PromptEntry):
        prompt = entry.prompt
        entry.prompt = evolve(
            prompt,
            description=_described(prompt.description, name_of),
            arguments=tuple(
                evolve(each, description=_described(each.description, name_of)) for each in prompt.arguments or ()
            )
            or prompt.arguments,
        )
    elif isinstance(entry, ResourceEntry):
        entry.listed = evolve(entry.listed, description=_described(entry.listed.description, name_of))


def _described(text: str | None, name_of: NameOf) -> str | None:
    return text and with_names(text, name_of)
