"""The errors with which a client learns that a handler has failed or was late. A request uses them."""

from __future__ import annotations

import logging

from mcptrio.abc import STORE_RETRY_SECONDS
from mcptrio.errors import InternalError, MCPError, Overloaded, StoreFailed, ToolError
from mcptrio.ground.tracebacks import log_failure

__all__ = ["Expired", "error_for"]

_log = logging.getLogger("mcptrio.dispatch")


class Expired(InternalError):
    """The deadline of a request has passed."""


def error_for(error: BaseException, label: str) -> MCPError:
    """Return the error to send for an exception. It is logged in full unless it was meant for the client."""
    if isinstance(error, MCPError):
        return error
    if isinstance(error, ToolError):
        return InternalError(str(error))
    if isinstance(error, StoreFailed):
        # The reason is for the operator, and has no use for a traceback.
        _log.error("%s failed: %s", label, error)
        return Overloaded("the store of the server does not work at the moment", retry_after=STORE_RETRY_SECONDS)
    # The client gets only an id: the text of an exception may contain secrets.
    failure_id = log_failure(_log, error, "%s failed", label)
    return InternalError(f"internal error in {label}: see id {failure_id} in the server's log")
