"""The results of the tools.

They are msgspec structs, because an attrs class would add half a millisecond to each start. The fields that the
reference time server has, too, keep its names and formats.

Source: TimeResult and TimeConversionResult of the reference server mcp-server-time (2026.10.19).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from .moments import Moment
from .zones import Zone

__all__ = [
    "AddedDuration",
    "Conversion",
    "Difference",
    "ParsedTime",
    "TimeResult",
    "ZoneInfo",
    "ZoneList",
    "clock_difference",
    "offset_text",
    "parsed",
    "time_result",
]

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""English names, independent of the locale of the process."""

_Note = Annotated[str | None, Meta(description="A remark, for example that clocks show this time twice.")]


class TimeResult(Struct, kw_only=True, frozen=True):
    timezone: str
    datetime: Annotated[str, Meta(description="ISO 8601 with the offset.")]
    day_of_week: str
    is_dst: bool
    utc_offset: Annotated[str, Meta(description="UTC offset at this time, for example +02:00.")]
    abbreviation: Annotated[str, Meta(description="Abbreviation at this time, for example CEST.")]
    epoch: Annotated[float, Meta(description="Seconds since 1970-01-01T00:00:00Z.")]


class Conversion(Struct, kw_only=True, frozen=True):
    source: TimeResult
    target: TimeResult
    time_difference: Annotated[str, Meta(description="How far the target's clock is ahead, for example +5.5h.")]
    ambiguous: Annotated[bool, Meta(description="The source's clock shows this time twice; see note.")] = False
    note: _Note = None


class ParsedTime(Struct, kw_only=True, frozen=True):
    time: TimeResult
    utc: Annotated[str, Meta(description="RFC 3339 in UTC.")]
    read_as: Annotated[str, Meta(description="The format in which the text was read.")]
    iso_week: Annotated[str, Meta(description="Such as 2026-W13.")]
    day_of_year: int
    ambiguous: bool = False
    note: _Note = None


class Difference(Struct, kw_only=True, frozen=True):
    start: TimeResult
    end: TimeResult
    seconds: Annotated[float, Meta(description="From start to end; negative if the end is earlier.")]
    duration: Annotated[str, Meta(description="Elapsed time as ISO 8601, with days of 24 hours: P1DT2H.")]
    text: Annotated[str, Meta(description="The duration in words.")]
    calendar_days: Annotated[int, Meta(description="Number of midnights in between, in the time zone.")]
    note: _Note = None


class AddedDuration(Struct, kw_only=True, frozen=True):
    start: TimeResult
    result: TimeResult
    note: _Note = None


class ZoneInfo(Struct, kw_only=True, frozen=True):
    name: str
    utc_offset: str
    abbreviation: str
    is_dst: bool
    countries: list[str]
    windows_names: list[str]


class ZoneList(Struct, kw_only=True, frozen=True):
    timezones: list[ZoneInfo]
    total: Annotated[int, Meta(description="Number of matching zones on all pages.")]
    local_timezone: str
    truncated: Annotated[
        bool, Meta(description="There are more zones; next_cursor is the cursor of the next page.")
    ] = False
    next_cursor: Annotated[str | None, Meta(description="The cursor of the next page; null on the last one.")] = None


def time_result(zone: Zone, time: datetime) -> TimeResult:
    """Return the result for a time in a zone."""
    return TimeResult(
        timezone=zone.name,
        # The reference server has no fractions, so they are included only if they are not zero.
        datetime=time.isoformat(timespec="microseconds" if time.microsecond else "seconds"),
        day_of_week=_DAYS[time.weekday()],
        is_dst=bool(time.dst()),
        utc_offset=offset_text(time.utcoffset() or timedelta()),
        abbreviation=time.tzname() or zone.name,
        epoch=time.timestamp(),
    )


def parsed(moment: Moment) -> ParsedTime:
    """Return the result for a moment that was parsed from a text."""
    time = moment.time
    year, week, _ = time.isocalendar()
    utc = time.astimezone(UTC).replace(tzinfo=None)
    return ParsedTime(
        time=time_result(moment.zone, time),
        utc=utc.isoformat(timespec="microseconds" if utc.microsecond else "seconds") + "Z",
        read_as=moment.read_as,
        iso_week=f"{year:04}-W{week:02}",
        day_of_year=time.timetuple().tm_yday,
        ambiguous=moment.ambiguous,
        note=moment.note,
    )


def offset_text(offset: timedelta) -> str:
    """Format an offset: ``+05:30``. Includes seconds if they are not zero, as in historical offsets."""
    seconds = round(abs(offset).total_seconds())
    text = f"{'-' if offset < timedelta() else '+'}{seconds // 3600:02}:{seconds // 60 % 60:02}"
    return text + (f":{seconds % 60:02}" if seconds % 60 else "")


def clock_difference(source: datetime, target: datetime) -> str:
    """Return how far the target's clock is ahead, in the reference server's format: ``+9.0h``, ``+5.75h``."""
    difference = (target.utcoffset() or timedelta()) - (source.utcoffset() or timedelta())
    hours = difference.total_seconds() / 3600
    if hours.is_integer():
        return f"{hours:+.1f}h"
    return f"{hours:+.2f}".rstrip("0").rstrip(".") + "h"
