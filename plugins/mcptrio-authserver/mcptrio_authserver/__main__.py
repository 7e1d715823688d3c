"""``python -m mcptrio_authserver``: manage users, and the commands of :mod:`.state_commands`."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import click
import trio

from mcptrio.errors import ConfigError, StoreFailed

from .config import SCOPE
from .location_options import StoreLocation, location_options
from .state_commands import client, grant, key, ledger, session
from .store_opening import open_store, user_directory
from .user_directory import FileUserDirectory, UserDirectory
from .users import User, check_name, hash_password

__all__ = ["main"]

T = TypeVar("T")


@click.group()
def main() -> None:
    """The authorization server of mcptrio: its users, grants, clients, sessions and keys."""


for command in (grant, client, session, key, ledger):
    main.add_command(command)


@main.group()
def user() -> None:
    """Add, list and remove users. The server sees changes at once."""


@user.command("add")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, help="A scope that the user may grant. Default: all scopes.")
@location_options
def add(name: str, scopes: Sequence[str], location: StoreLocation) -> None:
    """Add the user NAME, or give them another password and other scopes."""
    for scope in scopes:
        if not SCOPE.fullmatch(scope):
            raise click.ClickException(f"expected a scope of visible ASCII characters, got {scope!r}")
    # Before the password is asked for.
    _in_directory(location, lambda directory: directory.users())
    try:
        check_name(name)
        hashed = hash_password(_password())
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    user = User(name=name, hash=hashed, scopes=tuple(dict.fromkeys(scopes)) or None)

    def put(users: dict[str, User]) -> bool:
        is_new = name not in users
        users[name] = user
        return is_new

    is_new = _in_directory(location, lambda directory: directory.change(put))
    click.echo(f"{f'added {name} to' if is_new else f'changed {name} in'} {_describe(location)}")


@user.command("list")
@location_options
def list_(location: StoreLocation) -> None:
    """List the users with the scopes that they may grant."""
    for each in _in_directory(location, lambda directory: directory.users()).values():
        scopes = "all scopes" if each.scopes is None else " ".join(each.scopes) or "no scope"
        click.echo(f"{each.name}: {scopes}")


@user.command("remove")
@click.argument("name")
@location_options
def remove(name: str, location: StoreLocation) -> None:
    """Remove the user NAME. Their grants end at the next refresh; `grant end --user` ends them now."""

    def take(users: dict[str, User]) -> None:
        if users.pop(name, None) is None:
            raise click.ClickException(f"there is no user {name!r} in {_describe(location)}")

    _in_directory(location, lambda directory: directory.change(take))
    click.echo(f"removed {name} from {_describe(location)}")


def _in_directory(location: StoreLocation, work: Callable[[UserDirectory], Awaitable[T]]) -> T:
    async def run() -> T:
        if location.ledger is None:
            # The file of records is not needed, and must not be created.
            return await work(FileUserDirectory(location.folder / "users"))
        async with open_store(location.folder, location.ledger) as store:
            return await work(user_directory(location.folder, location.ledger, store))

    try:
        return trio.run(run)
    except (ConfigError, StoreFailed, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _describe(location: StoreLocation) -> str:
    return str(location.folder / "users") if location.ledger is None else str(location)


def _password() -> str:
    # Never from an argument, which other users of the machine can see in the process list.
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise ValueError("expected the same password twice, got two different ones")
    return password


if __name__ == "__main__":
    # For new files, including those that SQLite creates.
    os.umask(0o077)
    main(prog_name="python -m mcptrio_authserver")
