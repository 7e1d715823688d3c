"""The clock and the zones, including the local one.

The objects with the tools, prompts and resources share it. Only this module reads the machine's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from attrs import Factory, field, frozen

from .config import Config
from .local import find_local
from .moments import Moment, Occurrence, read_moment
from .zones import Zone, Zones

__all__ = ["Clock"]


@frozen(eq=False)
class Clock:
    """
    Args:
        seconds: since 1970; the machine's clock unless given.

    Raises:
        ConfigError: ``local_timezone`` is no zone.
    """

    config: Config
    seconds: Callable[[], float] = time.time
    zones: Zones = field(init=False, factory=Zones)
    local: Zone = field(
        init=False,
        default=Factory(lambda self: find_local(self.zones, self.config.local_timezone), takes_self=True),
    )

    def now(self) -> datetime:
        """Aware, in UTC, in whole seconds."""
        return datetime.fromtimestamp(int(self.seconds()), UTC)

    def zone(self, name: str | None, where: str) -> Zone:
        """A zone by name; the local one without.

        Raises:
            ToolError: there is no such zone, or several are meant.
        """
        if name is None or name.strip().casefold() == "local":
            return self.local
        return self.zones.find(name, where)

    def read(self, text: str, timezone: str | None, occurrence: Occurrence, where: str) -> Moment:
        """Return the moment of a text.

        Raises:
            ToolError: the text is no time, or the zone is unknown.
        """
        return read_moment(
            text,
            zone=self.zone(timezone, "timezone") if timezone is not None else None,
            local=self.local,
            now=self.now(),
            occurrence=occurrence,
            where=where,
        )
