"""The HTTP servers that have to survive all of this.

The one rule: one line here, and everything in this directory is played against that engine too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from attrs import frozen

__all__ = ["ENGINES", "Engine"]


@frozen
class Engine:
    """A module with a function that serves and ``ConnectionLimits``, by a name for the tests' ids."""

    name: str
    module: str
    function: str

    def load(self) -> Any:
        return import_module(self.module)


ENGINES: Final = (
    Engine("hypercorn", "mcptrio.http.hypercorn.serving", "serve_asgi"),
    Engine("http1", "mcptrio.http.engine.server", "serve"),
)
