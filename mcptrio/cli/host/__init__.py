"""``mcptrio host``: adds mcptrio to host applications, removes it, and shows its state.

If the file of one host application cannot be edited, the command prints the error and continues with the others.

Exit codes: 0 done, 1 status has found a problem, 2 invalid usage or configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from mcptrio.cli.help_pages import CLICommand, CLIGroup, split_at_dashes
from mcptrio.cli.host.status import file_statuses, lines, status_as_json
from mcptrio.cli.install.hosts import HOSTS, HostKind, Scope, find_host
from mcptrio.cli.install.launches import launch_command, launch_warning
from mcptrio.cli.install.machine import Machine
from mcptrio.cli.install.plans import InstallPlan, plan_install, plan_uninstall, snippet
from mcptrio.cli.param_types import OneOf
from mcptrio.cli.server.plugin_server import MOUNT
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import TerminalLayout
from mcptrio.connecting.targets import Command, Endpoint
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import printable
from mcptrio.plugins.discovery import check_offered, installed_entry_points

__all__ = ["command"]

_ALL = "all"


@click.group("host", cls=CLIGroup)
def command() -> None:
    """Add mcptrio to the configuration of Claude, Cursor, VS Code and other applications, or remove it.

    HOST is a name that `mcptrio host status` shows in brackets, the path of a file like mcp.json, or all, for the
    applications that are installed here.
    """


class _InstallCommand(CLICommand):
    """Removes the words after ``--``, and stores them in click's context as ``obj``."""

    sections = MappingProxyType({"Server": ("plugins", "no_plugins", "config", "env", "url", "headers")})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args, serve_options = split_at_dashes(args)
        ctx.obj = serve_options or ()
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- SERVE_OPTIONS]"]


def _require_hosts(ctx: click.Context, _param: click.Parameter, hosts: tuple[str, ...]) -> tuple[str, ...]:
    if not hosts:
        raise click.UsageError("missing HOST: pass the name of an application; `mcptrio host status` shows them", ctx)
    return hosts


_HOSTS = click.argument("hosts", metavar="HOST...", nargs=-1, callback=_require_hosts)
_NAME = click.option("--name", metavar="NAME", default="mcptrio", show_default=True, help="The name of the entry.")
_SCOPE = click.option(
    "--scope",
    type=OneOf(["user", "project"]),
    default="user",
    show_default=True,
    help="For this user, or for the project in this folder.",
)
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would change, as a diff.")


@command.command("install", cls=_InstallCommand)
@_HOSTS
@_NAME
@_SCOPE
@click.option("--plugin", "plugins", multiple=True, metavar="NAME|FILE.py", help="Serve this plugin; repeat for more.")
@click.option("--no-plugin", "no_plugins", multiple=True, metavar="NAME", help="Leave this plugin out.")
@click.option("--config", type=click.Path(path_type=Path), help="Serve with this file.  [default: ./mcptrio.toml]")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set this variable for the server; repeat for more.")
@click.option("--url", metavar="URL", help="Connect to a server at this URL instead of starting one.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="With --url: send this header; repeat for more."
)
@click.option("--force", is_flag=True, help="Replace an entry of this name that is not mcptrio's.")
@_DRY_RUN
@click.option("--print", "prints", is_flag=True, help="Only print the entry.")
@click.pass_context
def _install(ctx: click.Context, /, hosts: tuple[str, ...], name: str, scope: Scope, **options: Any) -> None:
    """Add the entry that starts mcptrio, or connects to it, to the configuration of host applications.

    \b
    mcptrio host install cursor --plugin hello.py
    mcptrio host install vscode --scope project --url http://127.0.0.1:8000/mcp

    HOST is a name that `mcptrio host status` shows in brackets, the path of a file like mcp.json, or all. Options after
    -- are passed to `mcptrio serve`.
    """
    machine = Machine.here()
    target = _read_target(options, ctx.obj, machine)
    if options["prints"]:
        for host in _find_hosts(hosts, machine, scope):
            click.echo(snippet(host, name, target), nl=False)
        return
    if (warning := launch_warning()) is not None and isinstance(target, Command):
        click.echo(f"mcptrio: {warning}", err=True)
    plan = partial(plan_install, name=name, target=target, force=options["force"])
    _apply_plans(ctx, hosts, machine, scope, plan, name, dry_run=options["dry_run"])


@command.command("uninstall")
@_HOSTS
@_NAME
@_SCOPE
@click.option("--force", is_flag=True, help="Also remove an entry of this name that is not mcptrio's.")
@_DRY_RUN
@click.pass_context
def _uninstall(ctx: click.Context, hosts: tuple[str, ...], name: str, scope: Scope, force: bool, dry_run: bool) -> None:
    """Remove the entry from the configuration of host applications.

    If nothing else has changed, the file is restored byte for byte.
    """
    plan = partial(plan_uninstall, name=name, force=force)
    _apply_plans(ctx, hosts, Machine.here(), scope, plan, name, dry_run=dry_run)


@command.command("status")
@click.argument("hosts", metavar="[HOST...]", nargs=-1)
@click.option(
    "--name",
    metavar="NAME",
    default="mcptrio",
    show_default=True,
    help="An entry to show in addition to those of mcptrio.",
)
@click.option("--check", is_flag=True, help="Start the servers in the user's files, and request their tools.")
@click.option("--check-project", is_flag=True, help="The same for the files of the project in this folder.")
@json_option
@click.pass_context
def _status(
    ctx: click.Context, /, hosts: tuple[str, ...], name: str, check: bool, check_project: bool, as_json: bool
) -> None:
    """List the known host applications, their files, and where mcptrio is installed.

    Also checks that the programs and files of the entries exist; exit code 1 if one does not.
    """
    machine = Machine.here()
    # Without names, all hosts are shown, also those that are not installed.
    kinds = [*HOSTS.values()] if not hosts else _find_hosts(hosts, machine, None)
    checks: dict[Scope, bool] = {"user": check, "project": check_project}
    statuses = file_statuses(kinds, machine, name, checked=[scope for scope, is_wanted in checks.items() if is_wanted])
    if as_json:
        print_json({"files": [status_as_json(each) for each in statuses]})
    else:
        for line in lines(statuses, TerminalLayout.of_stdout()):
            click.echo(line)
    if any(each.is_wrong for each in statuses):
        ctx.exit(1)


def _find_hosts(names: Sequence[str], machine: Machine, scope: Scope | None) -> list[HostKind]:
    kinds: dict[str, HostKind] = {}
    for name in names:
        if name != _ALL:
            kinds[name] = find_host(name)
            continue
        for host in HOSTS.values():
            # `all` must not create files for hosts that are not installed.
            if host.is_found(machine) and (scope is None or scope in host.files(machine)):
                kinds[host.id] = host
    if not kinds:
        raise ConfigError(
            "HOST: expected an installed application, found none; `mcptrio host status` lists the known ones"
        )
    return list(kinds.values())


def _read_target(options: dict[str, Any], arguments: tuple[str, ...], machine: Machine) -> Command | Endpoint:
    url = options["url"]
    if url is None:
        # An entry with a command has no headers, so they would be ignored silently.
        if options["headers"]:
            raise click.UsageError("expected --url with --header, got --header without it")
        # Checked now, because the host application would hide this error of the server.
        names = [name for name in options["plugins"] if not name.endswith(".py") and name != MOUNT]
        check_offered(names, installed_entry_points())
        serve_options = {name: options[name] for name in ("plugins", "no_plugins", "config")}
        return launch_command(
            machine.project, **serve_options, arguments=arguments, env=_parse_pairs("--env", options["env"])
        )
    if arguments or any(options[name] for name in ("plugins", "no_plugins", "config", "env")):
        raise click.UsageError(
            "--url connects to a running server: it cannot be used with plugins, --config, --env or options after --"
        )
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("--url: expected an http or https URL, got something else")
    return Endpoint(url=url, headers=_parse_pairs("--header", options["headers"]))


def _parse_pairs(option: str, texts: Sequence[str]) -> Mapping[str, str]:
    pairs = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            # The value is not shown, since it may be a secret.
            raise click.UsageError(f"{option}: expected NAME=VALUE, got something else")
        pairs[name] = value
    return pairs


def _apply_plans(
    ctx: click.Context,
    names: Sequence[str],
    machine: Machine,
    scope: Scope,
    plan: Callable[[HostKind, Path], InstallPlan],
    name: str,
    *,
    dry_run: bool,
) -> None:
    is_refused = False
    for host in _find_hosts(names, machine, scope):
        try:
            planned = plan(host, host.file(machine, scope))
            for line in _apply_plan(planned, name) if not dry_run else [planned.diff().rstrip("\n")]:
                if line:
                    click.echo(line)
        # The other hosts do not depend on this one, so the command continues with them.
        except ConfigError as error:
            is_refused = True
            click.echo(f"mcptrio: {error}", err=True)
    if is_refused:
        ctx.exit(2)


def _apply_plan(planned: InstallPlan, name: str) -> Iterator[str]:
    """Write the file, and yield lines about it."""
    backup = planned.carry_out()
    yield f"{planned.host.title}: {name} {planned.outcome}: {printable(str(planned.path))}"
    if planned.others:
        names = ", ".join(printable(each) for each in planned.others)
        yield f"  it still has mcptrio as {names}: mcptrio host uninstall {planned.host.id} --name {planned.others[0]}"
    if backup is not None:
        yield f"  backup of the previous file: {printable(str(backup))}"
    if planned.outcome in ("added", "changed") and planned.host.next_step:
        yield f"  {planned.host.next_step}"
