"""mcptrio: a Trio-native runtime for the Model Context Protocol.

The public names, grouped. Each is imported when it is first used: a stdio server starts without an HTTP stack and
without a client, a client without a server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcptrio.abc import Principal as Principal
    from mcptrio.abc.status import ParkedStatus as ParkedStatus
    from mcptrio.abc.status import PluginStatus as PluginStatus
    from mcptrio.abc.status import QuestionStatus as QuestionStatus
    from mcptrio.abc.status import RequestStatus as RequestStatus
    from mcptrio.abc.status import ServerStatus as ServerStatus
    from mcptrio.abc.status import SessionStatus as SessionStatus
    from mcptrio.abc.status import ThreadStatus as ThreadStatus
    from mcptrio.capabilities.authorization import Component as Component
    from mcptrio.capabilities.contents import Blob as Blob
    from mcptrio.capabilities.context import Context as Context
    from mcptrio.capabilities.logging import redact as redact
    from mcptrio.capabilities.marks import Header as Header
    from mcptrio.capabilities.marks import completion as completion
    from mcptrio.capabilities.marks import method as method
    from mcptrio.capabilities.marks import notification as notification
    from mcptrio.capabilities.marks import prompt as prompt
    from mcptrio.capabilities.marks import resource as resource
    from mcptrio.capabilities.marks import tool as tool
    from mcptrio.capabilities.middleware import RequestView as RequestView
    from mcptrio.capabilities.questions import Elicit as Elicit
    from mcptrio.capabilities.questions import Elicited as Elicited
    from mcptrio.capabilities.questions import ElicitURL as ElicitURL
    from mcptrio.capabilities.questions import ListRoots as ListRoots
    from mcptrio.capabilities.questions import Sample as Sample
    from mcptrio.capabilities.registrar import Registrar as Registrar
    from mcptrio.client.calls import Progress as Progress
    from mcptrio.client.client import Client as Client
    from mcptrio.client.form_fields import FormField as FormField
    from mcptrio.client.forms import Form as Form
    from mcptrio.client.forms import Page as Page
    from mcptrio.client.handlers import Handlers as Handlers
    from mcptrio.client.listings import Listing as Listing
    from mcptrio.client.subscriptions import Change as Change
    from mcptrio.client.subscriptions import Changes as Changes
    from mcptrio.client.timeouts import ClientTimeouts as ClientTimeouts
    from mcptrio.client.tool_calls import ToolCall as ToolCall
    from mcptrio.commands.quick_start import run as run
    from mcptrio.connecting import connect as connect
    from mcptrio.errors import AuthorizationError as AuthorizationError
    from mcptrio.errors import ConfigError as ConfigError
    from mcptrio.errors import ConnectionClosed as ConnectionClosed
    from mcptrio.errors import InputFailed as InputFailed
    from mcptrio.errors import InsufficientScope as InsufficientScope
    from mcptrio.errors import InvalidParams as InvalidParams
    from mcptrio.errors import MCPError as MCPError
    from mcptrio.errors import MCPTrioError as MCPTrioError
    from mcptrio.errors import MethodNotFound as MethodNotFound
    from mcptrio.errors import MissingClientCapability as MissingClientCapability
    from mcptrio.errors import NotApproved as NotApproved
    from mcptrio.errors import Overloaded as Overloaded
    from mcptrio.errors import PluginError as PluginError
    from mcptrio.errors import RateLimited as RateLimited
    from mcptrio.errors import RemoteProtocolError as RemoteProtocolError
    from mcptrio.errors import RequestFailed as RequestFailed
    from mcptrio.errors import RequestTimeout as RequestTimeout
    from mcptrio.errors import ResourceNotFound as ResourceNotFound
    from mcptrio.errors import ToolError as ToolError
    from mcptrio.errors import URLElicitationRequired as URLElicitationRequired
    from mcptrio.host.approval import ApprovalRequest as ApprovalRequest
    from mcptrio.host.approval import Decision as Decision
    from mcptrio.host.audit import AuditRecord as AuditRecord
    from mcptrio.host.audit_file import AuditFile as AuditFile
    from mcptrio.host.changes import HostChange as HostChange
    from mcptrio.host.changes import HostChanges as HostChanges
    from mcptrio.host.host import Host as Host
    from mcptrio.host.listing import HostList as HostList
    from mcptrio.host.listing import HostListing as HostListing
    from mcptrio.host.listing import HostPrompt as HostPrompt
    from mcptrio.host.listing import HostResource as HostResource
    from mcptrio.host.listing import HostResourceTemplate as HostResourceTemplate
    from mcptrio.host.listing import HostTool as HostTool
    from mcptrio.host.member import ConnectionStatus as ConnectionStatus
    from mcptrio.host.options import HostOptions as HostOptions
    from mcptrio.mcp_json.files import load_mcp_json as load_mcp_json
    from mcptrio.mounting.mount import Mount as Mount
    from mcptrio.mounting.mount import MountStatus as MountStatus
    from mcptrio.mounting.options import MountOptions as MountOptions
    from mcptrio.plugins.hooks import hookimpl as hookimpl
    from mcptrio.plugins.hooks import lifespan as lifespan
    from mcptrio.plugins.manager import PluginManager as PluginManager
    from mcptrio.plugins.plugin import Plugin as Plugin
    from mcptrio.plugins.policy import ToolPolicy as ToolPolicy
    from mcptrio.plugins.setup import PluginSetup as PluginSetup
    from mcptrio.protocol.model import Annotations as Annotations
    from mcptrio.protocol.model import AudioContent as AudioContent
    from mcptrio.protocol.model import BlobResourceContents as BlobResourceContents
    from mcptrio.protocol.model import CallToolResult as CallToolResult
    from mcptrio.protocol.model import Completion as Completion
    from mcptrio.protocol.model import CreateMessageParams as CreateMessageParams
    from mcptrio.protocol.model import CreateMessageResult as CreateMessageResult
    from mcptrio.protocol.model import ElicitResult as ElicitResult
    from mcptrio.protocol.model import EmbeddedResource as EmbeddedResource
    from mcptrio.protocol.model import GetPromptResult as GetPromptResult
    from mcptrio.protocol.model import Icon as Icon
    from mcptrio.protocol.model import ImageContent as ImageContent
    from mcptrio.protocol.model import Implementation as Implementation
    from mcptrio.protocol.model import LoggingMessageParams as LoggingMessageParams
    from mcptrio.protocol.model import ModelHint as ModelHint
    from mcptrio.protocol.model import ModelPreferences as ModelPreferences
    from mcptrio.protocol.model import Prompt as Prompt
    from mcptrio.protocol.model import PromptMessage as PromptMessage
    from mcptrio.protocol.model import ReadResourceResult as ReadResourceResult
    from mcptrio.protocol.model import Resource as Resource
    from mcptrio.protocol.model import ResourceLink as ResourceLink
    from mcptrio.protocol.model import ResourceTemplate as ResourceTemplate
    from mcptrio.protocol.model import Root as Root
    from mcptrio.protocol.model import SamplingMessage as SamplingMessage
    from mcptrio.protocol.model import ServerCapabilities as ServerCapabilities
    from mcptrio.protocol.model import TextContent as TextContent
    from mcptrio.protocol.model import TextResourceContents as TextResourceContents
    from mcptrio.protocol.model import Tool as Tool
    from mcptrio.protocol.model import ToolChoice as ToolChoice
    from mcptrio.runtime.callers import ANYONE as ANYONE
    from mcptrio.runtime.limits import Limits as Limits
    from mcptrio.runtime.timeouts import Timeouts as Timeouts
    from mcptrio.secret import Secret as Secret
    from mcptrio.serve.http import serve_http as serve_http
    from mcptrio.serve.http_options import HTTPOptions as HTTPOptions
    from mcptrio.serve.mounted import asgi_app as asgi_app
    from mcptrio.serve.opened import serve_transport as serve_transport
    from mcptrio.serve.stdio import serve_stdio as serve_stdio
    from mcptrio.serve.stream import StreamOptions as StreamOptions
    from mcptrio.serve.stream import serve_stream as serve_stream
    from mcptrio.server import Server as Server
    from mcptrio.stores.tokens_file import FileTokenStore as FileTokenStore
    from mcptrio.stores.tokens_keyring import KeyringTokenStore as KeyringTokenStore
    from mcptrio.stores.tokens_memory import MemoryTokenStore as MemoryTokenStore
    from mcptrio.targets import Command as Command
    from mcptrio.targets import Endpoint as Endpoint
    from mcptrio.targets import Socket as Socket
    from mcptrio.transports.adapted import adapt_channel as adapt_channel
    from mcptrio.transports.memory import memory_channel_pair as memory_channel_pair
    from mcptrio.transports.stream import StreamChannel as StreamChannel

__version__ = "0.1.0"

_HOMES = {
    # What a plugin author writes
    "ANYONE": "mcptrio.runtime.callers",
    "Context": "mcptrio.capabilities.context",
    "Header": "mcptrio.capabilities.marks",
    "completion": "mcptrio.capabilities.marks",
    "PluginSetup": "mcptrio.plugins.setup",
    "Registrar": "mcptrio.capabilities.registrar",
    "hookimpl": "mcptrio.plugins.hooks",
    "run": "mcptrio.commands.quick_start",
    "lifespan": "mcptrio.plugins.hooks",
    "method": "mcptrio.capabilities.marks",
    "notification": "mcptrio.capabilities.marks",
    "prompt": "mcptrio.capabilities.marks",
    "resource": "mcptrio.capabilities.marks",
    "tool": "mcptrio.capabilities.marks",
    "Secret": "mcptrio.secret",
    "Component": "mcptrio.capabilities.authorization",
    "RequestView": "mcptrio.capabilities.middleware",
    # What a function may return
    "Annotations": "mcptrio.protocol.model",
    "AudioContent": "mcptrio.protocol.model",
    "Blob": "mcptrio.capabilities.contents",
    "BlobResourceContents": "mcptrio.protocol.model",
    "CallToolResult": "mcptrio.protocol.model",
    "EmbeddedResource": "mcptrio.protocol.model",
    "GetPromptResult": "mcptrio.protocol.model",
    "Icon": "mcptrio.protocol.model",
    "ImageContent": "mcptrio.protocol.model",
    "PromptMessage": "mcptrio.protocol.model",
    "ReadResourceResult": "mcptrio.protocol.model",
    "ResourceLink": "mcptrio.protocol.model",
    "TextContent": "mcptrio.protocol.model",
    "TextResourceContents": "mcptrio.protocol.model",
    # Asking the client
    "CreateMessageParams": "mcptrio.protocol.model",
    "CreateMessageResult": "mcptrio.protocol.model",
    "Elicit": "mcptrio.capabilities.questions",
    "ElicitURL": "mcptrio.capabilities.questions",
    "Elicited": "mcptrio.capabilities.questions",
    "ListRoots": "mcptrio.capabilities.questions",
    "ModelHint": "mcptrio.protocol.model",
    "ModelPreferences": "mcptrio.protocol.model",
    "Root": "mcptrio.protocol.model",
    "Sample": "mcptrio.capabilities.questions",
    "SamplingMessage": "mcptrio.protocol.model",
    "Tool": "mcptrio.protocol.model",
    "ToolChoice": "mcptrio.protocol.model",
    # Running a server
    "Limits": "mcptrio.runtime.limits",
    "Plugin": "mcptrio.plugins.plugin",
    "ToolPolicy": "mcptrio.plugins.policy",
    "PluginManager": "mcptrio.plugins.manager",
    "Principal": "mcptrio.abc",
    "ParkedStatus": "mcptrio.abc.status",
    "PluginStatus": "mcptrio.abc.status",
    "QuestionStatus": "mcptrio.abc.status",
    "RequestStatus": "mcptrio.abc.status",
    "ServerStatus": "mcptrio.abc.status",
    "SessionStatus": "mcptrio.abc.status",
    "ThreadStatus": "mcptrio.abc.status",
    "Server": "mcptrio.server",
    "Timeouts": "mcptrio.runtime.timeouts",
    "asgi_app": "mcptrio.serve.mounted",
    "memory_channel_pair": "mcptrio.transports.memory",
    "redact": "mcptrio.capabilities.logging",
    "HTTPOptions": "mcptrio.serve.http_options",
    "serve_http": "mcptrio.serve.http",
    "serve_stdio": "mcptrio.serve.stdio",
    "StreamOptions": "mcptrio.serve.stream",
    "serve_stream": "mcptrio.serve.stream",
    "StreamChannel": "mcptrio.transports.stream",
    "adapt_channel": "mcptrio.transports.adapted",
    "serve_transport": "mcptrio.serve.opened",
    # Connecting to servers
    "Change": "mcptrio.client.subscriptions",
    "Changes": "mcptrio.client.subscriptions",
    "Client": "mcptrio.client.client",
    "ClientTimeouts": "mcptrio.client.timeouts",
    "Command": "mcptrio.targets",
    "Completion": "mcptrio.protocol.model",
    "ElicitResult": "mcptrio.protocol.model",
    "Endpoint": "mcptrio.targets",
    "Form": "mcptrio.client.forms",
    "FormField": "mcptrio.client.form_fields",
    "Handlers": "mcptrio.client.handlers",
    "Implementation": "mcptrio.protocol.model",
    "Listing": "mcptrio.client.listings",
    "LoggingMessageParams": "mcptrio.protocol.model",
    "Page": "mcptrio.client.forms",
    "Progress": "mcptrio.client.calls",
    "Prompt": "mcptrio.protocol.model",
    "Resource": "mcptrio.protocol.model",
    "ResourceTemplate": "mcptrio.protocol.model",
    "ServerCapabilities": "mcptrio.protocol.model",
    "Socket": "mcptrio.targets",
    "ToolCall": "mcptrio.client.tool_calls",
    "FileTokenStore": "mcptrio.stores.tokens_file",
    "KeyringTokenStore": "mcptrio.stores.tokens_keyring",
    "MemoryTokenStore": "mcptrio.stores.tokens_memory",
    "connect": "mcptrio.connecting",
    "load_mcp_json": "mcptrio.mcp_json.files",
    # Mounting servers
    "Mount": "mcptrio.mounting.mount",
    "MountOptions": "mcptrio.mounting.options",
    "MountStatus": "mcptrio.mounting.mount",
    # Hosting servers
    "ApprovalRequest": "mcptrio.host.approval",
    "AuditFile": "mcptrio.host.audit_file",
    "AuditRecord": "mcptrio.host.audit",
    "Decision": "mcptrio.host.approval",
    "Host": "mcptrio.host.host",
    "HostChange": "mcptrio.host.changes",
    "HostChanges": "mcptrio.host.changes",
    "HostList": "mcptrio.host.listing",
    "HostListing": "mcptrio.host.listing",
    "HostOptions": "mcptrio.host.options",
    "HostPrompt": "mcptrio.host.listing",
    "HostResource": "mcptrio.host.listing",
    "HostResourceTemplate": "mcptrio.host.listing",
    "HostTool": "mcptrio.host.listing",
    "ConnectionStatus": "mcptrio.host.member",
    # Errors
    "AuthorizationError": "mcptrio.errors",
    "ConfigError": "mcptrio.errors",
    "ConnectionClosed": "mcptrio.errors",
    "InputFailed": "mcptrio.errors",
    "InsufficientScope": "mcptrio.errors",
    "InvalidParams": "mcptrio.errors",
    "MCPError": "mcptrio.errors",
    "MCPTrioError": "mcptrio.errors",
    "MethodNotFound": "mcptrio.errors",
    "MissingClientCapability": "mcptrio.errors",
    "Overloaded": "mcptrio.errors",
    "NotApproved": "mcptrio.errors",
    "PluginError": "mcptrio.errors",
    "RemoteProtocolError": "mcptrio.errors",
    "RequestFailed": "mcptrio.errors",
    "RequestTimeout": "mcptrio.errors",
    "RateLimited": "mcptrio.errors",
    "ResourceNotFound": "mcptrio.errors",
    "ToolError": "mcptrio.errors",
    "URLElicitationRequired": "mcptrio.errors",
}
"""Every public name, and the module that has it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above say it to type checkers


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mcptrio' has no attribute {name!r}", name=name, obj=None)
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
