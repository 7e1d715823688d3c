"""Time zones by name: IANA's, Windows', offsets; and suggestions for unknown names.

The tools, prompts and completion use it in a thread. A name means one zone or none: an ambiguous one (IST is India,
Ireland and Israel) is refused with its meanings.

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
"""Suggestions in a message."""
_MAX_NAME_CHARS: Final = 100
_FAMILIAR: Final = (
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
"""Zones that are suggested before others with the same clock."""


@frozen
class Zone:
    """A time zone and its name."""

    name: str
    info: tzinfo


@define(slots=False)
class Zones:
    """All zones. Each table is read when it is first needed, and cached."""

    def find(self, text: str, where: str) -> Zone:
        """The zone that a text names. Args:
            text: an IANA name in any case, a Windows name, UTC, or an offset such as +05:30.
            where: the argument, for the message.

        Raises:
            ToolError: no zone or several match; the message names them.
        """
        wanted = text.strip()
        zone = self.get(wanted)
        if zone is None:
            if not wanted:
                raise ToolError(f"expected a time zone such as Europe/Berlin at `{where}`, got nothing")
            raise ToolError(
                f"unknown time zone {wanted[:_MAX_NAME_CHARS]!r} at `{where}`; {self.advice(wanted[:_MAX_NAME_CHARS])}"
            )
        return zone

    def get(self, text: str) -> Zone | None:
        """The zone that a text names; ``None`` if no zone or several match."""
        wanted = " ".join(text.replace("_", " ").split()).casefold()
        if not wanted or len(wanted) > _MAX_NAME_CHARS:
            return None
        name = self._by_folded.get(wanted) or self._windows.get(wanted)
        if name is not None:
            return Zone(name, self.info(name))
        return _offset(wanted)

    def info(self, name: str) -> tzinfo:
        """The clock of a zone that is in :attr:`names`."""
        from zoneinfo import ZoneInfo  # takes 5 ms, so it is not imported before the first use

        return ZoneInfo(name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """IANA names, in order."""
        from importlib.resources import files

        return tuple(sorted(files("tzdata").joinpath("zones").read_text("utf-8").split()))

    @cached_property
    def countries(self) -> Mapping[str, tuple[str, ...]]:
        """Names of countries, by the IANA name of a zone that is used there."""
        codes = dict(_table("iso3166.tab", 0, 1))
        found: dict[str, list[str]] = {}
        for code, name in _table("zone.tab", 0, 2):
            found.setdefault(name, []).append(codes.get(code, code))
        return {name: tuple(countries) for name, countries in found.items()}

    @cached_property
    def abbreviations(self) -> Mapping[str, tuple[str, ...]]:
        """IANA names by the abbreviation of their winter or summer time, casefolded: ``ist``."""
        year = datetime.now(UTC).year
        found: dict[str, list[str]] = {}
        for name in sorted(self.countries, key=lambda name: (name not in _FAMILIAR, name)):
            info = self.info(name)
            for month in (1, 7):
                short = datetime(year, month, 1, tzinfo=info).tzname()
                if short and short.isalpha():
                    names = found.setdefault(short.casefold(), [])
                    if name not in names:
                        names.append(name)
        return {short: tuple(names) for short, names in found.items()}

    def windows_names(self, name: str) -> tuple[str, ...]:
        """Return the Windows names of a zone."""
        return self._windows_by_name.get(name, ())

    @property
    def all_windows_names(self) -> tuple[str, ...]:
        """The Windows names of all zones."""
        return tuple(sorted(name for names in self._windows_by_name.values() for name in names))

    def advice(self, text: str) -> str:
        """Return suggestions for a text that names no zone."""
        short = self.abbreviations.get(text.casefold())
        if short:
            names = ", ".join(self._distinct(short)[:_MAX_SUGGESTIONS])
            return f"it is an abbreviation, used in {names} and maybe elsewhere; expected the name of one"
        near = self._near(text)
        if near:
            return f"did you mean {', '.join(near)}? {{tool:list_timezones}} finds others"
        return (
            "expected an IANA name such as Europe/Berlin, or an offset such as +02:00; {tool:list_timezones} finds them"
        )

    # Private

    @cached_property
    def _by_folded(self) -> dict[str, str]:
        return {name.replace("_", " ").casefold(): name for name in self.names}

    @cached_property
    def _windows(self) -> dict[str, str]:
        return {windows.casefold(): name for name, names in self._windows_by_name.items() for windows in names}

    @cached_property
    def _newest(self) -> dict[str, str]:
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

        found: dict[str, list[str]] = {}
        for windows, name in win_tz.items():
            # CLDR keeps the oldest name of a zone, Asia/Calcutta.
            newest = name if name in self.countries else self._newest.get(name, name)
            if newest in self._known:
                found.setdefault(newest, []).append(windows)
        return {name: tuple(names) for name, names in found.items()}

    def _near(self, text: str) -> list[str]:
        folded = text.replace("_", " ").casefold()
        near = [name for name in self.names if folded in name.replace("_", " ").casefold().split("/")[1:]] or [
            name
            for name, countries in self.countries.items()
            if any(folded == country.casefold() for country in countries)
        ]
        if not near:
            near = [
                self._by_folded[each]
                for each in difflib.get_close_matches(folded, self._by_folded, _MAX_SUGGESTIONS, 0.75)
            ]
        if not near:
            cities = {name.rpartition("/")[2].replace("_", " ").casefold(): name for name in self.countries}
            city = folded.rpartition("/")[2]
            near = [cities[each] for each in difflib.get_close_matches(city, cities, _MAX_SUGGESTIONS, 0.75)]
        return self._distinct(near)[:_MAX_SUGGESTIONS]

    def _distinct(self, names: Iterable[str]) -> list[str]:
        """Order the names: first one for each clock, then the others."""
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
    found = _OFFSET.fullmatch(text)
    if found is None:
        return None
    size = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    if size > timedelta(hours=18):
        return None
    return fixed_zone(size if found[1] == "+" else -size)


def _table(name: str, first: int, second: int) -> Iterable[tuple[str, str]]:
    """Two columns of one of the database's tables."""
    from importlib.resources import files

    for line in files("tzdata").joinpath("zoneinfo", name).read_text("utf-8").splitlines():
        columns = line.split("\t")
        if not line.startswith("#") and len(columns) > second:
            yield columns[first], columns[second]
