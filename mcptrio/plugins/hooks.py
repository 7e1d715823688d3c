"""The four hooks of a plugin, and the decorators that mark them.

A plugin whose tools, resources and prompts are marked needs none of them. The server calls the hooks of one plugin at
a time, so that a fault stays with its plugin.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias, TypeVar

import pluggy

from mcptrio.capabilities.registrar import Registrar
from mcptrio.plugins.setup import PluginSetup

__all__ = ["HOOKS", "Hooks", "hookimpl", "lifespan"]

_PROJECT: Final = "mcptrio"

Opened: TypeAlias = AsyncGenerator[Any] | AbstractAsyncContextManager[Any]

F = TypeVar("F", bound=Callable[..., Any])

hookspec = pluggy.HookspecMarker(_PROJECT)
hookimpl = pluggy.HookimplMarker(_PROJECT)
"""Marks a function, or a method of a plugin object, as the implementation of a hook."""


class Hooks:
    """The hooks that a plugin may implement, as functions of its module or as methods, with ``@mcptrio.hookimpl``.

    Each takes any of its parameters, by name, and may leave others out.
    """

    @hookspec
    def setup(self, server: PluginSetup, config: Any) -> None:
        """Add what is not marked: what depends on the settings, middleware, authorizers, routes, background tasks."""

    @hookspec
    def lifespan(self, server: Registrar, config: Any) -> Opened:  # type: ignore[empty-body]
        """Keep something open while the server is: see :func:`mcptrio.lifespan`, which marks it under any name."""

    @hookspec
    def doctor(self, config: Any) -> Iterable[str]:  # type: ignore[empty-body]
        """Look whether everything is there that the plugin needs: one sentence for each problem.

        Called by ``mcptrio plugins doctor`` only, in a process of its own with a time limit.
        """

    @hookspec
    def transports(self, config: Any) -> Mapping[str, Callable[..., Awaitable[None]]]:  # type: ignore[empty-body]
        """Transports for ``mcptrio serve --transport NAME``, by name: see :class:`mcptrio.serving.Transport`.

        Called only when a transport is asked for by such a name.
        """


HOOKS: Final = ("setup", "lifespan", "doctor", "transports")


def lifespan(function: F) -> F:
    """Mark an async generator that keeps something open while the server is: it yields once.

    It may take ``server``, a :class:`Registrar`, and ``config``. The yielded value is ``ctx.state`` in the plugin's
    handlers. It runs in a task of its own, so it may hold nurseries and cancel scopes around its ``yield``. A function
    that returns an async context manager can be marked as well.

    Raises:
        TypeError: the function is a coroutine function, or no function.
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        kind = "a coroutine function" if callable(function) else type(function).__name__
        raise TypeError(f"@lifespan: expected an async generator function that yields once, got {kind}")
    marked: F = hookimpl(specname="lifespan")(function)
    return marked
