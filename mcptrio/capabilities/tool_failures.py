"""Results for tool calls that have failed: a message for the model, and details for the log.

The capability of tools uses them.
"""

from __future__ import annotations

import logging

import trio

from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.tool_names import resolve_tool_names
from mcptrio.errors import MCPError, ToolError, URLElicitationRequired
from mcptrio.ground.tracebacks import log_failure
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.runtime.request import RequestScope

__all__ = ["error_result", "internal_error_result", "result_of_exception"]

_log = logging.getLogger("mcptrio.tools")


def result_of_exception(scope: RequestScope, name: str, owner: Owner, error: BaseException) -> CallToolResult:
    """Return the result for an exception of a tool.

    Raises:
        MCPError: The exception is an MCPError, which becomes an error response.
    """
    if isinstance(error, ToolError):
        return error_result(resolve_tool_names(str(error), owner.tool_name))
    if isinstance(error, URLElicitationRequired) and not scope.request.peer.revision.url_elicitation_error:
        urls = ", ".join(elicitation["url"] for elicitation in error.elicitations)
        return error_result(f"{error.message}: {urls}")
    if isinstance(error, MCPError):
        raise error
    if isinstance(error, trio.TooSlowError):
        _log.warning("tool %s timed out", name, exc_info=error)
        return error_result(f"tool {name} timed out")
    return internal_error_result(name, error)


def internal_error_result(name: str, error: BaseException) -> CallToolResult:
    """Log an error that only the operator may read, and return a result with the id of the log record."""
    failure_id = log_failure(_log, error, "tool %s failed", name)
    # A missing library is mentioned, because the user may ask the operator to install it.
    why = " a library it needs cannot be imported on the server:" if isinstance(error, ImportError) else ""
    return error_result(f"error executing tool {name}:{why} see id {failure_id} in the server's log")


def error_result(text: str) -> CallToolResult:
    """Return a result with ``isError``, whose text the model reads."""
    return CallToolResult(content=(TextContent(text=text),), is_error=True)
