"""The plugin: reads the documents, and registers a tool for each operation, or two tools that search and call.

Documents in files are read when the plugin is registered; documents at URLs are fetched when the server starts. An
invalid document affects only its own API.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

import trio
from attrs import define, field

from mcptrio import Context, PluginSetup, Registrar, hookimpl, lifespan, resource
from mcptrio.types import CallToolResult

from .config import SAFE_METHODS, Api, Config
from .document_download import fetch_document
from .documents import Document, read_document
from .operation_caller import OperationCaller
from .operations import DocumentReading, Operation, read_operation, read_operations
from .problems import DocumentError, DocumentProblem, shorten
from .reports import ApiReport, Report
from .search import FoundOperation, OperationIndex
from .search_tools import SearchTools

__all__ = ["OpenAPI"]

_log = logging.getLogger(__name__)

_SERVER_TIMEOUT_MARGIN = 5.0
"""Seconds by which the server's timeout exceeds that of the API, whose error is more precise."""
_MAX_LOGGED_PROBLEMS = 20
"""Maximum number of problems of one document that are logged; the report has all of them."""


@define(eq=False)
class _State:
    """The state of one API."""

    document: Document | None = None
    base_urls: tuple[str, ...] = ()
    tools: dict[str, str] = field(factory=dict)
    """The method and path, or the number of operations, by the name of the tool for clients."""
    problems: list[DocumentProblem] = field(factory=list)


class OpenAPI:
    """The configured APIs, their tools and their report.

    Args:
        config: The APIs and their limits.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._states = {name: _State() for name in config.apis}
        self._callers: dict[str, OperationCaller] = {}

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """Read the documents that are files, and register their operations."""
        for name, api in self._config.apis.items():
            if api.file is not None:
                self._register_document(server.add_tool, name, _load(api, self._config))

    @resource("openapi:///apis", name="openapi_apis", title="APIs", mime_type="application/json")
    async def apis(self) -> Report:
        """The APIs: their documents, base URLs and tools, and the parts of the documents that could not be used."""
        return Report(apis=tuple(self._report(name) for name in self._config.apis))

    @lifespan
    async def opened(self, server: Registrar) -> AsyncGenerator[None]:
        """Fetch the documents at URLs, and close all connections at the end."""
        added: list[str] = []

        def register(function: Callable[..., Any], **options: Any) -> str:
            added.append(server.add_tool(function, **options))
            return added[-1]

        fetched: dict[str, Document | DocumentProblem] = {}

        async def fetch(name: str, api: Api) -> None:
            try:
                fetched[name] = await fetch_document(api, self._config)
            except DocumentError as error:
                fetched[name] = DocumentProblem(pointer=error.pointer, text=error.text, lost="everything")

        async with trio.open_nursery() as nursery:
            for name, api in self._config.apis.items():
                if api.url is not None:
                    nursery.start_soon(fetch, name, api)
        try:
            for name in self._config.apis:
                if name in fetched:
                    self._register_document(register, name, fetched[name])
            yield
        finally:
            for tool in added:
                server.remove_tool(tool)
            async with trio.open_nursery() as nursery:
                while self._callers:
                    nursery.start_soon(self._callers.popitem()[1].aclose)

    def _register_document(self, register: Callable[..., str], name: str, document: Document | DocumentProblem) -> None:
        state = self._states[name]
        if isinstance(document, DocumentProblem):
            state.problems = [document]
        else:
            state.document = document
            reading = read_operations(document, name, self._config)
            used = [operation.base_url for operation in reading.operations]
            state.base_urls = tuple(dict.fromkeys(used or ([reading.base_url] if reading.searchable else [])))
            state.problems = list(reading.problems)
            for operation in reading.operations:
                self._add(register, state, operation)
            if reading.searchable:
                self._add_search(register, state, name, reading)
        for problem in state.problems[:_MAX_LOGGED_PROBLEMS]:
            _log.warning("%s: %s", name, problem)
        if len(state.problems) > _MAX_LOGGED_PROBLEMS:
            more = len(state.problems) - _MAX_LOGGED_PROBLEMS
            _log.warning("%s: %d more problems; the resource openapi:///apis has them", name, more)

    def _add_search(self, register: Callable[..., str], state: _State, name: str, reading: DocumentReading) -> None:
        document = state.document
        assert document is not None

        def read(found: FoundOperation) -> Operation:
            # The problems are not collected, because an operation may be read many times. The tools report its errors.
            return read_operation(document, name, self._config, reading.base_url, found.location, [])

        index = OperationIndex(reading.searchable, f"{name}_")
        tools = SearchTools(shorten(document.title, 80) or name, index, read, partial(self._caller, name))
        is_safe = all(location.method in SAFE_METHODS for location in reading.searchable)
        count = f"{len(index)} operations"
        self._register(
            register,
            state,
            tools.find,
            f"find in {count}",
            name=f"{name}_find_operation",
            description=tools.find_description,
            read_only=True,
            open_world=False,
        )
        self._register(
            register,
            state,
            tools.call,
            f"call one of {count}",
            name=f"{name}_call_operation",
            description=tools.call_description,
            read_only=is_safe,
            destructive=not is_safe,
            open_world=True,
            timeout=self._config.apis[name].timeout + _SERVER_TIMEOUT_MARGIN,
        )

    def _add(self, register: Callable[..., str], state: _State, operation: Operation) -> None:
        label = f"{operation.method} {operation.path}"
        self._register(
            register,
            state,
            _OperationTool(self._caller, operation),
            label,
            pointer=operation.pointer,
            name=operation.tool,
            title=operation.title,
            description=operation.description,
            read_only=operation.is_safe,
            # A document does not state whether a POST, PUT or PATCH is destructive, so assume that it is.
            destructive=not operation.is_safe,
            idempotent=operation.is_idempotent,
            open_world=True,
            timeout=self._config.apis[operation.api].timeout + _SERVER_TIMEOUT_MARGIN,
            input_schema=operation.input_schema,
            output_schema=operation.output_schema,
        )

    def _register(
        self,
        register: Callable[..., str],
        state: _State,
        function: Callable[..., Any],
        label: str,
        *,
        pointer: str = "#",
        **options: Any,
    ) -> None:
        try:
            state.tools[register(function, **options)] = label
        except ValueError as error:
            # With the configured prefix, the name is too long, or another plugin has the same name.
            state.problems.append(DocumentProblem(pointer=pointer, text=shorten(str(error), 400), lost=label))

    def _caller(self, name: str) -> OperationCaller:
        caller = self._callers.get(name)
        if caller is None:
            caller = self._callers[name] = OperationCaller(name, self._config.apis[name])
        return caller

    def _report(self, name: str) -> ApiReport:
        state = self._states[name]
        return ApiReport(
            name=name,
            title=state.document.title if state.document is not None else "",
            base_urls=state.base_urls,
            tools=state.tools,
            problems=tuple(state.problems),
        )


class _OperationTool:
    """The function of the tool for one operation."""

    def __init__(self, caller: Callable[[str], OperationCaller], operation: Operation) -> None:
        self._caller = caller
        self._operation = operation

    async def __call__(self, ctx: Context, the_arguments: dict[str, Any]) -> CallToolResult:
        return await self._caller(self._operation.api).call(ctx, self._operation, the_arguments)


def _load(api: Api, config: Config) -> Document | DocumentProblem:
    assert api.file is not None
    try:
        with api.file.expanduser().open("rb") as file:
            data = file.read(config.max_document_bytes + 1)
    except OSError as error:
        text = f"expected the document in {api.file.name}, got none: {error.strerror or type(error).__name__}"
        return DocumentProblem(pointer="#", text=text, lost="everything")
    if len(data) > config.max_document_bytes:
        text = f"expected at most {config.max_document_bytes} bytes (max_document_bytes), got more"
        return DocumentProblem(pointer="#", text=text, lost="everything")
    try:
        return read_document(data)
    except DocumentError as error:
        return DocumentProblem(pointer=error.pointer, text=error.text, lost="everything")
