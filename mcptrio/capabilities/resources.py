"""Resources: their lists, and ``resources/read``; subscriptions are next door.

A plugin over the hooks like any other.
The one rule: a fixed URI wins over a template, a more specific template over a less specific one, and a variable never
holds a path that climbs.

Source: MCP 2026-07-28, server/resources; RFC 6570.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import getdoc
from typing import Any
from urllib.parse import urlsplit

from attrs import define

from mcptrio.capabilities.authorization import Component
from mcptrio.capabilities.calls import call
from mcptrio.capabilities.contents import contents_of
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.host import Host
from mcptrio.capabilities.marks import ResourceMark
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.pages import Pages
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.tool_names import with_names
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
from mcptrio.runtime.dispatch import Handler
from mcptrio.runtime.request_scope import RequestScope
from mcptrio.schema.docstrings import parse_docstring
from mcptrio.schema.text_arguments import convert_text
from mcptrio.schema.uri_templates import URITemplate

__all__ = ["ResourceEntry", "Resources"]

URI_LENGTH = 8192


@define(eq=False, slots=True)
class ResourceEntry:
    """A registered resource, or a family of them."""

    key: str
    """The URI, or the template."""
    owner: Owner
    function: Function
    mark: ResourceMark
    template: URITemplate | None
    listed: Resource | ResourceTemplate

    @property
    def scopes(self) -> frozenset[str]:
        return self.mark.scopes


class Resources:
    def __init__(self, host: Host) -> None:
        self._host = host

        def changed() -> None:
            host.subscriptions.changed("resources")

        self.registry: Registry[ResourceEntry] = Registry("resource", changed, host)
        self.templates: Registry[ResourceEntry] = Registry("resource template", changed, host)
        size = host.settings.page_size
        self._pages = Pages(self.registry, "resources", self._listed, size=size)
        self._template_pages = Pages(self.templates, "resourceTemplates", self._listed_templates, size=size)
        self.handlers: dict[str, Handler] = {
            "resources/list": self._list,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
        }

    def register(self, function: Callable[..., Any], mark: ResourceMark, owner: Owner) -> str:
        """Add a resource or a template. Returns its URI.

        Raises:
            TypeError, ValueError: the mark, the template or the signature is wrong.
            Duplicate: the URI is taken.
        """
        entry = _entry(function, mark, owner)
        (self.registry if entry.template is None else self.templates).add(entry)
        return entry.key

    async def _list(self, scope: RequestScope, params: ListResourcesParams) -> dict[str, Any]:
        return self._pages.page(scope.request.peer.revision, params.cursor, self._visible(scope))

    async def _list_templates(self, scope: RequestScope, params: ListResourceTemplatesParams) -> dict[str, Any]:
        return self._template_pages.page(scope.request.peer.revision, params.cursor, self._visible(scope))

    def may_watch(self, uri: str, scope: RequestScope) -> bool:
        """Whether whoever asks may be told of changes of it. What nobody offers (yet) is nobody's secret."""
        if not self._host.access.judges:
            return True
        entry = self.at(uri)
        return entry is None or self._host.access.may_use(self.component(entry), scope.principal)

    def _visible(self, scope: RequestScope) -> Callable[[ResourceEntry], bool] | None:
        return partial(self._may_list, scope) if self._host.access.judges else None

    def _may_list(self, scope: RequestScope, entry: ResourceEntry) -> bool:
        return self._host.access.may_list(self.component(entry), scope.principal)

    @staticmethod
    def component(entry: ResourceEntry) -> Component:
        meta = entry.listed.meta or {}
        return Component(kind="resource", name=entry.key, plugin=entry.owner.plugin, meta=meta, scopes=entry.scopes)

    def at(self, uri: str) -> ResourceEntry | None:
        """What is read there, if anything is."""
        try:
            return self._find(uri)[0]
        except (ResourceNotFound, InvalidParams):
            return None

    def _listed(self, entries: list[ResourceEntry], cursor: str | None) -> ListResourcesResult:
        listed = tuple(entry.listed for entry in entries if isinstance(entry.listed, Resource))
        return ListResourcesResult(resources=listed, next_cursor=cursor, ttl_ms=self._host.settings.list_ttl_ms)

    def _listed_templates(self, entries: list[ResourceEntry], cursor: str | None) -> ListResourceTemplatesResult:
        listed = tuple(entry.listed for entry in entries if isinstance(entry.listed, ResourceTemplate))
        return ListResourceTemplatesResult(
            resource_templates=listed, next_cursor=cursor, ttl_ms=self._host.settings.list_ttl_ms
        )

    async def _read(self, scope: RequestScope, params: ReadResourceParams) -> ReadResourceResult | InputRequiredResult:
        entry, values = self._find(params.uri)
        if not self._host.access.check_use(self.component(entry), scope.principal):
            raise ResourceNotFound(params.uri)
        work = partial(
            call,
            scope,
            self._host,
            entry.function,
            values,
            label=entry.key,
            owner=entry.owner,
            timeout=entry.mark.timeout,
        )
        outcome = await run_guarded(work)
        if not isinstance(outcome, Done):
            if isinstance(outcome.error, ToolError):
                # Resources have no `isError`: what the author meant for the reader is the error's message.
                message = with_names(str(outcome.error), entry.owner.tool_name)
                raise InvalidParams(message, data={"uri": params.uri}) from outcome.error
            raise outcome.error
        value = outcome.value
        if isinstance(value, ReadResourceResult | InputRequiredResult):
            return value
        contents = contents_of(value, params.uri, entry.mark.mime_type)
        return ReadResourceResult(contents=contents, ttl_ms=entry.mark.ttl_ms, cache_scope=entry.mark.cache_scope)

    def _find(self, uri: str) -> tuple[ResourceEntry, dict[str, Any]]:
        if len(uri) > URI_LENGTH:
            raise InvalidParams(f"expected a URI of at most {URI_LENGTH} characters, got {len(uri)}")
        entry = self.registry.get(uri)
        if entry is not None:
            return entry, {"uri": uri} if entry.function.arguments is None else {}
        matches = [
            (candidate.template.specificity, candidate, found)
            for candidate in self.templates
            if candidate.template is not None and (found := candidate.template.match(uri)) is not None
        ]
        for _, candidate, found in sorted(matches, key=lambda match: match[0], reverse=True):
            texts = {name: value for name, value in found.items() if value is not None}
            if candidate.function.arguments is None:
                return candidate, {"uri": uri}
            try:
                return candidate, convert_text(candidate.function.arguments, texts)
            except InvalidParams:
                continue
        raise ResourceNotFound(uri)


def _entry(function: Callable[..., Any], mark: ResourceMark, owner: Owner) -> ResourceEntry:
    template = URITemplate(mark.uri) if "{" in mark.uri else None
    if not urlsplit(mark.uri.partition("{")[0]).scheme:
        raise ValueError(f"expected a URI with a scheme, got {mark.uri!r}")
    if mark.listed is not None:
        relayed = Function(function, raw=True)
        return ResourceEntry(
            key=mark.uri, owner=owner, function=relayed, mark=mark, template=template, listed=mark.listed
        )
    called = Function(function)
    assert called.arguments is not None
    variables = frozenset(template.variables) if template is not None else frozenset[str]()
    parameters = frozenset(called.arguments.schema.get("properties", {}))
    required = frozenset(called.arguments.schema.get("required", ()))
    if not required <= variables or not variables <= parameters:
        raise TypeError(
            f"resource {mark.uri}: expected the function's parameters to be the template's variables "
            f"{sorted(variables)}, got {sorted(parameters)}"
        )
    name = mark.name or str(getattr(function, "__name__", mark.uri))
    description = mark.description or parse_docstring(getdoc(function)).description or None
    meta = dict(mark.meta) if mark.meta is not None else None
    listed: Resource | ResourceTemplate
    if template is None:
        listed = Resource(
            uri=mark.uri,
            name=name,
            title=mark.title,
            description=description,
            mime_type=mark.mime_type,
            annotations=mark.annotations,
            size=mark.size,
            icons=mark.icons,
            meta=meta,
        )
    else:
        listed = ResourceTemplate(
            uri_template=mark.uri,
            name=name,
            title=mark.title,
            description=description,
            mime_type=mark.mime_type,
            annotations=mark.annotations,
            icons=mark.icons,
            meta=meta,
        )
    return ResourceEntry(key=mark.uri, owner=owner, function=called, mark=mark, template=template, listed=listed)
