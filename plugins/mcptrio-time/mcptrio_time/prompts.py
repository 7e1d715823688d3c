"""Prompts and resources for users, with completion of time zones.

mcptrio registers them. They return the same values as the tools.

Source: MCP 2026-07-28, server/prompts, server/resources and server/utilities/completion; the reference time server has
none of them.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from mcptrio import ResourceNotFound, ToolError, completion, prompt, resource

from .results import TimeResult
from .tools import TimeTools

__all__ = ["NOW", "NOW_IN", "TimePrompts"]

NOW: Final = "time://now"
NOW_IN: Final = "time://now/{+timezone}"


@frozen(eq=False)
class TimePrompts:
    """The prompts and resources, which call the tools."""

    tools: TimeTools

    @prompt(name="time_now", title="What Time Is It")
    def current_time(self, timezone: str = "local") -> str:
        """The time in a time zone.

        Args:
            timezone: The time zone; by default the local one.
        """
        now = self.tools.get_current_time(timezone)
        return f"It is {_sentence_part(now)}."

    @prompt(name="time_convert", title="Convert a Time")
    def convert(self, time: str, source_timezone: str, target_timezone: str = "local", date: str = "") -> str:
        """A time in another time zone.

        Args:
            time: HH:MM.
            source_timezone: The time zone of the time.
            target_timezone: The time zone to convert to; by default the local one.
            date: The day in the source time zone, YYYY-MM-DD; by default today.
        """
        conversion = self.tools.convert_time(source_timezone, time, target_timezone, date)
        source, target = _sentence_part(conversion.source), _sentence_part(conversion.target)
        text = f"{source} is {target} ({conversion.time_difference})."
        return f"{text} Note: {conversion.note}." if conversion.note else text

    @resource(NOW, name="now", title="Local Time", mime_type="application/json")
    def now(self) -> TimeResult:
        """The time in the local time zone."""
        return self.tools.get_current_time()

    @resource(NOW_IN, name="now-in", title="Time in a Time Zone", mime_type="application/json")
    def now_in(self, timezone: str) -> TimeResult:
        """The time in a time zone."""
        try:
            return self.tools.get_current_time(timezone)
        except ToolError as error:
            raise ResourceNotFound(f"time://now/{timezone}") from error

    @completion("resource", NOW_IN, "timezone")
    def complete_now_in(self) -> list[str]:
        """Return the IANA names."""
        return list(self.tools.clock.zones.names)

    @completion("prompt", "time_now", "timezone")
    def complete_current_time(self) -> list[str]:
        """Return the IANA and Windows names."""
        return self._names()

    @completion("prompt", "time_convert", "source_timezone")
    def complete_source(self) -> list[str]:
        """Return the IANA and Windows names."""
        return self._names()

    @completion("prompt", "time_convert", "target_timezone")
    def complete_target(self) -> list[str]:
        """Return the IANA and Windows names."""
        return self._names()

    def _names(self) -> list[str]:
        zones = self.tools.clock.zones
        local = self.tools.clock.local.name
        return list(dict.fromkeys([local, *zones.names, *zones.all_windows_names]))


def _sentence_part(time: TimeResult) -> str:
    return (
        f"{time.datetime[11:16]} on {time.day_of_week}, {time.datetime[:10]}, in {time.timezone} (UTC{time.utc_offset})"
    )
