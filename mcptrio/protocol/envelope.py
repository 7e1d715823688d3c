"""The envelope of a per-request revision: client, revision and capabilities, in ``params._meta``.

The connection reads it, and the HTTP endpoint compares it with the headers. A message with an envelope belongs to a
per-request revision, whatever its method is.

Source: MCP 2026-07-28, basic/index, "_meta"; basic/versioning.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from mcptrio.errors import InvalidParams

__all__ = [
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "ENVELOPE",
    "LOG_LEVEL",
    "PROTOCOL_VERSION",
    "SERVER_INFO",
    "SUBSCRIPTION_ID",
    "Envelope",
]

_PREFIX = "io.modelcontextprotocol/"

PROTOCOL_VERSION = _PREFIX + "protocolVersion"
CLIENT_CAPABILITIES = _PREFIX + "clientCapabilities"
CLIENT_INFO = _PREFIX + "clientInfo"
LOG_LEVEL = _PREFIX + "logLevel"
SERVER_INFO = _PREFIX + "serverInfo"
SUBSCRIPTION_ID = _PREFIX + "subscriptionId"
ENVELOPE = (PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL)
"""The members of ``_meta`` that are the envelope of a request."""


@frozen(kw_only=True)
class Envelope:
    """The members of one envelope. Their contents are not checked."""

    version: str
    capabilities: dict[str, Any]
    client_info: dict[str, Any] | None = None
    log_level: str | None = None

    @staticmethod
    def is_present(params: dict[str, Any] | None) -> bool:
        """Return whether a message has an envelope, complete or not."""
        # `_meta` has not been checked and may be any JSON value.
        meta = params.get("_meta") if params else None
        # One of the two members suffices. For an incomplete envelope, read() raises an error that names the other one.
        return type(meta) is dict and (PROTOCOL_VERSION in meta or CLIENT_CAPABILITIES in meta)

    @classmethod
    def read(cls, params: dict[str, Any] | None) -> Envelope:
        """Return the envelope of a request.

        Raises:
            InvalidParams: A required member is missing or has another type.
        """
        meta = params.get("_meta") if params else None
        if type(meta) is not dict:
            raise InvalidParams(
                f"expected an object with {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES} at `params._meta`"
            )
        version = _member(meta, PROTOCOL_VERSION, str, "a string")
        capabilities = _member(meta, CLIENT_CAPABILITIES, dict, "an object")
        info = _member(meta, CLIENT_INFO, dict, "an object") if CLIENT_INFO in meta else None
        level = _member(meta, LOG_LEVEL, str, "a string") if LOG_LEVEL in meta else None
        return cls(version=version, capabilities=capabilities, client_info=info, log_level=level)


def _member(meta: dict[str, Any], key: str, kind: type, expected: str) -> Any:
    if key not in meta:
        raise InvalidParams(f"expected {expected}, got nothing at `params._meta[{key!r}]`")
    value = meta[key]
    if type(value) is not kind:
        raise InvalidParams(f"expected {expected}, got {type(value).__name__} at `params._meta[{key!r}]`")
    return value
