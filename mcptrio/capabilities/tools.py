"""Tools: ``tools/list`` and ``tools/call``.

Plugins and programs fill the registry. A ToolError becomes a result with ``isError``, which the model reads. Any other
exception is logged with its traceback, and the model learns only that the tool failed.

Source: MCP 2026-07-28, server/tools; 2025-11-25, server/tools, "Error Handling".
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from inspect import getdoc
from typing import Any

import trio
from attrs import define

from mcptrio.capabilities.access import Access
from mcptrio.capabilities.authorization import Component
from mcptrio.capabilities.calls import FunctionCaller
from mcptrio.capabilities.contents import BLOCKS, Blob, blocks_of, json_text
from mcptrio.capabilities.decorators import Header, ToolMark
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.page_cache import Pages
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.tool_names import with_names
from mcptrio.errors import InvalidParams, MCPError, MissingClientCapability, ToolError, URLElicitationRequired
from mcptrio.ground.guarded import Done, Failure, run_guarded
from mcptrio.ground.tracebacks import log_failure
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.fields import ABSENT, evolve
from mcptrio.protocol.model.input_required import InputRequiredResult
from mcptrio.protocol.model.resource_contents import BlobResourceContents, TextResourceContents
from mcptrio.protocol.model.tasks import TASKS_EXTENSION, CreateTaskResult
from mcptrio.protocol.model.tools import (
    CallToolParams,
    CallToolResult,
    ListToolsParams,
    ListToolsResult,
    Tool,
    ToolAnnotations,
)
from mcptrio.protocol.revisions.registry import MODERN_VERSIONS
from mcptrio.protocol.revisions.revision import BadArguments
from mcptrio.runtime.fair_limiter import FairLimiter
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.state import RuntimeState
from mcptrio.schema.docstrings import parse_docstring
from mcptrio.schema.signatures import OutputSchema
from mcptrio.schema.validation import Validator, check_header_annotations
from mcptrio.tasks.call import supports_tasks
from mcptrio.tasks.plan import AdoptionPlan
from mcptrio.tasks.tasks import TaskPolicy, Tasks

__all__ = ["ToolEntry", "Tools"]

_log = logging.getLogger("mcptrio.tools")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_RESULTS = (CallToolResult, InputRequiredResult, CreateTaskResult)
_MAX_DEFAULT_TTL = 86_400.0
"""Seconds of the longest life of a task whose tool does not say how long."""
_CONTENT = (*BLOCKS, Blob, CallToolResult, TextResourceContents, BlobResourceContents)


@define(eq=False, slots=True)
class ToolEntry:
    """A registered tool."""

    key: str
    owner: Owner
    tool: Tool
    function: Function
    mark: ToolMark
    output: OutputSchema
    input_validator: Validator | None
    output_validator: Validator | None
    param_headers: Mapping[str, tuple[str, ...]]
    limiter: FairLimiter | None
    """Where the tool bounds its own concurrency."""
    takes_dict: str | None
    """The one parameter that takes all arguments of a hand-written schema."""

    @property
    def scopes(self) -> frozenset[str]:
        return self.mark.scopes

    @property
    def component(self) -> Component:
        """The entry as authorizers see it."""
        return Component(
            kind="tool", name=self.key, plugin=self.owner.plugin, meta=self.tool.meta or {}, scopes=self.scopes
        )

    def values(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function.

        Raises:
            InvalidParams: The arguments do not fit.
        """
        if self.input_validator is not None:
            self.input_validator.validate(arguments)
        elif self.takes_dict is None:
            assert self.function.arguments is not None
            return self.function.arguments.convert(arguments)
        if self.takes_dict is not None:
            return {self.takes_dict: arguments}
        return {name: value for name, value in arguments.items() if name in self.function.parameters}


class Tools:
    """
    Args:
        state: Runs the calls that become tasks.
        on_task_tool: Called when a tool is added whose calls may become tasks.
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
        self._pages = Pages(registry, "tools", self._listed, size=settings.page_size)
        self.tasks = Tasks(state, settings, execute=self._call_for_task, concurrency=self._concurrency)
        self.handlers: dict[str, Handler] = {"tools/list": self._list, "tools/call": self._call}

    def register(self, function: Callable[..., Any], mark: ToolMark, owner: Owner) -> str:
        """Add a tool. Returns its name.

        Raises:
            TypeError, ValueError: The mark, the signature or a schema is wrong.
            Duplicate: The name is taken.
        """
        entry = _entry(function, mark, owner)
        self.registry.add(entry)
        if mark.task != "never":
            self._on_task_tool()
        return entry.key

    @property
    def has_task_tools(self) -> bool:
        """Whether calls of any tool may become tasks."""
        return any(entry.mark.task != "never" for entry in self.registry.entries.values())

    def owner_of(self, name: str) -> str | None:
        """The plugin that offers a tool."""
        entry = self._find(name)
        return entry.owner.plugin if entry is not None else None

    def param_headers(self, name: str) -> Mapping[str, tuple[str, ...]]:
        entry = self._find(name)
        return entry.param_headers if entry is not None else {}

    def _find(self, name: str) -> ToolEntry | None:
        # As Registry.get() does it: every call of a tool comes here.
        entry = self.registry.entries.get(name)
        return None if entry is None or entry.owner.is_kept_back else entry

    async def _list(self, scope: RequestScope, params: ListToolsParams) -> dict[str, Any]:
        visible = partial(self._may_list, scope) if self._access.judges else None
        return self._pages.page(scope.request.peer.revision, params.cursor, visible)

    def _may_list(self, scope: RequestScope, entry: ToolEntry) -> bool:
        return self._access.may_list(entry.component, scope.principal)

    def _listed(self, entries: list[ToolEntry], cursor: str | None) -> ListToolsResult:
        return ListToolsResult(
            tools=tuple(entry.tool for entry in entries),
            next_cursor=cursor,
            ttl_ms=self._settings.list_ttl_ms,
            cache_scope="private",
        )

    async def _call(
        self, scope: RequestScope, params: CallToolParams
    ) -> CallToolResult | InputRequiredResult | CreateTaskResult:
        entry = self._find(params.name)
        # Nearly always there is nothing to refuse, and then no component is made.
        if entry is None or (
            (entry.scopes or self._access.authorizers.functions)
            and not self._access.check_use(entry.component, scope.principal)
        ):
            raise InvalidParams(f"no such tool: {params.name}")
        try:
            values = entry.values(params.arguments)
        except InvalidParams as error:
            if scope.request.peer.revision.bad_arguments is BadArguments.TOOL_ERROR:
                return _failed(f"invalid arguments: {error.message}")
            raise
        if entry.mark.task != "never" and scope.task is None and (task := await self._as_task(scope, entry)):
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
        return _concluded(scope, entry, await run_guarded(work))

    # Calls that are tasks

    async def _as_task(self, scope: RequestScope, entry: ToolEntry) -> CreateTaskResult | None:
        """Make a task of a call, or let it become one later; ``None``: run it now.

        Raises:
            MissingClientCapability: The tool is for clients with tasks only, and this one has none.
        """
        has_tasks = supports_tasks(scope.request.peer)
        if entry.mark.task == "required" and not has_tasks:
            raise MissingClientCapability(
                f"{entry.key} takes long: it needs a client of {MODERN_VERSIONS[0]} with the extension"
                f" {TASKS_EXTENSION}",
                required={"extensions": {TASKS_EXTENSION: {}}},
            )
        if not has_tasks:
            return None
        if entry.mark.task == "required" or not self.tasks.runs_here:
            return await self.tasks.submit(scope, self._policy(entry))

        def convert(outcome: Done[Any] | Failure) -> CallToolResult:
            return _final(entry.key, _concluded(scope, entry, outcome))

        scope.plan = AdoptionPlan(
            self.tasks,
            scope,
            deadlines=self._state.deadlines,
            after=self._settings.timeouts.task_after,
            policy=partial(self._policy, entry),
            convert=convert,
        )
        return None

    def _policy(self, entry: ToolEntry) -> TaskPolicy:
        mark, limits = entry.mark, entry.owner.limits
        return TaskPolicy(
            ttl=mark.ttl if mark.ttl is not None else min(self._settings.timeouts.request, _MAX_DEFAULT_TTL),
            poll_interval=mark.poll_interval,
            resumable=mark.resumable,
            timeout=mark.timeout if mark.timeout is not None or limits is None else limits.timeout,
            is_queued=mark.concurrency is not None,
        )

    async def _call_for_task(self, scope: RequestScope, params: CallToolParams) -> CallToolResult:
        return _final(params.name, await self._call(scope, params))

    def _concurrency(self) -> dict[str, int]:
        """Return the tools whose tasks this process may claim, with the number that may run; 0 for any number."""
        entries = self.registry.entries.items()
        return {
            key: entry.mark.concurrency or 0
            for key, entry in entries
            if entry.mark.task != "never" and not entry.owner.is_kept_back
        }


def _concluded(
    scope: RequestScope, entry: ToolEntry, outcome: Done[Any] | Failure
) -> CallToolResult | InputRequiredResult | CreateTaskResult:
    if isinstance(outcome, Done):
        return _result(entry, outcome.value)
    return _failure(scope, entry, outcome.error)


def _final(name: str, result: CallToolResult | InputRequiredResult | CreateTaskResult) -> CallToolResult:
    if isinstance(result, CallToolResult):
        return result
    raise MCPError(f"expected a result of {name}, got {result.result_type}: a task cannot begin its call again")


def _result(entry: ToolEntry, value: Any) -> CallToolResult | InputRequiredResult | CreateTaskResult:
    if isinstance(value, _RESULTS):
        if isinstance(value, CallToolResult) and entry.output_validator is not None and not value.is_error:
            _check(entry, value.structured_content)
        return value
    try:
        if entry.output_validator is not None:
            _check(entry, value)
            return CallToolResult(content=(TextContent(text=json_text(value)),), structured_content=value)
        if entry.output.is_structured:
            encoded = entry.output.encode(value)
            text = encoded if type(encoded) is str else json_text(encoded)
            return CallToolResult(content=(TextContent(text=text),), structured_content=encoded)
        return CallToolResult(content=(TextContent(text=value),) if type(value) is str else blocks_of(value))
    except TypeError as error:
        return _broken(entry, error)


def _check(entry: ToolEntry, value: Any) -> None:
    assert entry.output_validator is not None
    try:
        if value is ABSENT:
            raise InvalidParams("expected structured content, got none")
        entry.output_validator.validate(value)
    except InvalidParams as error:
        _log.error("%s: the result does not fit its output schema: %s", entry.key, error.message)
        raise MCPError(f"the result of {entry.key} does not fit its output schema") from error


def _failure(scope: RequestScope, entry: ToolEntry, error: BaseException) -> CallToolResult:
    if isinstance(error, ToolError):
        return _failed(with_names(str(error), entry.owner.tool_name))
    if isinstance(error, URLElicitationRequired) and not scope.request.peer.revision.url_elicitation_error:
        urls = ", ".join(elicitation["url"] for elicitation in error.elicitations)
        return _failed(f"{error.message}: {urls}")
    if isinstance(error, MCPError):
        raise error
    if isinstance(error, trio.TooSlowError):
        _log.warning("%s took too long", entry.key, exc_info=error)
        return _failed(f"tool {entry.key} timed out")
    return _broken(entry, error)


def _broken(entry: ToolEntry, error: BaseException) -> CallToolResult:
    failure_id = log_failure(_log, error, "tool %s failed", entry.key)
    # The operator can install what is missing, so the answer says what kind of failure it is.
    why = " a library it needs cannot be imported on the server:" if isinstance(error, ImportError) else ""
    return _failed(f"error executing tool {entry.key}:{why} see id {failure_id} in the server's log")


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),), is_error=True)


def _entry(function: Callable[..., Any], mark: ToolMark, owner: Owner) -> ToolEntry:
    name = mark.name or str(getattr(function, "__name__", ""))
    if not _NAME.fullmatch(name):
        raise ValueError(f"expected a tool name of 1 to 128 characters A-Za-z0-9_.-, got {name!r}")
    if mark.concurrency is not None and mark.concurrency < 1:
        raise ValueError(f"tool {name}: expected a concurrency of at least 1, got {mark.concurrency}")
    if mark.task == "never" and (mark.ttl is not None or mark.resumable):
        raise ValueError(f'tool {name}: expected task="optional" or "required" with ttl or resumable, got "never"')
    if mark.listed is not None:
        return _relayed(function, mark, evolve(mark.listed, name=name), owner)
    called = Function(function, raw=mark.input_schema is not None)
    if mark.input_schema is not None:
        input_schema = dict(mark.input_schema)
        if input_schema.get("type") != "object":
            raise ValueError(f"tool {name}: expected an input schema of type object, got {input_schema.get('type')!r}")
        input_validator = Validator(input_schema)
        takes_dict = _takes_dict(called, input_schema)
    else:
        assert called.arguments is not None
        input_schema, input_validator, takes_dict = called.arguments.schema, None, None
        _put_headers(called.arguments.hints, input_schema)
    output = OutputSchema.of_function(function, content=_CONTENT) if mark.output_schema is None else _UNSTRUCTURED
    output_schema = dict(mark.output_schema) if mark.output_schema is not None else output.schema
    tool = Tool(
        name=name,
        title=mark.title,
        description=mark.description or parse_docstring(getdoc(function)).description or None,
        input_schema=input_schema,
        output_schema=output_schema,
        annotations=_annotations(mark),
        icons=mark.icons,
        meta=dict(mark.meta) if mark.meta is not None else None,
    )
    return ToolEntry(
        key=name,
        owner=owner,
        tool=tool,
        function=called,
        mark=mark,
        output=output,
        input_validator=input_validator,
        output_validator=Validator(output_schema) if mark.output_schema is not None and output_schema else None,
        param_headers=check_header_annotations(input_schema),
        limiter=FairLimiter(mark.concurrency) if mark.concurrency is not None else None,
        takes_dict=takes_dict,
    )


_UNSTRUCTURED = OutputSchema.of(None)


def _relayed(function: Callable[..., Any], mark: ToolMark, tool: Tool, owner: Owner) -> ToolEntry:
    """The tool of another server, which checks what goes in and what comes out."""
    return ToolEntry(
        key=tool.name,
        owner=owner,
        tool=tool,
        function=Function(function, raw=True),
        mark=mark,
        output=_UNSTRUCTURED,
        input_validator=None,
        output_validator=None,
        param_headers=check_header_annotations(tool.input_schema),
        limiter=FairLimiter(mark.concurrency) if mark.concurrency is not None else None,
        takes_dict="arguments",
    )


def _annotations(mark: ToolMark) -> ToolAnnotations | None:
    hints = (mark.read_only, mark.destructive, mark.idempotent, mark.open_world)
    if all(hint is None for hint in hints):
        return None
    return ToolAnnotations(
        title=mark.title,
        read_only_hint=mark.read_only,
        destructive_hint=mark.destructive,
        idempotent_hint=mark.idempotent,
        open_world_hint=mark.open_world,
    )


def _takes_dict(function: Function, schema: Mapping[str, Any]) -> str | None:
    free = [name for name in function.parameters if name != function.context]
    if len(free) == 1 and free[0] not in schema.get("properties", {}):
        return free[0]
    return None


def _put_headers(hints: Mapping[str, Any], schema: dict[str, Any]) -> None:
    for name, hint in hints.items():
        for item in getattr(hint, "__metadata__", ()):
            if isinstance(item, Header):
                schema["properties"][name]["x-mcp-header"] = item.name
