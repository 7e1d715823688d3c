"""Serving in a program: options and limits, transports, channels and mounted servers.

Each name is imported on first use.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.abc.observers import Observer as Observer
    from mcptrio.abc.observers import Outcome as Outcome
    from mcptrio.abc.observers import RefusalReason as RefusalReason
    from mcptrio.abc.observers import RequestEnded as RequestEnded
    from mcptrio.abc.observers import SessionEnded as SessionEnded
    from mcptrio.abc.observers import TaskEnded as TaskEnded
    from mcptrio.abc.status import ParkedStatus as ParkedStatus
    from mcptrio.abc.status import PluginState as PluginState
    from mcptrio.abc.status import PluginStatus as PluginStatus
    from mcptrio.abc.status import QuestionStatus as QuestionStatus
    from mcptrio.abc.status import Readiness as Readiness
    from mcptrio.abc.status import RequestStatus as RequestStatus
    from mcptrio.abc.status import ServerStatus as ServerStatus
    from mcptrio.abc.status import SessionStatus as SessionStatus
    from mcptrio.abc.status import ThreadStatus as ThreadStatus
    from mcptrio.abc.status import WaitsFor as WaitsFor
    from mcptrio.capabilities.authorization import Authorizer as Authorizer
    from mcptrio.capabilities.authorization import Component as Component
    from mcptrio.capabilities.call_limits import CallLimits as CallLimits
    from mcptrio.capabilities.decorators import PromptOptions as PromptOptions
    from mcptrio.capabilities.decorators import ResourceOptions as ResourceOptions
    from mcptrio.capabilities.decorators import ToolOptions as ToolOptions
    from mcptrio.capabilities.logging import LogSink as LogSink
    from mcptrio.capabilities.logging import Redaction as Redaction
    from mcptrio.capabilities.middleware import Middleware as Middleware
    from mcptrio.capabilities.owner import Owner as Owner
    from mcptrio.http.engine.limits import ConnectionLimits as ConnectionLimits
    from mcptrio.http.engine.server import serve_asgi as serve_asgi
    from mcptrio.http.server.limits import HTTPLimits as HTTPLimits
    from mcptrio.mounting.mount import MountState as MountState
    from mcptrio.mounting.mount import MountStatus as MountStatus
    from mcptrio.mounting.options import MountOptions as MountOptions
    from mcptrio.plugins.manager import PluginManager as PluginManager
    from mcptrio.plugins.plugin import Plugin as Plugin
    from mcptrio.plugins.policy import PluginPolicy as PluginPolicy
    from mcptrio.plugins.policy import ToolPolicy as ToolPolicy
    from mcptrio.plugins.shown_settings import ShownSetting as ShownSetting
    from mcptrio.protocol.limits import MessageLimits as MessageLimits
    from mcptrio.recording.sequence import RecordedMessage as RecordedMessage
    from mcptrio.recording.session_recording import SessionRecording as SessionRecording
    from mcptrio.runtime.limits import ServerLimits as ServerLimits
    from mcptrio.runtime.settings import ServerSettings as ServerSettings
    from mcptrio.runtime.timeouts import Timeouts as Timeouts
    from mcptrio.serve.asgi_app import ServerApp as ServerApp
    from mcptrio.serve.asgi_app import asgi_app as asgi_app
    from mcptrio.serve.console import ConsoleOptions as ConsoleOptions
    from mcptrio.serve.http import over_http as over_http
    from mcptrio.serve.http_options import HTTPOptions as HTTPOptions
    from mcptrio.serve.stdio import serve_stdio as serve_stdio
    from mcptrio.serve.stream import over_streams as over_streams
    from mcptrio.serve.stream_options import StreamOptions as StreamOptions
    from mcptrio.serve.transport import Transport as Transport
    from mcptrio.serve.transport import over_transport as over_transport
    from mcptrio.server import RunningServer as RunningServer
    from mcptrio.transports.channel_adapter import adapt_channel as adapt_channel
    from mcptrio.transports.memory import memory_channel_pair as memory_channel_pair
    from mcptrio.transports.stream import StreamChannel as StreamChannel

_HOMES = {
    # Servers and plugins
    "Component": "mcptrio.capabilities.authorization",
    "Owner": "mcptrio.capabilities.owner",
    "Plugin": "mcptrio.plugins.plugin",
    "PluginManager": "mcptrio.plugins.manager",
    "PluginPolicy": "mcptrio.plugins.policy",
    "PluginState": "mcptrio.abc.status",
    "RunningServer": "mcptrio.server",
    "ToolPolicy": "mcptrio.plugins.policy",
    # Limits
    "CallLimits": "mcptrio.capabilities.call_limits",
    "ConnectionLimits": "mcptrio.http.engine.limits",
    "HTTPLimits": "mcptrio.http.server.limits",
    "MessageLimits": "mcptrio.protocol.limits",
    "ServerLimits": "mcptrio.runtime.limits",
    "ServerSettings": "mcptrio.runtime.settings",
    "Timeouts": "mcptrio.runtime.timeouts",
    # Transports
    "HTTPOptions": "mcptrio.serve.http_options",
    "ServerApp": "mcptrio.serve.asgi_app",
    "StreamOptions": "mcptrio.serve.stream_options",
    "Transport": "mcptrio.serve.transport",
    "asgi_app": "mcptrio.serve.asgi_app",
    "over_http": "mcptrio.serve.http",
    "over_streams": "mcptrio.serve.stream",
    "over_transport": "mcptrio.serve.transport",
    "serve_asgi": "mcptrio.http.engine.server",
    "serve_stdio": "mcptrio.serve.stdio",
    # Channels
    "StreamChannel": "mcptrio.transports.stream",
    "adapt_channel": "mcptrio.transports.channel_adapter",
    "memory_channel_pair": "mcptrio.transports.memory",
    # Status
    "Observer": "mcptrio.abc.observers",
    "Outcome": "mcptrio.abc.observers",
    "ParkedStatus": "mcptrio.abc.status",
    "PluginStatus": "mcptrio.abc.status",
    "QuestionStatus": "mcptrio.abc.status",
    "Readiness": "mcptrio.abc.status",
    "RefusalReason": "mcptrio.abc.observers",
    "RequestEnded": "mcptrio.abc.observers",
    "RequestStatus": "mcptrio.abc.status",
    "ServerStatus": "mcptrio.abc.status",
    "SessionEnded": "mcptrio.abc.observers",
    "SessionStatus": "mcptrio.abc.status",
    "TaskEnded": "mcptrio.abc.observers",
    "ThreadStatus": "mcptrio.abc.status",
    "WaitsFor": "mcptrio.abc.status",
    # Recordings
    "RecordedMessage": "mcptrio.recording.sequence",
    "SessionRecording": "mcptrio.recording.session_recording",
    # The console
    "ConsoleOptions": "mcptrio.serve.console",
    "ShownSetting": "mcptrio.plugins.shown_settings",
    # Mounted servers
    "MountOptions": "mcptrio.mounting.options",
    "MountState": "mcptrio.mounting.mount",
    "MountStatus": "mcptrio.mounting.mount",
    # For plugins
    "Authorizer": "mcptrio.capabilities.authorization",
    "LogSink": "mcptrio.capabilities.logging",
    "Middleware": "mcptrio.capabilities.middleware",
    "PromptOptions": "mcptrio.capabilities.decorators",
    "Redaction": "mcptrio.capabilities.logging",
    "ResourceOptions": "mcptrio.capabilities.decorators",
    "ToolOptions": "mcptrio.capabilities.decorators",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
