"""Finds the zones for a query, the best first.

list_timezones calls it in a thread. All words must occur among a zone's name, countries, Windows names, abbreviations
and present offset.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from .results import offset_text
from .zones import Zones

__all__ = ["find_zones"]

_OFFSET = re.compile(r"(?:utc|gmt)?([+-\u2212])(\d{1,2})(?::?(\d{2}))?")
_WHOLE, _BEGINS, _CONTAINS = range(3)
"""How well a word fits; the lower the better."""


def find_zones(zones: Zones, query: str, now: datetime) -> list[str]:
    """IANA names, all of them for an empty query. Whole words come before pieces, names in use before old ones."""
    words = query.replace("_", " ").replace("/", " ").casefold().split()
    if not words:
        return list(zones.names)
    short: dict[str, list[str]] = {}
    for abbreviation, names in zones.abbreviations.items():
        for name in names:
            short.setdefault(name, []).append(abbreviation)
    found: list[tuple[int, bool, str]] = []
    for name in zones.names:
        countries = zones.countries.get(name, ())
        text = " ".join((name, *countries, *zones.windows_names(name)))
        known = text.replace("_", " ").replace("/", " ").casefold().split() + short.get(name, [])
        known.append(offset_text(now.astimezone(zones.info(name)).utcoffset() or timedelta()))
        fits = [_fit(_as_offset(word), known) for word in words]
        if None not in fits:
            found.append((sum(fit for fit in fits if fit is not None), not countries, name))
    return [name for _, _, name in sorted(found)]


def _fit(word: str, known: list[str]) -> int | None:
    if word in known:
        return _WHOLE
    if any(each.startswith(word) for each in known):
        return _BEGINS
    return _CONTAINS if any(word in each for each in known) else None


def _as_offset(word: str) -> str:
    """Return an offset in the form of :func:`offset_text`; any other word unchanged."""
    found = _OFFSET.fullmatch(word)
    if found is None:
        return word
    return f"{'+' if found[1] == '+' else '-'}{int(found[2]):02}:{found[3] or '00'}"
