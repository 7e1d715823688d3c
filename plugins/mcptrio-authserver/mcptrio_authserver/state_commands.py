"""The commands that list and end grants, clients, sessions and signing keys, and prepare a database.

They work while the server runs: each command is one transaction, and the server and the command wait for each other.
No command prints a token, a secret or a digest of one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import click
import trio

from mcptrio.errors import ConfigError, StoreFailed

from .browser_sessions import end_sessions, list_sessions
from .clients import list_clients, remove_client
from .grants import end_grant, end_grants, list_grants
from .ledger import Ledger
from .location_options import StoreLocation, location_options
from .signing_keys import delete_signing_keys
from .store_opening import migrate_store, open_store
from .time_format import format_time

__all__ = ["client", "grant", "key", "ledger", "session"]

T = TypeVar("T")


@click.group()
def grant() -> None:
    """List and end the grants that users gave to clients."""


@grant.command("list")
@click.option("--user", help="List only the grants of this user.")
@location_options
def grant_list(user: str | None, location: StoreLocation) -> None:
    """List the grants, the oldest first, each with its id."""
    for each in _transact(location, lambda ledger: list_grants(ledger, user)):
        host = f" at {each.host}" if each.host else ""
        _print(
            f"{each.id}: {each.subject} to {each.client_name!r} ({each.client_id}){host},"
            f" {' '.join(each.scopes) or 'no scope'} for {each.resource},"
            f" since {format_time(each.begun)}, until {format_time(each.ends)}"
        )


@grant.command("end")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--user", help="End all grants of this user.")
@click.option("--all", "every", is_flag=True, help="End all grants of all users.")
@location_options
def grant_end(ids: Sequence[str], user: str | None, every: bool, location: StoreLocation) -> None:
    """End grants by their IDs. Their refresh tokens end now.

    A server that checks access tokens by their signature alone accepts them until they expire.
    """
    _one_of("ids, --user or --all", [bool(ids), user is not None, every])

    def work(ledger: Ledger) -> int:
        for id in dict.fromkeys(ids):
            if not end_grant(ledger, id):
                raise click.ClickException(f"there is no grant {id!r}, so none was ended; `grant list` lists them")
        return len({*ids}) if ids else end_grants(ledger, user)

    ended = _transact(location, work)
    if user is not None and not ended:
        raise click.ClickException(f"there is no grant of the user {user!r}; `grant list` lists them")
    click.echo(f"ended {_count_text(ended, 'grant')}")


@click.group()
def client() -> None:
    """List and remove clients that are not in the settings."""


@client.command("list")
@location_options
def client_list(location: StoreLocation) -> None:
    """List the clients that registered themselves, and those whose metadata document is cached."""
    for each in _transact(location, list_clients):
        if each.origin == "document":
            times = "from its document"
        else:
            used = format_time(each.used) if each.used else "never"
            times = f"registered {format_time(each.made)}, last used {used}"
        places = " ".join(each.redirect_uris) or "no redirect URI"
        _print(f"{each.id}: {each.name!r}, {places}, {each.auth_method}, {times}")


@client.command("remove")
@click.argument("id")
@location_options
def client_remove(id: str, location: StoreLocation) -> None:
    """Remove the client ID, and end its grants.

    A client in the settings loses its grants only. A client with a metadata document can be fetched again, unless
    the settings exclude its host.
    """
    was_stored, ended = _transact(location, lambda ledger: remove_client(ledger, id))
    if not was_stored and not ended:
        raise click.ClickException(f"there is no client {id!r} here, and no grant of it; `client list` lists them")
    removed = f"removed {id}" if was_stored else f"{id} is not kept here"
    click.echo(f"{removed}; ended {_count_text(ended, 'grant')}")


@click.group()
def session() -> None:
    """List and end the sessions of browsers."""


@session.command("list")
@location_options
def session_list(location: StoreLocation) -> None:
    """List the browsers in which users are logged in, the oldest login first."""
    for each in _transact(location, list_sessions):
        _print(f"{each.user}: since {format_time(each.auth_time)}")


@session.command("end")
@click.option("--user", help="Log this user out of all browsers.")
@click.option("--all", "every", is_flag=True, help="Log out all users.")
@location_options
def session_end(user: str | None, every: bool, location: StoreLocation) -> None:
    """Log users out of all browsers. Their grants stay."""
    _one_of("--user or --all", [user is not None, every])
    ended = _transact(location, lambda ledger: end_sessions(ledger, user))
    if user is not None and not ended:
        raise click.ClickException(f"there is no session of the user {user!r}; `session list` lists them")
    click.echo(f"ended {_count_text(ended, 'session')}")


@click.group()
def key() -> None:
    """Replace the keys that sign access tokens."""


@key.command("rotate")
@click.option("--now", is_flag=True, help="Delete the keys at once; all access tokens become invalid.")
@location_options
def rotate(now: bool, location: StoreLocation) -> None:
    """Delete all signing keys; the server makes a new one for the next token.

    Refresh tokens stay valid. A resource server with cached keys accepts old tokens until it fetches the keys again,
    which it does when it receives a token of the new key.
    """
    if not now:
        raise click.UsageError(
            "expected --now, which makes all access tokens invalid; the server also rotates its keys automatically"
        )
    deleted = _transact(location, delete_signing_keys)
    click.echo(f"deleted {_count_text(deleted, 'key')}; the server makes a new one for the next token")


@click.group()
def ledger() -> None:
    """Prepare the database that replicas share."""


@ledger.command("migrate")
@location_options
def migrate(location: StoreLocation) -> None:
    """Create the table of the database, or bring it up to date. A server never changes the table."""
    if location.ledger is None:
        raise click.UsageError("expected --ledger URL; a file needs no migration")
    for change in _run(partial(migrate_store, location.ledger)) or ["everything is up to date"]:
        click.echo(change)


def _transact(location: StoreLocation, work: Callable[[Ledger], T]) -> T:
    path = location.folder / "state.db"
    if location.ledger is None and not path.exists():
        raise click.ClickException(f"there is no file {path}: expected the folder of a server that has been started")

    async def transact() -> T:
        async with open_store(location.folder, location.ledger) as store:
            return await store.transact(work)

    return _run(transact)


def _run(work: Callable[[], Awaitable[T]]) -> T:
    try:
        return trio.run(work)
    except (ConfigError, StoreFailed) as error:
        raise click.ClickException(str(error)) from error


def _print(line: str) -> None:
    # Names and URIs come from clients and providers, so control characters must not reach the terminal.
    click.echo("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line))


def _one_of(names: str, choices: Sequence[bool]) -> None:
    if sum(choices) != 1:
        raise click.UsageError(f"expected one of {names}, got {sum(choices)}")


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
