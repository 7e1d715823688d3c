"""Makes the authorization of ``mcptrio serve`` from ``[auth]``: for HTTP and for stdio.

The commands that serve use it. With ``[auth]``, a transport that it cannot protect is refused.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from mcptrio.abc import Guard, Principal
from mcptrio.cli.server.plugin_server import keys_of
from mcptrio.serve.config import ServeConfig

if TYPE_CHECKING:
    from mcptrio.serve.auth_config import AuthSettings

__all__ = ["guard_for", "identify_by", "refuse_streams", "settings_of"]

_TOKEN = "MCPTRIO_TOKEN"


def guard_for(config: ServeConfig, key: bytes | None) -> Guard | None:
    """Return the guard of the endpoint; ``None`` without ``[auth]``.

    Args:
        key: The key that the workers of this service share, if they have one and no key is configured.
    """
    if not config.has_auth(os.environ):
        return None
    from mcptrio.serve.auth_config import guard_of

    # Replicas must accept each other's DPoP nonces, so they use the same key.
    configured = keys_of(config)
    return guard_of(config, key=configured[0] if configured else key)


def settings_of(config: ServeConfig) -> AuthSettings | None:
    """Return the settings of ``[auth]``; ``None`` without it."""
    if not config.has_auth(os.environ):
        return None
    from mcptrio.serve.auth_config import read_settings

    return read_settings(config)


def identify_by(config: ServeConfig) -> Callable[[], Awaitable[Principal | None]] | None:
    """Return a function that identifies the user of stdio; ``None`` without ``[auth]`` and a token."""
    # Even without [auth], the token is removed from the environment, so that no plugin can read it.
    if not config.has_auth(os.environ) and _TOKEN not in os.environ:
        return None
    from mcptrio.serve.auth_config import principal_of_environment

    return partial(principal_of_environment, config)


def refuse_streams(config: ServeConfig) -> None:
    if config.has_auth(os.environ):
        raise click.UsageError(
            "expected --http or --stdio with [auth], got a stream (--listen), whose connections have no token"
        )
