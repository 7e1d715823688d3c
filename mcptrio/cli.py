"""The command line: ``mcptrio serve``, ``mcptrio plugins``.

The one rule: standard output belongs to the protocol or to what was asked for; everything else goes to standard error.
Exit codes: 0 done, 1 failed, 2 wrong use or configuration.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcptrio.config import Config, load_config
from mcptrio.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from mcptrio.server import Server

__all__ = ["main"]

_LEVELS = ("debug", "info", "warning", "error")


@click.group(context_settings={"auto_envvar_prefix": "MCPTRIO", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mcptrio", prog_name="mcptrio")
def cli() -> None:
    """A Trio-native runtime for the Model Context Protocol."""


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
            click.option("--no-plugin", "without", multiple=True, metavar="NAME", help="Leave this plugin out."),
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
@click.option("--path", help="Serve the endpoint here.  [default: /mcp]")
@click.option("--allow-host", "allow_hosts", multiple=True, help="A name that Host may carry; * for any.")
@click.option("--allow-origin", "allow_origins", multiple=True, help="A web origin that may call; * for any.")
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--request-timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds for one request.")
@click.option("--idle-timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds without progress.")
@click.option("--input-timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds for a client's answer.")
@click.option("--shutdown-timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds to finish on a signal.")
@click.option("--max-requests", type=click.IntRange(min=1), help="Requests in flight on this server.")
@click.option("--max-session-requests", type=click.IntRange(min=1), help="Requests in flight in one session.")
@click.option("--max-sessions", type=click.IntRange(min=1), help="Sessions on this server.")
@click.option("--max-message-bytes", type=click.IntRange(min=1024), help="Size of one message.  [default: 4 MiB]")
@click.option("--ping-interval", type=click.FloatRange(min=0), help="Seconds between keep-alive pings; 0 for none.")
def serve(
    transport: str | None,
    plugins: tuple[str, ...],
    without: tuple[str, ...],
    config: Path | None,
    strict: bool,
    log_level: str,
    log_format: str,
    **options: Any,
) -> None:
    """Serve the installed plugins, or those named, over stdio or HTTP."""
    if transport is None:
        raise click.UsageError("expected --stdio or --http")
    _log_to_stderr(log_level, log_format)
    read = _read_config(config)
    limits = {
        "requests": options["max_requests"],
        "requests_per_session": options["max_session_requests"],
        "sessions": options["max_sessions"],
    }
    timeouts = {name: options[f"{name}_timeout"] for name in ("request", "idle", "input", "shutdown")}
    message_bytes = options["max_message_bytes"] or read.message_bytes
    make = partial(_server, read, plugins, without, strict, timeouts, limits, options["ping_interval"])
    if transport == "stdio":
        _serve_stdio(make, message_bytes)
    else:
        _serve_http(make, read, options, message_bytes)


def _serve_stdio(make: Callable[[], Server], message_bytes: int | None) -> None:
    from mcptrio.protocol.jsonrpc import Limits as MessageLimits
    from mcptrio.serve import run_stdio

    run_stdio(make, limits=MessageLimits(message_bytes=message_bytes) if message_bytes else MessageLimits())


def _serve_http(make: Callable[[], Server], read: Config, options: dict[str, Any], message_bytes: int | None) -> None:
    from mcptrio.serve import run_http
    from mcptrio.transports.http.exchange import HTTPLimits

    http = dict(read.http)
    bounds = {name: http.pop(name) for name in list(http) if name in HTTPLimits.__annotations__}
    if message_bytes:
        bounds.setdefault("body_bytes", message_bytes)
    for name in ("host", "port", "path", "allow_hosts", "allow_origins"):
        if options[name] not in (None, ()):
            http[name] = options[name]
    run_http(make(), ready=_announce, options={**http, "limits": HTTPLimits(**bounds)})


def _announce(urls: list[str]) -> None:
    for url in urls:
        click.echo(f"serving {url}", err=True)


@cli.command("plugins")
@_plugin_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_plugins(
    plugins: tuple[str, ...], without: tuple[str, ...], config: Path | None, strict: bool, as_json: bool
) -> None:
    """List the plugins: version, distribution, what each contributes, state and fault."""
    _log_to_stderr("error", "text")
    server = _server(_read_config(config), plugins, without, strict, {}, {}, None)
    listed = server.snapshot()["plugins"]
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    rows = [("NAME", "VERSION", "DISTRIBUTION", "STATE", "CONTRIBUTES")]
    for plugin in listed:
        offers = ", ".join(f"{len(names)} {kind}" for kind, names in plugin["offers"].items())
        rows.append(
            (plugin["name"], plugin["version"] or "-", plugin["distribution"] or "-", plugin["state"], offers or "-")
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    for plugin in listed:
        if plugin["fault"]:
            click.echo(f"\n{plugin['name']}: {plugin['fault']}", err=True)


def main() -> None:
    """The entry point."""
    try:
        cli(prog_name="mcptrio")
    except* ConfigError as group:
        _fail(group, 2)
    except* (PluginError, OSError) as group:
        _fail(group, 1)


def _fail(group: BaseExceptionGroup[Any], code: int) -> None:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    click.echo(f"mcptrio: {error}", err=True)
    sys.exit(code)


def _read_config(path: Path | None) -> Config:
    if path is None:
        default = Path("mcptrio.toml")
        return load_config(default) if default.is_file() else Config()
    return load_config(path)


def _server(
    read: Config,
    plugins: Sequence[str],
    without: Sequence[str],
    strict: bool,
    timeouts: dict[str, Any],
    limits: dict[str, Any],
    ping_interval: float | None,
) -> Server:
    from mcptrio.plugins import PluginManager
    from mcptrio.runtime.limits import Limits
    from mcptrio.runtime.timeouts import Timeouts
    from mcptrio.server import Server

    files = [Path(name) for name in plugins if name.endswith(".py")]
    for file in files:
        if not file.is_file():
            raise ConfigError(f"--plugin {file}: no such file")
    named: Sequence[str] | None = [name for name in plugins if not name.endswith(".py")]
    if not plugins:
        named = read.enable
    manager = PluginManager(strict=strict)
    try:
        manager.load_installed(only=named, without=(*without, *read.disable))
    except PluginError as error:
        if error.__cause__ is None:
            raise ConfigError(str(error)) from error
        raise
    for file in files:
        manager.load_file(file)
    return Server(
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


def _version() -> str:
    from mcptrio import __version__

    return __version__


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _keys(read: Config) -> list[bytes]:
    """The sealing keys: from the environment first, then from files; never from the configuration itself."""
    keys = [key.encode() for key in os.environ.get("MCPTRIO_KEYS", "").split(",") if key]
    for name in read.key_files:
        try:
            keys.append(Path(name).read_bytes().strip())
        except OSError as error:
            raise ConfigError(f"server.key_files: {name} cannot be read: {error.strerror}") from error
    for key in keys:
        if len(key) < 16:
            raise ConfigError(f"expected sealing keys of at least 16 bytes, got one of {len(key)}")
    return keys


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
