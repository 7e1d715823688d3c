"""The server of a test over stdio: ``python -m mcptrio.testing.child FILE``.

:mod:`mcptrio.testing.servers` starts it with a file of :mod:`mcptrio.testing.server_spec`.
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
    """Serve standard input and output with the server that the file describes."""

    # Called when standard output is guarded, because a plugin that prints during its import must not corrupt the
    # protocol.
    def make() -> Server:
        return open_spec(file).make()

    run(lambda stop: serve_process(make, shutdown=stop, restore=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
