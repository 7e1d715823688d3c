"""Initialize, discover and ping, and the capabilities of both sides.

A capability is declared if its object is present, even if that is empty. ``None`` means that it is not declared.

Source: MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, server/discover and basic/versioning.
"""

from __future__ import annotations

from typing import Any

from mcptrio.protocol.model.base import CacheableResult, Params, Result
from mcptrio.protocol.model.fields import field, model
from mcptrio.protocol.model.icons import Icon

__all__ = [
    "ClientCapabilities",
    "DiscoverParams",
    "DiscoverResult",
    "ElicitationCapability",
    "Implementation",
    "InitializeParams",
    "InitializeResult",
    "PingParams",
    "PromptsCapability",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "ServerCapabilities",
    "TasksCapability",
    "ToolsCapability",
]


@model
class Implementation:
    """The name and version of a client or a server."""

    name: str = field()
    version: str = field()
    title: str | None = field(default=None, since="2025-06-18")
    description: str | None = field(default=None, since="2025-11-25")
    website_url: str | None = field(default=None, since="2025-11-25")
    icons: tuple[Icon, ...] | None = field(default=None, since="2025-11-25")


@model
class RootsCapability:
    """The client answers ``roots/list``."""

    list_changed: bool = field(default=False, until="2026-07-28")


@model
class SamplingCapability:
    """The client answers ``sampling/createMessage``."""

    context: dict[str, Any] | None = field(default=None, since="2025-11-25")
    tools: dict[str, Any] | None = field(default=None, since="2025-11-25")


@model
class ElicitationCapability:
    """The client can ask its user. If no mode is present, it supports forms."""

    form: dict[str, Any] | None = field(default=None, since="2025-11-25")
    url: dict[str, Any] | None = field(default=None, since="2025-11-25")


@model
class TasksCapability:
    """The server can run calls as tasks when the client asks for it (2025-11-25)."""

    list: dict[str, Any] | None = field(default=None)
    cancel: dict[str, Any] | None = field(default=None)
    requests: dict[str, dict[str, Any]] | None = field(default=None)
    """The second part of each method whose requests can be tasks, by its first part: ``{"tools": {"call": {}}}``."""


@model
class ClientCapabilities:
    """The capabilities of a client."""

    roots: RootsCapability | None = field(default=None)
    sampling: SamplingCapability | None = field(default=None)
    elicitation: ElicitationCapability | None = field(default=None, since="2025-06-18")
    tasks: dict[str, Any] | None = field(default=None, since="2025-11-25", until="2026-07-28")
    """Includes the requests of a server that can be tasks; the client of mcptrio supports none."""
    experimental: dict[str, dict[str, Any]] | None = field(default=None)
    extensions: dict[str, dict[str, Any]] | None = field(default=None)
    """Extensions by identifier. In the schema since 2026-07-28; valid in older revisions, whose objects are open."""

    @property
    def names(self) -> tuple[str, ...]:
        """The declared capabilities and the identifiers of extensions."""
        capabilities = {"elicitation": self.elicitation, "roots": self.roots, "sampling": self.sampling}
        return (*(name for name, value in capabilities.items() if value is not None), *(self.extensions or ()))


@model
class PromptsCapability:
    """The server has prompts."""

    list_changed: bool = field(default=False)


@model
class ResourcesCapability:
    """The server has resources."""

    subscribe: bool = field(default=False)
    list_changed: bool = field(default=False)


@model
class ToolsCapability:
    """The server has tools."""

    list_changed: bool = field(default=False)


@model
class ServerCapabilities:
    """The capabilities of a server."""

    tools: ToolsCapability | None = field(default=None)
    resources: ResourcesCapability | None = field(default=None)
    prompts: PromptsCapability | None = field(default=None)
    completions: dict[str, Any] | None = field(default=None, since="2025-03-26")
    logging: dict[str, Any] | None = field(default=None)
    tasks: TasksCapability | None = field(default=None, since="2025-11-25", until="2026-07-28")
    experimental: dict[str, dict[str, Any]] | None = field(default=None)
    extensions: dict[str, dict[str, Any]] | None = field(default=None)


@model
class InitializeParams(Params):
    """The parameters of ``initialize``."""

    protocol_version: str = field()
    capabilities: ClientCapabilities = field()
    client_info: Implementation = field()


@model
class InitializeResult(Result):
    """The answer to ``initialize``, with the negotiated revision."""

    protocol_version: str = field()
    capabilities: ServerCapabilities = field()
    server_info: Implementation = field()
    instructions: str | None = field(default=None)


@model
class PingParams(Params):
    """A ping."""


@model
class DiscoverParams(Params):
    """A request for the server's revisions and capabilities."""


@model
class DiscoverResult(CacheableResult):
    """The answer to ``server/discover``; the server's name and version are in its ``_meta``."""

    supported_versions: tuple[str, ...] = field()
    capabilities: ServerCapabilities = field()
    instructions: str | None = field(default=None)
