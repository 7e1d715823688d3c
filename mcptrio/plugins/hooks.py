"""The four hooks of a plugin, and the decorators that mark them.

A plugin that only marks its tools, resources and prompts needs no hooks. The server calls the hooks of each plugin
separately, so that a failure affects only this plugin.
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

# With an own project name, because other programs in the process, such as pytest, use pluggy too.
hookspec = pluggy.HookspecMarker(_PROJECT)
hookimpl = pluggy.HookimplMarker(_PROJECT)
"""Marks a function, or a method of a plugin object, as the implementation of a hook."""


class Hooks:
    """The hooks that a plugin may implement, as functions of its module or as methods, with ``@mcptrio.hookimpl``.

    An implementation may take any of the parameters, by name, and omit the others.
    """

    @hookspec
    def setup(self, server: PluginSetup, config: Any) -> None:
        """Add what cannot be marked: entries that depend on settings, middleware, authorizers, routes, tasks."""

    @hookspec
    def lifespan(self, server: Registrar, config: Any) -> Opened:  # type: ignore[empty-body]
        """Keep something open while the server is open; :func:`mcptrio.lifespan` marks it under any name."""

    @hookspec
    def doctor(self, config: Any) -> Iterable[str]:  # type: ignore[empty-body]
        """Check the plugin's requirements, and return one sentence for each problem.

        Only ``mcptrio plugins doctor`` calls it, in a separate process with a time limit.
        """

    @hookspec
    def transports(self, config: Any) -> Mapping[str, Callable[..., Awaitable[None]]]:  # type: ignore[empty-body]
        """Return transports for ``mcptrio serve --transport NAME``, by name: see :class:`mcptrio.serving.Transport`.

        Called only if a transport with such a name is requested.
        """


HOOKS: Final = ("setup", "lifespan", "doctor", "transports")


def lifespan(function: F) -> F:
    """Mark an async generator function that opens something with the server, yields once, and closes it at the end.

    It may take ``server``, a :class:`Registrar`, and ``config``. The yielded value is ``ctx.state`` in the plugin's
    handlers. It runs in its own task, so its ``yield`` may be within nurseries and cancel scopes. A function that
    returns an async context manager can be marked as well.

    Raises:
        TypeError: The function is a coroutine function, or not a function.
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        kind = "a coroutine function" if callable(function) else type(function).__name__
        raise TypeError(f"@lifespan: expected an async generator function that yields once, got {kind}")
    marked: F = hookimpl(specname="lifespan")(function)
    return marked
