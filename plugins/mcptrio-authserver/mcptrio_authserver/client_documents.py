"""Clients whose id is the URL of a document about them: fetched, checked, kept for as long as its headers say.

Driven by :mod:`.authorization_server` before a transaction that needs such a client.
The one rule: the document says that it is the one of this very URL, character for character, or it is nobody's.

What cannot be fetched is not asked for again for a minute, and one address may make us ask only so often.

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
from .rates import Rate, count_attempt, neighbourhood
from .refusals import Refusal, too_often

__all__ = ["FetchedClient", "fetch_client", "is_document", "keep_client", "needs_fetch"]

_MAX_URL_CHARS: Final = 1024
_MAX_DOCUMENT_BYTES: Final = 16 * 1024
"""The draft suggests 5 KiB."""
_MIN_CACHE_SECONDS: Final = 60.0
_DEFAULT_CACHE_SECONDS: Final = 3600.0
"""Seconds for which a document is kept whose headers say nothing."""
_MAX_CACHE_SECONDS: Final = 86_400.0
_FAILURE_CACHE_SECONDS: Final = 60.0
_MAX_DOCUMENTS: Final = 1000
"""Documents that are kept; past that the oldest go, and are fetched again."""
_RATE: Final = Rate(kind="document", most=30, seconds=60)


@frozen(kw_only=True)
class FetchedClient:
    """
    Args:
        lifetime: seconds for which it may be kept.
    """

    client: RegisteredClient
    lifetime: float


def is_document(client_id: str, config: Config) -> bool:
    """Whether a client's id is such a URL.

    Raises:
        Refusal: it is a URL, and none that a document may have.
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
        raise Refusal("invalid_client", f"client_id: documents of {host} are not taken here")
    return True


def needs_fetch(ledger: Ledger, client_id: str, *, address: str | None, now: float) -> bool:
    """Whether its document is not there.

    Raises:
        Refusal: it could not be fetched a moment ago, or this address has made us fetch too many.
    """
    record = ledger.get("document", client_id)
    if record is not None:
        if "problem" in record:
            raise Refusal("invalid_client", str(record["problem"]))
        return False
    if (wait := count_attempt(ledger, _RATE, neighbourhood(address), now)) > 0:
        raise too_often(wait)
    return True


def keep_client(ledger: Ledger, client_id: str, fetched: FetchedClient | Refusal, now: float) -> None:
    """Remember what came of it."""
    if isinstance(fetched, Refusal):
        ledger.put(
            "document",
            client_id,
            {"problem": fetched.description},
            until=now + _FAILURE_CACHE_SECONDS,
            most=_MAX_DOCUMENTS,
        )
    else:
        ledger.put("document", client_id, fetched.client.record(), until=now + fetched.lifetime, most=_MAX_DOCUMENTS)


def fetch_client(client_id: str, app_schemes: Collection[str]) -> Flow[FetchedClient]:
    """
    Args:
        app_schemes: the schemes without a period that its redirect URIs may have.

    Raises:
        Refusal: there is no document, or it is none of this client.
    """
    try:
        response = yield FetchRequest(url=client_id, headers={"accept": "application/json"})
    except RequestFailed:
        # Why is not told to whoever asked: it would say what can be reached from here.
        raise Refusal("invalid_client", f"client_id: the document cannot be fetched @ {shown(client_id)}") from None
    if response.status != 200 or len(response.body) > _MAX_DOCUMENT_BYTES:
        raise Refusal(
            "invalid_client",
            f"client_id: expected status 200 and at most {_MAX_DOCUMENT_BYTES} bytes, got status {response.status} and"
            f" {len(response.body)} bytes @ {shown(client_id)}",
        )
    try:
        document = read_object(response.body, client_id)
    except AuthorizationError as error:
        raise Refusal("invalid_client", f"client_id: {error}") from None
    if document.get("client_id") != client_id:
        raise Refusal("invalid_client", f"client_id: expected the document to have its own URL @ {shown(client_id)}")
    if "client_secret" in document or "client_secret_expires_at" in document:
        raise Refusal("invalid_client", f"client_id: expected a document without secrets @ {shown(client_id)}")
    try:
        metadata = read_client_metadata(document, default_method="none", app_schemes=app_schemes)
    except Refusal as refusal:
        raise Refusal("invalid_client", f"{refusal.description} @ {shown(client_id)}") from None
    if metadata.name is None:
        raise Refusal("invalid_client", f"client_name: expected one @ {shown(client_id)}")
    if metadata.auth_method not in ("none", "private_key_jwt"):
        raise Refusal(
            "invalid_client",
            f"token_endpoint_auth_method: expected none or private_key_jwt in a document @ {shown(client_id)}",
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
        return _MIN_CACHE_SECONDS  # as long as one person takes to consent
    ages = [part for part in control if re.fullmatch(r"max-age=\d{1,9}", part)]
    if not ages:
        return _DEFAULT_CACHE_SECONDS
    age = headers.get("age", "0")
    spent = float(age) if re.fullmatch(r"\d{1,9}", age) else 0.0
    return min(_MAX_CACHE_SECONDS, max(_MIN_CACHE_SECONDS, float(ages[0].partition("=")[2]) - spent))
