"""The settings that the commands of the client share, from the environment: ``MCPTRIO_CLIENT_*``.

The options of these commands are what people type; rare values are set here or in an entry of an ``mcp.json``. Read by
:mod:`mcptrio.commands.client_command`, ``mcptrio auth`` and the store of credentials.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from attrs import field, frozen
from attrs.converters import optional

from mcptrio.config import variable_of
from mcptrio.config_keys import CLIENT, read_environment
from mcptrio.protocol.model.logging import LoggingLevel

__all__ = ["VARIABLES", "ClientSettings", "client_settings"]

_TABLE = ("client",)

_HELP: Mapping[str, str] = MappingProxyType(
    {
        "credentials": "Where `mcptrio auth` keeps credentials: keyring, or the path of a file.",
        "inherit_env": "true: give a command all of our environment, secrets included.",
        "input": "false: do not let the server ask, even at a terminal.",
        "log_level": "Show log messages of the server of this level and above, or off.  [default: info]",
        "roots": "Folders that the server may work in, separated by commas.",
        "tls_ca": "Trust the authorities in this file, instead of those of the system.",
        "tls_cert": "Show the certificate in this file to a server that asks for one.",
        "tls_key": "The key of that certificate, if it is not in the same file.",
        "transport": "How to speak to a URL: http, sse or auto.  [default: auto]",
    }
)

VARIABLES: Mapping[str, str] = MappingProxyType({variable_of((*_TABLE, name)): _HELP[name] for name in CLIENT[_TABLE]})
"""All of them, with what each sets."""


def _paths(values: Iterable[str | Path]) -> tuple[Path, ...]:
    return tuple(map(Path, values))


@frozen(kw_only=True)
class ClientSettings:
    """See the table of variables in docs/commands.md.

    Args:
        credentials: ``keyring``, or the path of a file; ``None`` for the default file.
        inherit_env: whether a command gets the whole environment.
        input: whether the server may ask the person at the terminal.
        log_level: the least level of log messages that is shown, or ``off``.
        roots: folders that the server may work in.
        tls_ca: a file with the authorities to trust, instead of those of the system.
        tls_cert: a file with the certificate to show to a server that asks.
        tls_key: the key of the certificate; ``None`` if it is in the same file.
        transport: how a URL is spoken to.
    """

    credentials: str | None = None
    inherit_env: bool = False
    input: bool = True
    log_level: LoggingLevel | Literal["off"] = "info"
    roots: tuple[Path, ...] = field(default=(), converter=_paths)
    tls_ca: Path | None = field(default=None, converter=optional(Path))
    tls_cert: Path | None = field(default=None, converter=optional(Path))
    tls_key: Path | None = field(default=None, converter=optional(Path))
    transport: Literal["auto", "http", "sse"] = "auto"


def client_settings(environ: Mapping[str, str] = os.environ) -> ClientSettings:
    """Read the settings.

    Raises:
        ConfigError: a variable stands for no setting, or its value does not fit.
    """
    found = read_environment(environ, CLIENT, page="commands")
    return ClientSettings(**{key[-1]: value for key, value in found.items()})
