"""The clock and the zones, including the local one.

The tools, prompts and resources share it. Only this module reads the machine's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from attrs import Factory, field, frozen

from .config import Config
from .local_zone import find_local
from .moments import Moment, Occurrence, read_moment
from .zones import Zone, Zones

__all__ = ["Clock"]


@frozen(eq=False)
class Clock:
    """A clock with time zones.

    Args:
        seconds: Returns the seconds since 1970; by default, by the machine's clock.

    Raises:
        ConfigError: ``local_timezone`` is not a time zone.
    """

    config: Config
    seconds: Callable[[], float] = time.time
    zones: Zones = field(init=False, factory=Zones)
    local: Zone = field(
        init=False,
        default=Factory(lambda self: find_local(self.zones, self.config.local_timezone), takes_self=True),
    )

    def now(self) -> datetime:
        """Return the current time in UTC, in whole seconds."""
        return datetime.fromtimestamp(int(self.seconds()), UTC)

    def zone(self, name: str | None, where: str) -> Zone:
        """Return a zone by its name; the local one if the name is ``None`` or ``local``.

        Raises:
            ToolError: There is no such zone, or the name is ambiguous.
        """
        if name is None or name.strip().casefold() == "local":
            return self.local
        return self.zones.find(name, where)

    def read(self, text: str, timezone: str | None, occurrence: Occurrence, where: str) -> Moment:
        """Return the moment that a text describes.

        Raises:
            ToolError: The text is not a time, or the zone is unknown.
        """
        return read_moment(
            text,
            zone=self.zone(timezone, "timezone") if timezone is not None else None,
            local=self.local,
            now=self.now(),
            occurrence=occurrence,
            where=where,
        )
