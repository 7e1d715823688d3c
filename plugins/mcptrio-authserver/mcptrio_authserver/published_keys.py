"""Keys that others publish: clients for their assertions, issuers for theirs.

Driven by :mod:`.authorization_server` before a transaction that needs them.
The one rule: they are fetched where the operator or the client's own metadata says, never where a token says; and a
token that names an unknown key makes us ask again once a minute at most, as do keys that cannot be had.

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

__all__ = ["fetch_keys", "keep_keys", "kept_keys", "needs_keys", "where_keys_are"]

_CACHE_SECONDS: Final = 3600.0
_REFRESH_INTERVAL: Final = 60.0
_MAX_KEY_SETS: Final = 1000


def where_keys_are(issuer: str) -> Flow[str]:
    """The ``jwks_uri`` of an issuer.

    Raises:
        Refusal: it has none, or calls itself something else.
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
    """
    Raises:
        Refusal: there are none.
    """
    try:
        response = yield FetchRequest(url=url, headers={"accept": "application/jwk-set+json, application/json"})
        if response.status == 200:
            return KeySet.read(response.body)
    except (RequestFailed, BadKey):
        pass
    raise Refusal("temporarily_unavailable", f"the keys cannot be fetched @ {shown(url)}", status=503)


def needs_keys(ledger: Ledger, url: str, token: str, now: float) -> bool:
    """Whether they are to be fetched for a token: they are not there, or none of them is the one it names."""
    record = ledger.get("keys", url)
    if record is None:
        return True
    try:
        header = peek(token).header
    except BadToken:
        return False
    return not KeySet.read(record["keys"]).candidates(header) and now - float(record["then"]) > _REFRESH_INTERVAL


def keep_keys(ledger: Ledger, url: str, fetched: KeySet | Refusal, now: float) -> None:
    """Remember what came of it. Where nothing came, the keys that are there stay good as long as they were."""
    value: dict[str, Any]
    if isinstance(fetched, KeySet):
        value = {"keys": fetched.document, "then": now, "until": now + _CACHE_SECONDS}
    else:
        before: Mapping[str, Any] = ledger.get("keys", url) or {"keys": {"keys": []}, "until": now + _REFRESH_INTERVAL}
        value = {**before, "then": now}
    ledger.put("keys", url, value, until=float(value["until"]), most=_MAX_KEY_SETS)


def kept_keys(ledger: Ledger, url: str) -> KeySet:
    """Those that were fetched; none where there are none."""
    record = ledger.get("keys", url)
    return KeySet.read(record["keys"]) if record is not None else KeySet(())
