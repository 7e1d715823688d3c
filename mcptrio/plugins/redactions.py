"""The redactions of plugins. They stay when their plugin is removed, because the secrets remain secret.

The server's contributions use it.
"""

from __future__ import annotations

from typing import Final

from mcptrio.capabilities.logging import Redaction

__all__ = ["PluginRedactions"]

REGISTRATIONS: Final = 8
"""Registrations of one plugin whose redactions stay. The number is bounded because every log text passes all of
them."""


class PluginRedactions:
    """Keeps the redactions of plugins, also after a plugin is removed.

    Args:
        all: All redactions of the server, including the embedding program's.
    """

    def __init__(self, all: list[Redaction]) -> None:
        self._all = all
        self._brought: dict[str, list[list[Redaction]]] = {}
        """By plugin, the redactions of each of its registrations, the oldest first."""

    def begin(self, plugin: str) -> None:
        """Begin a plugin's registration, and drop the redactions of its oldest ones."""
        registrations = self._brought.setdefault(plugin, [])
        # Registrations without redactions are dropped first: they do not count.
        registrations[:] = [each for each in registrations if each]
        registrations.append([])
        dropped = [each for oldest in registrations[:-REGISTRATIONS] for each in oldest]
        del registrations[:-REGISTRATIONS]
        for redaction in dropped:
            # The same function may have been added by another registration that stays.
            if not self._is_brought(redaction) and redaction in self._all:
                self._all.remove(redaction)

    def add(self, plugin: str, redaction: Redaction) -> None:
        # It may exist already: from an earlier registration of its plugin, or from the embedding program.
        is_new = redaction not in self._all
        if is_new:
            self._all.append(redaction)
        if is_new or self._is_brought(redaction):
            self._brought[plugin][-1].append(redaction)

    def _is_brought(self, redaction: Redaction) -> bool:
        """Return whether a plugin, rather than the embedding program, has added it."""
        return any(redaction in each for registrations in self._brought.values() for each in registrations)
