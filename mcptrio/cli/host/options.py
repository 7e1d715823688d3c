"""The options of ``mcptrio host``, and their conversion.

A value for the server is written unchanged; the host application replaces variables in it (``${env:TOKEN}``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from mcptrio.cli.help_pages import CLICommand, split_passed_on

__all__ = ["InstallCommand", "hosts_and_scope", "pairs"]


class InstallCommand(CLICommand):
    """Removes the words after ``--``, and stores them in click's context as ``obj``."""

    sections = MappingProxyType({"Server": ("plugins", "no_plugins", "config", "env", "url", "headers")})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args, passed_on = split_passed_on(args)
        ctx.obj = passed_on or ()
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- SERVE_OPTIONS]"]


def hosts_and_scope(function: Any) -> Any:
    """Add HOST and the options that select an entry and a file. A decorator."""
    # click lists the option that is added last first: HOST, --name, --scope.
    for option in (
        click.option(
            "--scope",
            type=click.Choice(["user", "project"]),
            default="user",
            show_default=True,
            help="For everything this user does, or for the project in this folder.",
        ),
        click.option("--name", default="mcptrio", show_default=True, help="The name of the entry."),
        click.argument("hosts", metavar="HOST...", nargs=-1, required=True),
    ):
        function = option(function)
    return function


def pairs(option: str, texts: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            # The value is not shown, since it may be a secret.
            raise click.UsageError(f"{option}: expected NAME=VALUE, got something else")
        found[name] = value
    return found
