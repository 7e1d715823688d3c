"""Completion: suggestions for the argument of a prompt or a resource template.

Source: MCP 2026-07-28, server/utilities/completion.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from mcptrio.protocol.model.base import Params, Result
from mcptrio.protocol.model.fields import field, model

__all__ = [
    "CompleteParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "CompletionReference",
    "PromptReference",
    "ResourceTemplateReference",
]


@model(tag="type")
class PromptReference:
    """Refers to an argument of a prompt."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str = field()
    title: str | None = field(default=None, since="2025-06-18")


@model(tag="type")
class ResourceTemplateReference:
    """Refers to a variable of a resource template."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str = field()
    """A URI, or a URI template."""


CompletionReference: TypeAlias = PromptReference | ResourceTemplateReference


@model
class CompletionArgument:
    """The argument, and the text typed so far."""

    name: str = field()
    value: str = field()


@model
class CompletionContext:
    """The arguments that already have values."""

    arguments: dict[str, str] = field(factory=dict)


@model
class Completion:
    """The suggestions, best first."""

    values: tuple[str, ...] = field()
    """At most 100 suggestions."""
    total: int | None = field(default=None)
    has_more: bool | None = field(default=None)


@model
class CompleteParams(Params):
    """A request for completions."""

    ref: CompletionReference = field()
    argument: CompletionArgument = field()
    context: CompletionContext | None = field(default=None, since="2025-06-18")


@model
class CompleteResult(Result):
    """The answer to ``completion/complete``."""

    completion: Completion = field()
