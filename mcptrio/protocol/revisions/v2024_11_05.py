"""Revision 2024-11-05, the first: no audio, and no annotations of tools.

Its HTTP transport has an SSE stream and an endpoint for POST requests. The next revision introduced Streamable HTTP.

Source: MCP 2024-11-05, schema.ts, "PromptMessage", "Tool"; basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from attrs import evolve

from mcptrio.protocol.model.content import AudioContent, TextContent
from mcptrio.protocol.revisions import v2025_03_26

__all__ = ["REVISION"]


def _lower_audio(audio: AudioContent) -> TextContent:
    # Clients of this revision refuse content of an unknown type, so a description replaces it.
    size = len(audio.data) * 3 // 4  # base64
    return TextContent(
        text=f"[audio, {audio.mime_type}, about {size} bytes: omitted, this protocol revision has no audio]",
        annotations=audio.annotations,
    )


REVISION: Final = evolve(
    # Some clients use this revision over Streamable HTTP; they get the features of the next one.
    v2025_03_26.REVISION,
    version="2024-11-05",
    batches=False,
    lowerings=MappingProxyType({**v2025_03_26.REVISION.lowerings, AudioContent: _lower_audio}),
)
