"""``mcptrio plugins enable`` and ``disable``: edits the lists of ``[server]`` in the configuration file.

Nothing else in the file changes, and it is replaced in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import click

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.install.files import decode_text, encode_text
from mcptrio.cli.install.files import read as read_file
from mcptrio.cli.plugins.config_lists import UneditableList, add_name, remove_name
from mcptrio.cli.server.config_options import CONFIG, read_config
from mcptrio.cli.server.plugin_server import plugin_names
from mcptrio.errors import ConfigError
from mcptrio.ground.suggestions import did_you_mean
from mcptrio.plugins.discovery import check_offered, installed_entry_points, served_only_by_name
from mcptrio.serve.config import ServeConfig

__all__ = ["disable", "enable"]

_MODE = 0o644
"""The mode of a new file, which contains only names."""

Edit: TypeAlias = tuple[Literal["put", "take"], str]
"""Add a name to a list of ``[server]``, or remove it."""

_EDITS: Mapping[str, Callable[[str, str, str], str]] = {"put": add_name, "take": remove_name}
_NAME = click.argument("name", metavar="NAME", shell_complete=plugin_names)
_CONFIG = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=CONFIG,
    help="Edit this file, or create it.  [default: ./mcptrio.toml]",
)


@click.command("enable", cls=CLICommand)
@_NAME
@_CONFIG
def enable(name: str, path: Path) -> None:
    """Serve a plugin again: edit the lists enable and disable of [server] in mcptrio.toml."""
    config, key, names, disabled = _read_lists(path)
    edits: list[Edit] = [("take", "disable")] if name in disabled else []
    if names is not None and name not in names:
        edits.append(("put", key))
    _check_name(name, config, edits, path)
    # A file is served only if a list names it.
    if name.endswith(".py") and names is None:
        edits.append(("put", key))
    if names is None and name not in config.plugins and name in served_only_by_name():
        raise ConfigError(f"{name} is served only by name: add a table [plugins.{name}] to {path}")
    _edit_file(path, name, edits, state="enabled")


@click.command("disable", cls=CLICommand)
@_NAME
@_CONFIG
def disable(name: str, path: Path) -> None:
    """Leave a plugin out: edit the lists enable and disable of [server] in mcptrio.toml. It is not imported."""
    config, key, names, disabled = _read_lists(path)
    edits: list[Edit] = []
    if names is not None:
        if name in names:
            edits.append(("take", key))
        elif name.endswith(".py"):
            raise ConfigError(f"{path}: server.{key} does not name `{name}`{did_you_mean(name, names)}")
    elif name not in disabled:
        edits.append(("put", "disable"))
    _check_name(name, config, edits, path)
    _edit_file(path, name, edits, state="disabled")


def _read_lists(path: Path) -> tuple[ServeConfig, str, Sequence[str] | None, Sequence[str]]:
    """Return the configuration, the key of the list that names plugins, this list, and ``disable``.

    Paths of files in the lists are as written in the configuration.
    """
    config = read_config(path) if path.exists() else ServeConfig()
    table = config.tables.get("server", {})
    key = "only" if "only" in table else "enable"
    return config, key, table.get(key), table.get("disable", ())


def _check_name(name: str, config: ServeConfig, edits: list[Edit], path: Path) -> None:
    """Refuse names that would be an error in a list. Removing a name is always allowed."""
    if edits and all(action == "take" for action, _ in edits):
        return
    # Installed plugins are found by name, but a file only by its path.
    if name.endswith(".py"):
        if ("put", "disable") in edits:
            raise ConfigError(f"{name}: a file is served only if it is named, so there is nothing to disable")
        file = config.resolve_path(name) if config.source is not None else path.parent / name
        if not file.is_file():
            raise ConfigError(f"no such file: {file}")
    else:
        check_offered([name], installed_entry_points())


def _edit_file(path: Path, name: str, edits: list[Edit], *, state: str) -> None:
    if not edits:
        click.echo(f"{name} is already {state}")
        return
    # The default mode of a new file is for secrets, and would hide the file from other users.
    original = read_file(path, mode=_MODE)
    mark, text = decode_text(path, original.data)
    for action, key in edits:
        try:
            text = _EDITS[action](text, key, name)
        except UneditableList as error:
            raise ConfigError(f"{path}: cannot be edited: {error}; change it by hand") from error
    original.replace(encode_text(mark, text))
    edited = ", ".join(f"{'added to' if action == 'put' else 'removed from'} server.{key}" for action, key in edits)
    click.echo(f"{name} is {state}: {edited} in {path}" + (", which is new" if original.data is None else ""))
