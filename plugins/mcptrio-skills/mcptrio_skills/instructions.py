"""The server instructions that tell a model about the skills.

Most hosts do not know the skills extension. Without the instructions, their models would not know that skills exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .catalogue import Catalogue

__all__ = ["instructions_for"]

MAX_LENGTH: Final = 4000
"""Maximum characters of the list. Hosts add the instructions to every conversation."""
MAX_DESCRIPTION: Final = 200
"""Maximum characters of one description."""


def instructions_for(catalogue: Catalogue, tool_name: Callable[[str], str]) -> str | None:
    """Return the instructions, or ``None`` if there are no skills.

    Args:
        tool_name: Returns the name of a tool that clients see.
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
