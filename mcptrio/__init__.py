"""mcptrio: a Trio-native runtime for the Model Context Protocol.

The public names, grouped. Names that would pull in an HTTP stack are not here: they are imported where they are used.
"""

from mcptrio.abc import Principal
from mcptrio.capabilities.contents import Blob
from mcptrio.capabilities.context import Context
from mcptrio.capabilities.logging import redact
from mcptrio.capabilities.marks import Header, completion, method, notification, prompt, resource, tool
from mcptrio.capabilities.questions import Elicit, Elicited, ElicitURL, ListRoots, Sample
from mcptrio.errors import (
    AuthorizationError,
    Code,
    ConfigError,
    ConnectionClosed,
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MCPError,
    MCPTrioError,
    MethodNotFound,
    MissingClientCapability,
    Overloaded,
    ParseError,
    PluginError,
    ProtocolError,
    RemoteProtocolError,
    ResourceNotFound,
    ToolError,
    UnsupportedProtocolVersion,
    URLElicitationRequired,
)
from mcptrio.hookspecs import hookimpl
from mcptrio.plugins import Plugin, PluginManager
from mcptrio.protocol.model import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    CreateMessageResult,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    ModelHint,
    ModelPreferences,
    PromptMessage,
    ReadResourceResult,
    ResourceLink,
    Root,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
    ToolChoice,
)
from mcptrio.runtime.limits import Limits
from mcptrio.runtime.timeouts import Timeouts
from mcptrio.serve import asgi_app, serve_http, serve_stdio
from mcptrio.server import Server
from mcptrio.transports.memory import memory_channel_pair

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 - grouped for the reader
    # What a plugin author writes
    "Context",
    "Header",
    "completion",
    "hookimpl",
    "method",
    "notification",
    "prompt",
    "resource",
    "tool",
    # What a function may return
    "Annotations",
    "AudioContent",
    "Blob",
    "BlobResourceContents",
    "CallToolResult",
    "EmbeddedResource",
    "GetPromptResult",
    "Icon",
    "ImageContent",
    "PromptMessage",
    "ReadResourceResult",
    "ResourceLink",
    "TextContent",
    "TextResourceContents",
    # Asking the client
    "CreateMessageResult",
    "Elicit",
    "ElicitURL",
    "Elicited",
    "ListRoots",
    "ModelHint",
    "ModelPreferences",
    "Root",
    "Sample",
    "SamplingMessage",
    "Tool",
    "ToolChoice",
    # Running a server
    "Limits",
    "Plugin",
    "PluginManager",
    "Principal",
    "Server",
    "Timeouts",
    "asgi_app",
    "memory_channel_pair",
    "redact",
    "serve_http",
    "serve_stdio",
    # Errors
    "AuthorizationError",
    "Code",
    "ConfigError",
    "ConnectionClosed",
    "HeaderMismatch",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "MCPError",
    "MCPTrioError",
    "MethodNotFound",
    "MissingClientCapability",
    "Overloaded",
    "ParseError",
    "PluginError",
    "ProtocolError",
    "RemoteProtocolError",
    "ResourceNotFound",
    "ToolError",
    "URLElicitationRequired",
    "UnsupportedProtocolVersion",
]
