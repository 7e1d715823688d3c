"""Revision 2026-07-28: stateless; every request contains its client and its revision.

The model has the form of this revision, so there are no lowerings.

Source: MCP 2026-07-28, changelog.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mcptrio.errors import Code
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

REVISION: Final = Revision(
    version="2026-07-28",
    lifecycle=NegotiationStyle.PER_REQUEST,
    inputs=Inputs.ROUND_TRIPS,
    log_level=LogLevel.PER_REQUEST,
    changes=ChangeDelivery.LISTEN_STREAM,
    batches=False,
    elicitation_modes=frozenset({"form", "url"}),
    url_elicitation_error=False,
    sampling_context=True,
    bad_arguments=BadArguments.TOOL_ERROR,
    tasks=TaskCreation.BY_SERVER,
    http=HTTPFeatures(
        sessions=False,
        get_stream=False,
        resumable=False,
        mirrored_headers=True,
        version_header=True,
        priming=False,
    ),
    codes=MappingProxyType(
        {
            Code.RESOURCE_NOT_FOUND: Code.INVALID_PARAMS,
            Code.URL_ELICITATION_REQUIRED: Code.INVALID_REQUEST,
        }
    ),
)
