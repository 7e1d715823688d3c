"""Clients with a Client ID Metadata Document: fetched, validated, and cached as the HTTP headers allow.

:mod:`.outgoing_requests` fetches a document before a transaction that needs the client.

Source: OAuth Client ID Metadata Document (draft 00) sections 3, 4, 5.1 and 6; MCP 2026-07-28,
basic/authorization/client-registration, "Client ID Metadata Documents"; RFC 9111 sections 4.2 and 5.2.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from mcptrio.abc import FetchRequest
from mcptrio.auth import Flow, read_object
from mcptrio.auth.urls import is_loopback, shown
from mcptrio.errors import AuthorizationError, RequestFailed

from .client_metadata import read_client_metadata
from .clients import RegisteredClient
from .config import Config
from .ledger import Ledger
from .rates import Rate, address_key, count_attempt
from .refusals import Refusal, too_often

__all__ = ["FetchedClient", "cache_client", "fetch_client", "is_document", "needs_fetch"]

_MAX_URL_CHARS: Final = 1024
# Largest document in bytes; the draft suggests 5 KiB.
_MAX_DOCUMENT_BYTES: Final = 16 * 1024
# Seconds for which every document is cached at least: the pages of one consent read it several times.
_MIN_CACHE_SECONDS: Final = 60.0
# Seconds for which a document without caching headers is kept.
_DEFAULT_CACHE_SECONDS: Final = 3600.0
_MAX_CACHE_SECONDS: Final = 86_400.0
# Seconds until an unavailable document is requested again.
_FAILURE_CACHE_SECONDS: Final = 60.0
# Documents in the cache. When full, the oldest is evicted and fetched again when needed.
_MAX_DOCUMENTS: Final = 1000
# One address cannot make this server send unlimited requests to others.
_RATE: Final = Rate(kind="document", max_attempts=30, seconds=60)


@frozen(kw_only=True)
class FetchedClient:
    """A client and how long its document may be cached.

    Args:
        lifetime: The seconds for which the document is cached.
    """

    client: RegisteredClient
    lifetime: float


def is_document(client_id: str, config: Config) -> bool:
    """Return True if a client id is the URL of a metadata document.

    Raises:
        Refusal: It is a URL that a document may not have.
    """
    if "://" not in client_id or client_id in config.clients or not config.client_documents:
        return False
    problem = Refusal(
        "invalid_client", "client_id: expected an https URL with a path, without dots, fragment and credentials"
    )
    if len(client_id) > _MAX_URL_CHARS or re.search(r"[^\x21-\x7e]|[\\#]", client_id):
        raise problem
    try:
        parts = urlsplit(client_id)
        port = parts.port
    except ValueError:
        raise problem from None
    host = parts.hostname or ""
    local = config.addresses.is_local and parts.scheme == "http" and is_loopback(host)
    if not (parts.scheme == "https" or local) or not host or port == 0 or "@" in parts.netloc:
        raise problem
    segments = [segment.lower().replace("%2e", ".") for segment in parts.path.split("/")]
    if parts.path in ("", "/") or "." in segments or ".." in segments:
        raise problem
    if config.client_document_hosts and host not in config.client_document_hosts:
        raise Refusal("invalid_client", f"client_id: expected a host in client_document_hosts, got {host}")
    return True


def needs_fetch(ledger: Ledger, client_id: str, *, address: str | None, now: float) -> bool:
    """Return True if the document of a client has to be fetched.

    Raises:
        Refusal: It was unavailable a short time ago, or this address has caused too many requests.
    """
    record = ledger.get("document", client_id)
    if record is not None:
        if "problem" in record:
            raise Refusal("invalid_client", str(record["problem"]))
        return False
    if (wait := count_attempt(ledger, _RATE, address_key(address), now)) > 0:
        raise too_often(wait)
    return True


def cache_client(ledger: Ledger, client_id: str, fetched: FetchedClient | Refusal, now: float) -> None:
    """Store the result of fetching a document."""
    if isinstance(fetched, Refusal):
        ledger.put(
            "document",
            client_id,
            {"problem": fetched.description},
            until=now + _FAILURE_CACHE_SECONDS,
            max_records=_MAX_DOCUMENTS,
        )
    else:
        ledger.put(
            "document", client_id, fetched.client.record(), until=now + fetched.lifetime, max_records=_MAX_DOCUMENTS
        )


def fetch_client(client_id: str, app_schemes: Collection[str]) -> Flow[FetchedClient]:
    """Fetch the metadata document of a client.

    Args:
        client_id: The URL of the document, which is the id of the client.
        app_schemes: The schemes without a period that are allowed in redirect URIs.

    Raises:
        Refusal: The document is unavailable or invalid.
    """
    try:
        response = yield FetchRequest(url=client_id, headers={"accept": "application/json"})
    except RequestFailed:
        # Without the reason, which would show the sender which addresses this server can reach.
        raise Refusal("invalid_client", f"client_id: the document cannot be fetched at {shown(client_id)}") from None
    if response.status != 200 or len(response.body) > _MAX_DOCUMENT_BYTES:
        raise Refusal(
            "invalid_client",
            f"client_id: expected status 200 and at most {_MAX_DOCUMENT_BYTES} bytes, got status {response.status} and"
            f" {len(response.body)} bytes at {shown(client_id)}",
        )
    try:
        document = read_object(response.body, client_id)
    except AuthorizationError as error:
        raise Refusal("invalid_client", f"client_id: {error}") from None
    # Draft section 4: otherwise a copy of the document on another host would be the same client.
    if document.get("client_id") != client_id:
        raise Refusal("invalid_client", f"client_id: expected the document to have its own URL at {shown(client_id)}")
    if "client_secret" in document or "client_secret_expires_at" in document:
        raise Refusal("invalid_client", f"client_id: expected a document without secrets at {shown(client_id)}")
    try:
        metadata = read_client_metadata(document, default_method="none", app_schemes=app_schemes)
    except Refusal as refusal:
        raise Refusal("invalid_client", f"{refusal.description} at {shown(client_id)}") from None
    if metadata.name is None:
        raise Refusal("invalid_client", f"client_name: expected a name, got none at {shown(client_id)}")
    if metadata.auth_method not in ("none", "private_key_jwt"):
        raise Refusal(
            "invalid_client",
            f"token_endpoint_auth_method: expected none or private_key_jwt in a document at {shown(client_id)}",
        )
    client = RegisteredClient(
        id=client_id,
        name=metadata.name,
        origin="document",
        redirect_uris=metadata.redirect_uris,
        grant_types=metadata.grant_types,
        auth_method=metadata.auth_method,
        keys=metadata.keys,
        jwks_uri=metadata.jwks_uri,
    )
    return FetchedClient(client=client, lifetime=_lifetime(response.headers))


def _lifetime(headers: Mapping[str, str]) -> float:
    control = {part.strip().lower() for part in headers.get("cache-control", "").split(",")}
    if control & {"no-store", "no-cache"}:
        # Long enough for one consent.
        return _MIN_CACHE_SECONDS
    ages = [part for part in control if re.fullmatch(r"max-age=\d{1,9}", part)]
    if not ages:
        return _DEFAULT_CACHE_SECONDS
    age = headers.get("age", "0")
    spent = float(age) if re.fullmatch(r"\d{1,9}", age) else 0.0
    return min(_MAX_CACHE_SECONDS, max(_MIN_CACHE_SECONDS, float(ages[0].partition("=")[2]) - spent))
