"""``mcptrio plugins install`` and ``uninstall``: runs pip of this interpreter, and reports the result.

The installed plugins are looked up before and after, so the report does not depend on pip's output.

Source: PyPA, "Names and normalization" and "Dependency specifiers".
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

import click

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.server.plugin_server import plugin_names
from mcptrio.errors import ConfigError
from mcptrio.plugins.discovery import check_offered, distribution_of, installed_entry_points

__all__ = ["install", "uninstall"]

_PREFIX = "mcptrio-"
_NAME = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?P<rest>[ \t]*(?:[\[<>=!~;].*)?)", re.DOTALL)
_FILES = (".whl", ".zip", ".tar.gz", ".tar.bz2")


@click.command("install", cls=CLICommand)
@click.option("-U", "--upgrade", is_flag=True, help="Install the newest version, even if another one is installed.")
@click.option("--exact", is_flag=True, help="Pass each name to pip unchanged: git is git, not mcptrio-git.")
@click.argument("specs", metavar="SPEC...", nargs=-1, required=True)
def install(upgrade: bool, exact: bool, specs: tuple[str, ...]) -> None:
    """Install plugins with pip, into the Python that runs mcptrio.

    \b
    mcptrio plugins install git==1.2          # the distribution mcptrio-git
    mcptrio plugins install ./mcptrio-notes   # the package in a folder

    SPEC is NAME for mcptrio-NAME, with or without a version, or a path or URL as for pip.
    """
    requirements = [each if exact else _requirement(each) for each in specs]
    for spec in requirements:
        # pip would read it as its own option, for example as the URL of another index.
        if spec.startswith("-"):
            raise click.UsageError(f"expected the name, path or URL of a distribution, got the option {spec!r}")
    before = _installed_versions()
    _pip("install", [*(["--upgrade"] if upgrade else []), *requirements], names=requirements)
    _report(before, _installed_versions())


@click.command("uninstall", cls=CLICommand)
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=plugin_names)
def uninstall(names: tuple[str, ...]) -> None:
    """Uninstall the distributions of plugins with pip. NAME is a plugin, or a distribution with plugins."""
    before = _installed_versions()
    distributions = list(dict.fromkeys(_distribution(name) for name in names))
    _pip("uninstall", ["--yes", *distributions], names=distributions)
    _report(before, _installed_versions())


def _requirement(spec: str) -> str:
    match = _NAME.fullmatch(spec)
    # A path, an archive, or "NAME @ URL" of the dependency specifiers.
    is_path_or_url = "/" in spec or "\\" in spec or spec.endswith(_FILES) or re.search(r"\s@\s|^\.", spec) is not None
    if match is None or is_path_or_url or (_normalize(match["name"]) + "-").startswith(_PREFIX):
        return spec
    return f"{_PREFIX}{spec}"


def _distribution(name: str) -> str:
    """Return the name under which pip knows the distribution of a plugin."""
    installed = installed_entry_points()
    if name in installed:
        installed_name = distribution_of(installed[name][0])[0]
        if installed_name is None:
            raise ConfigError(
                f"plugin `{name}`: expected one that an installer has installed; delete the files of this one by hand"
            )
        return installed_name
    known = {
        _normalize(dist) for points in installed.values() for point in points if (dist := distribution_of(point)[0])
    }
    for each in (name, f"{_PREFIX}{name}"):
        if _normalize(each) in known:
            try:
                return str(distribution(each).name)
            except PackageNotFoundError:
                continue
    check_offered([name], installed)
    return name


def _pip(action: str, arguments: Sequence[str], *, names: Sequence[str]) -> None:
    # uv creates environments without pip.
    if find_spec("pip") is None:
        words = " ".join(names)
        inject = f"pipx inject mcptrio {words}" if action == "install" else f"pipx uninject mcptrio {words}"
        raise click.ClickException(
            f"the Python of mcptrio, {sys.executable}, has no pip.\n"
            f"Use uv: uv pip {action} --python {sys.executable} {words}\n"
            f"or, where pipx has installed mcptrio: {inject}"
        )
    command = [sys.executable, "-m", "pip", action, *arguments]
    # Buffered text must appear before the output of pip.
    sys.stdout.flush()
    code = subprocess.run(command, check=False).returncode
    if code:
        raise click.ClickException(f"pip {action} failed with exit code {code}; its output above says why")


def _installed_versions() -> dict[str, str]:
    # The import system has cached the folders that pip has changed.
    importlib.invalidate_caches()
    return {
        name: " ".join(part for part in distribution_of(points[0]) if part) or "-"
        for name, points in installed_entry_points().items()
    }


def _report(before: dict[str, str], after: dict[str, str]) -> None:
    lines = [f"added: {name} ({after[name]})" for name in after.keys() - before.keys()]
    lines += [f"removed: {name} ({before[name]})" for name in before.keys() - after.keys()]
    lines += [
        f"changed: {name} (from {before[name]} to {after[name]})"
        for name in after.keys() & before.keys()
        if before[name] != after[name]
    ]
    for line in sorted(lines):
        click.echo(line)
    if not lines:
        click.echo("no plugin was added, removed or changed; `mcptrio plugins` lists them")


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
