"""The resources and templates of a server, found by URI.

A fixed URI takes precedence over a template, and a more specific template over a less specific one. A variable never
contains a path with ``..``.

Source: RFC 6570.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from attrs import define

from mcptrio.capabilities.authorization import Component
from mcptrio.capabilities.decorators import ResourceMark
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.registry import Registry
from mcptrio.errors import InvalidParams, ResourceNotFound
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.runtime.event_loop import EventLoop
from mcptrio.schema.text_arguments import convert_text
from mcptrio.schema.uri_templates import URITemplate

__all__ = ["MAX_URI_CHARS", "ResourceEntry", "ResourceIndex"]

MAX_URI_CHARS = 8192


@define(eq=False, slots=True)
class ResourceEntry:
    """A registered resource or resource template."""

    key: str
    """The URI or the URI template."""
    owner: Owner
    function: Function
    mark: ResourceMark
    template: URITemplate | None
    listed: Resource | ResourceTemplate

    @property
    def scopes(self) -> frozenset[str]:
        return self.mark.scopes

    @property
    def component(self) -> Component:
        """The entry as authorizers see it."""
        return Component(
            kind="resource", name=self.key, plugin=self.owner.plugin, meta=self.listed.meta or {}, scopes=self.scopes
        )


class ResourceIndex:
    """The resources and the templates of a server."""

    def __init__(self, loop: EventLoop) -> None:
        self.resources: Registry[ResourceEntry] = Registry("resource", loop)
        self.templates: Registry[ResourceEntry] = Registry("resource template", loop)

    def register(self, function: Callable[..., Any], mark: ResourceMark, owner: Owner) -> str:
        """Add a resource or a template. Returns its URI.

        Raises:
            TypeError, ValueError: The mark, the template or the signature is wrong.
            Duplicate: The URI is taken.
        """
        entry = _entry(function, mark, owner)
        (self.resources if entry.template is None else self.templates).add(entry)
        return entry.key

    def get(self, uri: str) -> ResourceEntry | None:
        """Return the entry for a URI, if there is one."""
        try:
            return self.find(uri)[0]
        except (ResourceNotFound, InvalidParams):
            return None

    def find(self, uri: str) -> tuple[ResourceEntry, dict[str, Any]]:
        """Return the entry for a URI, and the arguments of its function.

        Raises:
            InvalidParams: The URI is too long.
            ResourceNotFound: No entry matches.
        """
        if len(uri) > MAX_URI_CHARS:
            raise InvalidParams(f"expected a URI of at most {MAX_URI_CHARS} characters, got {len(uri)}")
        entry = self.resources.get(uri)
        # The function of a mounted resource takes the URI. Any other function of a fixed URI takes no arguments.
        if entry is not None:
            return entry, {"uri": uri} if entry.function.arguments is None else {}
        matches = [
            (candidate.template.specificity, candidate, variables)
            for candidate in self.templates
            if candidate.template is not None and (variables := candidate.template.match(uri)) is not None
        ]
        for _, candidate, variables in sorted(matches, key=lambda match: match[0], reverse=True):
            texts = {name: value for name, value in variables.items() if value is not None}
            if candidate.function.arguments is None:
                return candidate, {"uri": uri}
            try:
                return candidate, convert_text(candidate.function.arguments, texts)
            except InvalidParams:
                # `{id}` of type int does not match "abc". A less specific template may match.
                continue
        raise ResourceNotFound(uri)


def _entry(function: Callable[..., Any], mark: ResourceMark, owner: Owner) -> ResourceEntry:
    template = URITemplate(mark.uri) if "{" in mark.uri else None
    # The scheme must not be a variable, because the template would match every URI.
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
    # A variable without a parameter would be ignored, and a required parameter without a variable would get no value.
    if not required <= variables or not variables <= parameters:
        raise TypeError(
            f"resource {mark.uri}: expected the function's parameters to be the template's variables "
            f"{sorted(variables)}, got {sorted(parameters)}"
        )
    name = mark.name or str(getattr(function, "__name__", mark.uri))
    shown = {
        "name": name,
        "mime_type": mark.mime_type,
        "annotations": mark.annotations,
        **mark.display_members(function),
    }
    listed = (
        Resource(uri=mark.uri, size=mark.size, **shown)
        if template is None
        else ResourceTemplate(uri_template=mark.uri, **shown)
    )
    return ResourceEntry(key=mark.uri, owner=owner, function=called, mark=mark, template=template, listed=listed)
