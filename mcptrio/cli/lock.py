"""``mcptrio lock``: writes fingerprints of the plugins' entries, or compares them.

No lock is written while a plugin fails, because the lock must contain all entries.

Exit codes: 0 done, or no changes; 1 failed, or changes; 2 invalid usage or configuration.
"""

from __future__ import annotations

from pathlib import Path

import click
from attrs import asdict, evolve

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.install.files import read as read_file
from mcptrio.cli.server.lock_file import lock_text, read_lock
from mcptrio.cli.server.plugin_server import (
    LOCK,
    ChosenPlugins,
    excluded_plugins,
    make_examined_server,
    plugin_options,
)
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import TerminalLayout, count_text
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import printable
from mcptrio.plugins.lock import KINDS
from mcptrio.plugins.lock_changes import changes_since, lock_of
from mcptrio.server import Server

__all__ = ["command"]

_MODE = 0o644
"""The mode of a new file, which contains nothing secret."""


@click.command("lock", cls=CLICommand)
@plugin_options
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; print the changes since the lock was written, and exit with code 1 if there are any.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, chosen: ChosenPlugins, check: bool, as_json: bool) -> None:
    """Write or check mcptrio.lock, the fingerprints of all tools, prompts and resource templates.

    The file is written next to mcptrio.toml. With locked = true in [tools], a server offers no other tools.
    """
    config = chosen.read()
    # The lock must not filter the entries with which it is compared.
    selection = evolve(chosen.select(config), locked=None)
    path = config.resolve_path(LOCK)
    lock = read_lock(path) if check else None
    server = make_examined_server(config, selection, imports_isolated=True)
    if lock is None:
        _write_lock(path, server, as_json=as_json)
        return
    changes = list(
        changes_since(lock, server.catalog, server.plugins.plugins, ignored=excluded_plugins(lock, selection))
    )
    if as_json:
        print_json({"changes": [asdict(each) for each in changes]})
    else:
        for each in changes:
            click.echo(TerminalLayout.of_stdout().wrap(printable(str(each))))
        if not changes:
            click.echo(TerminalLayout.of_stdout().wrap(f"no differences from {path}"))
    ctx.exit(1 if changes else 0)


def _write_lock(path: Path, server: Server, *, as_json: bool) -> None:
    for plugin in server.plugins.plugins.values():
        # The entries of a failed plugin are unknown, so the lock would miss them.
        if plugin.state == "quarantined":
            raise click.ClickException(
                f"{plugin.name} failed: {plugin.failure}; no lock was written; --no-plugin leaves it out"
            )
    lock = lock_of(server.catalog, server.plugins.plugins)
    if not lock.plugins:
        raise ConfigError("expected a plugin to lock, got none: install one, or pass --plugin FILE.py")
    original = read_file(path, mode=_MODE)
    text = lock_text(lock)
    counts: dict[str, int] = {kind: sum(len(each.of(kind)) for each in lock.plugins.values()) for kind in KINDS}
    summary = ", ".join(count_text(count, kind) for kind, count in counts.items())
    has_changed = original.data != text.encode()
    if has_changed:
        original.replace(text.encode())
    layout = TerminalLayout.of_stdout()
    if as_json:
        print_json({"file": str(path), "changed": has_changed, "plugins": len(lock.plugins), **counts})
    elif has_changed:
        click.echo(layout.wrap(f"locked {count_text(len(lock.plugins), 'plugins')}: {summary}", label=f"{path}: "))
    else:
        click.echo(layout.wrap(f"nothing has changed ({summary})", label=f"{path}: "))
