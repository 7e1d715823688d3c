"""The entries of a mounted server that this server offers, updated when its lists change.

The mount passes whole lists. Entries are offered unchanged except for their names. An entry that cannot be offered is
left out and logged. It does not affect the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal

from attrs import frozen

from mcptrio.capabilities.catalog import catalog_of
from mcptrio.capabilities.context import Context
from mcptrio.capabilities.registrar import Registrar
from mcptrio.host.list_collection import ListKind
from mcptrio.mounting.names import mounted_name
from mcptrio.mounting.options import MountOptions
from mcptrio.mounting.relay import CallRelay
from mcptrio.mounting.upstream import KINDS
from mcptrio.protocol.model.completion import Completion
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool
from mcptrio.schema.uri_templates import URITemplate

__all__ = ["ExportedFeatures"]

_log = logging.getLogger("mcptrio.mounting.exported_features")


@frozen
class _Listed:
    """The last list of one kind from the mounted server.

    Args:
        items: The items, by their names on the mounted server or their URIs.
        completes: True if the server completes arguments.
        scopes: Required scopes of the items, by the names on the mounted server.
    """

    items: Mapping[str, Any]
    completes: bool
    scopes: Mapping[str, Sequence[str]]


class ExportedFeatures:
    """The entries of one mounted server that this server offers.

    Args:
        server: The server as the mounting plugin sees it.
    """

    def __init__(self, server: Registrar, name: str, options: MountOptions, relay: CallRelay) -> None:
        self._server = server
        self._name = name
        self._options = options
        self._prefix = name if options.prefix is None else options.prefix
        self._relay = relay
        self._is_closed = False
        self._listed: dict[ListKind, _Listed] = {kind: _Listed({}, False, {}) for kind in KINDS}
        self._offered: dict[ListKind, dict[str, Callable[[], object]]] = {kind: {} for kind in KINDS}
        """The functions that withdraw entries, by kind and by the name on the mounted server or the URI."""
        self._refused: dict[ListKind, set[str]] = {kind: set() for kind in KINDS}
        """Listed entries that are not offered."""
        self._templates: dict[str, URITemplate] = {}
        self._own_names: dict[tuple[str, str], str] = {}
        """The names on the mounted server, by kind and by the name here."""

    def counts(self) -> dict[str, int]:
        """Return the number of offered entries of each kind."""
        return {kind: len(entries) for kind, entries in self._offered.items() if entries}

    def has(self, uri: str) -> bool:
        """Return whether a resource belongs to the mounted server."""
        if uri in self._offered["resources"]:
            return True
        return any(template.match(uri) is not None for template in self._templates.values())

    def own_name(self, kind: str, name: str) -> str | None:
        """Return the name on the mounted server of a ``tool`` or ``prompt``. A ``resource`` has the same URI there."""
        return name if kind == "resource" else self._own_names.get((kind, name))

    def set_list(
        self,
        kind: ListKind,
        items: Sequence[Any],
        *,
        completes: bool,
        scopes: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Offer the listed entries instead of those of the previous list.

        Args:
            completes: True if the server completes arguments.
            scopes: Required scopes of entries, by the names on the mounted server.
        """
        # The upstream may still deliver a list while the mount is being closed.
        if self._is_closed:
            return
        listed_items = {_key(kind, item): item for item in items}
        # The operator's policy applies to the names on the mounted server, which its documentation uses.
        if kind == "tools":
            policy = self._options.tools
            listed_items = {
                name: tool
                for name, tool in listed_items.items()
                if policy.withholds(name, read_only=_read_only(tool)) is None
            }
        before, now = self._listed[kind], _Listed(listed_items, completes, scopes or {})
        self._listed[kind] = now
        # An entry that is no longer listed is logged again if it returns.
        self._refused[kind] &= listed_items.keys()
        offered = self._offered[kind]
        # Unchanged entries stay registered, so clients get one notification for each entry that really differs.
        for key in list(offered):
            if listed_items.get(key) != before.items[key] or now.scopes.get(key) != before.scopes.get(key):
                offered.pop(key)()
        self._offer_missing(kind)

    async def retry(self, kind: ListKind) -> None:
        """Offer entries that were refused for their names, once the names are free. Runs until cancelled."""
        registry = catalog_of(self._server).registries[kind]
        while True:
            await registry.wait_freed()
            self._offer_missing(kind)

    def withdraw(self) -> None:
        """Withdraw all offers, and make no new ones."""
        # Set first, because withdrawing frees names, which wakes `retry`. It must not offer the entries again.
        self._is_closed = True
        for offered in self._offered.values():
            while offered:
                _, withdraw_entry = offered.popitem()
                withdraw_entry()

    # Private

    def _offer_missing(self, kind: ListKind) -> None:
        if self._is_closed:
            return
        add: dict[ListKind, Callable[[Any, _Listed], Callable[[], object]]] = {
            "tools": self._add_tool,
            "prompts": self._add_prompt,
            "resources": self._add_resource,
            "templates": self._add_template,
        }
        listed, offered, refused = self._listed[kind], self._offered[kind], self._refused[kind]
        # Names that need no change take precedence over names that must be changed to fit.
        for key in sorted(listed.items.keys() - offered.keys(), key=_order(listed.items, kind == "tools")):
            try:
                offered[key] = add[kind](listed.items[key], listed)
            # The registry raises these for a name in use, an invalid schema or an invalid URI.
            except (TypeError, ValueError) as error:
                # Logged once per entry, because `retry` tries again whenever a name is freed.
                if key not in refused:
                    refused.add(key)
                    _log.warning("%s: %s %r is not offered: %s", self._name, kind.rstrip("s"), key, error)
            else:
                if key in refused:
                    refused.discard(key)
                    _log.info("%s: %s %r is offered now", self._name, kind.rstrip("s"), key)
        self._arrange(kind)

    def _arrange(self, kind: ListKind) -> None:
        """Put the entries into the order of the mounted server's list, also those that were added later."""
        noun = kind.rstrip("s")
        names = {own_ref: name for (own_kind, name), own_ref in self._own_names.items() if own_kind == noun}
        catalog_of(self._server).registries[kind].arrange(names.get(key, key) for key in self._listed[kind].items)

    def _add_tool(self, tool: Tool, listed: _Listed) -> Callable[[], object]:
        relay = self._relay

        async def call(context: Context, arguments: dict[str, Any]) -> Any:
            return await relay.call_tool(context, tool.name, arguments)

        name = self._server.add_tool(
            call,
            name=mounted_name(self._prefix, tool.name),
            listed=tool,
            read_only=_read_only(tool),
            task=self._options.task,
            timeout=self._options.timeout,
            scopes=listed.scopes.get(tool.name, ()),
        )
        self._own_names["tool", name] = tool.name

        def withdraw_entry() -> None:
            self._own_names.pop(("tool", name), None)
            self._server.remove_tool(name)

        return withdraw_entry

    def _add_prompt(self, prompt: Prompt, listed: _Listed) -> Callable[[], object]:
        relay = self._relay

        async def get(context: Context, arguments: dict[str, str]) -> Any:
            return await relay.read(context, "prompts/get", {"name": prompt.name, "arguments": arguments})

        name = mounted_name(self._prefix, prompt.name)
        scopes = listed.scopes.get(prompt.name, ())
        # If a later step fails, the earlier ones are undone, so that no half-registered entry remains.
        with ExitStack() as undo:
            self._server.add_prompt(get, name=name, listed=prompt, timeout=self._options.timeout, scopes=scopes)
            undo.callback(self._server.remove_prompt, name)
            self._own_names["prompt", name] = prompt.name
            undo.callback(self._own_names.pop, ("prompt", name))
            if listed.completes:
                own_ref = {"type": "ref/prompt", "name": prompt.name}
                self._add_completions(undo, "prompt", name, own_ref, [each.name for each in prompt.arguments])
            return undo.pop_all().close

    def _add_resource(self, resource: Resource, listed: _Listed) -> Callable[[], object]:
        uri = self._server.add_resource(
            self._reader(),
            resource.uri,
            listed=resource,
            timeout=self._options.timeout,
            scopes=listed.scopes.get(resource.uri, ()),
        )
        return lambda: self._server.remove_resource(uri)

    def _add_template(self, template: ResourceTemplate, listed: _Listed) -> Callable[[], object]:
        key = template.uri_template
        # Without a variable, the template would be registered as a resource, whose URI the other list may contain too.
        if "{" not in key:
            raise ValueError("expected a template with a variable in braces, got one without")
        parsed = URITemplate(key)
        scopes = listed.scopes.get(key, ())
        with ExitStack() as undo:
            reader = self._reader()
            self._server.add_resource(reader, key, listed=template, timeout=self._options.timeout, scopes=scopes)
            undo.callback(self._server.remove_resource, key)
            self._templates[key] = parsed
            undo.callback(self._templates.pop, key)
            if listed.completes:
                self._add_completions(undo, "resource", key, {"type": "ref/resource", "uri": key}, parsed.variables)
            return undo.pop_all().close

    def _reader(self) -> Callable[..., Any]:
        relay = self._relay

        async def read(context: Context, uri: str) -> Any:
            return await relay.read(context, "resources/read", {"uri": uri})

        return read

    def _add_completions(
        self,
        undo: ExitStack,
        of: Literal["prompt", "resource"],
        name: str,
        own_ref: Mapping[str, str],
        arguments: Iterable[str],
    ) -> None:
        # The registry has one completer for each argument. All of them ask the mounted server.
        for argument in arguments:
            self._server.add_completion(self._completer(own_ref, argument), of, name, argument)
            undo.callback(self._server.remove_completion, of, name, argument)

    def _completer(self, own_ref: Mapping[str, str], argument: str) -> Callable[..., Any]:
        relay = self._relay

        async def complete(context: Context, value: str, arguments: dict[str, str]) -> Completion:
            return await relay.complete(context, own_ref, argument, value, arguments)

        return complete


def _key(kind: ListKind, item: Any) -> str:
    return str(getattr(item, {"resources": "uri", "templates": "uri_template"}.get(kind, "name")))


def _order(listed_items: Mapping[str, Any], are_tools: bool) -> Callable[[str], tuple[bool, int]]:
    positions = {key: position for position, key in enumerate(listed_items)}
    # False sorts first: names that are unchanged, then names that are shortened, both in the server's order.
    return lambda key: (are_tools and mounted_name("", key) != key, positions[key])


def _read_only(tool: Tool) -> bool | None:
    return tool.annotations.read_only_hint if tool.annotations is not None else None
