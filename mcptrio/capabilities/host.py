"""What the capabilities need of the server they are part of. Implemented by the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mcptrio.abc.status import ServerStatus

if TYPE_CHECKING:
    from mcptrio.capabilities.access import Access
    from mcptrio.capabilities.authorization import Authorizers
    from mcptrio.capabilities.completion import Completions
    from mcptrio.capabilities.logging import Logging
    from mcptrio.capabilities.methods import Methods
    from mcptrio.capabilities.middleware import MiddlewareChain
    from mcptrio.capabilities.owner import Owner
    from mcptrio.capabilities.prompts import Prompts
    from mcptrio.capabilities.registry import Registry
    from mcptrio.capabilities.resources import Resources
    from mcptrio.capabilities.subscriptions import Subscriptions
    from mcptrio.capabilities.tools import Tools
    from mcptrio.protocol.model.lifecycle import Implementation, ServerCapabilities
    from mcptrio.runtime.settings import ServerSettings
    from mcptrio.runtime.supervisor import Supervisor

__all__ = ["Host"]


class Host(Protocol):
    @property
    def info(self) -> Implementation: ...
    @property
    def instructions(self) -> str | None: ...
    @property
    def tools(self) -> Tools: ...
    @property
    def resources(self) -> Resources: ...
    @property
    def prompts(self) -> Prompts: ...
    @property
    def completions(self) -> Completions: ...
    @property
    def methods(self) -> Methods: ...
    @property
    def capabilities(self) -> ServerCapabilities: ...
    @property
    def settings(self) -> ServerSettings: ...
    @property
    def supervisor(self) -> Supervisor: ...
    @property
    def logging(self) -> Logging: ...
    @property
    def middleware(self) -> MiddlewareChain: ...
    @property
    def authorizers(self) -> Authorizers: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    @property
    def own(self) -> Owner:
        """The owner of what no plugin has added."""
        ...

    @property
    def registries(self) -> Mapping[str, Registry[Any]]:
        """By kind: ``tools``, ``resources``, ``templates``, ``prompts``, ``completions``."""
        ...

    @property
    def access(self) -> Access: ...
    @property
    def status(self) -> ServerStatus: ...
