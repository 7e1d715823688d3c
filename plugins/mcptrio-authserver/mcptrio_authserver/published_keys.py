"""Cached public keys of clients and trusted issuers, for verifying their assertions.

:mod:`.outgoing_requests` fetches keys before a transaction that needs them.

Source: RFC 7517 section 5; RFC 7523 section 3; RFC 8414 section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcptrio.abc import FetchRequest
from mcptrio.auth import Flow, ServerMetadata
from mcptrio.auth.jose import BadKey, BadToken, KeySet, peek
from mcptrio.auth.urls import server_metadata_urls, shown
from mcptrio.errors import AuthorizationError, RequestFailed

from .ledger import Ledger
from .refusals import Refusal

__all__ = ["cache_keys", "cached_keys", "fetch_keys", "find_jwks_uri", "needs_keys"]

# Seconds for which keys are used.
_CACHE_SECONDS: Final = 3600.0
# Seconds between two requests for one URL, also if tokens name unknown keys or the keys are unavailable.
_REFRESH_INTERVAL: Final = 60.0
# Key sets in the cache.
_MAX_KEY_SETS: Final = 1000


def find_jwks_uri(issuer: str) -> Flow[str]:
    """Return the ``jwks_uri`` of an issuer.

    Raises:
        Refusal: No metadata exists, or it has another issuer or no keys.
    """
    for url in server_metadata_urls(issuer):
        try:
            response = yield FetchRequest(url=url, headers={"accept": "application/json"})
            if response.status != 200:
                continue
            metadata = ServerMetadata.read(response.body, url)
        except (RequestFailed, AuthorizationError):
            continue
        if metadata.issuer == issuer and metadata.jwks_uri:
            return metadata.jwks_uri
    raise Refusal("temporarily_unavailable", f"no metadata with keys of {shown(issuer)}", status=503)


def fetch_keys(url: str) -> Flow[KeySet]:
    """Fetch a key set.

    Raises:
        Refusal: The keys are unavailable or malformed.
    """
    try:
        response = yield FetchRequest(url=url, headers={"accept": "application/jwk-set+json, application/json"})
        if response.status == 200:
            return KeySet.read(response.body)
    except (RequestFailed, BadKey):
        pass
    raise Refusal("temporarily_unavailable", f"the keys cannot be fetched at {shown(url)}", status=503)


def needs_keys(ledger: Ledger, url: str, token: str, now: float) -> bool:
    """Return True if keys have to be fetched for a token: none are cached, or none matches it."""
    record = ledger.get("keys", url)
    if record is None:
        return True
    try:
        header = peek(token).header
    except BadToken:
        return False
    return not KeySet.read(record["keys"]).candidates(header) and now - float(record["then"]) > _REFRESH_INTERVAL


def cache_keys(ledger: Ledger, url: str, fetched: KeySet | Refusal, now: float) -> None:
    """Store the result of fetching keys. After a failure, the earlier keys stay valid as long as before."""
    value: dict[str, Any]
    if isinstance(fetched, KeySet):
        value = {"keys": fetched.document, "then": now, "until": now + _CACHE_SECONDS}
    else:
        before: Mapping[str, Any] = ledger.get("keys", url) or {"keys": {"keys": []}, "until": now + _REFRESH_INTERVAL}
        value = {**before, "then": now}
    ledger.put("keys", url, value, until=float(value["until"]), max_records=_MAX_KEY_SETS)


def cached_keys(ledger: Ledger, url: str) -> KeySet:
    """Return the cached keys; an empty set if none are cached."""
    record = ledger.get("keys", url)
    return KeySet.read(record["keys"]) if record is not None else KeySet(())
