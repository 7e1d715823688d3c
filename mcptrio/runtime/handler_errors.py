"""The errors that a request sends to its client if its handler fails or exceeds its deadline."""

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
    """Return the error to send to the client for an exception of a handler.

    An exception that was not meant for the client is logged, and the client receives only the id of the log record.
    """
    if isinstance(error, MCPError):
        return error
    if isinstance(error, ToolError):
        return InternalError(str(error))
    if isinstance(error, StoreFailed):
        # The reason is for the operator. A traceback would not help: the cause is outside of the program.
        _log.error("%s failed: %s", label, error)
        return Overloaded("the server's store is unavailable", retry_after=STORE_RETRY_SECONDS)
    # The text of an exception may contain secrets.
    failure_id = log_failure(_log, error, "%s failed", label)
    return InternalError(f"internal error in {label}: see id {failure_id} in the server's log")
