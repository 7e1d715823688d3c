"""``mcptrio dev``: a server for plugin authors, which loads changes when a file is saved.

The process that the client is connected to serves nothing itself: it starts ``mcptrio serve`` with the same options,
and starts it again when a file changes. It imports no plugin, so a failing plugin cannot end it. Over HTTP, the
client's server mounts ``mcptrio dev --stdio``, so sessions, streams and connections survive every reload.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
import trio
from attrs import fields_dict

from mcptrio.cli.dev.relay import DevRelay
from mcptrio.cli.dev.sources import Sources, SourceWatch
from mcptrio.cli.dev.worker import StartWorker
from mcptrio.cli.serve import RELOADED, ServeCommand
from mcptrio.cli.serve import command as serve
from mcptrio.cli.server.config_options import CONFIG
from mcptrio.cli.server.log_output import log_to_stderr
from mcptrio.cli.server.plugin_server import ChosenPlugins
from mcptrio.ground.mcptrio_command import mcptrio_command
from mcptrio.serve.config import ServeConfig
from mcptrio.serve.process import run
from mcptrio.transports.child import ChildTimeouts, open_child
from mcptrio.transports.stdio import open_stdio

__all__ = ["command"]

_CONNECTION_OPTIONS: Final = frozenset({"transport", "listen", "host", "port"})
"""Options of the client's connection, which do not concern the worker."""
_WORKER_END_TIMEOUT: Final = 5.0
"""Seconds for a worker to end when it is no longer needed; then it is killed."""


def _dev(**params: Any) -> None:
    transport = params["transport"]
    if transport not in ("stdio", "http"):
        raise click.UsageError(
            f"expected --stdio or --http, got {transport or 'neither'}; --http serves clients that connect to a URL,"
            " --stdio a host application that starts the server itself"
        )
    chosen = ChosenPlugins(**{name: params[name] for name in fields_dict(ChosenPlugins) if name in params})
    config = chosen.read()
    log_to_stderr(params["log_level"] or config.log.level, params["log_format"] or config.log.format, config.log.levels)
    if transport == "http":
        from mcptrio.cli.dev.http import serve_reloaded

        serve_reloaded(params, config, mcptrio_command("dev", "--stdio", *_serve_arguments(params)))
    else:
        # With "strict", a worker whose plugin fails exits, so the relay keeps the previous one.
        command = mcptrio_command("serve", "--stdio", *_serve_arguments({**params, "strict": True}))
        timeouts = ChildTimeouts(exit=_WORKER_END_TIMEOUT)
        start = partial(open_child, command, env=dict(_worker_environment(config)), stderr="forward", timeouts=timeouts)
        watch = SourceWatch(partial(_find_sources, chosen))
        run(partial(_relay, config, watch, start))


async def _relay(config: ServeConfig, watch: SourceWatch, start: StartWorker, stop: trio.Event) -> None:
    server = config.server
    # Standard output is not restored, because a leftover thread may still print at the end.
    async with open_stdio(limits=server.message, restore=False) as channel:
        await DevRelay(channel, watch, start, shutdown=server.timeouts.shutdown).run(stop)


def _find_sources(chosen: ChosenPlugins) -> Sources:
    selection = chosen.select(chosen.read())
    # The file is watched even if it does not exist, so creating it causes a reload.
    return Sources.of(selection.names, selection.without, (*selection.files, chosen.config or Path(CONFIG)))


def _serve_arguments(params: Mapping[str, Any]) -> Iterator[str]:
    for option in serve.params:
        value = params.get(option.name or "")
        # Values that are defaults need not be passed on.
        if not isinstance(option, click.Option) or option.name in _CONNECTION_OPTIONS or value in (None, False, ()):
            continue
        if option.is_flag:
            yield option.opts[0]
        else:
            for each in value if option.multiple else (value,):
                yield from (option.opts[0], str(each))


def _worker_environment(config: ServeConfig) -> Iterator[tuple[str, str]]:
    yield from os.environ.items()
    # `dev --http` has set it for this process, which it has started.
    yield RELOADED, os.environ.get(RELOADED, "stdio")
    # Python compares a .pyc with the size of its source and its time in seconds, so it would miss a second change
    # within the same second.
    yield "PYTHONDONTWRITEBYTECODE", "1"
    if not os.environ.get("MCPTRIO_KEYS") and not config.server.key_files:
        # The next worker must open state that this one has sealed.
        yield "MCPTRIO_KEYS", secrets.token_urlsafe(32)


class _DevCommand(ServeCommand):
    sections = MappingProxyType(
        {
            **ServeCommand.sections,
            "Plugins": ("plugins", "no_plugins", "config", "profile"),
            "General": ("log_level", "log_format", "record"),
        }
    )


command = _DevCommand(
    "dev",
    # Two versions run at the same time for a moment, and only one of them could have the port of the metrics. The
    # worker is always strict, and only --stdio and --http can be reloaded.
    params=[
        each
        for each in serve.params
        if each.name not in ("console", "metrics", "strict") and each.opts != ["--transport"]
    ],
    callback=_dev,
    help="Serve plugins during development: changes are reloaded, and clients stay connected.\n\n"
    "\b\nmcptrio dev --http --plugin hello.py\n\n"
    "If a plugin fails after a change, the previous version keeps running.",
)
