"""The methods about the server itself: ``initialize``, ``server/discover`` and ``ping``.

The catalogue makes it. Connections use it to determine whether a capability is advertised.

Source: MCP 2025-11-25, basic/lifecycle and basic/utilities/ping; MCP 2026-07-28, server/discover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

from mcptrio.capabilities.registry import Registry
from mcptrio.protocol.model.base import EmptyResult
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.lifecycle import (
    DiscoverParams,
    DiscoverResult,
    Implementation,
    InitializeParams,
    InitializeResult,
    PingParams,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    TasksCapability,
    ToolsCapability,
)
from mcptrio.protocol.model.tasks import TASKS_EXTENSION
from mcptrio.protocol.revisions.registry import MODERN_VERSIONS
from mcptrio.runtime.event_loop import EventLoop
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.settings import ServerSettings

__all__ = ["Lifecycle"]

_TASKS: Final = TasksCapability(list={}, cancel={}, requests={"tools": {"call": {}}})


class Lifecycle:
    """Handles ``initialize``, ``server/discover`` and ``ping``, and collects the advertised capabilities.

    Args:
        info: The name, version and description of the server.
        registries: The registries by kind: ``tools``, ``resources``, ``templates``, ``prompts``, ``completions``.
        instructions: Advice for the model on how to use the server.
    """

    def __init__(
        self,
        info: Implementation,
        registries: Mapping[str, Registry[Any]],
        settings: ServerSettings,
        loop: EventLoop,
        instructions: str | None,
    ) -> None:
        self.info = info
        self._registries = registries
        self._settings = settings
        self._instructions: list[Callable[[], str | None]] = [lambda: instructions]
        self.extensions: dict[str, dict[str, Any]] = {}
        self._capabilities: ServerCapabilities | None = None
        # Cached until something changes, because every request calls it.
        self.serves = cache(self._is_served)
        """Returns whether a capability is advertised: ``tools``, ``resources.subscribe``, or an extension's
        identifier."""
        for registry in registries.values():
            # Threads register entries too, but the cache may only be cleared in the event loop.
            registry.on_change(partial(loop.hand_over, self._renew))
        self.handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "server/discover": self._discover,
        }

    @property
    def instructions(self) -> str | None:
        """Advice for the model on how to use the server: the text of the server, then those of plugins."""
        return "\n\n".join(filter(None, (text() for text in self._instructions))) or None

    def add_instructions(self, text: Callable[[], str | None]) -> Callable[[], None]:
        """Add a text to the instructions. Returns a function that removes it."""
        self._instructions.append(text)
        return partial(self._instructions.remove, text)

    @property
    def capabilities(self) -> ServerCapabilities:
        """The advertised capabilities."""
        if self._capabilities is None:
            # A version above 0 means that the list has or had entries. A capability that a client has seen is kept.
            served = {kind for kind, registry in self._registries.items() if registry.version}
            experimental = self._settings.experimental
            self._capabilities = ServerCapabilities(
                tools=ToolsCapability(list_changed=True) if "tools" in served else None,
                resources=(
                    ResourcesCapability(subscribe=True, list_changed=True)
                    if served & {"resources", "templates"}
                    else None
                ),
                prompts=PromptsCapability(list_changed=True) if "prompts" in served else None,
                # Prompts and templates have completions from the types of their arguments.
                completions={} if served & {"completions", "prompts", "templates"} else None,
                logging={},
                tasks=_TASKS if TASKS_EXTENSION in self.extensions else None,
                experimental={name: dict(each) for name, each in experimental.items()} or None,
                extensions=dict(self.extensions) or None,
            )
        return self._capabilities

    def add_extension(self, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        """Advertise an extension.

        Raises:
            ValueError: The identifier has no prefix. Source: MCP 2026-07-28, basic/versioning, "Extensions".
        """
        prefix, slash, name = identifier.partition("/")
        if not slash or not prefix or not name:
            raise ValueError(f"expected an extension identifier like com.example/name, got {identifier!r}")
        self.extensions[identifier] = dict(settings or {})
        self._renew()

    def remove_extension(self, identifier: str) -> None:
        """Stop advertising an extension."""
        self.extensions.pop(identifier, None)
        self._renew()

    def _renew(self) -> None:
        self._capabilities = None
        self.serves.cache_clear()

    def _is_served(self, capability: str) -> bool:
        if capability in self.extensions:
            return True
        value: Any = self.capabilities
        for part in capability.split("."):
            value = getattr(value, part, None)
            if value is None or value is False:
                return False
        return True

    async def _initialize(self, scope: RequestScope, params: InitializeParams) -> InitializeResult:
        capabilities = self.capabilities
        if scope.principal is None and capabilities.tasks is not None:
            # The tasks of all anonymous clients have the same owner, so such a client cannot list its own.
            capabilities = evolve(capabilities, tasks=evolve(capabilities.tasks, list=None))
        return InitializeResult(
            protocol_version=scope.request.peer.revision.version,
            capabilities=capabilities,
            server_info=self.info,
            instructions=self.instructions,
        )

    async def _ping(self, scope: RequestScope, params: PingParams) -> EmptyResult:
        return EmptyResult()

    async def _discover(self, scope: RequestScope, params: DiscoverParams) -> DiscoverResult:
        return DiscoverResult(
            supported_versions=tuple(MODERN_VERSIONS),
            capabilities=self.capabilities,
            instructions=self.instructions,
            ttl_ms=self._settings.list_ttl_ms,
        )
