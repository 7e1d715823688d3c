"""The paths of the programs that tests run, such as Redis and nginx, and how to install missing ones."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

__all__ = ["program_path"]

_INSTALL: Final = {
    "nginx": "apt-get install nginx-light",
    "haproxy": "apt-get install haproxy",
    "redis-server": "apt-get install redis-server (or valkey-server)",
    "valkey-server": "apt-get install valkey-server",
    "initdb": "apt-get install postgresql",
    "postgres": "apt-get install postgresql",
    "psql": "apt-get install postgresql-client",
}


def program_path(name: str) -> str:
    """Return the path of a program.

    Raises:
        AssertionError: The program is missing; the message says how to install it.
    """
    places = [os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    places += [str(path) for path in sorted(versions, key=lambda path: float(path.parent.name), reverse=True)]
    found = shutil.which(name, path=":".join(places))
    assert found is not None, f"expected the program {name}, found none: {_INSTALL[name]}"
    return found
