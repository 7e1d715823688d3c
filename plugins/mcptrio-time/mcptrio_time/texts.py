"""Formats results as texts for a model. The tools pass these functions as ``text=``."""

from __future__ import annotations

from .results import AddedDuration, Conversion, Difference, ParsedTime, TimeResult, ZoneInfo, ZoneList

__all__ = ["added_text", "conversion_text", "difference_text", "parsed_text", "time_text", "zones_text"]


def time_text(time: TimeResult) -> str:
    """Format a time: ``2026-07-15T12:20:30+02:00 Wednesday Europe/Berlin (CEST)``."""
    # Zones without an abbreviation repeat their name or offset there.
    alias = f" ({time.abbreviation})" if time.abbreviation.isalpha() and time.abbreviation != time.timezone else ""
    return f"{time.datetime} {time.day_of_week} {time.timezone}{alias}"


def conversion_text(found: Conversion) -> str:
    lines = [time_text(found.source), f"= {time_text(found.target)}, {found.time_difference}"]
    return _with_note("\n".join(lines), found.note)


def parsed_text(found: ParsedTime) -> str:
    return _with_note(f"{time_text(found.time)}\n{found.utc}, {found.iso_week}, read as {found.read_as}", found.note)


def difference_text(found: Difference) -> str:
    days = f", {found.calendar_days} calendar days" if found.calendar_days else ""
    return _with_note(f"{found.text} ({found.seconds:.15g} s{days})", found.note)


def added_text(found: AddedDuration) -> str:
    return _with_note(time_text(found.result), found.note)


def zones_text(found: ZoneList) -> str:
    lines = [_zone_line(zone) for zone in found.timezones]
    if found.next_cursor is not None:
        lines.append(f"[{found.total} zones; more follow: pass cursor={found.next_cursor}]")
    return "\n".join(lines) or "no such zone"


def _zone_line(zone: ZoneInfo) -> str:
    countries = f" {', '.join(zone.countries)}" if zone.countries else ""
    return f"{zone.name} {zone.utc_offset} {zone.abbreviation}{countries}"


def _with_note(text: str, note: str | None) -> str:
    return f"{text}\nnote: {note}" if note else text
