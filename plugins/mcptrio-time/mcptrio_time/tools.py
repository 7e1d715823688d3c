"""The tools.

``TimeTools.setup`` registers them, because a description contains the local zone. If a time is ambiguous, the result
says which moment was chosen. The tools are synchronous and run in threads, because a zone is read from disk at its
first use.

Source: names, arguments and results of the reference server mcp-server-time (2026.10.19). Arguments that it does not
have are optional.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from attrs import frozen
from msgspec import Meta

from mcptrio import PluginSetup, ToolError, hookimpl

from .clock import Clock
from .durations import english_text, iso_text, read_duration
from .moments import Moment, Occurrence, moment_at_wall, read_date, read_moment, read_time
from .results import (
    AddedDuration,
    Conversion,
    Difference,
    ParsedTime,
    TimeResult,
    ZoneInfo,
    ZoneList,
    clock_difference,
    parsed,
    time_result,
)
from .texts import added_text, conversion_text, difference_text, parsed_text, time_text, zones_text
from .zone_search import find_zones
from .zones import Zone

__all__ = ["TimeTools"]

_MAX_TEXT_CHARS = 100


@frozen(eq=False)
class TimeTools:
    """The tools, which use one clock."""

    clock: Clock

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """Register the tools. None of them changes anything."""
        conversion = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        functions: tuple[tuple[Callable[..., Any], str, dict[str, Any], Callable[[Any], str]], ...] = (
            (self.get_current_time, "Current Time", {}, time_text),
            (self.convert_time, "Convert Time", conversion, conversion_text),
            (self.list_timezones, "List Time Zones", {"limit": 250}, zones_text),
            (self.parse_date, "Parse Time", {"text": "now"}, parsed_text),
            (self.time_difference, "Time Difference", {"start": "2026-03-29"}, difference_text),
            (self.add_duration, "Add Duration", {"duration": "P1M"}, added_text),
        )
        for function, title, example, text in functions:
            description = " ".join((function.__doc__ or "").split())
            if function == self.get_current_time:
                description += f" The local time zone is {self.clock.local.name}."
            server.add_tool(
                function,
                text=text,
                title=title,
                description=description,
                read_only=True,
                examples=[example],
                destructive=False,
                # Idempotent means that calls have no further effect; their results may differ.
                idempotent=True,
                open_world=False,
            )

    def get_current_time(self, timezone: Annotated[str, "IANA zone or UTC offset."] = "") -> TimeResult:
        """Get the current time, by default in the local zone."""
        zone = self.clock.zone(timezone or None, "timezone")
        return time_result(zone, self.clock.now().astimezone(zone.info))

    def convert_time(
        self,
        source_timezone: Annotated[str, "IANA zone or UTC offset."],
        time: Annotated[str, "HH:MM or ISO 8601."],
        target_timezone: str,
        date: Annotated[str, "YYYY-MM-DD."] = "",
        occurrence: Annotated[Occurrence, "The first or second time, if clocks show it twice."] = "first",
    ) -> Conversion:
        """Convert a time between time zones."""
        source = self.clock.zone(source_timezone, "source_timezone")
        target = self.clock.zone(target_timezone, "target_timezone")
        moment = self._moment(source, time, date or None, occurrence)
        try:
            converted = moment.time.astimezone(target.info)
        except OverflowError as error:
            raise ToolError("expected a time in the years 1 to 9999 at `time`, got one outside") from error
        return Conversion(
            source=time_result(source, moment.time),
            target=time_result(target, converted),
            time_difference=clock_difference(moment.time, converted),
            ambiguous=moment.ambiguous,
            note=moment.note,
        )

    def list_timezones(
        self,
        query: Annotated[str, "Name, country, abbreviation or offset."] = "",
        limit: Annotated[int, Meta(ge=1)] = 50,
        cursor: str = "",
    ) -> ZoneList:
        """Find time zones, best matches first."""
        max_items = min(limit, self.clock.config.max_limit)
        zones = self.clock.zones
        if len(query) > _MAX_TEXT_CHARS:
            raise ToolError(f"expected at most {_MAX_TEXT_CHARS} characters at `query`, got {len(query)}")
        names = find_zones(zones, query, self.clock.now())
        if cursor and not (len(cursor) < 10 and cursor.isascii() and cursor.isdigit()):
            raise ToolError("expected the cursor of the previous page at `cursor`, got another text")
        start = int(cursor or 0)
        page = names[start : start + max_items]
        has_more = start + max_items < len(names)
        return ZoneList(
            timezones=[self._info(name) for name in page],
            total=len(names),
            local_timezone=self.clock.local.name,
            truncated=has_more,
            next_cursor=str(start + max_items) if has_more else None,
        )

    def parse_date(
        self,
        text: Annotated[str, "ISO 8601, RFC 2822, Unix epoch, or 'now'."],
        timezone: str = "",
        occurrence: Occurrence = "first",
    ) -> ParsedTime:
        """Parse a time and show it in a time zone."""
        return parsed(self.clock.read(text, timezone or None, occurrence, "text"))

    def time_difference(
        self,
        start: str,
        end: str = "now",
        timezone: str = "",
    ) -> Difference:
        """Get the time from start to end."""
        first = self.clock.read(start, timezone or None, "first", "start")
        last = self.clock.read(end, timezone or None, "first", "end")
        elapsed = last.time.astimezone(UTC) - first.time.astimezone(UTC)
        on_first_clock = last.time.astimezone(first.zone.info)
        return Difference(
            start=time_result(first.zone, first.time),
            end=time_result(last.zone, last.time),
            seconds=elapsed.total_seconds(),
            duration=iso_text(elapsed),
            text=english_text(elapsed),
            calendar_days=(on_first_clock.date() - first.time.date()).days,
            note=_notes(first.note, last.note),
        )

    def add_duration(
        self,
        duration: Annotated[
            str,
            "P1DT2H, -PT90M or '2 weeks ago'; days and longer follow the calendar.",
        ],
        start: str = "now",
        timezone: str = "",
    ) -> AddedDuration:
        """Add a duration, or subtract a negative one."""
        moment = self.clock.read(start, timezone or None, "first", "start")
        length = read_duration(duration, "duration")
        zone = moment.zone
        try:
            time, notes = moment.time, [moment.note]
            if length.months or length.days:
                wall, note = length.add_calendar_part(time.replace(tzinfo=None, fold=0))
                time, shifted = _at_calculated_wall(wall, zone)
                notes += [note, shifted]
            time = (time.astimezone(UTC) + length.elapsed).astimezone(zone.info)
        except OverflowError as error:
            raise ToolError("expected a result in the years 1 to 9999 at `duration`, got one outside") from error
        return AddedDuration(start=time_result(zone, moment.time), result=time_result(zone, time), note=_notes(*notes))

    # Private

    def _moment(self, source: Zone, time: str, date: str | None, occurrence: Occurrence) -> Moment:
        if len(time) > _MAX_TEXT_CHARS:
            raise ToolError(f"expected at most {_MAX_TEXT_CHARS} characters at `time`, got {len(time)}")
        now = self.clock.now()
        if date is None and ("-" in time or "T" in time.upper() or time.strip().casefold() == "now"):
            return read_moment(time, zone=source, local=source, now=now, occurrence=occurrence, where="time")
        day = read_date(date, "date") if date is not None else now.astimezone(source.info).date()
        return moment_at_wall(datetime.combine(day, read_time(time, "time")), source, occurrence, "time")

    def _info(self, name: str) -> ZoneInfo:
        zones = self.clock.zones
        now = time_result(Zone(name, zones.info(name)), self.clock.now().astimezone(zones.info(name)))
        return ZoneInfo(
            name=name,
            utc_offset=now.utc_offset,
            abbreviation=now.abbreviation,
            is_dst=now.is_dst,
            countries=list(zones.countries.get(name, ())),
            windows_names=list(zones.windows_names(name)),
        )


def _at_calculated_wall(wall: datetime, zone: Zone) -> tuple[datetime, str | None]:
    """Return a time with its zone, and a note if the clock skips or repeats it. A skipped time is moved forward."""
    time = wall.replace(tzinfo=zone.info)
    # The conversion to UTC and back turns a skipped time into the one that the clock shows instead.
    real = time.astimezone(UTC).astimezone(zone.info)
    if real.replace(tzinfo=None, fold=0) != wall:
        return real, f"{wall:%H:%M} does not exist in {zone.name} on {wall.date().isoformat()}; {real:%H:%M} was taken"
    if time.utcoffset() != wall.replace(tzinfo=zone.info, fold=1).utcoffset():
        return time, f"{wall:%H:%M} occurs twice in {zone.name} on {wall.date().isoformat()}; the first was taken"
    return time, None


def _notes(*notes: str | None) -> str | None:
    return "; ".join(dict.fromkeys(note for note in notes if note)) or None
