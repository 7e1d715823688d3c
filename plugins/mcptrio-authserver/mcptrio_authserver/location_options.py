"""The command-line options for the folder of ``users`` and ``state.db``, or for the database that is used instead.

Each option also reads the environment variable of the server's setting with the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
from attrs import frozen

from mcptrio import Secret

from .config import LedgerSettings, default_folder

__all__ = ["StoreLocation", "location_options"]

_VARIABLE: Final = "MCPTRIO_AUTHSERVER"
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


@frozen(kw_only=True)
class StoreLocation:
    """The location of the records and users of a server.

    Args:
        folder: The folder of ``state.db`` and ``users``.
        ledger: The database that is used instead.
    """

    folder: Path
    ledger: LedgerSettings | None

    def __str__(self) -> str:
        return str(self.folder) if self.ledger is None else "the database"


_OPTIONS: Final = (
    click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False),
        envvar=f"{_VARIABLE}_FOLDER",
        help="The folder of the server's settings.  [default: mcptrio's data folder of this user]",
    ),
    click.option(
        "--ledger",
        "url",
        metavar="URL",
        envvar=f"{_VARIABLE}_LEDGER_URL",
        help="The database of the server's settings, instead of a folder.",
    ),
    click.option("--prefix", default="mcptrio", envvar=f"{_VARIABLE}_LEDGER_PREFIX", help="`prefix` of the database."),
    click.option(
        "--insecure",
        is_flag=True,
        envvar=f"{_VARIABLE}_LEDGER_INSECURE",
        help="`insecure` of the database.",
    ),
    click.option("--ca-file", type=_FILE, envvar=f"{_VARIABLE}_LEDGER_CA_FILE", help="`ca_file` of the database."),
    click.option(
        "--password-file",
        type=_FILE,
        envvar=f"{_VARIABLE}_LEDGER_PASSWORD_FILE",
        help="`password_file` of the database.",
    ),
)


def location_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which receives them as the argument ``location``."""

    @wraps(command)
    def run(folder: Path | None, url: str | None, **values: Any) -> None:
        database = {name: values.pop(name) for name in ("prefix", "insecure", "ca_file", "password_file")}
        ledger = None
        if url is not None:
            try:
                # The operator sees at once that the database is not reachable, and repeats the command.
                ledger = LedgerSettings(url=Secret(url), start_timeout=0, **database)
            except ValueError as error:
                raise click.UsageError(f"--ledger: {str(error).removeprefix('url: ')}") from None
        location = StoreLocation(
            folder=(folder if folder is not None else default_folder()).expanduser(), ledger=ledger
        )
        command(location=location, **values)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run
