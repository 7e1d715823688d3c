"""One plugin as the server knows it: where it came from, what it offers, what is wrong with it.

The one rule: whatever one plugin does wrong is written on it, and nowhere else.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from attrs import define, field

__all__ = ["Plugin", "State"]


class State(Enum):
    LOADED = "loaded"
    """Imported; its capabilities are offered."""
    RUNNING = "running"
    """Its lifespan is open."""
    QUARANTINED = "quarantined"
    """Something failed: see ``fault``. Its capabilities are withdrawn."""
    DISABLED = "disabled"
    """Found, and not wanted: never imported."""


@define(eq=False, slots=True)
class Plugin:
    """One plugin as the server knows it."""

    name: str
    distribution: str | None = None
    version: str | None = None
    object: Any = None
    state: State = State.LOADED
    fault: str | None = None
    error: BaseException | None = None
    config: Any = field(factory=dict)
    """What the operator has set: an instance of the plugin's own class, or its table."""
    offers: dict[str, list[str]] = field(factory=dict)
    """Kind (``tools``, ``resources``, …) to names; empty in quarantine."""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    def quarantine(self, fault: str, error: BaseException | None = None) -> None:
        self.state = State.QUARANTINED
        self.fault = fault
        self.error = error
        self.offers.clear()

    def snapshot(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "distribution": self.distribution,
            "state": self.state.value,
            "fault": self.fault,
            "offers": {kind: list(names) for kind, names in self.offers.items()},
        }
