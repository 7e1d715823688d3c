"""The marks of an object: checked, and made hook implementations, so that there is one mechanism.

Used by the plugin manager for every object that plugins bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import isclass, ismodule, isroutine
from typing import Any

from mcptrio.capabilities.marks import (
    CompletionMark,
    Mark,
    MethodMark,
    PromptMark,
    ResourceMark,
    ToolMark,
    marks_of,
)
from mcptrio.hookspecs import hookimpl

__all__ = ["Marked", "check_kind", "check_marked"]


class Marked:
    def __init__(self, plugin: object) -> None:
        self._marks = list(marks_of(plugin))

    def _of(self, kind: type[Mark]) -> Iterator[tuple[Callable[..., Any], Any]]:
        return ((function, mark) for function, mark in self._marks if isinstance(mark, kind))

    @hookimpl
    def register_tools(self, register: Callable[..., str]) -> None:
        for function, mark in self._of(ToolMark):
            register(function, mark=mark)

    @hookimpl
    def register_resources(self, register: Callable[..., str]) -> None:
        for function, mark in self._of(ResourceMark):
            register(function, mark=mark)

    @hookimpl
    def register_prompts(self, register: Callable[..., str]) -> None:
        for function, mark in self._of(PromptMark):
            register(function, mark=mark)

    @hookimpl
    def register_completions(self, register: Callable[..., str]) -> None:
        for function, mark in self._of(CompletionMark):
            register(function, mark=mark)

    @hookimpl
    def register_methods(self, register: Callable[..., None]) -> None:
        for function, mark in self._of(MethodMark):
            register(function, mark=mark)


def check_kind(object: object) -> None:
    """
    Raises:
        TypeError: it is a class, a function or a string, which cannot be a plugin.
    """
    if isclass(object):
        name = object.__name__
        raise TypeError(f"expected a module or an object as a plugin, got the class {name}: pass an instance, {name}()")
    if isroutine(object):
        name = getattr(object, "__name__", "function")
        raise TypeError(
            f"expected a module or an object as a plugin, got the function {name}: pass its module, or call"
            f" server.add_tool({name})"
        )
    if isinstance(object, str):
        raise TypeError(
            f"expected a module or an object as a plugin, got the string {object!r}: import the module and pass that"
        )


def check_marked(object: object, hooks: Sequence[str]) -> str | None:
    """Find out whether a plugin offers anything, and which classes of a module it forgets.

    Args:
        hooks: those that it implements itself.

    Returns:
        A warning about classes whose marked methods are not served.

    Raises:
        ValueError: there is nothing to serve: no marked function and no hook.
    """
    classes = _unregistered(object) if ismodule(object) and not hooks else []
    forgotten = "; ".join(f"class {name} has marked methods ({', '.join(methods)})" for name, methods in classes)
    remedy = (
        f"no instance is registered: write a register_objects hook that calls register({classes[0][0]}())"
        if classes
        else ""
    )
    if hooks or next(marks_of(object), None) is not None:
        return f"{forgotten}, but {remedy}" if forgotten else None
    if forgotten:
        raise ValueError(f"nothing to serve: {forgotten}, but {remedy}")
    raise ValueError("nothing to serve: no function is marked; write @tool, @resource or @prompt above one")


def _unregistered(module: Any) -> list[tuple[str, list[str]]]:
    """The classes that a module defines and that have marked methods, with the names of these."""
    found = []
    for value in list(vars(module).values()):
        if isclass(value) and value.__module__ == module.__name__:
            methods = list(dict.fromkeys(function.__name__ for function, _ in marks_of(value)))
            if methods:
                found.append((value.__name__, methods))
    return found
