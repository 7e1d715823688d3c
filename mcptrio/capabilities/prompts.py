"""Prompts: ``prompts/list`` and ``prompts/get``.

Plugins and programs fill the registry.

Source: MCP 2026-07-28, server/prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define

from mcptrio.capabilities.access import Access
from mcptrio.capabilities.authorization import Component
from mcptrio.capabilities.calls import FunctionCaller
from mcptrio.capabilities.contents import blocks_of
from mcptrio.capabilities.decorators import PromptMark
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.page_cache import PageCache
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.tool_names import resolve_tool_names
from mcptrio.errors import InvalidParams, ToolError
from mcptrio.ground.guarded import Done, run_guarded
from mcptrio.ground.quoting import quote_name
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import InputRequiredResult
from mcptrio.protocol.model.prompts import (
    GetPromptParams,
    GetPromptResult,
    ListPromptsParams,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
)
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.settings import ServerSettings
from mcptrio.schema.text_arguments import convert_text

__all__ = ["PromptEntry", "Prompts"]


@define(eq=False, slots=True)
class PromptEntry:
    """A registered prompt."""

    key: str
    owner: Owner
    prompt: Prompt
    function: Function
    mark: PromptMark

    @property
    def scopes(self) -> frozenset[str]:
        return self.mark.scopes

    @property
    def component(self) -> Component:
        """The entry as authorizers see it."""
        return Component(
            kind="prompt", name=self.key, plugin=self.owner.plugin, meta=self.prompt.meta or {}, scopes=self.scopes
        )


class Prompts:
    """Handles ``prompts/list`` and ``prompts/get``."""

    def __init__(
        self, registry: Registry[PromptEntry], access: Access, calls: FunctionCaller, settings: ServerSettings
    ) -> None:
        self.registry = registry
        self._access = access
        self._calls = calls
        self._ttl_ms = settings.list_ttl_ms
        self._pages = PageCache(registry, "prompts", self._list_result, size=settings.page_size)
        self.handlers: dict[str, Handler] = {"prompts/list": self._list, "prompts/get": self._get}

    def register(self, function: Callable[..., Any], mark: PromptMark, owner: Owner) -> str:
        """Add a prompt. Returns its name.

        Raises:
            TypeError, ValueError: The mark or the signature is wrong.
            Duplicate: The name is taken.
        """
        entry = _entry(function, mark, owner)
        self.registry.add(entry)
        return entry.key

    async def _list(self, scope: RequestScope, params: ListPromptsParams) -> dict[str, Any]:
        visible = self._access.visible(scope.principal)
        return self._pages.page(scope.request.peer.revision, params.cursor, visible)

    def _list_result(self, entries: list[PromptEntry], cursor: str | None) -> ListPromptsResult:
        return ListPromptsResult(
            prompts=tuple(entry.prompt for entry in entries), next_cursor=cursor, ttl_ms=self._ttl_ms
        )

    async def _get(self, scope: RequestScope, params: GetPromptParams) -> GetPromptResult | InputRequiredResult:
        entry = self.registry.get(params.name)
        # A hidden prompt gets the same message as an unknown one.
        if entry is None or not self._access.check_use(entry.component, scope.principal):
            raise InvalidParams(f"no such prompt: {quote_name(params.name)}")
        if entry.function.arguments is None:
            # A mounted prompt, whose server validates the arguments.
            values: dict[str, Any] = {"arguments": params.arguments}
        else:
            values = convert_text(entry.function.arguments, params.arguments)
        work = partial(
            self._calls.run,
            scope,
            entry.function,
            values,
            label=entry.key,
            owner=entry.owner,
            timeout=entry.mark.timeout,
        )
        outcome = await run_guarded(work)
        if not isinstance(outcome, Done):
            # The results of prompts have no isError, so the author's message becomes that of an error response.
            if isinstance(outcome.error, ToolError):
                message = resolve_tool_names(str(outcome.error), entry.owner.tool_name)
                raise InvalidParams(message) from outcome.error
            raise outcome.error
        if isinstance(outcome.value, GetPromptResult | InputRequiredResult):
            return outcome.value
        return GetPromptResult(messages=_messages(outcome.value), description=entry.prompt.description)


def _messages(value: Any) -> tuple[PromptMessage, ...]:
    """Convert a function's result to messages. Values other than messages become messages of the user."""
    if isinstance(value, PromptMessage):
        return (value,)
    if isinstance(value, list | tuple):
        return tuple(message for item in value for message in _messages(item))
    return tuple(PromptMessage(role="user", content=block) for block in blocks_of(value))


def _entry(function: Callable[..., Any], mark: PromptMark, owner: Owner) -> PromptEntry:
    name = mark.name or str(getattr(function, "__name__", ""))
    if not name:
        raise ValueError(f"expected a name for the prompt {function!r}")
    if mark.listed is not None:
        listed = evolve(mark.listed, name=name)
        return PromptEntry(key=name, owner=owner, prompt=listed, function=Function(function, raw=True), mark=mark)
    called = Function(function)
    assert called.arguments is not None
    schema = called.arguments.schema
    required = schema.get("required", ())
    prompt = Prompt(
        name=name,
        arguments=tuple(
            PromptArgument(name=argument, description=facts.get("description"), required=argument in required)
            for argument, facts in schema.get("properties", {}).items()
        ),
        **mark.display_members(function),
    )
    return PromptEntry(key=name, owner=owner, prompt=prompt, function=called, mark=mark)
