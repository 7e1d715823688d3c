"""The marks of an object as hook implementations, so that there is one mechanism.

Used by the plugin manager for every object that plugins bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

__all__ = ["Marked"]


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
