"""``mcptrio worker``: runs tasks from a store, without serving clients.

Servers with ``run_tasks = "workers"`` in ``[server]`` leave their tasks to such processes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click
import trio

from mcptrio.abc import Engine
from mcptrio.cli.help_pages import SERVER_EXIT_CODES, CLICommand
from mcptrio.cli.server.config_options import log_level_option
from mcptrio.cli.server.log_output import log_to_stderr
from mcptrio.cli.server.plugin_server import ChosenPlugins, make_server, plugin_options, refuse_empty
from mcptrio.cli.server.serve_settings import ServeSettings
from mcptrio.serve.control_socket import ControlSocket
from mcptrio.serve.process import run

__all__ = ["command"]


@click.command("worker", cls=CLICommand, epilog=SERVER_EXIT_CODES)
@plugin_options
@click.option("--strict", is_flag=True, help="Exit if a plugin fails, instead of leaving it out.")
@click.option(
    "--store", metavar="URL", help="Take tasks from here: sqlite:PATH, redis://HOST or postgresql://HOST/NAME."
)
@log_level_option
def command(chosen: ChosenPlugins, **options: Any) -> None:
    """Run tasks from a store, without serving clients.

    \b
    mcptrio worker --store redis://cache.example --plugin reports.py

    A worker needs the plugins and the settings of the servers that queue the tasks. At SIGTERM it gives back the tasks
    that another worker can resume, and ends the others after server.timeouts.shutdown seconds.
    """
    # Imported as needed: the help of this command loads no server.
    from mcptrio.serve.stores import serve_with_stores
    from mcptrio.serve.transport import serve_transport

    config = chosen.read()
    log_to_stderr(options["log_level"] or config.log.level, config.log.format)
    options = {**options, "run_tasks": "here"}
    settings = ServeSettings(
        make=lambda: make_server(config, chosen.select(config), options),
        chosen=chosen,
        config=config,
        options=options,
        addresses=[],
        control=ControlSocket("worker"),
    )
    stores = settings.stores
    if stores.urls["tasks"] == "memory":
        raise click.UsageError("expected a store that servers share, got memory: pass --store or set stores.url")
    server = settings.make()
    refuse_empty(server)
    if not server.catalog.tools.has_task_tools:
        raise click.ClickException(
            'expected a tool with task="optional" or "required" in a plugin, got none: there is nothing to run'
        )
    serve = partial(serve_transport, server, _no_peers, task_status=settings.ready(server, _announce))
    run(
        settings.with_companions(lambda stop: serve_with_stores(server, stores, partial(serve, shutdown=stop))),
        renew=settings.renewal(server),
    )


async def _no_peers(engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
    """A transport without clients; see :class:`mcptrio.serve.transport.Transport`."""
    task_status.started([])
    await stopping.wait()


def _announce(_: list[str]) -> None:
    click.echo("waiting for tasks", err=True)
