"""Wraps stores outside the process, so that the status shows which requests wait for them, and traces have spans.

``mcptrio serve`` uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from attrs import evolve

from mcptrio.abc import Stores
from mcptrio.abc.tracing import trace_step
from mcptrio.runtime.current import CURRENT

__all__ = ["watched_stores"]

_PORTS: Final = ("sessions", "events", "effects", "replays", "quotas", "tasks")
"""The stores whose operations wait. The bus is not among them."""


def watched_stores(stores: Stores, *, traced: bool) -> Stores:
    """Return stores that mark the requests that wait for their engine.

    Args:
        traced: True to make a span of each operation.
    """
    ports: dict[str, Any] = {name: getattr(stores, name) for name in _PORTS}
    watched: dict[str, Any] = {
        name: _WatchedStore(name, each, traced) for name, each in ports.items() if each is not None
    }
    return evolve(stores, **watched)


class _WatchedStore:
    def __init__(self, name: str, store: Any, traced: bool) -> None:
        self._name = name
        self._store = store
        self._traced = traced

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._store, attribute)
        if not iscoroutinefunction(value):
            return value
        watched = _watch(value, f"{self._name}.{attribute}" if self._traced else None)
        # From now on the attribute is found without calling this method.
        self.__dict__[attribute] = watched
        return watched


def _watch(function: Callable[..., Any], operation: str | None) -> Callable[..., Any]:
    @wraps(function)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        working = CURRENT.get()
        # The scope is kept, because the handler may continue in another request when the store has answered.
        scope = working.scope if working is not None else None
        if scope is not None:
            scope.store_waits += 1
        try:
            with trace_step("store", operation) if operation is not None else nullcontext():
                return await function(*args, **kwargs)
        finally:
            if scope is not None:
                scope.store_waits -= 1

    return watched
