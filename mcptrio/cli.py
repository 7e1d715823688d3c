"""The command line: ``mcptrio serve``, ``mcptrio plugins``.

The one rule: standard output belongs to the protocol or to what was asked for; everything else goes to standard error.
Exit codes: 0 done, 1 failed, 2 wrong use or configuration.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from mcptrio.config import LEAST_DEPTH, LEAST_MESSAGE_BYTES, Config
from mcptrio.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from mcptrio.server import Server

__all__ = ["main"]

_log = logging.getLogger("mcptrio.cli")

_LEVELS = ("debug", "info", "warning", "error")
_LEAST_KEY_BYTES = 16


def _no_nan(_ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """It compares with nothing, and so passes every range."""
    if value is not None and isnan(value):
        raise click.BadParameter("expected a number of seconds, got nan", param=param)
    return value


def _absolute(_ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.startswith("/"):
        raise click.BadParameter(f"expected a path that begins with /, got {value!r}", param=param)
    return value


_SECONDS: dict[str, Any] = {"type": click.FloatRange(min=0, min_open=True), "callback": _no_nan}


@click.group(context_settings={"auto_envvar_prefix": "MCPTRIO", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mcptrio", prog_name="mcptrio")
def cli() -> None:
    """A Trio-native runtime for the Model Context Protocol.

    Every option can be given in the environment: --port of serve as MCPTRIO_SERVE_PORT, and those that repeat in the
    plural, separated by spaces: MCPTRIO_SERVE_PLUGINS.
    """


def _plugin_options(command: Any) -> Any:
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


@cli.command()
@click.option("--stdio", "transport", flag_value="stdio", help="Serve standard input and output.")
@click.option("--http", "transport", flag_value="http", help="Serve HTTP.")
@_plugin_options
@click.option("--host", help="Bind this address.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Bind this port; 0 takes a free one.  [default: 8000]")
@click.option("--path", callback=_absolute, help="Serve the endpoint here.  [default: /mcp]")
@click.option("--allow-host", "allow_hosts", multiple=True, help="A name that Host may carry; * for any.")
@click.option("--allow-origin", "allow_origins", multiple=True, help="A web origin that may call; * for any.")
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--request-timeout", **_SECONDS, help="Seconds for one request.")
@click.option("--idle-timeout", **_SECONDS, help="Seconds without progress.")
@click.option("--input-timeout", **_SECONDS, help="Seconds for a client's answer.")
@click.option("--shutdown-timeout", **_SECONDS, help="Seconds to finish on a signal.")
@click.option("--max-requests", type=click.IntRange(min=1), help="Requests in flight on this server.")
@click.option("--max-session-requests", type=click.IntRange(min=1), help="Requests in flight in one session.")
@click.option("--max-sessions", type=click.IntRange(min=1), help="Sessions on this server.")
@click.option(
    "--max-message-bytes", type=click.IntRange(min=LEAST_MESSAGE_BYTES), help="Size of one message.  [default: 4 MiB]"
)
@click.option("--max-message-depth", type=click.IntRange(min=LEAST_DEPTH), help="Nesting of it.  [default: 64]")
@click.option("--max-batch", type=click.IntRange(min=1), help="Messages in one array.  [default: 100]")
@click.option(
    "--ping-interval",
    type=click.FloatRange(min=0),
    callback=_no_nan,
    help="Seconds between keep-alive pings; 0 for none.",
)
def serve(
    transport: str | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    config: Path | None,
    strict: bool,
    log_level: str,
    log_format: str,
    **options: Any,
) -> None:
    """Serve the installed plugins, or those named, over stdio or HTTP."""
    if transport is None:
        raise click.UsageError("expected --stdio or --http")
    # What is made from here until the server stands, stays: to look for garbage in it is a tenth of the start.
    gc.disable()
    _log_to_stderr(log_level, log_format)
    read = _read_config(config)
    make = partial(_server, read, _Wanted.of(read, plugins, no_plugins, strict), options)
    if transport == "stdio":
        _serve_stdio(make, read, options)
    else:
        _serve_http(make, read, options, log_format)


def _serve_stdio(make: Callable[[], Server], read: Config, options: dict[str, Any]) -> None:
    from mcptrio.protocol.jsonrpc import Limits as MessageLimits
    from mcptrio.serve import run_stdio

    bounds = {**_filed_bounds(read, "message_bytes"), **_wanted_bounds(options, "message_bytes")}
    run_stdio(make, limits=MessageLimits(**bounds))


def _serve_http(make: Callable[[], Server], read: Config, options: dict[str, Any], log_format: str) -> None:
    from mcptrio.serve import run_http
    from mcptrio.transports.http.exchange import HTTPLimits

    http = dict(read.http)
    filed = {name: http.pop(name) for name in list(http) if name in HTTPLimits.__annotations__}
    bounds = {**_filed_bounds(read, "body_bytes"), **filed, **_wanted_bounds(options, "body_bytes")}
    given = {
        "host": options["host"],
        "port": options["port"],
        "path": options["path"],
        "allow_hosts": options["allow_hosts"] or None,
        "allow_origins": options["allow_origins"] or None,
    }
    run_http(
        make(),
        ready=_announce_in_json if log_format == "json" else _announce,
        options={**http, **_given(given), "limits": HTTPLimits(**bounds)},
    )


def _announce(urls: list[str]) -> None:
    for url in urls:
        click.echo(f"serving {url}", err=True)


def _announce_in_json(urls: list[str]) -> None:
    # Whatever level was asked for: a process that starts this one waits for the line.
    _log.setLevel(logging.INFO)
    for url in urls:
        _log.info("serving %s", url)


@cli.command("plugins")
@_plugin_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_plugins(
    plugins: tuple[str, ...], no_plugins: tuple[str, ...], config: Path | None, strict: bool, as_json: bool
) -> None:
    """List the plugins: version, distribution, what each contributes, state and fault."""
    read = _read_config(config)
    _log_to_stderr("error", "text")
    with _prints_on_stderr():
        server = _server(read, _Wanted.of(read, plugins, no_plugins, strict), {})
    listed = server.snapshot()["plugins"]
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    rows = [("NAME", "VERSION", "DISTRIBUTION", "STATE", "CONTRIBUTES")]
    for each in listed:
        offers = ", ".join(f"{len(names)} {kind}" for kind, names in each["offers"].items())
        rows.append((each["name"], each["version"] or "-", each["distribution"] or "-", each["state"], offers or "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    for each in listed:
        if each["fault"]:
            click.echo(f"\n{each['name']}: {each['fault']}")


def main() -> None:
    """The entry point."""
    try:
        cli(prog_name="mcptrio")
    except (ConfigError, PluginError, OSError, BaseExceptionGroup) as error:
        told = error
        while isinstance(told, BaseExceptionGroup):
            told = told.exceptions[0]
        if not isinstance(told, (ConfigError, PluginError, OSError)):
            raise
        click.echo(f"mcptrio: {told}", err=True)
        sys.exit(2 if isinstance(told, ConfigError) else 1)


def _read_config(path: Path | None) -> Config:
    if path is None:
        path = Path("mcptrio.toml")
        if not path.is_file():
            return Config()
    from mcptrio.config_file import load_config

    return load_config(path)


@frozen(kw_only=True)
class _Wanted:
    """Which plugins to load, from the options and, where these say nothing, from the file."""

    names: Sequence[str] | None
    """``None``: all that are installed."""
    files: Sequence[Path]
    without: Sequence[str]
    strict: bool

    @classmethod
    def of(cls, read: Config, plugins: Sequence[str], no_plugins: Sequence[str], strict: bool) -> _Wanted:
        """
        Raises:
            ConfigError: a file is not there, or what the file names is not installed.
        """
        from mcptrio.plugins import PluginManager

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


def _server(read: Config, wanted: _Wanted, options: dict[str, Any]) -> Server:
    from mcptrio.plugins import PluginManager
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
    server = Server(
        read.name or "mcptrio",
        version=_version(),
        instructions=read.instructions,
        plugins=manager,
        config=read.plugins,
        plugin_timeouts=read.plugin_timeouts,
        timeouts=Timeouts(**{**read.timeouts, **_given(timeouts)}),
        limits=Limits(**{**read.limits, **_given(limits)}),
        page_size=read.page_size or 100,
        ping_interval=ping_interval if ping_interval is not None else read.ping_interval or 0.0,
        keys=_keys(read),
        audience=read.audience or "mcptrio",
    )
    gc.freeze()
    gc.enable()
    return server


def _version() -> str:
    from mcptrio import __version__

    return __version__


def _filed_bounds(read: Config, size: str) -> dict[str, int]:
    """What the file's ``[server]`` says of one message; ``size`` is what the transport calls its bytes."""
    return _given({size: read.message_bytes, "depth": read.message_depth, "batch": read.message_batch})


def _wanted_bounds(options: dict[str, Any], size: str) -> dict[str, int]:
    """The same of the command line."""
    wanted = {size: options["max_message_bytes"], "depth": options["max_message_depth"], "batch": options["max_batch"]}
    return _given(wanted)


def _given(options: dict[str, Any]) -> dict[str, Any]:
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


@contextmanager
def _prints_on_stderr() -> Iterator[None]:
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


class _JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _log_to_stderr(level: str, style: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JSONFormatter() if style == "json" else logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
