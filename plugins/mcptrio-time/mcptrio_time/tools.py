"""The tools.

The hook below registers them, because two of their descriptions name the local zone. Nothing is guessed: a decision
between two hours or days is part of the result. They are plain functions and run in threads, because a zone is read
from disk when it is first used.

Source: names, arguments and results of the reference server mcp-server-time (2026.10.19). Arguments that it does not
have are optional.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from attrs import frozen
from msgspec import Meta

from mcptrio import PluginSetup, ToolError, hookimpl

from .clock import Clock
from .durations import iso_text, plain_text, read_duration
from .moments import Moment, Occurrence, at_wall, read_date, read_moment, read_time
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
    shown,
)
from .searching import find_zones
from .zones import Zone

__all__ = ["TimeTools"]

_ZONE = "an IANA time zone such as America/New_York, a Windows name, or an offset such as +05:30"
_Text = Annotated[str, Meta(max_length=100)]
_Occurrence = Annotated[
    Occurrence, "Which one to use if this time occurs twice because clocks are set back; the result then has a note."
]
_TIME = (
    "2026-03-29T01:30:00Z, 2026-03-29 01:30 (in timezone), 2026-03-29, seconds, milliseconds, "
    "microseconds or nanoseconds since 1970 such as 1774747800, Sun, 29 Mar 2026 01:30:00 +0100, or now"
)
_Own = Annotated[_Text | None, f"The time zone: {_ZONE}; by default the time's own offset, or the local time zone."]


@frozen(eq=False)
class TimeTools:
    """The tools over one clock."""

    clock: Clock

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """Offer the tools; all of them read only."""
        local = f"The local time zone is {self.clock.local.name}."
        for function, title, more in (
            (self.get_current_time, "Current Time", f" {local}"),
            (self.convert_time, "Convert Time", f" {local} Use it if the user names no time zone."),
            (self.list_timezones, "List Time Zones", ""),
            (self.parse_date, "Parse Time", ""),
            (self.time_difference, "Time Difference", ""),
            (self.add_duration, "Add Duration", ""),
        ):
            description = " ".join((function.__doc__ or "").split())
            server.add_tool(
                function,
                title=title,
                description=description + more,
                read_only=True,
                destructive=False,
                # Nothing is changed; that the time has gone on meanwhile is not the call's doing.
                idempotent=True,
                open_world=False,
            )

    def get_current_time(
        self, timezone: Annotated[_Text | None, f"The time zone: {_ZONE}; by default the local time zone."] = None
    ) -> TimeResult:
        """Get current time in a specific timezone, or in the local one."""
        zone = self.clock.zone(timezone, "timezone")
        return shown(zone, self.clock.now().astimezone(zone.info))

    def convert_time(
        self,
        source_timezone: Annotated[_Text, f"The time zone of the time: {_ZONE}."],
        time: Annotated[
            _Text, "Time to convert in 24-hour format (HH:MM), or a date and time such as 2026-03-29T01:30:00Z."
        ],
        target_timezone: Annotated[_Text, f"The time zone to convert to: {_ZONE}."],
        date: Annotated[_Text | None, "The day in the source timezone, YYYY-MM-DD; by default today."] = None,
        occurrence: _Occurrence = "first",
    ) -> Conversion:
        """Convert a time between time zones, today or on another day."""
        source = self.clock.zone(source_timezone, "source_timezone")
        target = self.clock.zone(target_timezone, "target_timezone")
        moment = self._moment(source, time, date, occurrence)
        try:
            found = moment.time.astimezone(target.info)
        except OverflowError as error:
            raise ToolError("expected a time in the years 1 to 9999 at `time`, got one outside") from error
        return Conversion(
            source=shown(source, moment.time),
            target=shown(target, found),
            time_difference=clock_difference(moment.time, found),
            ambiguous=moment.ambiguous,
            note=moment.note,
        )

    def list_timezones(
        self,
        query: Annotated[
            _Text,
            "Words that must all occur in the name, the country, the Windows name, an abbreviation such as IST, or the "
            "current offset such as +05:30. An empty text lists all zones.",
        ] = "",
        limit: Annotated[Annotated[int, Meta(ge=1, le=1000)] | None, "Maximum number of zones."] = None,
        cursor: Annotated[_Text | None, "next_cursor of the previous page."] = None,
    ) -> ZoneList:
        """Find time zones with their current times; the best matches come first."""
        config = self.clock.config
        most = min(limit or config.limit, config.max_limit)
        zones = self.clock.zones
        names = find_zones(zones, query, self.clock.now())
        if cursor is not None and not (cursor.isascii() and cursor.isdigit()):
            raise ToolError("expected the next_cursor of the previous page at `cursor`, got another text")
        start = int(cursor or 0)
        page = names[start : start + most]
        is_cut = start + most < len(names)
        return ZoneList(
            timezones=[self._info(name) for name in page],
            total=len(names),
            local_timezone=self.clock.local.name,
            truncated=is_cut,
            next_cursor=str(start + most) if is_cut else None,
        )

    def parse_date(
        self,
        text: Annotated[_Text, f"The time: {_TIME}."],
        timezone: _Own = None,
        occurrence: _Occurrence = "first",
    ) -> ParsedTime:
        """Parse a time in a common format (RFC 3339, ISO 8601, RFC 5322, epoch), and show it in a time zone."""
        return parsed(self.clock.read(text, timezone, occurrence, "text"))

    def time_difference(
        self,
        start: Annotated[_Text, f"Start time: {_TIME}."],
        end: Annotated[_Text, "End time, in the same formats; by default now."] = "now",
        timezone: _Own = None,
    ) -> Difference:
        """Return the time between two times."""
        first = self.clock.read(start, timezone, "first", "start")
        last = self.clock.read(end, timezone, "first", "end")
        elapsed = last.time.astimezone(UTC) - first.time.astimezone(UTC)
        on_first_clock = last.time.astimezone(first.zone.info)
        return Difference(
            start=shown(first.zone, first.time),
            end=shown(last.zone, last.time),
            seconds=elapsed.total_seconds(),
            duration=iso_text(elapsed),
            text=plain_text(elapsed),
            calendar_days=(on_first_clock.date() - first.time.date()).days,
            note=_notes(first.note, last.note),
        )

    def add_duration(
        self,
        duration: Annotated[
            _Text,
            "The duration: ISO 8601 such as P1M, P1DT2H30M or -PT90M, or words such as 1 month, 90 minutes or "
            "2 weeks ago. Years, months, weeks and days follow the calendar; hours, minutes, seconds are elapsed time.",
        ],
        start: Annotated[_Text, f"Start time: {_TIME}; by default now."] = "now",
        timezone: _Own = None,
    ) -> AddedDuration:
        """Add a duration to a time, or subtract it with a minus sign."""
        moment = self.clock.read(start, timezone, "first", "start")
        length = read_duration(duration, "duration")
        zone = moment.zone
        try:
            time, notes = moment.time, [moment.note]
            if length.months or length.days:
                wall, note = length.on_calendar(time.replace(tzinfo=None, fold=0))
                time, shifted = _settled(wall, zone)
                notes += [note, shifted]
            time = (time.astimezone(UTC) + length.elapsed).astimezone(zone.info)
        except OverflowError as error:
            raise ToolError("expected a result in the years 1 to 9999 at `duration`, got one outside") from error
        return AddedDuration(start=shown(zone, moment.time), result=shown(zone, time), note=_notes(*notes))

    # Private

    def _moment(self, source: Zone, time: str, date: str | None, occurrence: Occurrence) -> Moment:
        now = self.clock.now()
        if date is None and ("-" in time or "T" in time.upper() or time.strip().casefold() == "now"):
            return read_moment(time, zone=source, local=source, now=now, occurrence=occurrence, where="time")
        day = read_date(date, "date") if date is not None else now.astimezone(source.info).date()
        return at_wall(datetime.combine(day, read_time(time, "time")), source, occurrence, "time")

    def _info(self, name: str) -> ZoneInfo:
        zones = self.clock.zones
        now = shown(Zone(name, zones.info(name)), self.clock.now().astimezone(zones.info(name)))
        return ZoneInfo(
            name=name,
            utc_offset=now.utc_offset,
            abbreviation=now.abbreviation,
            is_dst=now.is_dst,
            countries=list(zones.countries.get(name, ())),
            windows_names=list(zones.windows_names(name)),
        )


def _settled(wall: datetime, zone: Zone) -> tuple[datetime, str | None]:
    """A wall-clock time that was calculated; a skipped one is moved forward."""
    time = wall.replace(tzinfo=zone.info)
    # Through UTC, and a time that is not there becomes the one that the clock shows instead.
    real = time.astimezone(UTC).astimezone(zone.info)
    if real.replace(tzinfo=None, fold=0) != wall:
        return real, f"{wall:%H:%M} does not exist in {zone.name} on {wall.date().isoformat()}; {real:%H:%M} was taken"
    if time.utcoffset() != wall.replace(tzinfo=zone.info, fold=1).utcoffset():
        return time, f"{wall:%H:%M} is there twice in {zone.name} on {wall.date().isoformat()}; the first was taken"
    return time, None


def _notes(*notes: str | None) -> str | None:
    return "; ".join(dict.fromkeys(note for note in notes if note)) or None
