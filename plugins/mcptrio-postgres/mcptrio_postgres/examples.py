"""The example calls of the tools, which ``mcptrio plugins doctor`` makes to measure their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["in_database"]


def in_database(**arguments: Any) -> Callable[[Any], list[dict[str, Any]]]:
    """Return a function for the option ``examples``: a call in the first database."""

    def examples(tools: Any) -> list[dict[str, Any]]:
        return [{"database": each.name, **arguments} for each in tools.queries.all()[:1]]

    return examples
