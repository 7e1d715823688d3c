"""Parses texts to moments. Handles wall-clock times that are skipped or repeated.

The tools use it. A text without an offset is a wall-clock time in a zone. If the clock never shows it, it is an error;
if the clock shows it twice, the result has a note.

Source: RFC 3339; ISO 8601-1:2019; RFC 5322 section 3.3; Python's datetime, "fold" (PEP 495).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal

from attrs import frozen

from mcptrio.errors import ToolError

from .zones import Zone, fixed_zone

__all__ = ["Moment", "Occurrence", "moment_at_wall", "read_date", "read_moment", "read_time"]

Occurrence = Literal["first", "second"]
"""Selects a moment if a wall-clock time occurs twice, because clocks are set back."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"(@?)([+-]?\d{1,30})(?:\.(\d{1,9})\d*)?")
_UNITS: Final = ((10**11, 1, "seconds"), (10**14, 10**3, "milliseconds"), (10**17, 10**6, "microseconds"))
_MAX_TEXT_CHARS: Final = 100
_EXPECTED: Final = (
    "a time such as 2026-03-29T01:30:00Z, 2026-03-29 01:30, Sun, 29 Mar 2026 01:30:00 +0100, now, "
    "or seconds since 1970 such as 1774747800"
)


@frozen(kw_only=True)
class Moment:
    """A moment in a zone.

    Args:
        time: The moment with a time zone.
        read_as: The format in which the text was read.
        ambiguous: True if the clock shows this time twice.
        note: An explanation if the time is ambiguous.
    """

    zone: Zone
    time: datetime
    read_as: str = ""
    ambiguous: bool = False
    note: str | None = None


def read_moment(
    text: str, *, zone: Zone | None, local: Zone, now: datetime, occurrence: Occurrence, where: str
) -> Moment:
    """Parse a time.

    Args:
        zone: The zone of the result, and of a text without an offset; by default, the text's own offset or the local
            zone.
        local: The local zone.
        now: The current time, with a time zone.
        occurrence: Selects a moment if the clock shows the time twice.
        where: The name of the argument, for messages.

    Raises:
        ToolError: The text is not a time, or the clock never shows it.
    """
    stripped = text.strip()
    if len(stripped) > _MAX_TEXT_CHARS:
        raise ToolError(f"expected at most {_MAX_TEXT_CHARS} characters at `{where}`, got {len(stripped)}")
    if stripped.casefold() == "now":
        return _on_clock(now, zone or local, "now", where)
    number = _read_number(stripped, where)
    if number is not None:
        found, read_as = number
        return _on_clock(found, zone or local, read_as, where)
    parsed, form = _read_text(stripped, where)
    if parsed.tzinfo is not None:
        moment_zone = zone or fixed_zone(parsed.utcoffset() or timedelta())
        return _on_clock(parsed, moment_zone, form, where)
    wall = zone or local
    moment = moment_at_wall(parsed, wall, occurrence, where)
    return Moment(
        zone=wall,
        time=moment.time,
        read_as=f"{form} without an offset, taken in {wall.name}",
        ambiguous=moment.ambiguous,
        note=moment.note,
    )


def moment_at_wall(wall: datetime, zone: Zone, occurrence: Occurrence, where: str) -> Moment:
    """Return the moment at which the clock of a zone shows a time.

    Args:
        wall: The time that the clock shows, without a time zone.

    Raises:
        ToolError: The clock never shows the time. The message has the time that it shows instead.
    """
    try:
        first, second = (wall.replace(tzinfo=zone.info, fold=fold) for fold in (0, 1))
        if first.utcoffset() == second.utcoffset():
            first.astimezone(UTC)
            return Moment(zone=zone, time=first)
        shown_time = first.astimezone(UTC).astimezone(zone.info)
    except OverflowError as error:
        raise _out_of_range(where) from error
    if shown_time.replace(tzinfo=None) != wall:
        raise ToolError(
            f"Invalid time: {wall:%H:%M} does not exist in {zone.name} on {wall.date().isoformat()} "
            f"(skipped by a clock change) at `{where}`; without the change it would be {shown_time:%H:%M}"
        )
    moment = first if occurrence == "first" else second
    other = second if occurrence == "first" else first
    note = (
        f"{wall:%H:%M} occurs twice in {zone.name} on {wall.date().isoformat()}, because clocks are set back; "
        f"this is the {occurrence}, {moment.isoformat()}, the other is {other.isoformat()}"
    )
    return Moment(zone=zone, time=moment, ambiguous=True, note=note)


def read_time(text: str, where: str) -> time:
    """Parse a time of day: ``9:05``, ``21:30``, ``21:30:15``.

    Raises:
        ToolError: The text is not a time of day.
    """
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]?\d)(?::([0-5]\d))?", text.strip(), re.ASCII)
    if match is None:
        raise ToolError(
            f"Invalid time format. Expected HH:MM [24-hour format] at `{where}`, got {text[:_MAX_TEXT_CHARS]!r}"
        )
    return time(int(match[1]), int(match[2]), int(match[3] or 0))


def read_date(text: str, where: str) -> date:
    """Parse a date: ``2026-03-29``.

    Raises:
        ToolError: The text is not a date.
    """
    try:
        return date.fromisoformat(text.strip())
    except ValueError as error:
        raise ToolError(f"expected a date such as 2026-03-29 at `{where}`, got {text[:_MAX_TEXT_CHARS]!r}") from error


def _on_clock(time: datetime, zone: Zone, read_as: str, where: str) -> Moment:
    try:
        return Moment(zone=zone, time=time.astimezone(UTC).astimezone(zone.info), read_as=read_as)
    except OverflowError as error:
        raise _out_of_range(where) from error


def _read_number(text: str, where: str) -> tuple[datetime, str] | None:
    """Parse a time since 1970. Return ``None`` for other texts, including the eight digits of an ISO 8601 date."""
    match = _NUMBER.fullmatch(text)
    if match is None or (not match[1] and len(match[2].lstrip("+-")) == 8 and not match[3]):
        return None
    if not match[1] and len(match[2].lstrip("+-")) < 8:
        raise ToolError(f"expected {_EXPECTED} at `{where}`, got {text!r}; write @{text} for seconds since 1970")
    whole = int(match[2])
    divisor, unit = next(((each, name) for most, each, name in _UNITS if abs(whole) < most), (10**9, "nanoseconds"))
    # In integers, because a float is not precise enough for microseconds.
    fraction = int((match[3] or "").ljust(9, "0")) * (-1 if match[2].startswith("-") else 1)
    nanoseconds = (whole * 10**9 + fraction) // divisor
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000), f"{unit} since 1970"
    except OverflowError as error:
        raise _out_of_range(where) from error


def _read_text(text: str, where: str) -> tuple[datetime, str]:
    try:
        # RFC 3339 allows lower-case t and z.
        return datetime.fromisoformat(text.upper()), "ISO 8601"
    except ValueError as error:
        problem = str(error)
    from email.utils import parsedate_to_datetime  # the import takes 2 ms, so it is delayed until it is needed

    try:
        return parsedate_to_datetime(text), "RFC 5322"
    except (ValueError, TypeError, IndexError, OverflowError):
        pass
    detail = f" ({problem})" if "must be in" in problem or "out of range" in problem else ""
    raise ToolError(f"expected {_EXPECTED} at `{where}`, got {text!r}{detail}")


def _out_of_range(where: str) -> ToolError:
    return ToolError(f"expected a time in the years 1 to 9999 at `{where}`, got one outside")
