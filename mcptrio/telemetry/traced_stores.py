"""Stores whose operations have spans. ``mcptrio serve`` uses them if ``[telemetry] details`` is set."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from attrs import evolve

from mcptrio.abc import Stores
from mcptrio.abc.tracing import trace_step

__all__ = ["traced_stores"]

_PORTS: Final = ("sessions", "events", "effects", "replays", "quotas", "tasks")
"""The stores with operations that wait. Publishing on the bus does not."""


def traced_stores(stores: Stores) -> Stores:
    """Return stores that make a span of each operation that waits for the engine."""
    ports: dict[str, Any] = {name: getattr(stores, name) for name in _PORTS}
    traced: dict[str, Any] = {name: _TracedStore(name, each) for name, each in ports.items() if each is not None}
    return evolve(stores, **traced)


class _TracedStore:
    def __init__(self, name: str, store: Any) -> None:
        self._name = name
        self._store = store

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._store, attribute)
        if not iscoroutinefunction(value):
            return value
        traced = _traced(f"{self._name}.{attribute}", value)
        # Found without this method from now on.
        self.__dict__[attribute] = traced
        return traced


def _traced(operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        with trace_step("store", operation):
            return await function(*args, **kwargs)

    return traced
