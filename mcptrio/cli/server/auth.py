"""``[auth]`` for ``mcptrio serve``: who may come in over HTTP, and who uses standard input and output.

Called by the commands that serve.
The one rule: where there is an ``[auth]``, nothing is served that it cannot guard.
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


def guard_for(read: ServeConfig, key: bytes | None) -> Guard | None:
    """The guard of the endpoint; ``None`` where nobody asked for one.

    Args:
        key: that the workers of this service share, where it has some and no key is configured.
    """
    if not read.asks_for_auth(os.environ):
        return None
    from mcptrio.serve.auth_config import guard_of

    configured = keys_of(read)
    return guard_of(read, key=configured[0] if configured else key)


def settings_of(read: ServeConfig) -> AuthSettings | None:
    """What ``[auth]`` says; ``None`` where nobody asked for that."""
    if not read.asks_for_auth(os.environ):
        return None
    from mcptrio.serve.auth_config import read_settings

    return read_settings(read)


def identify_by(read: ServeConfig) -> Callable[[], Awaitable[Principal | None]] | None:
    """What finds out who uses standard input and output; ``None`` where nobody asked for that."""
    if not read.asks_for_auth(os.environ) and _TOKEN not in os.environ:
        return None
    from mcptrio.serve.auth_config import principal_of_environment

    return partial(principal_of_environment, read)


def refuse_streams(read: ServeConfig) -> None:
    if read.asks_for_auth(os.environ):
        raise click.UsageError("[auth] guards --http and --stdio; what comes over --listen has no token")
