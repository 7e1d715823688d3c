"""The options of a server for fixtures that pass them on."""

from __future__ import annotations

from typing import Any

import attrs

from mcptrio.serving import ServerSettings

__all__ = ["server_options"]

_SETTINGS = {each.name for each in attrs.fields(ServerSettings)}


def server_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Server``, with the fields of its settings as separate arguments."""
    settings = {name: value for name, value in options.items() if name in _SETTINGS}
    others = {name: value for name, value in options.items() if name not in _SETTINGS}
    return {**others, "settings": ServerSettings(**settings)} if settings else others
