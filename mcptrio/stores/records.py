"""Session records as JSON, for stores outside this process.

The stores in SQLite and those of other distributions use them, so that every store keeps the same fields.
"""

from __future__ import annotations

import orjson

from mcptrio.abc import Principal, SessionRecord
from mcptrio.errors import StoreFailed

__all__ = ["read_record", "write_record"]


def write_record(record: SessionRecord) -> bytes:
    """Return the JSON of a record, without token and claims: each request brings its own."""
    principal = record.principal
    return orjson.dumps(
        {
            "id": record.id,
            "revision": record.revision,
            "principal": principal
            and {
                "subject": principal.subject,
                "issuer": principal.issuer,
                "client_id": principal.client_id,
                "scopes": sorted(principal.scopes),
            },
            "client_info": dict(record.client_info),
            "client_capabilities": dict(record.client_capabilities),
            "initialized": record.initialized,
            "log_level": record.log_level,
            "subscriptions": sorted(record.subscriptions),
            "get_stream": record.get_stream,
            "generation": record.generation,
        }
    )


def read_record(data: bytes, where: str) -> SessionRecord:
    """Return the record in stored data.

    Args:
        data: The bytes that :func:`write_record` has returned.
        where: The store and the session, for the error.

    Raises:
        StoreFailed: The data are malformed.
    """
    try:
        plain = orjson.loads(data)
        principal = plain.pop("principal")
        if principal is not None:
            principal = Principal(**{**principal, "scopes": frozenset(principal["scopes"])})
        subscriptions = frozenset(plain.pop("subscriptions"))
        return SessionRecord(**plain, principal=principal, subscriptions=subscriptions)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise StoreFailed(f"{where}: expected a record, got something else: {error}") from error
