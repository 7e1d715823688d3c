"""``mcptrio run``, and ``mcptrio.run`` in a program: serve plugins with few options.

They serve as ``mcptrio serve`` does; other settings are in mcptrio.toml and the environment.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from mcptrio.cli.group import end
from mcptrio.cli.help_pages import SERVER_EXIT_CODES, CLICommand
from mcptrio.cli.serve import serve
from mcptrio.cli.server.config_options import config_option, host_option, log_level_option, port_option, profile_option
from mcptrio.cli.server.plugin_server import ChosenPlugins, plugin_names

__all__ = ["command", "run"]


@click.command("run", cls=CLICommand, epilog=SERVER_EXIT_CODES)
@click.argument("plugins", metavar="[FILE.py|NAME]...", nargs=-1, shell_complete=plugin_names)
@click.option("--http", is_flag=True, help="Serve HTTP. Without this option: standard input and output.")
@host_option
@port_option
@config_option
@profile_option
@log_level_option
@click.pass_obj
def command(
    objects: tuple[object, ...] | None,
    /,
    plugins: tuple[str, ...],
    http: bool,
    config: Path | None,
    profile: str | None,
    **options: Any,
) -> None:
    """Serve plugin files over stdio or HTTP: serve with fewer options.

    \b
    mcptrio run hello.py          # over stdio: a client starts this command
    mcptrio run hello.py --http   # at http://127.0.0.1:8000/mcp

    Without a file or name, all installed plugins are served. `mcptrio serve` has more transports and options.
    """
    if not http and (options["host"] is not None or options["port"] is not None):
        option = "--host" if options["host"] is not None else "--port"
        raise click.UsageError(f"expected --http with --host and --port, got {option} without it")
    if objects and plugins:
        raise click.UsageError(f"expected no plugins, since the program names its own, got {' '.join(plugins)}")
    serve(
        "http" if http else "stdio",
        ChosenPlugins(plugins=plugins, place="FILE.py", objects=objects or (), config=config, profile=profile),
        addresses=[],
        options={**options, "isolated": False},
    )


def run(*plugins: object) -> NoReturn:
    """Run plugins as a server, over stdio or HTTP. The program takes the options of ``mcptrio run``.

    ``python clock.py`` serves standard input and output, for a client; at a terminal it explains how to connect one.
    ``python clock.py --http`` serves HTTP. Settings come from ``mcptrio.toml`` and the environment.

    Args:
        plugins: Modules, classes and objects; by default the file that is run.

    Raises:
        RuntimeError: The file is imported, and no plugins are passed.
        SystemExit: The server has ended: 0 after a signal or the end of the input, 2 for invalid usage.
    """
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if not plugins and caller is not None and caller.f_globals.get("__name__") != "__main__":
        # The file is imported, so the running program is another one, such as mcptrio itself.
        raise RuntimeError('mcptrio.run() was called at import: write it below `if __name__ == "__main__":`')
    # A program that calls run() without arguments is the plugin.
    end(command, Path(sys.argv[0]).name, obj=plugins or (sys.modules["__main__"],))
