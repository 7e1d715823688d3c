"""Which revision a server speaks, told from its first answer.

Used when a client connects: it asks ``server/discover`` in the newest revision, and each answer leads to one verdict.
The one rule: no single error code decides. What only a per-request revision says (a result that lists versions, one of
its own errors) is believed; everything else that is an answer at all leads to the handshake.

Source: MCP 2026-07-28, basic/versioning, "Compatibility"; basic/transports/stdio and streamable-http, "Backward
Compatibility".
"""

from __future__ import annotations

from typing import Any, TypeAlias

from attrs import frozen

from mcptrio.errors import Code, InvalidParams, MCPError, MCPTrioError, RemoteProtocolError, RequestFailed
from mcptrio.protocol.client_connection import RemoteServer
from mcptrio.protocol.envelope import SERVER_INFO
from mcptrio.protocol.messages import ErrorResponse, Response
from mcptrio.protocol.model.lifecycle import (
    DiscoverResult,
    Implementation,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)
from mcptrio.protocol.revisions.registry import HANDSHAKE_VERSIONS, MODERN_VERSIONS, REVISIONS

__all__ = ["Fail", "Handshake", "PerRequest", "TryAgain", "Verdict", "judge_answer", "remote_server"]

_ASSUMED_CAPABILITIES = ServerCapabilities(
    tools=ToolsCapability(list_changed=True),
    resources=ResourcesCapability(subscribe=True, list_changed=True),
    prompts=PromptsCapability(list_changed=True),
    completions={},
    logging={},
)
"""Capabilities assumed of a server without ``server/discover``."""
_MODERN_CODES = frozenset({Code.HEADER_MISMATCH, Code.MISSING_CLIENT_CAPABILITY, Code.UNSUPPORTED_PROTOCOL_VERSION})
"""Errors that only a server of a per-request revision sends."""


@frozen
class PerRequest:
    """It speaks this per-request revision."""

    version: str
    discovered: dict[str, Any] | None
    """The result of ``server/discover``; ``None`` where it has no such method."""


@frozen
class TryAgain:
    """It speaks this per-request revision, but refused the question; ask in this one, once."""

    version: str


@frozen
class Handshake:
    """Nothing says that it speaks a per-request revision: try ``initialize``."""


@frozen
class Fail:
    """It cannot be spoken with, or not now."""

    error: MCPTrioError


Verdict: TypeAlias = PerRequest | TryAgain | Handshake | Fail


def judge_answer(answer: Response | ErrorResponse | RequestFailed | None, asked: str) -> Verdict:
    """What to do after an answer to ``server/discover``.

    Args:
        answer: ``None`` where there was none in time.
        asked: the version it was asked in.
    """
    if answer is None:
        return Handshake()
    if isinstance(answer, Response):
        return _discovered(answer.result)
    if isinstance(answer, ErrorResponse):
        return _refused(int(answer.code), answer.data, asked, MCPError(answer.message, code=answer.code))
    if answer.status is None or answer.status in (401, 403) or answer.status >= 500:
        return Fail(answer)
    if answer.reply is not None:
        code = int(answer.reply.code)
        if answer.status == 404 and code == Code.METHOD_NOT_FOUND:
            # Only per-request revisions answer an unknown method with this status; clients need not discover.
            return PerRequest(asked, None)
        return _refused(code, answer.reply.data, asked, answer.reply)
    return Handshake() if 400 <= answer.status < 500 or answer.status < 300 else Fail(answer)


def _discovered(result: dict[str, Any]) -> Verdict:
    versions = result.get("supportedVersions")
    if not isinstance(versions, list):
        return Handshake()  # an older server that answers anything with anything
    version = _newest(versions)
    return PerRequest(version, result) if version is not None else Handshake()


def _refused(code: int, data: Any, asked: str, error: MCPError) -> Verdict:
    if code not in _MODERN_CODES:
        return Handshake()
    if code != Code.UNSUPPORTED_PROTOCOL_VERSION:
        return Fail(error)
    supported = data.get("supported") if isinstance(data, dict) else None
    versions = supported if isinstance(supported, list) else []
    version = _newest(versions)
    if version is not None and version != asked:
        return TryAgain(version)
    if any(each in HANDSHAKE_VERSIONS for each in versions if isinstance(each, str)):
        return Handshake()
    if version is not None:
        # It refuses what it says it speaks: another replica behind the same address, or a test of clients.
        return TryAgain(version)
    spoken = ", ".join(str(each)[:40] for each in versions[:10]) or "none that it names"
    ours = ", ".join((*HANDSHAKE_VERSIONS, *MODERN_VERSIONS))
    return Fail(RemoteProtocolError(f"no revision in common: the server speaks {spoken}; expected one of {ours}"))


def _newest(versions: list[Any]) -> str | None:
    return max((each for each in MODERN_VERSIONS if each in versions), default=None)


def remote_server(verdict: PerRequest) -> RemoteServer:
    """Return the server that the answer to ``server/discover`` describes.

    Raises:
        RemoteProtocolError: the answer cannot be read.
    """
    revision, raw = REVISIONS[verdict.version], verdict.discovered
    if raw is None:
        return RemoteServer(revision=revision, capabilities=_ASSUMED_CAPABILITIES)
    meta: Any = raw.get("_meta")
    said = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    try:
        result: DiscoverResult = revision.structure(raw, DiscoverResult)
        info = revision.structure(said, Implementation) if said is not None else None
    except InvalidParams as error:
        raise RemoteProtocolError(f"the server's result of server/discover: {error.message}") from error
    return RemoteServer(
        revision=revision, info=info, capabilities=result.capabilities, instructions=result.instructions
    )
