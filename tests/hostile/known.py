"""What an engine does otherwise than it should, and why that is left so.

The one rule: an entry that is no longer true fails, and so does one that says something else than what happens.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KNOWN", "judge"]

KNOWN: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("hypercorn", "chunk extension with cr"): (
        "got answers [200]",
        "h11 takes everything but a line feed for an extension, and drops it; no reader ends a line there",
    ),
}
"""By engine and case: a part of the complaint, and the reason for leaving it."""


def judge(engine: str, case: str, problem: str | None) -> str | None:
    """What is to be complained about: a problem that is not known, or one that is known and is none."""
    if (engine, case) not in KNOWN:
        return problem
    part, reason = KNOWN[engine, case]
    if problem is None:
        return f"is right now: take it out of KNOWN ({reason})"
    return None if part in problem else problem
