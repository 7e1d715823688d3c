"""Finds zones by a query.

list_timezones calls it in a thread. A zone matches if all words of the query occur in its name, countries, Windows
names, abbreviations and current offset.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from .results import offset_text
from .zones import Zones

__all__ = ["find_zones"]

_OFFSET = re.compile(r"(?:utc|gmt)?([+-\u2212])(\d{1,2})(?::?(\d{2}))?")
_EXACT, _PREFIX, _CONTAINS = range(3)
"""How a word matches, the best first."""


def find_zones(zones: Zones, query: str, now: datetime) -> list[str]:
    """Return the IANA names of the matching zones, the best matches first; all names for an empty query.

    Exact words rank before parts of words, and current names before outdated ones.
    """
    words = query.replace("_", " ").replace("/", " ").casefold().split()
    if not words:
        return list(zones.names)
    short: dict[str, list[str]] = {}
    for abbreviation, names in zones.abbreviations.items():
        for name in names:
            short.setdefault(name, []).append(abbreviation)
    matches: list[tuple[int, bool, str]] = []
    for name in zones.names:
        countries = zones.countries.get(name, ())
        text = " ".join((name, *countries, *zones.windows_names(name)))
        known = text.replace("_", " ").replace("/", " ").casefold().split() + short.get(name, [])
        known.append(offset_text(now.astimezone(zones.info(name)).utcoffset() or timedelta()))
        fits = [_match_rank(_normalize_offset(word), known) for word in words]
        if None not in fits:
            matches.append((sum(fit for fit in fits if fit is not None), not countries, name))
    return [name for _, _, name in sorted(matches)]


def _match_rank(word: str, names: list[str]) -> int | None:
    if word in names:
        return _EXACT
    if any(each.startswith(word) for each in names):
        return _PREFIX
    return _CONTAINS if any(word in each for each in names) else None


def _normalize_offset(word: str) -> str:
    """Return an offset in the format of :func:`offset_text`, and any other word unchanged."""
    match = _OFFSET.fullmatch(word)
    if match is None:
        return word
    return f"{'+' if match[1] == '+' else '-'}{int(match[2]):02}:{match[3] or '00'}"
