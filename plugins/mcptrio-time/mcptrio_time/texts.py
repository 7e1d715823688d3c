"""Formats results as texts for a model. The tools pass these functions as ``text=``."""

from __future__ import annotations

from .results import AddedDuration, Conversion, Difference, ParsedTime, TimeResult, ZoneInfo, ZoneList

__all__ = ["added_text", "conversion_text", "difference_text", "parsed_text", "time_text", "zones_text"]


def time_text(time: TimeResult) -> str:
    """Format a time: ``2026-07-15T12:20:30+02:00 Wednesday Europe/Berlin (CEST)``."""
    # Zones without an abbreviation repeat their name or offset there.
    alias = f" ({time.abbreviation})" if time.abbreviation.isalpha() and time.abbreviation != time.timezone else ""
    return f"{time.datetime} {time.day_of_week} {time.timezone}{alias}"


def conversion_text(conversion: Conversion) -> str:
    lines = [time_text(conversion.source), f"= {time_text(conversion.target)}, {conversion.time_difference}"]
    return _with_note("\n".join(lines), conversion.note)


def parsed_text(parsed: ParsedTime) -> str:
    return _with_note(
        f"{time_text(parsed.time)}\n{parsed.utc}, {parsed.iso_week}, read as {parsed.read_as}", parsed.note
    )


def difference_text(difference: Difference) -> str:
    days = f", {difference.calendar_days} calendar days" if difference.calendar_days else ""
    return _with_note(f"{difference.text} ({difference.seconds:.15g} s{days})", difference.note)


def added_text(result: AddedDuration) -> str:
    return _with_note(time_text(result.result), result.note)


def zones_text(zones: ZoneList) -> str:
    lines = [_zone_line(zone) for zone in zones.timezones]
    if zones.next_cursor is not None:
        lines.append(f"[{zones.total} zones; more follow: pass cursor={zones.next_cursor}]")
    return "\n".join(lines) or "no such zone"


def _zone_line(zone: ZoneInfo) -> str:
    countries = f" {', '.join(zone.countries)}" if zone.countries else ""
    return f"{zone.name} {zone.utc_offset} {zone.abbreviation}{countries}"


def _with_note(text: str, note: str | None) -> str:
    return f"{text}\nnote: {note}" if note else text
