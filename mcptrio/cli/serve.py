"""``mcptrio serve``: serves plugins over stdio, HTTP, sockets, or a transport of a plugin.

Standard output belongs to the protocol; all other output goes to standard error.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from mcptrio.cli.help_pages import SERVER_EXIT_CODES, CLICommand
from mcptrio.cli.server.auth import identify_by, refuse_streams
from mcptrio.cli.server.config_options import (
    ON_HTTP_PORT,
    console_option,
    host_option,
    log_format_option,
    log_level_option,
    port_option,
    record_option,
)
from mcptrio.cli.server.log_output import log_to_stderr
from mcptrio.cli.server.plugin_server import (
    ChosenPlugins,
    PluginSelection,
    make_server,
    plugin_options,
    refuse_empty,
    report_opened,
    tables_of,
)
from mcptrio.cli.server.serve_settings import ServeSettings
from mcptrio.errors import ConfigError
from mcptrio.serve.config import ServeConfig
from mcptrio.serve.control_socket import ControlSocket
from mcptrio.serve.request_log import RequestLog

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from mcptrio.serve.served_metrics import ServedMetrics
    from mcptrio.serve.worker import WorkerProcess
    from mcptrio.server import Server

__all__ = ["RELOADED", "ServeCommand", "command", "serve"]

RELOADED = "MCPTRIO_RELOADED"
"""The environment variable of a worker of ``mcptrio dev``; its value is the transport of the client."""


def _expand_ports(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """Return addresses in the form of ``stream.listen``; a port alone is bound on this machine."""
    return [f"127.0.0.1:{value}" if value.isdecimal() else value for value in values]


def _expand_port(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else _expand_ports(_ctx, _param, (value,))[0]


class ServeCommand(CLICommand):
    """Explains how to pass a word that belongs to no option: with ``--plugin`` or ``--port``."""

    sections = MappingProxyType(
        {
            "Transport": ("transport", "listen", "host", "port", "store"),
            "Plugins": ("plugins", "no_plugins", "config", "profile", "strict"),
            "General": ("log_level", "log_format", "metrics", "console", "record"),
        }
    )
    exit_codes = SERVER_EXIT_CODES

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # click's own error would not name the option to use.
        ctx.allow_extra_args = True
        super().parse_args(ctx, args)
        if ctx.args:
            word = shlex.quote(ctx.args[0])
            port = word.removeprefix(":")
            advice = f"pass --port {port}" if port.isdecimal() else f"pass --plugin {word}"
            raise click.UsageError(f"unexpected argument {word}: {advice}", ctx)
        return ctx.args


@click.command("serve", cls=ServeCommand)
@click.option("--stdio", "transport", flag_value="stdio", help="Serve one client over standard input and output.")
@click.option("--http", "transport", flag_value="http", help="Serve HTTP.")
@click.option("--transport", "transport", metavar="NAME", help="Serve stdio, http, stream or a plugin's transport.")
@click.option(
    "--listen",
    multiple=True,
    metavar="ADDRESS",
    callback=_expand_ports,
    help="Serve connections at PORT, HOST:PORT, unix:PATH or fd:N; repeat for more.",
)
@plugin_options
@click.option("--strict", is_flag=True, help="Exit if a plugin fails, instead of leaving it out.")
@host_option
@port_option
@click.option(
    "--store",
    metavar="URL",
    help="Keep sessions and tasks here: memory, sqlite:PATH, redis://HOST or postgresql://HOST/NAME."
    "  [default: memory]",
)
@click.option(
    "--metrics",
    is_flag=False,
    flag_value=ON_HTTP_PORT,
    metavar="[PORT]",
    callback=_expand_port,
    help="Serve metrics for Prometheus: at /metrics of the HTTP port, or at http://127.0.0.1:PORT/metrics; HOST:PORT"
    " for another address.",
)
@console_option
@log_level_option
@log_format_option
@record_option
@click.option("--isolated", is_flag=True, hidden=True, help="This is the process of a plugin that is isolated.")
def command(transport: str | None, chosen: ChosenPlugins, listen: list[str], **options: Any) -> None:
    """Serve plugins over any transport.

    \b
    mcptrio serve --http --plugin hello.py
    mcptrio serve --stdio --plugin fs --plugin git

    Other settings are in mcptrio.toml or the environment: MCPTRIO_HTTP_PATH sets path in [http]. To try one file,
    `mcptrio run FILE.py` is shorter.
    """
    serve(transport, chosen, addresses=listen, options=options)


def serve(transport: str | None, chosen: ChosenPlugins, *, addresses: list[str], options: dict[str, Any]) -> None:
    """Serve until a signal or the end of the input ends it.

    Args:
        addresses: The addresses to bind.
        options: ``host``, ``port``, ``log_level`` and ``record``, ``None`` if not given; and ``isolated``.
    """
    transport = transport or ("stream" if addresses else None)
    if transport is None:
        raise click.UsageError(
            "expected --stdio, --http, --listen or --transport, got none of them; --http serves clients that connect"
            " to a URL, --stdio a host application that starts the server itself"
        )
    if addresses and transport not in ("stream", "http"):
        raise click.UsageError(f"--listen: expected --http or no other transport, got {transport}")
    if options["isolated"] and transport != "stdio":
        raise click.UsageError(
            f"--isolated can only be used with --stdio, not with {transport}: only a parent process uses it"
        )
    if options.get("metrics") == ON_HTTP_PORT and transport != "http":
        raise click.UsageError(f"--metrics: expected a port, because {transport} has no HTTP port, got none")
    if options["isolated"]:
        # Its parent has the stores, and workers would not find its tasks.
        options = {**options, "run_tasks": "here"}
    worker = None
    if transport == "http":
        from mcptrio.serve.worker import current_worker

        worker = current_worker()
    # Objects made until the server is open stay in memory; garbage collection would take a tenth of the start.
    gc.disable()
    config = chosen.read()
    style = options.get("log_format") or config.log.format
    log_to_stderr(options["log_level"] or config.log.level, style, config.log.levels)
    console = None
    if (port := options.get("console")) is not None:
        from mcptrio.cli.server.console import ServedConsole

        console = ServedConsole(config, port, has_http=transport == "http")
    control = None if options["isolated"] else ControlSocket(transport, os.getppid() if worker is not None else None)
    with _open_telemetry(config) as provider:
        metrics = _make_metrics(options.get("metrics"), provider)
        settings = ServeSettings(
            make=partial(_make_server, config, chosen.select(config), options, worker, metrics),
            chosen=chosen,
            config=config,
            options=options,
            addresses=addresses,
            console=console,
            control=control,
            metrics=metrics,
        )
        if transport == "stdio":
            _serve_stdio(settings)
        elif transport == "http":
            _serve_http(settings, worker)
        elif transport == "stream":
            _serve_streams(settings)
        else:
            _serve_plugin_transport(transport, settings)


def _make_metrics(address: str | None, provider: MeterProvider | None) -> ServedMetrics | None:
    if address is None and provider is None:
        return None
    from mcptrio.serve.served_metrics import ServedMetrics

    return ServedMetrics("" if address == ON_HTTP_PORT else address, provider)


def _open_telemetry(config: ServeConfig) -> AbstractContextManager[MeterProvider | None]:
    # The variables decide without an import, because most servers have no telemetry.
    if not (
        config.is_set("telemetry", "endpoint") or any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ)
    ):
        return nullcontext()
    from mcptrio.telemetry.settings import is_export_configured

    if not is_export_configured(config.telemetry, os.environ):
        return nullcontext()
    from mcptrio.telemetry.otlp import exporting

    return exporting(config.telemetry, os.environ, name=config.server.name, timeout=config.server.timeouts.shutdown)


def _make_server(
    config: ServeConfig,
    selection: PluginSelection,
    options: dict[str, Any],
    worker: WorkerProcess | None,
    metrics: ServedMetrics | None,
) -> Server:
    if options["isolated"]:
        _limit_memory(config, selection)
    key = worker.start_parameters.key if worker is not None else None
    if worker is not None and options.get("record") is not None:
        # Two processes cannot rotate one file.
        options = {**options, "record": Path(f"{options['record']}.w{worker.start_parameters.index}")}
    server = make_server(config, selection, options, key=key)
    refuse_empty(server)
    # Removed from the environment, which child processes of plugins inherit.
    reloaded_for = os.environ.pop(RELOADED, None)
    # The parent of an isolated plugin, and `dev --http`, write the lines of the calls that they pass on.
    if not options["isolated"] and reloaded_for != "http":
        server.add_observer(RequestLog())
    if metrics is not None:
        metrics.attach(server)
    if options["isolated"]:
        from mcptrio.mounting.access_method import add_access_method

        add_access_method(server)
    if reloaded_for is not None:
        from mcptrio.cli.dev.worker import FILES

        # The client stays connected over reloads, so all lists are declared before the first entry of a kind exists.
        server.announce_lists()
        server.add_method(_list_imported_files, FILES)
    # The collector does not examine these objects again.
    gc.freeze()
    gc.enable()
    return server


async def _list_imported_files() -> dict[str, list[str]]:
    from mcptrio.cli.dev.sources import imported_files

    return {"files": imported_files()}


def _limit_memory(config: ServeConfig, selection: PluginSelection) -> None:
    """Apply the memory limit of this process's only plugin before it is imported."""
    from mcptrio.mounting.memory_limit import limit_memory

    [name] = [*(selection.names or ()), *(file.stem for file in selection.files)]
    mebibytes = tables_of(config).policy(name).max_memory_mb
    if mebibytes is not None:
        limit_memory(mebibytes)


def _serve_stdio(settings: ServeSettings) -> None:
    from mcptrio.serve.process import ReadyStatus, run
    from mcptrio.serve.stdio import serve_process

    # The parent of an isolated plugin has already authenticated the caller.
    trusts_forwarded_caller = settings.options["isolated"]
    identify = None if trusts_forwarded_caller else identify_by(settings.config)
    # A client connects a pipe. At a terminal there is a user, who needs an explanation.
    if sys.stdin is not None and sys.stdin.isatty():
        from mcptrio.cli.server.introducing import introduce_stdio

        introduce_stdio(settings.config.server.name)
    stores = None
    if not (settings.options["isolated"] or settings.stores.is_memory):
        # Imported here: most servers over stdio keep nothing.
        from mcptrio.serve.stores import open_table

        stores = open_table(settings.stores)
    servers: list[Server] = []

    def make() -> Server:
        servers.append(settings.make())
        return servers[0]

    def report_ready(_urls: list[str]) -> None:
        # The lifespans have been entered by then.
        report_opened(servers[0])
        settings.attach_companions(servers[0], [])

    serve = partial(
        serve_process,
        make,
        limits=settings.config.server.message,
        restore=False,
        identify=identify,
        trusts_forwarded_caller=trusts_forwarded_caller,
        stores=stores,
        task_status=ReadyStatus(report_ready),
    )
    run(settings.with_companions(lambda stop: serve(shutdown=stop)), background=settings.background)


def _serve_http(settings: ServeSettings, worker: WorkerProcess | None) -> None:
    # Imported as needed: the parent of workers needs no HTTP, and a worker no supervisor.
    if worker is None:
        from mcptrio.cli.server.supervising import supervise, worker_count

        if (count := worker_count(settings)) > 1:
            if settings.console is not None:
                problem = f"expected one worker with --console, which shows one process, got {count}"
                raise settings.config.error(("http", "workers"), problem)
            if settings.options.get("metrics") is not None:
                raise click.UsageError(
                    f"--metrics: expected one worker, got {count}; with several, set telemetry.endpoint"
                )
            supervise(settings, count)
            return
    from mcptrio.cli.server.http import serve_over_http

    serve_over_http(settings, worker)


def _serve_streams(settings: ServeSettings) -> None:
    from mcptrio.serve.process import run
    from mcptrio.serve.stores import serve_with_stores
    from mcptrio.serve.stream import serve_stream

    refuse_streams(settings.config)
    table = settings.config.stream
    addresses = settings.addresses or table.listen
    if not addresses:
        raise click.UsageError("expected an address in --listen or in stream.listen of the configuration, got none")
    stream = evolve(table, limits=settings.config.server.message)
    stores = settings.stores
    server = settings.make()
    serve = partial(serve_stream, server, addresses, options=stream, task_status=settings.ready(server))
    run(
        settings.with_companions(lambda stop: serve_with_stores(server, stores, serve, shutdown=stop)),
        renew=settings.renewal(server),
        background=settings.background,
    )


def _serve_plugin_transport(name: str, settings: ServeSettings) -> None:
    from mcptrio.plugins.manager import BUILT_IN
    from mcptrio.serve.process import run
    from mcptrio.serve.stores import serve_with_stores
    from mcptrio.serve.transport import serve_transport

    stores = settings.stores
    server = settings.make()
    transports = server.plugins.transports(server.running_plugins.quarantine)
    if name not in transports:
        known = ", ".join((*BUILT_IN, *transports))
        raise ConfigError(f"--transport: expected one of {known}, got {name!r}")
    serve = partial(serve_transport, server, transports[name], task_status=settings.ready(server))
    run(
        settings.with_companions(lambda stop: serve_with_stores(server, stores, serve, shutdown=stop)),
        renew=settings.renewal(server),
        background=settings.background,
    )
