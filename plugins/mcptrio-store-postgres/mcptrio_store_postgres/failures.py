"""Errors of PostgreSQL: their kinds, and StoreFailed with messages for operators."""

from __future__ import annotations

from typing import Final

import psycopg

from mcptrio.errors import StoreFailed
from mcptrio_store_postgres.address import Address

__all__ = ["EngineFull", "failed_to_connect", "is_connection_lost", "is_deadlock", "may_retry_alone", "store_failed"]

# Classes of SQLSTATE. Source: PostgreSQL 15 documentation, appendix A.
_CONNECTION: Final = "08"
_INSUFFICIENT_RESOURCES: Final = "53"
_OPERATOR_INTERVENTION: Final = "57P"
_READ_ONLY: Final = "25006"
_IDLE_TIMEOUT: Final = "25P03"
# The engine has rolled the transaction back: a deadlock, or a serialization failure.
_DEADLOCK: Final = ("40P01", "40001")
# A statement that took too long, or a lock that was not available. Each further attempt would take as long.
_SLOW: Final = ("57014", "55P03")
# Part of libpq's error about an unknown authority, which has no SQLSTATE.
_UNTRUSTED: Final = "certificate verify failed"


class EngineFull(StoreFailed):
    """The disk or the memory of the engine is full."""


def store_failed(address: Address, error: BaseException) -> StoreFailed:
    """Return the error for callers, without the password."""
    code = getattr(error, "sqlstate", None) or ""
    words = " ".join(str(error).split()) or type(error).__name__
    password = address.parameters.get("password")
    if password:
        words = words.replace(str(password), "…")
    kind = EngineFull if code.startswith(_INSUFFICIENT_RESOURCES) else StoreFailed
    failed = kind(f"{address.label}: {words}" + (f" (SQLSTATE {code})" if code else ""))
    failed.__cause__ = error
    return failed


def failed_to_connect(address: Address, error: BaseException) -> StoreFailed:
    """Return the error of a failed connection, without cause and traceback, which would keep the socket open."""
    failed = error if isinstance(error, StoreFailed) else store_failed(address, error)
    if _UNTRUSTED in str(failed):
        failed = StoreFailed(f"{failed}; set stores.ca_file to the authority that has signed the engine's certificate")
    failed.__cause__ = None
    return failed.with_traceback(None)


def is_connection_lost(error: BaseException) -> bool:
    """Return True if the connection must be replaced: it is broken, or its server is stopping or read-only."""
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate or ""
    if not code:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return code.startswith((_CONNECTION, _OPERATOR_INTERVENTION)) or code in (_READ_ONLY, _IDLE_TIMEOUT)


def is_deadlock(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate in _DEADLOCK


def may_retry_alone(error: BaseException) -> bool:
    """Return True if the operations of a failed batch may be executed one by one: none was executed, and some may
    succeed."""
    if not isinstance(error, psycopg.Error):
        return not isinstance(error, StoreFailed)
    code = error.sqlstate or ""
    return not is_connection_lost(error) and code not in _SLOW and not code.startswith(_INSUFFICIENT_RESOURCES)
