"""The server instructions that tell a model of the skills.

Most hosts know nothing of the skills extension, so without these words their models never learn that there are skills.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .catalogue import Catalogue

__all__ = ["instructions_for"]

MAX_LENGTH: Final = 4000
"""Characters of the list; hosts put instructions in front of every conversation."""
MAX_DESCRIPTION: Final = 200
"""Characters of one description."""


def instructions_for(catalogue: Catalogue, tool_name: Callable[[str], str]) -> str | None:
    """Return the instructions, or ``None`` without skills.

    Args:
        tool_name: Returns the name that clients see of a tool.
    """
    if not catalogue.skills:
        return None
    lines = [
        "Agent skills are available. Before a task that one of them fits, read it with "
        f"{tool_name('read_skill')} or as a resource, and follow it:"
    ]
    length = 0
    for number, (uri, skill) in enumerate(catalogue.skills.items()):
        description = " ".join(str(skill.frontmatter["description"]).split())
        if len(description) > MAX_DESCRIPTION:
            description = description[: MAX_DESCRIPTION - 1] + "…"
        line = f"- {uri}: {description}"
        length += len(line)
        if length > MAX_LENGTH:
            lines.append(f"- and {len(catalogue.skills) - number} more: see {tool_name('list_skills')}")
            break
        lines.append(line)
    return "\n".join(lines)
