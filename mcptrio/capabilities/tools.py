"""Tools: ``tools/list`` and ``tools/call``.

Plugins and programs fill the registry. A ToolError becomes a result with ``isError``, which the model reads. Any other
exception is logged with its traceback, and the model reads only that the tool has failed.

Source: MCP 2026-07-28, server/tools; 2025-11-25, server/tools, "Error Handling".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from mcptrio.capabilities.access import Access
from mcptrio.capabilities.calls import FunctionCaller
from mcptrio.capabilities.contents import blocks_of, bounded_result, cut_text, cut_texts, json_text
from mcptrio.capabilities.decorators import ToolMark
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.page_cache import PageCache
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.task_calls import TaskCalls, policy_of
from mcptrio.capabilities.task_tools import TaskTools, original_names
from mcptrio.capabilities.tool_entries import ToolEntry, make_entry
from mcptrio.capabilities.tool_failures import error_result, internal_error_result, result_of_exception
from mcptrio.errors import InvalidParams, MCPError
from mcptrio.ground.guarded import Done, Failure, run_guarded, run_guarded_sync
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import did_you_mean
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.fields import ABSENT, evolve
from mcptrio.protocol.model.input_required import InputRequiredResult
from mcptrio.protocol.model.tasks import CreateTaskResult
from mcptrio.protocol.model.tools import (
    CallToolParams,
    CallToolResult,
    ListToolsParams,
    ListToolsResult,
)
from mcptrio.protocol.revisions.revision import BadArguments
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.state import RuntimeState
from mcptrio.schema.argument_repair import repair_arguments
from mcptrio.tasks.call import supports_tasks
from mcptrio.tasks.tasks import Tasks

__all__ = ["Tools"]

_log = logging.getLogger("mcptrio.tools")

_REPAIRED = "mcptrio/repaired"
"""The member of ``_meta`` that names the arguments that were repaired."""


class Tools:
    """Handles ``tools/list`` and ``tools/call``. ``state`` runs the calls that become tasks.

    Args:
        on_task_tool: A function called when a tool is added whose calls may become tasks.
    """

    def __init__(
        self,
        registry: Registry[ToolEntry],
        access: Access,
        calls: FunctionCaller,
        settings: ServerSettings,
        state: RuntimeState,
        on_task_tool: Callable[[], None],
    ) -> None:
        self.registry = registry
        self._access = access
        self._calls = calls
        self._settings = settings
        self._state = state
        self._on_task_tool = on_task_tool
        size = settings.page_size
        self._pages = PageCache(registry, "tools", partial(self._list_result, fallback=False), size=size)
        self._fallback_pages = PageCache(registry, "tools", partial(self._list_result, fallback=True), size=size)
        self._has_fallback = False  # True once a tool with fallback tools was added
        self.tasks = Tasks(state, settings, execute=self._call_for_task, concurrency=self._concurrency)
        self._task_tools = TaskTools(self.tasks)
        self._task_calls = TaskCalls(self.tasks, settings, state.deadlines)
        self.handlers: dict[str, Handler] = {"tools/list": self._list, "tools/call": self._call}

    def register(self, function: Callable[..., Any], mark: ToolMark, owner: Owner) -> str:
        """Add a tool. Returns its name.

        Raises:
            TypeError, ValueError: The mark, the signature or a schema is wrong.
            Duplicate: The name is taken.
        """
        entry = make_entry(function, mark, owner, self._settings.limits.result_text)
        if mark.fallback_tools:
            policy = partial(policy_of, mark, owner, self._settings)
            pair = self._task_tools.pair(entry.tool, mark, partial(_keyword_arguments, entry), policy)
            made = (make_entry(call, how, owner, entry.max_text) for call, how in pair)
            entry.fallback = tuple(evolve(each, authorized_as=entry.key) for each in made)
        self.registry.add(entry)
        self._has_fallback |= bool(entry.fallback)
        if mark.task != "never":
            self._on_task_tool()
        return entry.key

    @property
    def has_task_tools(self) -> bool:
        """True if calls of any tool may become tasks."""
        return any(entry.mark.task != "never" for entry in self.registry.entries.values())

    def owner_of(self, name: str) -> str | None:
        """Return the plugin that offers a tool."""
        entry = self._find(name)
        return entry.owner.plugin if entry is not None else None

    def param_headers(self, name: str) -> Mapping[str, tuple[str, ...]]:
        entry = self._find(name)
        return entry.param_headers if entry is not None else {}

    def _find(self, name: str) -> ToolEntry | None:
        # Inlined Registry.get(), because every call of a tool uses this.
        entry = self.registry.entries.get(name) or self._find_fallback(name)
        return None if entry is None or entry.owner.is_hidden else entry

    def _find_fallback(self, name: str) -> ToolEntry | None:
        if not self._has_fallback:
            return None
        entries = [entry for each in original_names(name) if (entry := self.registry.entries.get(each)) is not None]
        return next((each for entry in entries for each in entry.fallback if each.key == name), None)

    async def _list(self, scope: RequestScope, params: ListToolsParams) -> dict[str, Any]:
        visible = partial(self._may_list, scope) if self._access.is_restricted else None
        peer = scope.request.peer
        pages = self._fallback_pages if self._has_fallback and not supports_tasks(peer) else self._pages
        return pages.page(peer.revision, params.cursor, visible)

    def _may_list(self, scope: RequestScope, entry: ToolEntry) -> bool:
        return self._access.may_list(entry.component, scope.principal)

    def _names(self, scope: RequestScope) -> Iterator[str]:
        """Yield the names of the tools that the client may list."""
        for key, entry in self.registry.entries.items():
            if not entry.owner.is_hidden and (not self._access.is_restricted or self._may_list(scope, entry)):
                yield key

    def _list_result(self, entries: list[ToolEntry], cursor: str | None, *, fallback: bool) -> ListToolsResult:
        shown = [each for entry in entries for each in (fallback and entry.fallback) or (entry,)]
        return ListToolsResult(
            tools=tuple(entry.tool for entry in shown),
            next_cursor=cursor,
            ttl_ms=self._settings.list_ttl_ms,
            cache_scope="private",
        )

    async def _call(
        self, scope: RequestScope, params: CallToolParams
    ) -> CallToolResult | InputRequiredResult | CreateTaskResult:
        entry = self._find(params.name)
        # The component is made only if there are scopes or authorizers, which few servers have.
        if entry is None or (
            (entry.mark.scopes or self._access.authorizers.functions)
            and not self._access.check_use(entry.component, scope.principal)
        ):
            raise InvalidParams(
                f"no such tool: {quote_name(params.name)}{did_you_mean(params.name, self._names(scope))}"
            )
        repairs: list[str] = []
        try:
            values = _keyword_arguments(entry, params.arguments)
        except InvalidParams as error:
            repaired = self._repair(entry, params.arguments)
            if repaired is not None:
                values, repairs = repaired
            elif scope.request.peer.revision.bad_arguments is BadArguments.TOOL_ERROR:
                return error_result(f"invalid arguments: {error.message}")
            else:
                raise
        if scope.task is None and (entry.mark.task != "never" or (params.task is not None and self.has_task_tools)):
            convert = partial(_task_result, scope, entry)
            if task := await self._task_calls.begin(scope, params, entry.mark, entry.owner, convert):
                return task
        work = partial(
            self._calls.run,
            scope,
            entry.function,
            values,
            label=entry.key,
            owner=entry.owner,
            timeout=entry.mark.timeout,
            limiter=entry.limiter,
        )
        result = _call_result(scope, entry, await run_guarded(work))
        return _with_repairs(result, repairs) if repairs else result

    def _repair(self, entry: ToolEntry, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]] | None:
        """Return the values for the function, and the paths of the repaired arguments; ``None`` if no repair fits."""
        if not self._settings.repair_arguments:
            return None
        repaired, places = repair_arguments(arguments, entry.tool.input_schema)
        try:
            return (_keyword_arguments(entry, repaired), places) if places else None
        except InvalidParams:
            return None

    async def _call_for_task(self, scope: RequestScope, params: CallToolParams) -> CallToolResult:
        return _require_call_result(params.name, await self._call(scope, params))

    def _concurrency(self) -> dict[str, int]:
        """Return the tools whose tasks this process may claim, each with its concurrency; 0 for no limit."""
        entries = self.registry.entries.items()
        return {
            key: entry.mark.concurrency or 0
            for key, entry in entries
            if entry.mark.task != "never" and not entry.owner.is_hidden
        }


def _keyword_arguments(entry: ToolEntry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments for the function of a tool.

    Raises:
        InvalidParams: The arguments are invalid.
    """
    if entry.input_validator is not None:
        entry.input_validator.validate(arguments)
    elif entry.dict_parameter is None:
        assert entry.function.arguments is not None
        return entry.function.arguments.convert(arguments)
    if entry.dict_parameter is not None:
        return {entry.dict_parameter: arguments}
    return {name: value for name, value in arguments.items() if name in entry.function.parameters}


def _call_result(
    scope: RequestScope, entry: ToolEntry, outcome: Done[Any] | Failure
) -> CallToolResult | InputRequiredResult | CreateTaskResult:
    if isinstance(outcome, Done):
        return _result(entry, outcome.value)
    return result_of_exception(scope, entry.key, entry.owner, outcome.error)


def _task_result(scope: RequestScope, entry: ToolEntry, outcome: Done[Any] | Failure) -> CallToolResult:
    return _require_call_result(entry.key, _call_result(scope, entry, outcome))


def _require_call_result(name: str, result: CallToolResult | InputRequiredResult | CreateTaskResult) -> CallToolResult:
    if isinstance(result, CallToolResult):
        return result
    raise MCPError(
        f"expected a result of {name}, got {result.result_type}: a task cannot repeat its call with the answers"
    )


def _result(entry: ToolEntry, value: Any) -> CallToolResult | InputRequiredResult | CreateTaskResult:
    try:
        if isinstance(value, CallToolResult):
            if entry.output_validator is not None and not value.is_error:
                _check_output(entry, value.structured_content)
            return bounded_result(value, entry.max_text)
        if isinstance(value, InputRequiredResult | CreateTaskResult):
            return value
        if entry.output_validator is not None:
            _check_output(entry, value)
            return _structured_result(entry, value, value)
        if entry.output.is_structured:
            return _structured_result(entry, value, entry.output.encode(value))
        if type(value) is str and len(value) <= entry.max_text:
            return CallToolResult(content=(TextContent(text=value),))
        return CallToolResult(content=cut_texts(blocks_of(value), entry.max_text))
    except TypeError as error:
        return internal_error_result(entry.key, error)


def _structured_result(entry: ToolEntry, value: Any, encoded: Any) -> CallToolResult:
    text = encoded if type(encoded) is str else ""
    if entry.mark.text is not None:
        rendered = run_guarded_sync(entry.mark.text, value)
        if isinstance(rendered, Failure):
            return internal_error_result(entry.key, rendered.error)
        text = rendered.value
    elif not text:
        text = json_text(encoded)
    text = cut_text(text, entry.max_text)
    return CallToolResult(content=(TextContent(text=text),), structured_content=encoded)


def _with_repairs(
    result: CallToolResult | InputRequiredResult | CreateTaskResult, repairs: list[str]
) -> CallToolResult | InputRequiredResult | CreateTaskResult:
    """Return a result that names the repaired arguments in ``_meta``."""
    if not isinstance(result, CallToolResult):
        return result
    return evolve(result, meta={**(result.meta or {}), _REPAIRED: repairs})


def _check_output(entry: ToolEntry, value: Any) -> None:
    assert entry.output_validator is not None
    try:
        if value is ABSENT:
            raise InvalidParams("expected structured content, got none")
        entry.output_validator.validate(value)
    except InvalidParams as error:
        _log.error("%s: the result does not match its output schema: %s", entry.key, error.message)
        raise MCPError(f"the result of {entry.key} does not match its output schema") from error
