"""The options that name the configuration file, and the reading of that file.

The commands that load plugins use them. Without an option, the environment names the file, or it is ``./mcptrio.toml``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from mcptrio.cli.param_types import PORT, OneOf
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import quote_name
from mcptrio.serve.config import LOG_FORMATS, LOG_LEVELS, ServeConfig

__all__ = [
    "CONFIG",
    "ON_HTTP_PORT",
    "RECORD",
    "config_option",
    "console_option",
    "default_config",
    "host_option",
    "log_format_option",
    "log_level_option",
    "port_option",
    "profile_option",
    "read_config",
    "record_option",
]

CONFIG = "mcptrio.toml"
ON_HTTP_PORT = "http"
"""The value of ``--console`` and of ``--metrics`` without a port."""
_CONFIG_VARIABLE = "MCPTRIO_CONFIG"
_PROFILE_VARIABLE = "MCPTRIO_PROFILE"

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar=_CONFIG_VARIABLE,
    show_envvar=True,
    help="Read this file.  [default: ./mcptrio.toml]",
)
profile_option = click.option(
    "--profile",
    metavar="NAME",
    envvar=_PROFILE_VARIABLE,
    show_envvar=True,
    help="Use [profiles.NAME] of the file, which overrides the rest.",
)


host_option = click.option("--host", metavar="ADDRESS", help="Bind this address.  [default: 127.0.0.1]")
port_option = click.option(
    "--port", type=PORT, metavar="PORT", help="Bind this port; 0 takes a free one.  [default: 8000]"
)
log_level_option = click.option(
    "--log-level",
    type=OneOf(LOG_LEVELS),
    metavar="LEVEL",
    help=f"Log messages of this level and above: {', '.join(LOG_LEVELS)}.  [default: info]",
)
log_format_option = click.option(
    "--log-format",
    type=OneOf(LOG_FORMATS),
    metavar="FORMAT",
    help="Log as text or as json, one object per line.  [default: text]",
)

RECORD: Mapping[str, Any] = MappingProxyType(
    {
        "type": click.Path(path_type=Path, dir_okay=False),
        "metavar": "FILE",
        "help": "Record all messages in this file, without secrets; `mcptrio show` reads it.",
    }
)
"""The option ``--record``, of servers and of clients."""
record_option = click.option("--record", **RECORD)


def _port(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == ON_HTTP_PORT:
        return value
    port: int = PORT.convert(value, None, None)
    return port


console_option = click.option(
    "--console",
    is_flag=False,
    flag_value=ON_HTTP_PORT,
    metavar="[PORT]",
    callback=_port,
    help="Serve a console for browsers: at /console of the HTTP port, or on its own port.",
)


def read_config(path: Path | None, profile: str | None = None) -> ServeConfig:
    """Return the configuration of this file or of ./mcptrio.toml, overridden by the environment."""
    if path is None:
        default_path = Path(CONFIG)
        path = default_path if default_path.is_file() else None
        if path is None and profile is not None:
            raise ConfigError(
                f"--profile: expected {default_path} with a profile {quote_name(profile)}, got no such file"
            )
        # The import of the TOML reader would delay the start of every server without a configuration.
        if path is None and not any(name.startswith("MCPTRIO_") for name in os.environ):
            return ServeConfig()
    from mcptrio.serve.config import load_config

    return load_config(path, profile, os.environ)


def default_config() -> ServeConfig:
    """Return the configuration for commands without these options; the environment may name a file and a profile."""
    path = os.environ.get(_CONFIG_VARIABLE)
    return read_config(Path(path) if path else None, os.environ.get(_PROFILE_VARIABLE) or None)
