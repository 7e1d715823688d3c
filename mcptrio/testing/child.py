"""The server of a test over stdio: ``python -m mcptrio.testing.child FILE``.

Started by :mod:`mcptrio.testing.servers`; FILE is a parcel of :mod:`mcptrio.testing.server_spec`.
The one rule: the parcel is opened when standard output is guarded already, since plugins may print while they are
imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcptrio.serve.process import run
from mcptrio.serve.stdio import serve_process
from mcptrio.server import Server
from mcptrio.testing.server_spec import open_spec

__all__ = ["main"]


def main(file: Path) -> None:
    """Serve standard input and output with what is in the file."""

    def make() -> Server:
        return open_spec(file).make()

    run(lambda stop: serve_process(make, shutdown=stop, restore=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
