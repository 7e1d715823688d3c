"""Estimates the tokens that tool definitions take in every conversation.

The commands that list and check plugins use this, and ``mcptrio inspect``. Models have different tokenizers, so the
estimate is the same for all: the bytes of the definition, divided by four.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcptrio.protocol.model.tools import Tool

if TYPE_CHECKING:
    from mcptrio.capabilities.catalog import Catalog

__all__ = ["estimated_tokens", "tokens_by_tool"]

_BYTES_PER_TOKEN = 4
"""The average of today's tokenizers for English and JSON, within a third."""


def estimated_tokens(tool: Tool) -> int:
    """Return the estimate for one tool: the bytes of its name, description and input schema as compact JSON, divided by
    four and rounded up."""
    # Host applications pass only these members to the model.
    members = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    # Not orjson, which refuses integers of more than 64 bits; a schema in Python may contain any value.
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":"), default=str)
    # `//` rounds down, so the negated quotient rounds up.
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


def tokens_by_tool(catalog: Catalog, plugin: str) -> dict[str, int]:
    """Return the estimate for each tool of a plugin, in the order of the list."""
    return {each.key: estimated_tokens(each.tool) for each in catalog.tools.registry if each.owner.name == plugin}
