"""The redactions that plugins have added: they stay when their plugin is removed, since the secrets are still secret.

Used by the server's contributions.
"""

from __future__ import annotations

from typing import Final

from mcptrio.capabilities.logging import Redaction

__all__ = ["PluginRedactions"]

REGISTRATIONS: Final = 8
"""Registrations of one plugin whose redactions stay. Each text of the log passes all of them."""


class PluginRedactions:
    """
    Args:
        all: those of the server; also the embedder's.
    """

    def __init__(self, all: list[Redaction]) -> None:
        self._all = all
        self._brought: dict[str, list[list[Redaction]]] = {}
        """By plugin, those of its registrations, the oldest first."""

    def begin(self, plugin: str) -> None:
        """A plugin registers once more: those of its oldest registrations are dropped."""
        registrations = self._brought.setdefault(plugin, [])
        registrations[:] = [each for each in registrations if each]
        registrations.append([])
        dropped = [each for oldest in registrations[:-REGISTRATIONS] for each in oldest]
        del registrations[:-REGISTRATIONS]
        for redaction in dropped:
            if not self._is_brought(redaction) and redaction in self._all:
                self._all.remove(redaction)

    def add(self, plugin: str, redaction: Redaction) -> None:
        # It may be there already: from the last time that its plugin was there, or from the embedder.
        is_new = redaction not in self._all
        if is_new:
            self._all.append(redaction)
        if is_new or self._is_brought(redaction):
            self._brought[plugin][-1].append(redaction)

    def _is_brought(self, redaction: Redaction) -> bool:
        """Whether a plugin has brought it; otherwise it is the embedder's."""
        return any(redaction in each for registrations in self._brought.values() for each in registrations)
