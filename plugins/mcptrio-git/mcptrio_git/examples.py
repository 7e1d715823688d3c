"""The example calls of the tools, which ``mcptrio plugins doctor`` makes to measure their answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["in_repository"]


def in_repository(**arguments: Any) -> Callable[[Any], list[dict[str, Any]]]:
    """Return a function for the option ``examples``: a call in the first repository that has a work tree."""

    def examples(tools: Any) -> list[dict[str, Any]]:
        roots = tools.access.repositories.names().values()
        with_work_tree = [root for root in roots if os.path.lexists(os.path.join(root, ".git"))]
        return [{"repo_path": root, **arguments} for root in with_work_tree[:1]]

    return examples
