"""Results of tool calls that have failed: the message for the model, and the details for the log.

The capability of tools uses it.
"""

from __future__ import annotations

import logging

import trio

from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.tool_names import with_names
from mcptrio.errors import MCPError, ToolError, URLElicitationRequired
from mcptrio.ground.tracebacks import log_failure
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.runtime.request import RequestScope

__all__ = ["broken", "failed", "failure_of"]

_log = logging.getLogger("mcptrio.tools")


def failure_of(scope: RequestScope, name: str, owner: Owner, error: BaseException) -> CallToolResult:
    """Return the result for an exception of a tool.

    Raises:
        MCPError: The exception, if it is one.
    """
    if isinstance(error, ToolError):
        return failed(with_names(str(error), owner.tool_name))
    if isinstance(error, URLElicitationRequired) and not scope.request.peer.revision.url_elicitation_error:
        urls = ", ".join(elicitation["url"] for elicitation in error.elicitations)
        return failed(f"{error.message}: {urls}")
    if isinstance(error, MCPError):
        raise error
    if isinstance(error, trio.TooSlowError):
        _log.warning("%s took too long", name, exc_info=error)
        return failed(f"tool {name} timed out")
    return broken(name, error)


def broken(name: str, error: BaseException) -> CallToolResult:
    """Return the result for an error that only the operator may read, and log it."""
    failure_id = log_failure(_log, error, "tool %s failed", name)
    # The operator can install what is missing, so the answer says what kind of failure it is.
    why = " a library it needs cannot be imported on the server:" if isinstance(error, ImportError) else ""
    return failed(f"error executing tool {name}:{why} see id {failure_id} in the server's log")


def failed(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),), is_error=True)
