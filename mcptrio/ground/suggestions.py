"""Suggests a known name for a misspelled one, at the end of an error message."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

__all__ = ["did_you_mean", "did_you_mean_file", "suggest"]

# The comparison takes quadratic time in the length.
_MAX_COMPARED_CHARS = 60
_MAX_COMPARED_NAMES = 1000
_MAX_LISTED = 20


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suffix with the nearest of the known names; an empty text if none is similar.

    Names that differ only in a prefix, such as ``greet`` and ``notes_greet``, are similar too.
    """
    name, names = name[:_MAX_COMPARED_CHARS], list(islice(known, _MAX_COMPARED_NAMES))
    near = get_close_matches(name, names, n=1) or [
        each for each in names if name.endswith(f"_{each}") or each.endswith(f"_{name}")
    ]
    return f"; did you mean `{near[0]}`?" if near else ""


def did_you_mean_file(missing: Path) -> str:
    """Return a hint with the file in the same folder whose name is nearest; an empty text if none is similar."""
    return did_you_mean(missing.name, (each.name for each in missing.parent.glob(f"*{missing.suffix}")))


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a suffix with the nearest of the known names; if none is similar, with the first 20."""
    names = list(known)
    if not names:
        return "; there are none"
    return did_you_mean(name, names) or f"; expected one of {', '.join(f'`{each}`' for each in names[:_MAX_LISTED])}"
