"""Estimates the tokens that tool definitions take in every conversation.

The commands that list and check plugins use this. Models have different tokenizers, so the estimate is the same for
all: the bytes of the definition, divided by four.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from mcptrio.protocol.model.tools import Tool
from mcptrio.protocol.revisions.registry import LATEST

if TYPE_CHECKING:
    from mcptrio.capabilities.catalog import Catalog

__all__ = ["estimated_tokens", "tokens_by_tool"]

_BYTES_PER_TOKEN = 4


def estimated_tokens(tool: Tool) -> int:
    """Return the estimate for one tool: the bytes of its compact JSON in the newest revision, divided by four and
    rounded up."""
    return -(-len(orjson.dumps(LATEST.unstructure(tool))) // _BYTES_PER_TOKEN)


def tokens_by_tool(catalog: Catalog, plugin: str) -> dict[str, int]:
    """Return the estimate for each tool of a plugin, in the order of the list."""
    return {each.key: estimated_tokens(each.tool) for each in catalog.tools.registry if each.owner.name == plugin}
