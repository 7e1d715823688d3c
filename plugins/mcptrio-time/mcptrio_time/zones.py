"""Finds time zones by IANA name, Windows name or offset, and suggests zones for unknown names.

The tools, prompts and completions use it in a thread. An ambiguous name (IST is used in India, Ireland and Israel) is
refused, and the message lists the zones.

Source: the IANA database, from the system or the package tzdata; CLDR's windowsZones, from the package tzlocal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property
from typing import Final

from attrs import define, frozen

from mcptrio.errors import ToolError

__all__ = ["Zone", "Zones", "fixed_zone"]

_OFFSET: Final = re.compile(r"(?:(?:UTC|GMT)\s*)?([+\-\u2212])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)
_MAX_SUGGESTIONS: Final = 5
"""Maximum suggestions in a message."""
_MAX_NAME_CHARS: Final = 100
_PREFERRED: Final = (
    "America/New_York",
    "Europe/London",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "Europe/Berlin",
    "Europe/Lisbon",
    "Europe/Athens",
    "Europe/Moscow",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Australia/Sydney",
)
"""Zones that are suggested before others with the same offset."""


@frozen
class Zone:
    """A time zone and its name."""

    name: str
    info: tzinfo


@define(slots=False)
class Zones:
    """All zones. Each table is read at its first use and cached."""

    def find(self, text: str, where: str) -> Zone:
        """Return the zone that a text names.

        Args:
            text: An IANA name in any case, a Windows name, UTC, or an offset such as +05:30.
            where: The name of the argument, for the message.

        Raises:
            ToolError: No zone or several match; the message names them.
        """
        name_text = text.strip()
        zone = self.get(name_text)
        if zone is None:
            if not name_text:
                raise ToolError(f"expected a time zone such as Europe/Berlin at `{where}`, got nothing")
            raise ToolError(
                f"unknown time zone {name_text[:_MAX_NAME_CHARS]!r} at `{where}`; "
                f"{self.advice(name_text[:_MAX_NAME_CHARS])}"
            )
        return zone

    def get(self, text: str) -> Zone | None:
        """Return the zone that a text names; ``None`` if no zone or several match."""
        name_text = " ".join(text.replace("_", " ").split()).casefold()
        if not name_text or len(name_text) > _MAX_NAME_CHARS:
            return None
        name = self._by_casefolded_name.get(name_text) or self._windows.get(name_text)
        if name is not None:
            return Zone(name, self.info(name))
        return _offset(name_text)

    def info(self, name: str) -> tzinfo:
        """Return the tzinfo of a zone by its IANA name."""
        from zoneinfo import ZoneInfo  # the import takes 5 ms, so it is delayed until the first use

        return ZoneInfo(name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The IANA names in alphabetical order."""
        from importlib.resources import files

        return tuple(sorted(files("tzdata").joinpath("zones").read_text("utf-8").split()))

    @cached_property
    def countries(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the countries of a zone, by its IANA name."""
        codes = dict(_table("iso3166.tab", 0, 1))
        by_zone: dict[str, list[str]] = {}
        for code, name in _table("zone.tab", 0, 2):
            by_zone.setdefault(name, []).append(codes.get(code, code))
        return {name: tuple(countries) for name, countries in by_zone.items()}

    @cached_property
    def abbreviations(self) -> Mapping[str, tuple[str, ...]]:
        """The IANA names by the casefolded abbreviation of their winter or summer time, such as ``ist``."""
        year = datetime.now(UTC).year
        abbreviations: dict[str, list[str]] = {}
        for name in sorted(self.countries, key=lambda name: (name not in _PREFERRED, name)):
            info = self.info(name)
            for month in (1, 7):
                abbreviation = datetime(year, month, 1, tzinfo=info).tzname()
                if abbreviation and abbreviation.isalpha():
                    names = abbreviations.setdefault(abbreviation.casefold(), [])
                    if name not in names:
                        names.append(name)
        return {abbreviation: tuple(names) for abbreviation, names in abbreviations.items()}

    def windows_names(self, name: str) -> tuple[str, ...]:
        """Return the Windows names of a zone."""
        return self._windows_by_name.get(name, ())

    @property
    def all_windows_names(self) -> tuple[str, ...]:
        """The Windows names of all zones."""
        return tuple(sorted(name for names in self._windows_by_name.values() for name in names))

    def advice(self, text: str) -> str:
        """Return suggestions for a text that names no zone."""
        abbreviation = self.abbreviations.get(text.casefold())
        if abbreviation:
            names = ", ".join(self._distinct_clocks_first(abbreviation)[:_MAX_SUGGESTIONS])
            return f"it is an abbreviation, used in {names} and maybe elsewhere; expected the name of one"
        similar = self._similar(text)
        if similar:
            return f"did you mean {', '.join(similar)}? {{tool:list_timezones}} finds others"
        return (
            "expected an IANA name such as Europe/Berlin, or an offset such as +02:00; {tool:list_timezones} finds them"
        )

    # Private

    @cached_property
    def _by_casefolded_name(self) -> dict[str, str]:
        return {name.replace("_", " ").casefold(): name for name in self.names}

    @cached_property
    def _windows(self) -> dict[str, str]:
        return {windows.casefold(): name for name, names in self._windows_by_name.items() for windows in names}

    @cached_property
    def _current_names(self) -> dict[str, str]:
        """The current names of renamed zones."""
        from importlib.resources import files

        lines = files("tzdata").joinpath("zoneinfo", "tzdata.zi").read_text("utf-8").splitlines()
        return {old: new for _, new, old in (line.split() for line in lines if line.startswith("L "))}

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    @cached_property
    def _windows_by_name(self) -> dict[str, tuple[str, ...]]:
        from tzlocal.windows_tz import win_tz

        by_name: dict[str, list[str]] = {}
        for windows, name in win_tz.items():
            # CLDR keeps the oldest name of a zone, Asia/Calcutta.
            newest = name if name in self.countries else self._current_names.get(name, name)
            if newest in self._known:
                by_name.setdefault(newest, []).append(windows)
        return {name: tuple(names) for name, names in by_name.items()}

    def _similar(self, text: str) -> list[str]:
        folded = text.replace("_", " ").casefold()
        similar = [name for name in self.names if folded in name.replace("_", " ").casefold().split("/")[1:]] or [
            name
            for name, countries in self.countries.items()
            if any(folded == country.casefold() for country in countries)
        ]
        if not similar:
            similar = [
                self._by_casefolded_name[each]
                for each in difflib.get_close_matches(folded, self._by_casefolded_name, _MAX_SUGGESTIONS, 0.75)
            ]
        if not similar:
            cities = {name.rpartition("/")[2].replace("_", " ").casefold(): name for name in self.countries}
            city = folded.rpartition("/")[2]
            similar = [cities[each] for each in difflib.get_close_matches(city, cities, _MAX_SUGGESTIONS, 0.75)]
        return self._distinct_clocks_first(similar)[:_MAX_SUGGESTIONS]

    def _distinct_clocks_first(self, names: Iterable[str]) -> list[str]:
        """Order the names: first one for each current offset, then the others."""
        now = datetime.now(UTC)
        first: dict[timedelta | None, str] = {}
        rest: list[str] = []
        for name in names:
            offset = now.astimezone(self.info(name)).utcoffset()
            if first.setdefault(offset, name) != name:
                rest.append(name)
        return [*first.values(), *rest]


def fixed_zone(offset: timedelta) -> Zone:
    """Return a zone with a fixed offset: ``UTC+05:30``."""
    if not offset:
        return Zone("UTC", UTC)
    minutes = abs(offset) // timedelta(minutes=1)
    name = f"UTC{'+' if offset > timedelta() else '-'}{minutes // 60:02}:{minutes % 60:02}"
    return Zone(name, timezone(offset, name))


def _offset(text: str) -> Zone | None:
    if text == "z":
        return fixed_zone(timedelta())
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    size = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    if size > timedelta(hours=18):
        return None
    return fixed_zone(size if match[1] == "+" else -size)


def _table(name: str, first: int, second: int) -> Iterable[tuple[str, str]]:
    """Yield two columns of a table of the IANA database."""
    from importlib.resources import files

    for line in files("tzdata").joinpath("zoneinfo", name).read_text("utf-8").splitlines():
        columns = line.split("\t")
        if not line.startswith("#") and len(columns) > second:
            yield columns[first], columns[second]
