"""The example calls of the tools, which ``mcptrio plugins doctor`` makes to measure their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["in_memory"]


def in_memory(**arguments: Any) -> Callable[[Any], list[dict[str, Any]]]:
    """Return a function for the option ``examples``: a call if the file exists and has a graph for everyone."""

    def examples(tools: Any) -> list[dict[str, Any]]:
        config = tools.memory.config
        # A check must not create the file.
        return [arguments] if config.path().exists() and not config.is_by_principal else []

    return examples
