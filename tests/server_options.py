"""Arguments of ``Server`` for fixtures that pass them on, such as those of interaction/ and host/."""

from __future__ import annotations

from typing import Any

import attrs

from mcptrio.serving import ServerLimits, ServerSettings

__all__ = ["server_options"]

_SETTINGS = {each.name for each in attrs.fields(ServerSettings)}


def server_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Server``, with the fields of its settings as separate arguments.

    Results may have texts of any length, because tests of buffers send large ones.
    """
    if "settings" in options:
        return options
    settings = {name: value for name, value in options.items() if name in _SETTINGS}
    settings["limits"] = attrs.evolve(settings.get("limits", ServerLimits()), result_text=1_000_000_000)
    others = {name: value for name, value in options.items() if name not in _SETTINGS}
    return {**others, "settings": ServerSettings(**settings)}
