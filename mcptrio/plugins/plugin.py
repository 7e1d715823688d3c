"""One plugin of a server: its source, its entries and its errors.

Only four methods change its state:

    state          renew()    start()     quarantine()   disable()
    loaded         loaded     running     quarantined    disabled
    running        -          -           quarantined    disabled
    quarantined    loaded     refused     quarantined    disabled
    disabled       loaded     refused     disabled       disabled

A lifespan may yield after the plugin was quarantined or disabled: :meth:`Plugin.start` then refuses, and the lifespan
is ended. An error in a disabled plugin is stored, and the plugin stays disabled.
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
from mcptrio.errors import PluginError
from mcptrio.plugins.policy import PluginPolicy

__all__ = ["Plugin"]


@define(eq=False, slots=True, kw_only=True)
class Plugin(Owner):
    """One plugin of a server."""

    distribution: str | None = None
    version: str | None = None
    object: Any = None
    state: PluginState = "loaded"
    failure: str | None = None
    error: BaseException | None = None
    hooks: pluggy.PluginManager | None = None
    """The hooks of the plugin and of what it has added; ``None`` before it is set up."""
    config_class: type | None = None
    """The class of its settings; ``None`` if the plugin reads its table of the configuration itself."""
    config: Any = field(factory=dict)
    """The operator's settings: an instance of that class, or the table."""
    policy: PluginPolicy = field(factory=PluginPolicy)
    """The operator's limits for the plugin."""
    prefix: str = ""
    """The prefix of its tools' names."""
    prefers_no_prefix: bool = False
    """Whether the plugin has chosen to have no prefix, except for names that are taken."""
    load: Callable[[], Any] | None = None
    """A function that imports it; ``None`` for an existing object."""
    file: Path | None = None
    """The file, for a plugin that is a file."""
    replacement: Callable[[], Any] | None = None
    """A function that makes its replacement in this process, for an isolated plugin."""
    refused: str | None = None
    """The reason why it can never be loaded: its name is taken."""
    import_seconds: float | None = None
    """The duration of its import."""
    withheld: dict[str, str] = field(factory=dict)
    """Tools that are not offered, with the reason."""
    renamed: dict[str, str] = field(factory=dict)
    """The names of tools whose prefixed name was taken, by their own names."""
    named_tools: dict[str, str] = field(factory=dict)
    """The tools that its descriptions name as ``{tool:NAME}``, with the names that clients see."""
    warnings: list[str] = field(factory=list)
    """Problems that do not prevent it from starting."""
    offers: dict[str, list[str]] = field(factory=dict)
    """Names by kind (``tools``, ``resources``, …); empty in quarantine."""
    settings_callbacks: list[Callable[[Any], bool]] = field(factory=list)
    """Functions that receive new settings while it runs. Unless all of them accept, the plugin is restarted."""
    background: list[Callable[[], Awaitable[None]]] = field(factory=list)
    """Tasks to run while its lifespan is open."""
    issuer: OwnIssuer | None = None
    """Its authorization server, if the plugin is one."""
    undo: list[Callable[[], None]] = field(factory=list)
    """Functions that remove its entries outside the registries."""

    @property
    def isolated(self) -> bool:
        """True if it runs in its own process."""
        return self.replacement is not None

    @property
    def label(self) -> str:
        """Its name, with the distribution and the version of an installed plugin, for messages."""
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    @property
    def source(self) -> str | None:
        """Its file, or the folder of its package; ``None`` if unknown."""
        # Some objects, such as SimpleNamespace, have no module.
        name = getattr(self.object, "__module__", "")
        module = self.object if ismodule(self.object) else sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is None or self.object is None:
            return None
        return os.path.dirname(file) if os.path.basename(file) == "__init__.py" else str(file)

    def start(self) -> bool:
        """Set its state to running, because its lifespan has yielded.

        Returns:
            ``False`` if it was quarantined or disabled in the meantime.
        """
        if self.state == "loaded":
            self.state = "running"
        return self.state == "running"

    def disable(self) -> None:
        """Set its state to disabled. This does not end its lifespan."""
        self.state = "disabled"

    def quarantine(self, failure: str, error: BaseException | None = None) -> None:
        """Store its failure, and quarantine it unless it is disabled.

        Args:
            failure: The reason, for messages.
            error: The exception, if there is one.
        """
        if self.state != "disabled":
            self.state = "quarantined"
        self.failure = failure
        self.error = error
        self.offers.clear()
        self.withheld.clear()

    @property
    def problem(self) -> PluginError:
        """Its failure as an error, for a strict server."""
        problem = PluginError(self.failure or "", plugin=self.name, distribution=self.distribution)
        problem.__cause__ = self.error
        return problem

    def renew(self) -> None:
        """Set its state to loaded, and forget the last failure, before another attempt to start it."""
        assert self.state != "running", "a plugin that runs is stopped first"
        self.state = "loaded"
        self.failure = self.error = None
        self.offers.clear()
        self.withheld.clear()
        self.named_tools.clear()
        self.warnings.clear()
        # The hooks belong to objects of the last attempt; `begin` sets new ones.
        self.hooks = None

    def begin(self, hooks: pluggy.PluginManager) -> None:
        """Drop the registrations of earlier attempts before it is set up.

        Args:
            hooks: The manager for the hooks of the plugin and of its added objects.
        """
        self.background.clear()
        self.settings_callbacks.clear()
        self.issuer = None
        self.hooks = hooks

    @property
    def status(self) -> PluginStatus:
        """Its status, for display."""
        return PluginStatus(
            name=self.name,
            version=self.version,
            distribution=self.distribution,
            state=self.state,
            isolated=self.isolated,
            failure=self.failure,
            warnings=tuple(self.warnings),
            import_seconds=self.import_seconds,
            withheld=dict(self.withheld),
            offers={kind: tuple(names) for kind, names in self.offers.items()},
        )
