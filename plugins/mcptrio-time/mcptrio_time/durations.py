"""Durations: parsing, formatting and addition.

The tools use them. Years, months, weeks and days follow the calendar and keep the wall-clock time; hours, minutes and
seconds are elapsed time. A day after 12:00 is 12:00, even if clocks change in between.

Source: ISO 8601-1:2019 section 5.5.2; RFC 3339 appendix A.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from attrs import frozen

from mcptrio.errors import ToolError

__all__ = ["Duration", "english_text", "iso_text", "read_duration"]

_MAX_TEXT_CHARS: Final = 100
_AMOUNT = r"(\d{1,12}(?:[.,]\d{1,9})?)"
_ISO: Final = re.compile(
    rf"([+-]?)P(?:{_AMOUNT}Y)?(?:{_AMOUNT}M)?(?:{_AMOUNT}W)?(?:{_AMOUNT}D)?(?:T(?:{_AMOUNT}H)?(?:{_AMOUNT}M)?(?:{_AMOUNT}S)?)?",
    re.IGNORECASE,
)
_PART: Final = re.compile(rf"\s*(?:,|and\b)?\s*([+-]?)\s*{_AMOUNT}\s*([a-zµ]+)\s*", re.IGNORECASE)
_UNITS: Final = {
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 0),
    **dict.fromkeys(("mo", "mos", "month", "months"), 1),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 2),
    **dict.fromkeys(("d", "day", "days"), 3),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 4),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 5),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 6),
}
_SECONDS: Final = {2: 604_800, 3: 86_400, 4: 3600, 5: 60, 6: 1}
_EXPECTED: Final = "a duration such as P1DT2H30M, -P1M, 90 minutes, or 1 day 2 hours"


@frozen(kw_only=True)
class Duration:
    """A length of time.

    Args:
        months, days: The part that follows the calendar.
        elapsed: The part that is elapsed time.
    """

    months: int = 0
    days: int = 0
    elapsed: timedelta = timedelta()

    def add_calendar_part(self, wall: datetime) -> tuple[datetime, str | None]:
        """Add the months and days to a wall-clock time. Return a note, too, if the month is too short for the day.

        Raises:
            OverflowError: The result is outside of the years 1 to 9999.
        """
        year, month = divmod(wall.year * 12 + wall.month - 1 + self.months, 12)
        if not 1 <= year <= 9999:
            raise OverflowError("year out of range")
        last = monthrange(year, month + 1)[1]
        note = None
        if wall.day > last:
            note = f"{year:04}-{month + 1:02} has no day {wall.day}; its last day was taken"
        return wall.replace(year=year, month=month + 1, day=min(wall.day, last)) + timedelta(days=self.days), note


def read_duration(text: str, where: str) -> Duration:
    """Parse a duration in ISO 8601 or in English.

    Raises:
        ToolError: The text is not a duration, or is too long.
    """
    if len(text) > _MAX_TEXT_CHARS:
        raise ToolError(f"expected at most {_MAX_TEXT_CHARS} characters at `{where}`, got {len(text)}")
    stripped = text.strip()
    parts = _iso_parts(stripped) or _word_parts(stripped)
    if parts is None:
        raise ToolError(f"expected {_EXPECTED} at `{where}`, got {text!r}")
    months, days, seconds = 0, 0, Decimal()
    for unit, amount in parts:
        if unit < 2:
            if amount != int(amount):
                raise ToolError(f"expected whole years and months at `{where}`, got {text!r}")
            months += int(amount) * (12 if unit == 0 else 1)
        elif unit < 4:
            # Only whole days can follow the calendar.
            in_days = amount * (7 if unit == 2 else 1)
            days += int(in_days)
            seconds += (in_days - int(in_days)) * 86_400
        else:
            seconds += amount * _SECONDS[unit]
    try:
        elapsed = timedelta(microseconds=int(seconds * 1_000_000))
        timedelta(days=days)
    except OverflowError as error:
        raise ToolError(f"expected less than 10000 years at `{where}`, got {text!r}") from error
    return Duration(months=months, days=days, elapsed=elapsed)


def iso_text(length: timedelta) -> str:
    """Format elapsed time as ISO 8601, with days of 24 hours: ``-P1DT2H``."""
    days, hours, minutes, seconds, fraction = _split(length)
    clock = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes)
    if seconds or fraction:
        clock += f"{seconds}" + f".{fraction:06}".rstrip("0") * bool(fraction) + "S"
    text = "P" + f"{days}D" * bool(days) + f"T{clock}" * bool(clock)
    return ("-" if length < timedelta() else "") + (text if text != "P" else "PT0S")


def english_text(length: timedelta) -> str:
    """Format elapsed time in English, with days of 24 hours: ``1 day 2 hours``."""
    days, hours, minutes, seconds, fraction = _split(length)
    units = [(days, "day"), (hours, "hour"), (minutes, "minute")]
    parts = [f"{count} {unit}{'s' * (count != 1)}" for count, unit in units if count]
    if seconds or fraction or not parts:
        text = f"{seconds}" + f".{fraction:06}".rstrip("0") * bool(fraction)
        parts.append(f"{text} second{'s' * (text != '1')}")
    return ("minus " if length < timedelta() else "") + " ".join(parts)


def _split(length: timedelta) -> tuple[int, int, int, int, int]:
    size = abs(length)
    minutes, seconds = divmod(size.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return size.days, hours, minutes, seconds, size.microseconds


def _iso_parts(text: str) -> list[tuple[int, Decimal]] | None:
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()[1:]) or text.upper().endswith("T"):
        return None
    sign = -1 if match[1] == "-" else 1
    return [(unit, sign * _number(amount)) for unit, amount in enumerate(match.groups()[1:]) if amount]


def _word_parts(text: str) -> list[tuple[int, Decimal]] | None:
    sign = 1
    if text.casefold().endswith(" ago"):
        text, sign = text[:-4], -1
    parts: list[tuple[int, Decimal]] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        unit = _UNITS.get(match[3].casefold()) if match is not None else None
        if match is None or unit is None:
            return None
        if match[1]:
            # "-1 day 2 hours" is 26 hours back.
            sign = -1 if match[1] == "-" else 1
        parts.append((unit, sign * _number(match[2])))
        position = match.end()
    return parts or None


def _number(text: str) -> Decimal:
    return Decimal(text.replace(",", "."))
