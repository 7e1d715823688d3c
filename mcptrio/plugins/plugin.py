"""One plugin of a server: its source, its entries and its errors.

Its state changes in four methods only:

    state          renew()    start()     quarantine()   disable()
    loaded         loaded     running     quarantined    disabled
    running        -          -           quarantined    disabled
    quarantined    loaded     refused     quarantined    disabled
    disabled       loaded     refused     disabled       disabled

A lifespan may yield after the plugin was quarantined or disabled: :meth:`Plugin.start` then refuses, and the lifespan
is left. An error in a disabled plugin is stored, and the plugin stays disabled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from inspect import ismodule
from pathlib import Path
from typing import Any

import pluggy
from attrs import define, field

from mcptrio.abc import OwnIssuer
from mcptrio.abc.status import PluginState, PluginStatus
from mcptrio.capabilities.owner import Owner
from mcptrio.plugins.policy import PluginPolicy

__all__ = ["Plugin"]


@define(eq=False, slots=True, kw_only=True)
class Plugin(Owner):
    """One plugin as the server knows it."""

    distribution: str | None = None
    version: str | None = None
    object: Any = None
    state: PluginState = "loaded"
    fault: str | None = None
    error: BaseException | None = None
    hooks: pluggy.PluginManager | None = None
    """The hooks of the plugin and of what it has added; ``None`` before it is set up."""
    config_class: type | None = None
    """What its settings are read into; ``None``: it gets the table."""
    config: Any = field(factory=dict)
    """The operator's settings: an instance of that class, or the table."""
    policy: PluginPolicy = field(factory=PluginPolicy)
    """The operator's limits for it."""
    prefix: str = ""
    """Of its tools' names."""
    prefers_no_prefix: bool = False
    """Whether that was the plugin's own choice, which holds where nothing collides."""
    load: Callable[[], Any] | None = None
    """Imports it; ``None`` for an object that was there."""
    file: Path | None = None
    """The imported file, if it is one."""
    instead: Callable[[], Any] | None = None
    """Makes what is taken in its place, where it runs in a process of its own and is not imported here."""
    refused: str | None = None
    """Why it is never taken in: its name was another's already."""
    import_seconds: float | None = None
    """How long that took."""
    withheld: dict[str, str] = field(factory=dict)
    """Tools that are not offered, with the reason."""
    renamed: dict[str, str] = field(factory=dict)
    """Tools that have another name than their prefix makes, since theirs was taken: own name to that name."""
    warnings: list[str] = field(factory=list)
    """Problems that do not stop it."""
    offers: dict[str, list[str]] = field(factory=dict)
    """Kind (``tools``, ``resources``, …) to names; empty in quarantine."""
    takers: list[Callable[[Any], bool]] = field(factory=list)
    """Take new settings while it runs; all of them have to."""
    background: list[Callable[[], Awaitable[None]]] = field(factory=list)
    """Tasks to run while its lifespan is open."""
    issuer: OwnIssuer | None = None
    """The authorization server that it is."""
    undo: list[Callable[[], None]] = field(factory=list)
    """Take back what it has added and no registry knows."""

    @property
    def isolated(self) -> bool:
        """Whether it runs in a process of its own."""
        return self.instead is not None

    @property
    def label(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    @property
    def source(self) -> str | None:
        """Its file, or the folder of its package; ``None`` if unknown."""
        module = self.object if ismodule(self.object) else sys.modules.get(self.object.__module__)
        file = getattr(module, "__file__", None)
        if file is None or self.object is None:
            return None
        return os.path.dirname(file) if os.path.basename(file) == "__init__.py" else str(file)

    def start(self) -> bool:
        """Its lifespan has yielded. Returns whether it still is to run."""
        if self.state == "loaded":
            self.state = "running"
        return self.state == "running"

    def disable(self) -> None:
        """It is not to run."""
        self.state = "disabled"

    def quarantine(self, fault: str, error: BaseException | None = None) -> None:
        """It has failed."""
        if self.state != "disabled":
            self.state = "quarantined"
        self.fault = fault
        self.error = error
        self.offers.clear()
        self.withheld.clear()

    def renew(self) -> None:
        """As if nothing had been tried: another attempt begins."""
        assert self.state != "running", "a plugin that runs is stopped first"
        self.state = "loaded"
        self.fault = self.error = None
        self.offers.clear()
        self.withheld.clear()
        self.warnings.clear()
        self.hooks = None

    def begin(self, hooks: pluggy.PluginManager) -> None:
        """Forget what it has registered: it is set up (again).

        Args:
            hooks: for the hooks of the plugin and of what it adds.
        """
        self.background.clear()
        self.takers.clear()
        self.issuer = None
        self.hooks = hooks

    @property
    def status(self) -> PluginStatus:
        return PluginStatus(
            name=self.name,
            version=self.version,
            distribution=self.distribution,
            state=self.state,
            isolated=self.isolated,
            fault=self.fault,
            warnings=tuple(self.warnings),
            import_seconds=self.import_seconds,
            withheld=dict(self.withheld),
            offers={kind: tuple(names) for kind, names in self.offers.items()},
        )
