"""``mcptrio package``: makes files for publishing plugins: ``server.json`` for the registry, and MCPB bundles.

Nothing is uploaded. The file is written, and standard error says how to publish it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from mcptrio.cli.client.saving import write_file
from mcptrio.cli.help_pages import CLIGroup
from mcptrio.cli.package.described import PublishedPlugin, describe
from mcptrio.cli.package.mcpb import Bundle, bundle
from mcptrio.cli.package.server_json import RegistryListing, advice, server_json
from mcptrio.cli.server.plugin_server import ChosenPlugins, make_examined_server
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.serve.config import ServeConfig

__all__ = ["command"]


@click.group("package", cls=CLIGroup)
def command() -> None:
    """Describe plugins for the MCP registry, or build an MCPB bundle."""


_PLUGINS = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    required=True,
    metavar="NAME|FILE.py",
    help="Include this plugin; repeat for more.",
)
_SETTINGS = click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="PLUGIN.FIELD",
    help="Let the user set this; repeat for more.  [default: all settings]",
)
_FORCE = click.option("--force", is_flag=True, help="Overwrite an existing file.")


@command.command("server-json")
@_PLUGINS
@_SETTINGS
@click.option("--name", metavar="NAMESPACE/NAME", help="The name in the registry.  [default: mcp-name in the README]")
@click.option("--title", help="The name that users see.")
@click.option("--description", help="The description.  [default: the distribution's]")
@click.option("--version", help="The version.  [default: the distribution's]")
@click.option("--package", metavar="DISTRIBUTION", help="The distribution with the server; others are included.")
@click.option("--repository", metavar="URL", help="The URL of the source repository.")
@click.option("--url", metavar="URL", help="A URL where the server is also available.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.  [default: standard output]")
@_FORCE
def _server_json(
    plugins: tuple[str, ...], settings: tuple[str, ...], output: Path | None, force: bool, **options: Any
) -> None:
    """Write server.json for the MCP registry, to which `mcp-publisher publish` uploads it."""
    listing = RegistryListing(**options)
    published = _load_plugins(plugins, settings)
    text = json.dumps(server_json(published, listing), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_file(output, text.encode(), overwrite=force)
    for line in advice(published, listing):
        # Advice goes to standard error, because standard output may be server.json.
        click.echo(f"mcptrio: {line}", err=True)


@command.command("mcpb")
@_PLUGINS
@_SETTINGS
@click.option(
    "--name",
    metavar="NAME",
    required=True,
    help="The name of the extension: lower-case letters, digits, '.', '_' and '-'.",
)
@click.option("--version", default="0.1.0", show_default=True, help="The version of the bundle.")
@click.option("--display-name", help="The name that users see.")
@click.option("--description", help="The description.  [default: the first distribution's]")
@click.option("--author", required=True, help="The author.")
@click.option("--license", help="The license's SPDX identifier.")
@click.option("--homepage", metavar="URL", help="The URL of the documentation.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.  [default: NAME.mcpb]")
@_FORCE
@json_option
def _mcpb(
    plugins: tuple[str, ...], settings: tuple[str, ...], output: Path | None, force: bool, as_json: bool, **about: Any
) -> None:
    """Build a bundle that Claude Desktop and others install with a click. uv then installs its dependencies.

    The same plugins always give the same file.
    """
    published = _load_plugins(plugins, settings)
    about["description"] = about["description"] or _summary(published)
    data = bundle(published, Bundle(**about))
    output = output if output is not None else Path(f"{about['name']}.mcpb")
    write_file(output, data, overwrite=force)
    digest = sha256(data).hexdigest()
    if as_json:
        print_json({"file": str(output), "bytes": len(data), "sha256": digest})
    else:
        click.echo(f"{output}: {len(data)} bytes, SHA-256 {digest}")


def _load_plugins(plugins: Sequence[str], settings: Sequence[str]) -> list[PublishedPlugin]:
    # The publisher's ./mcptrio.toml must not become part of the description.
    config = ServeConfig()
    selection = ChosenPlugins(plugins=plugins).select(config)
    return describe(make_examined_server(config, selection), selection.files, settings)


def _summary(plugins: Sequence[PublishedPlugin]) -> str:
    summaries = [str(each.distribution.metadata["Summary"] or "") for each in plugins if each.distribution is not None]
    return next(
        (each for each in summaries if each), f"Tools: {', '.join(name for each in plugins for name in each.tools)}."
    )
