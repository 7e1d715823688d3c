"""The names of spans, attributes and metrics. All names of the conventions that mcptrio uses are in this module.

Source: OpenTelemetry semantic conventions for MCP (development), GenAI, network and errors. Our own names begin with
``mcptrio.``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BUCKETS",
    "CANCELLED",
    "CHANNEL",
    "CLIENT_ADDRESS",
    "CLIENT_OPERATION",
    "CLIENT_SESSION",
    "DIRECTION",
    "ERROR_TYPE",
    "EXECUTE_TOOL",
    "METHOD",
    "OPERATION_NAME",
    "OTHER",
    "PARAMETERS",
    "PLUGIN",
    "PLUGIN_STATE",
    "PROMPT_NAME",
    "PROTOCOL_NAME",
    "REASON",
    "REQUEST_ID",
    "RESOURCE_URI",
    "RESULT_KIND",
    "REVISION",
    "SCOPE",
    "SERVER_ADDRESS",
    "SERVER_OPERATION",
    "SERVER_PORT",
    "SERVER_SESSION",
    "SESSION_ID",
    "STATUS_CODE",
    "STORE_OPERATION",
    "TASK_ID",
    "TIMEOUT",
    "TOOL_ARGUMENTS",
    "TOOL_ERROR",
    "TOOL_NAME",
    "TOOL_RESULT",
    "TRANSPORT",
]

SCOPE: Final = "mcptrio"
"""The instrumentation scope."""

# Attributes of the conventions
METHOD: Final = "mcp.method.name"
REVISION: Final = "mcp.protocol.version"
SESSION_ID: Final = "mcp.session.id"
RESOURCE_URI: Final = "mcp.resource.uri"
TOOL_NAME: Final = "gen_ai.tool.name"
PROMPT_NAME: Final = "gen_ai.prompt.name"
OPERATION_NAME: Final = "gen_ai.operation.name"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
REQUEST_ID: Final = "jsonrpc.request.id"
STATUS_CODE: Final = "rpc.response.status_code"
ERROR_TYPE: Final = "error.type"
TRANSPORT: Final = "network.transport"
PROTOCOL_NAME: Final = "network.protocol.name"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
CLIENT_ADDRESS: Final = "client.address"

# Values of the conventions
EXECUTE_TOOL: Final = "execute_tool"
TOOL_ERROR: Final = "tool_error"
TIMEOUT: Final = "timeout"

# Ours
CANCELLED: Final = "cancelled"
"""The ``error.type`` of a request that the client has cancelled, or whose client has disconnected."""
RESULT_KIND: Final = "mcptrio.result.type"
"""``input_required`` or ``task``, if the result is not the final one."""
PLUGIN: Final = "mcptrio.plugin"
STORE_OPERATION: Final = "mcptrio.store.operation"
"""The port and its method: ``events.append``."""
TASK_ID: Final = "mcptrio.task.id"
"""The first characters of a task's id, as in the log: the whole id would give access to the task."""

CHANNEL: Final = "mcptrio.channel"
DIRECTION: Final = "mcptrio.direction"
PLUGIN_STATE: Final = "mcptrio.plugin.state"
REASON: Final = "mcptrio.reason"
OTHER: Final = "other"
"""The value that replaces further values of a label once it has its maximum number of values."""

# Metrics of the conventions
SERVER_OPERATION: Final = "mcp.server.operation.duration"
SERVER_SESSION: Final = "mcp.server.session.duration"
CLIENT_OPERATION: Final = "mcp.client.operation.duration"
CLIENT_SESSION: Final = "mcp.client.session.duration"
BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The upper bounds of the buckets of these four histograms, in seconds."""

PARAMETERS: Final = {
    "tools/call": ("name", TOOL_NAME),
    "prompts/get": ("name", PROMPT_NAME),
    "resources/read": ("uri", RESOURCE_URI),
    "resources/subscribe": ("uri", RESOURCE_URI),
    "resources/unsubscribe": ("uri", RESOURCE_URI),
    "notifications/resources/updated": ("uri", RESOURCE_URI),
}
"""By method, the parameter that names the target, and the attribute that records it."""
