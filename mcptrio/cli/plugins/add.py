"""``mcptrio plugins add``: mounts a well-known server, with a table in the configuration file.

Versions are pinned, so that a new release of a package runs only after the operator has chosen it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from attrs import field, frozen

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.install.edits import Uneditable
from mcptrio.cli.install.files import decode_text, encode_text
from mcptrio.cli.install.files import read as read_file
from mcptrio.cli.install.toml_text import parse, put
from mcptrio.cli.server.config_options import CONFIG, read_config
from mcptrio.cli.terminal.layout import TerminalLayout
from mcptrio.errors import ConfigError

__all__ = ["PRESETS", "Preset", "add"]

_MODE = 0o644
"""The mode of a new file, which contains only names of secrets."""


@frozen(kw_only=True)
class Preset:
    """A well-known server.

    Attributes:
        entry: The keys of its table.
        variables: Environment variables that it needs, with what they contain.
    """

    about: str
    entry: Mapping[str, Any]
    variables: Mapping[str, str] = field(factory=dict)


def _npm(package: str) -> dict[str, Any]:
    return {"command": "npx", "args": ["-y", package]}


PRESETS: Mapping[str, Preset] = {
    "chrome-devtools": Preset(
        about="control and inspect a Chrome browser, by Google", entry=_npm("chrome-devtools-mcp@1.11.0")
    ),
    "context7": Preset(about="current documentation of libraries", entry=_npm("@upstash/context7-mcp@4.1.1")),
    "github": Preset(
        about="repositories, issues and pull requests, at GitHub's own server",
        entry={
            "url": "https://api.githubcopilot.com/mcp/",
            "headers": {"Authorization": {"$env": "GITHUB_AUTHORIZATION"}},
        },
        variables={"GITHUB_AUTHORIZATION": "Bearer and a token of GitHub"},
    ),
    "notion": Preset(
        about="pages and databases of Notion",
        entry={**_npm("@notionhq/notion-mcp-server@2.5.2"), "env": {"NOTION_TOKEN": {"$env": "NOTION_TOKEN"}}},
        variables={"NOTION_TOKEN": "the secret of an internal integration"},
    ),
    "playwright": Preset(about="control a browser, by Microsoft", entry=_npm("@playwright/mcp@0.0.83")),
}
"""By the name of the table. The servers of npm need Node."""


@click.command("add", cls=CLICommand)
@click.argument("name", metavar="[NAME]", type=click.Choice(sorted(PRESETS)), required=False)
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=CONFIG,
    help="Edit this file, or create it.  [default: ./mcptrio.toml]",
)
def add(name: str | None, path: Path) -> None:
    """Mount a well-known server, pinned by version: add a table [mount.NAME] to mcptrio.toml.

    Without NAME, the known servers are listed.
    """
    if name is None:
        rows = [[each, preset.about, _source(preset)] for each, preset in sorted(PRESETS.items())]
        click.echo(TerminalLayout.of_stdout().table(("NAME", "WHAT FOR", "SERVER"), rows, optional=("SERVER",)))
        return
    preset = PRESETS[name]
    if path.exists():
        # Also finds errors that would keep the edited file from being used.
        read_config(path)
    original = read_file(path, mode=_MODE)
    mark, text = decode_text(path, original.data)
    before = parse(text)
    mounts = before.get("mount", {})
    if name in mounts:
        raise ConfigError(f"{path}: table mount.{name} already exists; remove it first to get the preset")
    try:
        new_text = put(text, ("mount", name), preset.entry)
    except Uneditable as error:
        raise ConfigError(f"{path}: cannot be edited: {error}; change it by hand") from error
    # Compared, because a wrong edit could change other settings.
    if parse(new_text) != {**before, "mount": {**mounts, name: preset.entry}}:
        raise ConfigError(f"{path}: mount is written in a form that cannot be edited; change it by hand")
    original.replace(encode_text(mark, new_text))
    click.echo(f"added [mount.{name}] to {path}" + (", which is new" if original.data is None else ""))
    for variable, content in preset.variables.items():
        if not os.environ.get(variable):
            click.echo(f"set the environment variable {variable}: {content}")
    command = preset.entry.get("command")
    if command is not None and shutil.which(command) is None:
        click.echo(f"install {command}, which is not in PATH")


def _source(preset: Preset) -> str:
    return str(preset.entry.get("url") or preset.entry["args"][-1])
