"""The MCP servers for which tokens are issued.

A token has one audience: a configured resource or, without any, a server with the same scheme, host and port as this
one.

Source: RFC 8707 section 2; MCP 2026-07-28, basic/authorization, "Resource Parameter Implementation".
"""

from __future__ import annotations

from mcptrio.auth.urls import canonical, origin
from mcptrio.errors import AuthorizationError

from .config import Config
from .refusals import Refusal

__all__ = ["resource_of"]


def resource_of(config: Config, requested: str | None) -> str:
    """Return the audience of a token.

    Args:
        requested: The ``resource`` parameter of the request; ``None`` if it has none.

    Raises:
        Refusal: ``invalid_target``.
    """
    if requested is None:
        return config.resources[0] if config.resources else config.addresses.default_resource
    try:
        url = canonical(requested) if "#" not in requested else ""
    except AuthorizationError:
        url = ""
    for resource in config.resources:
        if url and canonical(resource) == url:
            # The configured spelling, because resource servers compare audiences character by character.
            return resource
    if url and not config.resources and origin(url) == config.addresses.origin:
        return url
    raise Refusal("invalid_target", "resource: expected an MCP server that this authorization server issues tokens for")
