"""Revision 2024-11-05, the first: no audio, and no annotations of tools.

Its HTTP transport has an SSE stream and an endpoint for POSTs. Streamable HTTP came with the next revision.

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
    # Clients of this revision refuse content of an unknown type, so a description takes its place.
    size = len(audio.data) * 3 // 4  # base64
    return TextContent(
        text=f"[audio, {audio.mime_type}, about {size} bytes: omitted, this protocol revision has no audio]",
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
    # Some clients use this revision over Streamable HTTP; they get the traits of the next one.
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
