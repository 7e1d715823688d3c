"""``python -m mcptrio_authserver``: manage users, and the commands of :mod:`.state_commands`."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from mcptrio.errors import ConfigError

from .config import SCOPE
from .folder_option import folder_of, folder_option
from .state_commands import client, grant, key, session
from .users import User, check_name, hash_password, read_users, write_users

__all__ = ["main"]


@click.group()
def main() -> None:
    """The authorization server of mcptrio: its users, grants, clients, sessions and keys."""


for command in (grant, client, session, key):
    main.add_command(command)


@main.group()
def user() -> None:
    """Add, list and remove users. The server sees changes at once."""


@user.command("add")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, help="A scope the user may grant; all of them without.")
@folder_option
def add(name: str, scopes: Sequence[str], folder: Path | None) -> None:
    """Add the user NAME, or give them another password and other scopes."""
    for scope in scopes:
        if not SCOPE.fullmatch(scope):
            raise click.ClickException(f"expected a scope of visible ASCII characters, got {scope!r}")
    path = _path(folder)
    users = dict(_read(path))
    new = name not in users
    try:
        check_name(name)
        hashed = hash_password(_password())
        users[name] = User(name=name, hash=hashed, scopes=tuple(dict.fromkeys(scopes)) or None)
        write_users(path, users)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{'added' if new else 'changed'} {name} @ {path}")


@user.command("list")
@folder_option
def list_(folder: Path | None) -> None:
    """List the users with the scopes that they may grant."""
    for each in _read(_path(folder)).values():
        scopes = "all scopes" if each.scopes is None else " ".join(each.scopes) or "no scope"
        click.echo(f"{each.name}: {scopes}")


@user.command("remove")
@click.argument("name")
@folder_option
def remove(name: str, folder: Path | None) -> None:
    """Remove the user NAME. Their grants end at the next refresh; `grant end --user` ends them now."""
    path = _path(folder)
    users = dict(_read(path))
    if users.pop(name, None) is None:
        raise click.ClickException(f"there is no user {name!r} @ {path}")
    try:
        write_users(path, users)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"removed {name} @ {path}")


def _path(folder: Path | None) -> Path:
    return folder_of(folder) / "users"


def _read(path: Path) -> dict[str, User]:
    try:
        return dict(read_users(path))
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _password() -> str:
    # Never from an argument, which other users of the machine can see in the process list.
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise ValueError("the two passwords are not the same")
    return password


if __name__ == "__main__":
    # For new files, including those that SQLite creates.
    os.umask(0o077)
    main(prog_name="python -m mcptrio_authserver")
