"""The option ``--folder`` of the commands: the folder with ``users`` and ``state.db``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from .config import default_folder

__all__ = ["folder_of", "folder_option"]

_VARIABLE: Final = "MCPTRIO_AUTHSERVER_FOLDER"

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=_VARIABLE,
    help="The folder of the server's settings.  [default: mcptrio's data folder of this user]",
)


def folder_of(folder: Path | None) -> Path:
    """Return the folder that the option names, or the default one."""
    return (folder if folder is not None else default_folder()).expanduser()
