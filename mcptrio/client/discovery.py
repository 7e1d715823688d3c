"""Decides from a server's first answer which protocol revision the server speaks.

The client's Negotiator sends ``server/discover`` in the newest revision and passes the answer to :func:`read_verdict`.

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

__all__ = ["Fail", "Handshake", "PerRequest", "TryAgain", "Verdict", "read_verdict", "remote_server"]

# Assumed of a per-request server without server/discover: each method is tried, and the server may refuse it.
_ASSUMED_CAPABILITIES = ServerCapabilities(
    tools=ToolsCapability(list_changed=True),
    resources=ResourcesCapability(subscribe=True, list_changed=True),
    prompts=PromptsCapability(list_changed=True),
    completions={},
    logging={},
)
# Errors that only per-request revisions define. Any other error code may come from an older server.
_MODERN_CODES = frozenset({Code.HEADER_MISMATCH, Code.MISSING_CLIENT_CAPABILITY, Code.UNSUPPORTED_PROTOCOL_VERSION})


@frozen
class PerRequest:
    """The server speaks this per-request revision."""

    version: str
    discovered: dict[str, Any] | None
    """The result of ``server/discover``; ``None`` if the server does not have that method."""


@frozen
class TryAgain:
    """The server has refused the requested revision, but supports this per-request revision. Ask in this one."""

    version: str


@frozen
class Handshake:
    """The answer does not show that the server speaks a per-request revision: try ``initialize``."""


@frozen
class Fail:
    """The server is unreachable, refuses credentials, or shares no revision with the client."""

    error: MCPTrioError


Verdict: TypeAlias = PerRequest | TryAgain | Handshake | Fail


def read_verdict(answer: Response | ErrorResponse | RequestFailed | None, requested: str) -> Verdict:
    """Return what to do after an answer to ``server/discover``.

    No error code decides alone, because older servers answer an unknown method in many ways. Only content that
    per-request revisions define (a list of versions, one of their own errors) selects such a revision; any other answer
    leads to the handshake.

    Args:
        answer: The answer; ``None`` if none came in time.
        requested: The version in which the request was sent.
    """
    if answer is None:
        return Handshake()
    if isinstance(answer, Response):
        return _read_discovery(answer.result)
    if isinstance(answer, ErrorResponse):
        return _read_refusal(int(answer.code), answer.data, requested, MCPError(answer.message, code=answer.code))
    if answer.status is None or answer.status in (401, 403) or answer.status >= 500:
        return Fail(answer)
    if answer.reply is not None:
        code = int(answer.reply.code)
        if answer.status == 404 and code == Code.METHOD_NOT_FOUND:
            # Only per-request revisions answer an unknown method with this status, and server/discover is optional.
            return PerRequest(requested, None)
        return _read_refusal(code, answer.reply.data, requested, answer.reply)
    return Handshake() if 400 <= answer.status < 500 or answer.status < 300 else Fail(answer)


def _read_discovery(result: dict[str, Any]) -> Verdict:
    versions = result.get("supportedVersions")
    if not isinstance(versions, list):
        # Some older servers answer every method with their own result.
        return Handshake()
    version = _newest(versions)
    return PerRequest(version, result) if version is not None else Handshake()


def _read_refusal(code: int, data: Any, requested: str, error: MCPError) -> Verdict:
    if code not in _MODERN_CODES:
        return Handshake()
    if code != Code.UNSUPPORTED_PROTOCOL_VERSION:
        return Fail(error)
    supported = data.get("supported") if isinstance(data, dict) else None
    # basic/versioning: the error's data lists the versions that the server supports.
    versions = supported if isinstance(supported, list) else []
    version = _newest(versions)
    if version is not None and version != requested:
        return TryAgain(version)
    if any(each in HANDSHAKE_VERSIONS for each in versions if isinstance(each, str)):
        return Handshake()
    if version is not None:
        # The server lists the version that it has refused. There may be two replicas of different versions behind one
        # address, so one more attempt decides. The caller does not repeat it.
        return TryAgain(version)
    spoken = ", ".join(str(each)[:40] for each in versions[:10]) or "none that it names"
    ours = ", ".join((*HANDSHAKE_VERSIONS, *MODERN_VERSIONS))
    return Fail(RemoteProtocolError(f"no revision in common: the server speaks {spoken}; expected one of {ours}"))


def _newest(versions: list[Any]) -> str | None:
    return max((each for each in MODERN_VERSIONS if each in versions), default=None)


def remote_server(verdict: PerRequest) -> RemoteServer:
    """Return the server that an answer to ``server/discover`` describes.

    Raises:
        RemoteProtocolError: The answer is malformed.
    """
    revision, raw = REVISIONS[verdict.version], verdict.discovered
    if raw is None:
        return RemoteServer(revision=revision, capabilities=_ASSUMED_CAPABILITIES)
    meta: Any = raw.get("_meta")
    member = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    try:
        result: DiscoverResult = revision.structure(raw, DiscoverResult)
        info = revision.structure(member, Implementation) if member is not None else None
    except InvalidParams as error:
        raise RemoteProtocolError(f"the server's result of server/discover: {error.message}") from error
    return RemoteServer(
        revision=revision, info=info, capabilities=result.capabilities, instructions=result.instructions
    )
