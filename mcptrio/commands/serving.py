"""``mcptrio serve``: the plugins, over stdio or HTTP.

The one rule: standard output belongs to the protocol; everything else goes to standard error.
Exit codes: 0 done, 1 failed, 2 wrong use or configuration.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcptrio.commands.log_output import LEVELS, log_to_stderr
from mcptrio.commands.plugin_server import Wanted, make_server, plugin_options, read_config
from mcptrio.config import LEAST_DEPTH, LEAST_MESSAGE_BYTES, Config

if TYPE_CHECKING:
    from mcptrio.server import Server

__all__ = ["command"]

_log = logging.getLogger("mcptrio.cli")


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


@click.command("serve")
@click.option("--stdio", "transport", flag_value="stdio", help="Serve standard input and output.")
@click.option("--http", "transport", flag_value="http", help="Serve HTTP.")
@plugin_options
@click.option("--host", help="Bind this address.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Bind this port; 0 takes a free one.  [default: 8000]")
@click.option("--path", callback=_absolute, help="Serve the endpoint here.  [default: /mcp]")
@click.option("--allow-host", "allow_hosts", multiple=True, help="A name that Host may carry; * for any.")
@click.option("--allow-origin", "allow_origins", multiple=True, help="A web origin that may call; * for any.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
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
def command(
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
    log_to_stderr(log_level, log_format)
    read = read_config(config)
    make = partial(_make, read, Wanted.of(read, plugins, no_plugins, strict), options)
    if transport == "stdio":
        _serve_stdio(make, read, options)
    else:
        _serve_http(make, read, options, log_format)


def _make(read: Config, wanted: Wanted, options: dict[str, Any]) -> Server:
    server = make_server(read, wanted, options)
    gc.freeze()
    gc.enable()
    return server


def _serve_stdio(make: Callable[[], Server], read: Config, options: dict[str, Any]) -> None:
    from mcptrio.protocol.jsonrpc import Limits as MessageLimits
    from mcptrio.serve.process import run
    from mcptrio.serve.stdio import serve_stdio

    bounds = {**_filed_bounds(read, "message_bytes"), **_wanted_bounds(options, "message_bytes")}
    limits = MessageLimits(**bounds)
    run(lambda stop: serve_stdio(make, limits=limits, shutdown=stop, restore=False))


def _serve_http(make: Callable[[], Server], read: Config, options: dict[str, Any], log_format: str) -> None:
    from mcptrio.serve.http import serve_http
    from mcptrio.serve.http_options import HTTPOptions
    from mcptrio.serve.process import Ready, run
    from mcptrio.transports.http.exchange import HTTPLimits

    filed = {name: value for name, value in read.http.items() if name in _names(HTTPLimits)}
    bounds = {**_filed_bounds(read, "body_bytes"), **filed, **_wanted_bounds(options, "body_bytes")}
    given = {name: options[name] for name in ("host", "port", "path")}
    given |= {name: options[name] or None for name in ("allow_hosts", "allow_origins")}
    wanted = {**read.http, **_given(given)}
    http = HTTPOptions(
        **{name: value for name, value in wanted.items() if name in _names(HTTPOptions)}, limits=HTTPLimits(**bounds)
    )
    address = {name: wanted[name] for name in ("host", "port") if name in wanted}
    ready = Ready(_announce_in_json if log_format == "json" else _announce)
    server = make()
    run(lambda stop: serve_http(server, **address, options=http, shutdown=stop, task_status=ready))


def _announce(urls: list[str]) -> None:
    for url in urls:
        click.echo(f"serving {url}", err=True)


def _announce_in_json(urls: list[str]) -> None:
    # Whatever level was asked for: a process that starts this one waits for the line.
    _log.setLevel(logging.INFO)
    for url in urls:
        _log.info("serving %s", url)


def _filed_bounds(read: Config, size: str) -> dict[str, int]:
    """What the file's ``[server]`` says of one message; ``size`` is what the transport calls its bytes."""
    return _given({size: read.message_bytes, "depth": read.message_depth, "batch": read.message_batch})


def _wanted_bounds(options: dict[str, Any], size: str) -> dict[str, int]:
    """The same of the command line."""
    wanted = {size: options["max_message_bytes"], "depth": options["max_message_depth"], "batch": options["max_batch"]}
    return _given(wanted)


def _names(cls: type) -> set[str]:
    return set(cls.__annotations__)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
