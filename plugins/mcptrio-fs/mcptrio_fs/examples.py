"""The example calls of the tools, which ``mcptrio plugins doctor`` makes to measure their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["in_first_folder"]


def in_first_folder(**arguments: Any) -> Callable[[Any], list[dict[str, Any]]]:
    """Return a function for the option ``examples``: a call in the first allowed folder."""

    def examples(tools: Any) -> list[dict[str, Any]]:
        return [{"path": ".", **arguments}] if tools.access.config.folders else []

    return examples
