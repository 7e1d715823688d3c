"""A server of plugins, as the command line and the configuration file name them.

Used by ``serve``, by ``plugins``, and by the commands of the client for plugins that are served in this process.
The one rule: the command line wins over the file.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from mcptrio.config import Config
from mcptrio.errors import ConfigError

if TYPE_CHECKING:
    from mcptrio.abc import Bus
    from mcptrio.server import Server

__all__ = ["Wanted", "make_server", "plugin_options", "prints_on_stderr", "read_config"]

_log = logging.getLogger("mcptrio.cli")

_LEAST_KEY_BYTES = 16


def plugin_options(command: Any) -> Any:
    """The options that say which plugins, as a decorator."""
    for option in reversed(
        (
            click.option(
                "--plugin",
                "plugins",
                multiple=True,
                metavar="NAME|FILE.py",
                help="Serve this plugin, installed or a file; repeat for more. By default all that are installed.",
            ),
            click.option("--no-plugin", "no_plugins", multiple=True, metavar="NAME", help="Leave this plugin out."),
            click.option(
                "--config", type=click.Path(path_type=Path), help="Read this file; by default ./mcptrio.toml."
            ),
            click.option("--strict", is_flag=True, help="A plugin that fails is an error, not a quarantine."),
        )
    ):
        command = option(command)
    return command


def read_config(path: Path | None) -> Config:
    """The configuration: of this file, else of ./mcptrio.toml, else empty.

    Raises:
        ConfigError: the file cannot be read, or is wrong.
    """
    if path is None:
        path = Path("mcptrio.toml")
        if not path.is_file():
            return Config()
    from mcptrio.config_file import load_config

    return load_config(path)


@frozen(kw_only=True)
class Wanted:
    """Which plugins to load, from the options and, where these say nothing, from the file."""

    names: Sequence[str] | None
    """``None``: all that are installed."""
    files: Sequence[Path]
    without: Sequence[str]
    strict: bool

    @classmethod
    def of(cls, read: Config, plugins: Sequence[str], no_plugins: Sequence[str], strict: bool) -> Wanted:
        """
        Raises:
            ConfigError: a file is not there, or what the file names is not installed.
        """
        from mcptrio.plugins.manager import PluginManager

        given = plugins or read.enable
        files = [Path(name) if plugins else read.beside(name) for name in given or () if name.endswith(".py")]
        for file in files:
            if not file.is_file():
                missing = f"no such file: {file}"
                raise ConfigError(f"--plugin: {missing}") if plugins else read.error(("server", "enable"), missing)
        names = None if given is None else [name for name in given if not name.endswith(".py")]
        for key, said in (("enable", names if not plugins else None), ("disable", read.disable)):
            if said:
                try:
                    PluginManager.check_installed(said)
                except ConfigError as error:
                    raise read.error(("server", key), str(error)) from error
        return cls(
            names=names,
            files=files,
            # Whoever names a plugin here and now wants it, whatever the file says.
            without=[*no_plugins, *(name for name in read.disable if name not in plugins)],
            strict=strict,
        )


def make_server(
    read: Config, wanted: Wanted, options: Mapping[str, Any], *, key: bytes | None = None, bus: Bus | None = None
) -> Server:
    """Load the plugins and make the server.

    Args:
        options: those of ``serve``, by their names; one that is ``None`` or missing is not given.
        key: seals what travels through clients where no key is configured.
        bus: reaches the other replicas.

    Raises:
        ConfigError, PluginError: the configuration is wrong, or a plugin is and that counts.
    """
    from mcptrio.plugins.manager import PluginManager
    from mcptrio.plugins.policy import ToolPolicy
    from mcptrio.plugins.settings import PluginTables
    from mcptrio.runtime.limits import Limits
    from mcptrio.runtime.timeouts import Timeouts
    from mcptrio.server import Server

    manager = PluginManager(strict=wanted.strict)
    if wanted.names is None or wanted.names or wanted.without:
        manager.load_installed(only=wanted.names, without=wanted.without)
    for file in wanted.files:
        manager.load_file(file)
    for name in read.plugins:
        if name not in manager.plugins:
            # Not an error: one file may serve several environments.
            _log.warning("%s", read.error(("plugins", name), "no such plugin is installed"))
    timeouts = {name: options.get(f"{name}_timeout") for name in ("request", "idle", "input", "shutdown")}
    limits = {
        "requests": options.get("max_requests"),
        "requests_per_session": options.get("max_session_requests"),
        "sessions": options.get("max_sessions"),
    }
    ping_interval = options.get("ping_interval")
    return Server(
        read.name or "mcptrio",
        version=_version(),
        instructions=read.instructions,
        plugins=manager,
        config=PluginTables(tables=read.plugins, folder=read.beside(""), error=read.error),
        tool_policy=ToolPolicy(
            read_only=read.read_only or bool(options.get("read_only")),
            include=tuple(options.get("include") or ()) or read.include,
            exclude=(*read.exclude, *(options.get("exclude") or ())),
        ),
        timeouts=Timeouts(**{**read.timeouts, **_given(timeouts)}),
        limits=Limits(**{**read.limits, **_given(limits)}),
        page_size=read.page_size or 100,
        ping_interval=ping_interval if ping_interval is not None else read.ping_interval or 0.0,
        keys=_keys(read) or ([key] if key else []),
        bus=bus,
        audience=read.audience or "mcptrio",
    )


@contextmanager
def prints_on_stderr() -> Iterator[None]:
    """What plugins, their libraries and their children print while they are imported is not what was asked for."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _version() -> str:
    from mcptrio import __version__

    return __version__


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _keys(read: Config) -> list[bytes]:
    """The sealing keys: from the environment first, then from files; never from the configuration itself.

    Raises:
        ConfigError: a file cannot be read, or a key is too short.
    """
    keys = [key.encode() for key in os.environ.get("MCPTRIO_KEYS", "").split(",") if key]
    for key in keys:
        if len(key) < _LEAST_KEY_BYTES:
            raise ConfigError(f"MCPTRIO_KEYS: {_short(key)}")
    for name in read.key_files:
        try:
            key = read.beside(name).read_bytes().strip()
        except OSError as error:
            raise read.error(("server", "key_files"), f"{name} cannot be read: {error.strerror}") from error
        if len(key) < _LEAST_KEY_BYTES:
            raise read.error(("server", "key_files"), f"{name}: {_short(key)}")
        keys.append(key)
    return keys


def _short(key: bytes) -> str:
    return f"expected a sealing key of at least {_LEAST_KEY_BYTES} bytes, got {len(key)}"
