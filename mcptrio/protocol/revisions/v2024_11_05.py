"""Revision 2024-11-05: the first; no sound, no annotations of tools.

Streamable HTTP came later (its HTTP transport has an SSE stream and a POST endpoint of its own), so the traits for it
say no to everything.

Source: MCP 2024-11-05, schema.ts, "PromptMessage", "Tool"; basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mcptrio.protocol.model.content import AudioContent, TextContent
from mcptrio.protocol.revisions import v2025_03_26
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


def _lower_audio(audio: AudioContent) -> TextContent:
    size = len(audio.data) * 3 // 4  # base64
    return TextContent(
        text=f"[audio, {audio.mime_type}, about {size} bytes: left out, this protocol revision has no audio]",
        annotations=audio.annotations,
    )


LOWERINGS: Final[Mapping[type, Lowering]] = MappingProxyType({**v2025_03_26.LOWERINGS, AudioContent: _lower_audio})

REVISION: Final = Revision(
    version="2024-11-05",
    lifecycle=NegotiationStyle.HANDSHAKE,
    inputs=Inputs.BACK_CHANNEL,
    log_level=LogLevel.SESSION,
    changes=ChangeDelivery.UNSOLICITED,
    batches=False,
    elicitation_modes=frozenset(),
    url_elicitation_error=False,
    sampling_context=False,
    bad_arguments=BadArguments.PROTOCOL_ERROR,
    # Streamable HTTP is younger; clients that offer this revision over it get what the next one has.
    http=HTTPTraits(
        sessions=True,
        get_stream=True,
        resumable=True,
        mirrored_headers=False,
        version_header=False,
        priming=False,
    ),
    codes=v2025_03_26.REVISION.codes,
    lowerings=LOWERINGS,
)
