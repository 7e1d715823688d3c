"""Calls of authors' functions: async or sync, with or without a Context, with one result or a stream of items.

Tools, resources, prompts, completion and custom methods use this. An async function runs in the task of the call.
A sync function runs in a thread, under a limiter; if its request is cancelled, the thread is abandoned.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from typing import Any, cast

import trio

from mcptrio.capabilities.context import Context
from mcptrio.ground.guarded import call_with_scope_check
from mcptrio.runtime.work import Work
from mcptrio.schema.signatures import Arguments, bound_keywords

__all__ = ["Function", "unannotated_context"]

MAX_ITEMS = 10_000
"""The maximum number of items of a generator, because the result is one message. More are an error."""


class Function:
    """A function of an author.

    Args:
        skip: Parameters that are not arguments of the client.
        raw: Whether the function takes arguments that are not converted; ``arguments`` is then ``None``.

    Attributes:
        arguments: The parameters, without the Context.
        context: The name of the parameter for the Context, if any.

    Raises:
        TypeError: The function has parameters that cannot be passed by name.
    """

    def __init__(self, function: Callable[..., Any], *, skip: frozenset[str] = frozenset(), raw: bool = False) -> None:
        self.function = function
        self.context = _context_parameter(function)
        # The Context is not part of the schema.
        hidden = skip | ({self.context} if self.context else frozenset())
        self.arguments: Arguments | None = None if raw else Arguments.of(function, skip=hidden)
        inner = _innermost_function(function)
        # inspect looks neither through functools.partial (before Python 3.12) nor into __call__.
        self._is_async = inspect.iscoroutinefunction(inner)
        self._is_async_stream = inspect.isasyncgenfunction(inner)
        self.call_async = functools.partial(call_with_scope_check, function) if self._is_async else None
        """Calls an async function with all its keyword arguments; ``None`` for any other function."""
        self.in_thread = not (self._is_async or self._is_async_stream)
        """True for a sync function: each call needs a thread."""

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.function).parameters) - bound_keywords(self.function)

    async def __call__(self, values: dict[str, Any], context: Context | None, work: Work) -> Any:
        """Call the function with converted keyword arguments.

        Args:
            work: Counts the thread of the call, which may continue after a cancellation.
        """
        if self.context is not None:
            values[self.context] = context
        if self.call_async is not None:
            return await self.call_async(**values)
        if self._is_async_stream:
            return await call_with_scope_check(_collect, self.function(**values))
        call = functools.partial(_call, self.function, values)
        # Work has the methods that Trio's documentation requires of a limiter.
        limiter = cast(trio.CapacityLimiter, work)
        # The thread is abandoned when the call is cancelled. It keeps its place in the limiters until it has ended.
        (result,) = await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)
        # A sync wrapper of an async function returns an awaitable.
        if inspect.isawaitable(result):
            return await call_with_scope_check(_await_result, result)
        if inspect.isasyncgen(result):
            return await call_with_scope_check(_collect, result)
        return result


def unannotated_context(function: Callable[..., Any]) -> str | None:
    """Return the name of a parameter that seems to be a Context without its annotation, so clients must pass it."""
    if _context_parameter(function) is not None:
        return None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("ctx", "context") and parameter.annotation is parameter.empty:
            return parameter.name if parameter.name not in bound_keywords(function) else None
    return None


def _call(function: Callable[..., Any], values: dict[str, Any]) -> tuple[Any]:
    """Call the function in a thread. The result is in a tuple, because Trio refuses coroutines as results of
    threads."""
    result = function(**values)
    # A generator is run in the thread too, because its code may block.
    if not inspect.isgenerator(result):
        return (result,)
    items: list[Any] = []
    for item in result:
        # A thread cannot be cancelled from outside, so it checks between two items.
        trio.from_thread.check_cancelled()
        items.append(item)
        if len(items) > MAX_ITEMS:
            raise ValueError(f"expected at most {MAX_ITEMS} items from {function}, got more")
    return (items,)


async def _await_result(result: Awaitable[Any]) -> Any:
    return await result


async def _collect(stream: Any) -> list[Any]:
    items: list[Any] = []
    try:
        async for item in stream:
            items.append(item)
            if len(items) > MAX_ITEMS:
                raise ValueError(f"expected at most {MAX_ITEMS} items from {stream}, got more")
    finally:
        # Shielded, because the generator must clean up even if the call was cancelled.
        with trio.move_on_after(1, shield=True):
            await stream.aclose()
    return items


def _innermost_function(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    # An object with __call__
    if not inspect.isroutine(function) and not inspect.isclass(function):
        return type(function).__call__
    return function


def _context_parameter(function: Callable[..., Any]) -> str | None:
    # unwrap(), because the signature of a decorator's wrapper is often just `*args, **kwargs`.
    try:
        hints = typing.get_type_hints(inspect.unwrap(_innermost_function(function)))
    except NameError:
        # An annotation has a name that exists only for type checkers. The raw annotations still show a Context.
        hints = dict(getattr(_innermost_function(function), "__annotations__", {}))
    for name, hint in hints.items():
        if name == "return":
            continue
        if _is_context(hint) or any(_is_context(part) for part in typing.get_args(hint)):
            return name
    return None


def _is_context(hint: Any) -> bool:
    """Return whether an annotation is Context, with or without the type of its state."""
    if isinstance(hint, str):
        return re.fullmatch(r"(mcptrio\.)?Context(\[.*\])?( \| None)?", hint) is not None
    return hint is Context or typing.get_origin(hint) is Context
