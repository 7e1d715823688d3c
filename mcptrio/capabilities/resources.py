"""Resources: ``resources/list``, ``resources/templates/list`` and ``resources/read``.

Plugins and programs fill the index. Subscriptions are in :mod:`mcptrio.capabilities.subscriptions`.

Source: MCP 2026-07-28, server/resources.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mcptrio.capabilities.access import Access
from mcptrio.capabilities.calls import FunctionCaller
from mcptrio.capabilities.contents import contents_of
from mcptrio.capabilities.page_cache import PageCache
from mcptrio.capabilities.resource_index import ResourceEntry, ResourceIndex
from mcptrio.capabilities.tool_names import resolve_tool_names
from mcptrio.errors import InvalidParams, ResourceNotFound, ToolError
from mcptrio.ground.guarded import Done, run_guarded
from mcptrio.protocol.model.input_required import InputRequiredResult
from mcptrio.protocol.model.resources import (
    ListResourcesParams,
    ListResourcesResult,
    ListResourceTemplatesParams,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.settings import ServerSettings

__all__ = ["Resources"]


class Resources:
    """Handles the lists of resources and templates, and ``resources/read``."""

    def __init__(self, index: ResourceIndex, access: Access, calls: FunctionCaller, settings: ServerSettings) -> None:
        self._index = index
        self._access = access
        self._calls = calls
        self._ttl_ms = settings.list_ttl_ms
        size = settings.page_size
        self._pages = PageCache(index.resources, "resources", self._list_result, size=size)
        self._template_pages = PageCache(index.templates, "resourceTemplates", self._templates_result, size=size)
        self.handlers: dict[str, Handler] = {
            "resources/list": self._list,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
        }

    async def _list(self, scope: RequestScope, params: ListResourcesParams) -> dict[str, Any]:
        visible = self._access.visible(scope.principal)
        return self._pages.page(scope.request.peer.revision, params.cursor, visible)

    async def _list_templates(self, scope: RequestScope, params: ListResourceTemplatesParams) -> dict[str, Any]:
        visible = self._access.visible(scope.principal)
        return self._template_pages.page(scope.request.peer.revision, params.cursor, visible)

    def _list_result(self, entries: list[ResourceEntry], cursor: str | None) -> ListResourcesResult:
        listed = tuple(entry.listed for entry in entries if isinstance(entry.listed, Resource))
        return ListResourcesResult(resources=listed, next_cursor=cursor, ttl_ms=self._ttl_ms)

    def _templates_result(self, entries: list[ResourceEntry], cursor: str | None) -> ListResourceTemplatesResult:
        listed = tuple(entry.listed for entry in entries if isinstance(entry.listed, ResourceTemplate))
        return ListResourceTemplatesResult(resource_templates=listed, next_cursor=cursor, ttl_ms=self._ttl_ms)

    async def _read(self, scope: RequestScope, params: ReadResourceParams) -> ReadResourceResult | InputRequiredResult:
        entry, values = self._index.find(params.uri)
        # A hidden resource gets the same error as an unknown URI, so that it cannot be found by trying.
        if not self._access.check_use(entry.component, scope.principal):
            raise ResourceNotFound(params.uri)
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
            if isinstance(outcome.error, ToolError):
                # The results of resources have no isError, so the author's message becomes that of an error response.
                message = resolve_tool_names(str(outcome.error), entry.owner.tool_name)
                raise InvalidParams(message, data={"uri": params.uri}) from outcome.error
            raise outcome.error
        value = outcome.value
        if isinstance(value, ReadResourceResult | InputRequiredResult):
            return value
        contents = contents_of(value, params.uri, entry.mark.mime_type)
        return ReadResourceResult(contents=contents, ttl_ms=entry.mark.ttl_ms, cache_scope=entry.mark.cache_scope)
