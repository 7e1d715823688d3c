"""What of a mounted server is offered here: taken up, changed and taken back as its lists change.

Fed with whole lists by the mount.
The one rule: what a list says is offered as it is, but for names; what cannot be offered is left out alone, and said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mcptrio.capabilities.context import Context
from mcptrio.capabilities.host import Host
from mcptrio.capabilities.uri_templates import URITemplate
from mcptrio.host.gathering import ListKind
from mcptrio.mounting.names import mounted_name
from mcptrio.mounting.options import MountOptions
from mcptrio.mounting.relay import Relay
from mcptrio.protocol.model.completion import Completion
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool

__all__ = ["Offers"]

_log = logging.getLogger("mcptrio.mounting.offers")


class Offers:
    """
    Args:
        server: as the plugin has it that mounts.
        name: of the mount.
        relay: carries the calls on.
    """

    def __init__(self, server: Host, name: str, options: MountOptions, relay: Relay) -> None:
        self._server = server
        self._name = name
        self._options = options
        self._prefix = name if options.prefix is None else options.prefix
        self._relay = relay
        self._offered: dict[ListKind, dict[str, tuple[Any, Callable[[], object]]]] = {}
        """By kind and by its own name or URI: as it was listed, and how to take it back."""
        self._templates: dict[str, URITemplate] = {}
        self._refused: set[tuple[str, str]] = set()
        self._own_names: dict[tuple[str, str], str] = {}
        self._scopes: Mapping[str, Sequence[str]] = {}
        """What is being taken asks for."""
        self._scoped: dict[ListKind, Mapping[str, Sequence[str]]] = {}

    def counts(self) -> dict[str, int]:
        """How many of each kind are offered."""
        return {kind: len(found) for kind, found in self._offered.items() if found}

    def has(self, uri: str) -> bool:
        """Whether a resource is of the mounted server's."""
        if uri in self._offered.get("resources", {}):
            return True
        return any(template.match(uri) is not None for template in self._templates.values())

    def own_name(self, kind: str, name: str) -> str | None:
        """What a ``tool`` or ``prompt`` is called there, by its name here; of a ``resource`` it is the same."""
        return name if kind == "resource" else self._own_names.get((kind, name))

    def take(
        self,
        kind: ListKind,
        items: Sequence[Any],
        *,
        completes: bool,
        scopes: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Offer what is listed, in the place of what was listed before.

        Args:
            completes: whether the server completes arguments.
            scopes: that some of them take, by their own names.
        """
        self._scopes = scopes or {}
        add: Callable[[Any], Callable[[], object]]
        if kind == "tools":
            wanted = {item.name: item for item in items if self._options.offers(item.name)}
            add = self._add_tool
        elif kind == "prompts":
            wanted = {item.name: item for item in items}
            add = lambda prompt: self._add_prompt(prompt, completes=completes)  # noqa: E731
        elif kind == "resources":
            wanted = {item.uri: item for item in items}
            add = self._add_resource
        else:
            wanted = {item.uri_template: item for item in items}
            add = lambda template: self._add_template(template, completes=completes)  # noqa: E731
        offered = self._offered.setdefault(kind, {})
        before = self._scoped.get(kind, {})
        self._scoped[kind] = self._scopes
        for key in [
            key
            for key, (item, _) in offered.items()
            if wanted.get(key) != item or before.get(key) != self._scopes.get(key)
        ]:
            _, take_back = offered.pop(key)
            take_back()
        # One whose name is as it is here comes before one whose name has to be made to fit.
        for key in sorted(wanted.keys() - offered.keys(), key=_order(wanted, kind == "tools")):
            try:
                offered[key] = wanted[key], add(wanted[key])
            except (TypeError, ValueError) as error:
                if (kind, key) not in self._refused:
                    self._refused.add((kind, key))
                    _log.warning("%s: %s %r is not offered: %s", self._name, kind.rstrip("s"), key, error)

    # Private

    def _add_tool(self, tool: Tool) -> Callable[[], object]:
        relay = self._relay

        async def call(context: Context, arguments: dict[str, Any]) -> Any:
            return await relay.call_tool(context, tool.name, arguments)

        hints = tool.annotations
        name = self._server.add_tool(
            call,
            name=mounted_name(self._prefix, tool.name),
            # Whether a call may be made a task is for the server that is called to say.
            listed=evolve(tool, execution=None),
            read_only=hints.read_only_hint if hints is not None else None,
            timeout=self._options.timeout,
            scopes=self._scopes.get(tool.name, ()),
        )
        self._own_names["tool", name] = tool.name

        def take_back() -> None:
            self._own_names.pop(("tool", name), None)
            self._server.remove_tool(name)

        return take_back

    def _add_prompt(self, prompt: Prompt, *, completes: bool) -> Callable[[], object]:
        relay = self._relay

        async def get(context: Context, arguments: dict[str, str]) -> Any:
            return await relay.read(context, "prompts/get", {"name": prompt.name, "arguments": arguments})

        name = mounted_name(self._prefix, prompt.name)
        scopes = self._scopes.get(prompt.name, ())
        self._server.add_prompt(get, name=name, listed=prompt, timeout=self._options.timeout, scopes=scopes)
        self._own_names["prompt", name] = prompt.name
        arguments = [each.name for each in prompt.arguments] if completes else []
        self._add_completions(name, {"type": "ref/prompt", "name": prompt.name}, arguments)

        def take_back() -> None:
            self._own_names.pop(("prompt", name), None)
            self._server.remove_prompt(name)
            self._remove_completions(name, arguments)

        return take_back

    def _add_resource(self, resource: Resource) -> Callable[[], object]:
        uri = self._server.add_resource(
            self._reader(),
            resource.uri,
            listed=resource,
            timeout=self._options.timeout,
            scopes=self._scopes.get(resource.uri, ()),
        )
        return lambda: self._server.remove_resource(uri)

    def _add_template(self, template: ResourceTemplate, *, completes: bool) -> Callable[[], object]:
        key = template.uri_template
        if "{" not in key:
            raise ValueError("expected a template with a variable in braces, got one without")
        parsed = URITemplate(key)
        scopes = self._scopes.get(key, ())
        self._server.add_resource(self._reader(), key, listed=template, timeout=self._options.timeout, scopes=scopes)
        self._templates[key] = parsed
        arguments = list(parsed.variables) if completes else []
        self._add_completions(key, {"type": "ref/resource", "uri": key}, arguments)

        def take_back() -> None:
            self._server.remove_resource(key)
            self._templates.pop(key, None)
            self._remove_completions(key, arguments)

        return take_back

    def _reader(self) -> Callable[..., Any]:
        relay = self._relay

        async def read(context: Context, uri: str) -> Any:
            return await relay.read(context, "resources/read", {"uri": uri})

        return read

    def _add_completions(self, ref: str, own: Mapping[str, str], arguments: Iterable[str]) -> None:
        for argument in arguments:
            self._server.add_completion(self._completer(own, argument), ref, argument)

    def _remove_completions(self, ref: str, arguments: Iterable[str]) -> None:
        for argument in arguments:
            self._server.remove_completion(ref, argument)

    def _completer(self, own: Mapping[str, str], argument: str) -> Callable[..., Any]:
        relay = self._relay

        async def complete(context: Context, value: str, arguments: dict[str, str]) -> Completion:
            return await relay.complete(context, own, argument, value, arguments)

        return complete


def _order(wanted: Mapping[str, Any], are_tools: bool) -> Callable[[str], tuple[bool, int]]:
    places = {key: place for place, key in enumerate(wanted)}
    return lambda key: (are_tools and mounted_name("", key) != key, places[key])
