"""Public names that are imported when they are first used, so that a program loads no more than it needs.

Used by the packages and modules that have public names. For type checkers, they list their names a second time under
``TYPE_CHECKING``; a test compares the two lists.

Source: PEP 562.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a module.

    Args:
        module: The name of the module.
        homes: The module that defines each public name.
    """

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=None)
        value = getattr(import_module(home), name)
        # Stored in the module, so that the next access does not call this function.
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        version_name = ["__version__"] if hasattr(sys.modules[module], "__version__") else []
        return [*homes, *version_name]

    return get, names
