"""OpenTelemetry traces and metrics of servers and clients.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.telemetry.global_tracing import instrument as instrument
    from mcptrio.telemetry.global_tracing import uninstrument as uninstrument

_HOMES = {
    "instrument": "mcptrio.telemetry.global_tracing",
    "uninstrument": "mcptrio.telemetry.global_tracing",
}
"""Every public name, and the module that has it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
