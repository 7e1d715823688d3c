"""The redactions of plugins. They stay when their plugin is removed, because the texts are still secret.

:mod:`mcptrio.plugins.contributions` uses this.
"""

from __future__ import annotations

from typing import Final

from mcptrio.capabilities.logging import Redaction

__all__ = ["PluginRedactions"]

MAX_REGISTRATIONS: Final = 8
"""Registrations of one plugin whose redactions stay. Bounded, because all redactions are applied to every log text."""


class PluginRedactions:
    """Keeps the redactions of plugins, also after a plugin is removed.

    Args:
        all: All redactions of the server, including the embedding program's.
    """

    def __init__(self, all: list[Redaction]) -> None:
        self._all = all
        self._added: dict[str, list[list[Redaction]]] = {}
        """By plugin, the redactions of each of its registrations, the oldest first."""

    def begin(self, plugin: str) -> None:
        """Begin a plugin's registration, and drop the redactions of its oldest ones."""
        registrations = self._added.setdefault(plugin, [])
        # Registrations without redactions do not count.
        registrations[:] = [each for each in registrations if each]
        registrations.append([])
        dropped = [each for oldest in registrations[:-MAX_REGISTRATIONS] for each in oldest]
        del registrations[:-MAX_REGISTRATIONS]
        for redaction in dropped:
            # Another registration, which stays, may have added the same function.
            if not self._is_of_plugin(redaction) and redaction in self._all:
                self._all.remove(redaction)

    def add(self, plugin: str, redaction: Redaction) -> None:
        """Add a redaction to the plugin's last registration."""
        # The redaction may already exist: from an earlier registration of its plugin, or from the embedding program.
        is_new = redaction not in self._all
        if is_new:
            self._all.append(redaction)
        if is_new or self._is_of_plugin(redaction):
            self._added[plugin][-1].append(redaction)

    def _is_of_plugin(self, redaction: Redaction) -> bool:
        """Return whether a plugin has added a redaction, rather than the embedding program."""
        return any(redaction in each for registrations in self._added.values() for each in registrations)
