"""The settings of the client commands, from environment variables: ``MCPTRIO_CLIENT_*``.

The commands have options for frequent settings; rare ones are set here or in an entry of an ``mcp.json``.
:mod:`mcptrio.cli.client.client_command`, ``mcptrio auth`` and the store of credentials read them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from attrs import Attribute, field, fields, frozen

from mcptrio.protocol.model.logging import LoggingLevel
from mcptrio.serve.config import check_variables
from mcptrio.settings.reader import SettingsReader, variable_of

__all__ = ["VARIABLES", "ClientVariables", "client_settings"]

_TABLE: Final = "client"


class CredentialsName(str):
    """``keyring``, or the path of a file."""

    __slots__ = ()

    @classmethod
    def from_setting(cls, value: object, folder: Path) -> CredentialsName:
        if not isinstance(value, str) or not value:
            raise ValueError("Expected keyring, or the path of a file")
        return cls(value if value == "keyring" else folder / Path(value).expanduser())


def _are_folders(_instance: object, attribute: Attribute[Any], value: tuple[Path, ...]) -> None:
    if missing := [each for each in value if not each.is_dir()]:
        raise ValueError(f"{attribute.name}: expected folders that exist, got {str(missing[0])!r}")


@frozen(kw_only=True)
class ClientVariables:
    """See the table of variables in docs/commands.md."""

    credentials: CredentialsName | None = None
    inherit_env: bool = False
    input: bool = True
    log_level: LoggingLevel | Literal["off"] = "info"
    roots: tuple[Path, ...] = field(default=(), validator=_are_folders)
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    transport: Literal["auto", "http", "sse"] = "auto"


VARIABLES: Sequence[str] = tuple(variable_of((_TABLE, each.name)) for each in fields(ClientVariables))
"""The variables; ``mcptrio --help`` describes them."""


def client_settings(environ: Mapping[str, str] = os.environ) -> ClientVariables:
    """Return the settings from the variables.

    Raises:
        ConfigError: A variable is unknown, or its value is invalid.
    """
    # A misspelt variable would otherwise be ignored silently.
    check_variables(environ, {*VARIABLES}, (_TABLE,))
    # There is no file for these settings: one in the current folder may belong to a stranger's project, and must not
    # decide which authorities are trusted.
    return SettingsReader(environ=environ).read(ClientVariables, {}, (_TABLE,), variables=(_TABLE,))
