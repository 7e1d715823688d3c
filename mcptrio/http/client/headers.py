"""The headers of a client's HTTP requests.

Each link has one :class:`ClientHeaders`, which returns the headers of each request. The user's headers are added to
those of the protocol and cannot replace them.

Source: MCP 2025-11-25, basic/transports, "Session Management" and "Protocol Version Header"; MCP 2026-07-28,
basic/transports/streamable-http, "Standard Headers" and "Custom Headers from Tool Parameters".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mcptrio.http.client.connection_pool import RawHeaders
from mcptrio.http.client.endpoint import HTTPEndpoint
from mcptrio.http.headers import EVENT_STREAM, JSON
from mcptrio.http.param_headers import NAME_PARAMS, encode_value, value_at
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["INITIALIZE", "ClientHeaders", "secrets_in"]

INITIALIZE: Final = "initialize"
"""The method of the first request, which has neither a version nor a session."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?|")
_PROTOCOL_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",  # bodies are not decompressed
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_PROTOCOL_PREFIXES: Final = ("mcp-param-", "sec-websocket-")
_AUTH: Final = "authorization"
_PUBLIC: Final = frozenset({"accept", "accept-encoding", "content-type", "last-event-id", "user-agent"})
"""Headers whose values are not secret, in addition to those with the prefix ``Mcp-``."""
_MIN_SECRET_CHARS: Final = 6
"""Minimum characters of a value that counts as secret. A shorter value occurs in many texts by chance."""
_MAX_INTEGER: Final = 2**64
"""The bound of integers. Larger ones are encoded as null in the body, so no header repeats them."""


def secrets_in(headers: RawHeaders) -> tuple[str, ...]:
    """Return the values in a request's headers that may be secret, the longest first.

    These are credentials and the values of all headers of the user, with and without a scheme such as ``Bearer``.
    """
    secrets = set()
    for name, value in headers:
        lowered = name.lower().decode("ascii")
        if lowered in _PUBLIC or lowered.startswith(("mcp-", "sec-websocket-")):
            continue
        text = value.decode("latin-1")
        secrets |= {text, text.partition(" ")[2]}
    return tuple(sorted((each for each in secrets if len(each) >= _MIN_SECRET_CHARS), key=len, reverse=True))


class ClientHeaders:
    """Makes the headers of a client's HTTP requests.

    Args:
        headers: The user's headers, sent with every request.
        authorized: True if credentials are added elsewhere.

    Raises:
        ValueError: A header is invalid or belongs to the protocol, or there are two sources of credentials.
    """

    def __init__(self, endpoint: HTTPEndpoint, headers: Mapping[str, str], *, authorized: bool) -> None:
        self._common_headers = _common_headers(endpoint, headers)
        sources = (authorized, endpoint.authorization is not None, any(name.lower() == _AUTH for name in headers))
        if sum(sources) > 1:
            raise ValueError("expected credentials from one of the URL, the Authorization header and auth; got several")
        self._post = [
            (b"Accept", f"{JSON}, {EVENT_STREAM}".encode()),
            (b"Content-Type", JSON.encode()),
            *self._common_headers,
        ]

    def of_plain_post(self) -> RawHeaders:
        """Return the headers of a POST without version and session."""
        return [*self._post]

    def of_post(
        self,
        message: Request | Notification | Response | ErrorResponse,
        revision: Revision,
        *,
        session: str | None,
        param_headers: Mapping[str, tuple[str, ...]],
    ) -> RawHeaders:
        """Return the headers of a POST.

        Args:
            param_headers: Maps each header name, in lower case and without ``mcp-param-``, to the path of its argument.
        """
        headers = [*self._post]
        if isinstance(message, Request) and message.method == INITIALIZE:
            return headers
        headers += _session_headers(revision, session)
        if revision.http.mirrored_headers and isinstance(message, Request | Notification):
            headers += _mirrored_headers(message, param_headers)
        return headers

    def of_get(self, revision: Revision | None, *, session: str | None, last_event_id: str = "") -> RawHeaders:
        """Return the headers of a GET.

        Args:
            revision: ``None`` before the handshake.
            last_event_id: The position to resume at; empty for a new stream.
        """
        headers = [*self._common_headers, (b"Accept", EVENT_STREAM.encode()), *_session_headers(revision, session)]
        if last_event_id:
            # In UTF-8, as browsers send it (WHATWG HTML 9.2.3).
            headers.append((b"Last-Event-ID", last_event_id.encode()))
        return headers

    def of_upgrade(self) -> RawHeaders:
        """Return the headers of a WebSocket upgrade, except those of WebSocket itself."""
        return [*self._common_headers]

    def of_delete(self, revision: Revision | None, *, session: str) -> RawHeaders:
        return [*self._common_headers, *_session_headers(revision, session)]


def _common_headers(endpoint: HTTPEndpoint, headers: Mapping[str, str]) -> RawHeaders:
    headers_by_name = {"user-agent": (b"User-Agent", b"mcptrio")}
    for name, value in headers.items():
        lowered = name.lower()
        if _TOKEN.fullmatch(name) is None:
            raise ValueError(f"headers: expected a header's name, got {name[:80]!r}")
        if lowered in _PROTOCOL_HEADERS or lowered.startswith(_PROTOCOL_PREFIXES):
            raise ValueError(f"headers: {name} is set by the protocol and cannot be given")
        if lowered == _AUTH and value.strip().lower() == "bearer":
            raise ValueError(f"headers: {name}: expected a token after {value.strip()}, got nothing")
        if _VALUE.fullmatch(value) is None:
            # The error does not repeat the value, which may be a secret.
            raise ValueError(
                f"headers: {name}: expected printable ASCII without spaces around it, got other characters"
            )
        headers_by_name[lowered] = (name.encode(), value.encode())
    headers_by_name["accept-encoding"] = (b"Accept-Encoding", b"identity")
    if endpoint.authorization is not None:
        headers_by_name[_AUTH] = (b"Authorization", endpoint.authorization.encode())
    return list(headers_by_name.values())


def _session_headers(revision: Revision | None, session: str | None) -> RawHeaders:
    headers = []
    if revision is not None and revision.http.version_header:
        headers.append((b"Mcp-Protocol-Version", revision.version.encode()))
    if session is not None:
        headers.append((b"Mcp-Session-Id", session.encode()))
    return headers


def _mirrored_headers(message: Request | Notification, param_headers: Mapping[str, tuple[str, ...]]) -> RawHeaders:
    params = message.params or {}
    headers = [(b"Mcp-Method", message.method.encode())]
    member = NAME_PARAMS.get(message.method)
    if member is not None and isinstance(name := params.get(member), str):
        headers.append((b"Mcp-Name", _encode(name)))
    for header, path in param_headers.items():
        value = value_at(params.get("arguments"), path)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        # Other values do not match the schema. The server's error about the body says more than one about a header.
        if isinstance(value, str) or (isinstance(value, int) and abs(value) < _MAX_INTEGER):
            headers.append((f"Mcp-Param-{header}".encode(), _encode(value)))
    return headers


def _encode(value: str | int) -> bytes:
    try:
        return encode_value(value).encode()
    except UnicodeEncodeError:
        # The value has a lone surrogate. The encoder of the body replaces it, and header and body must agree.
        return encode_value(str(value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")).encode()
