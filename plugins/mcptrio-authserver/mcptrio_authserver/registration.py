"""Dynamic client registration, with a rate limit per address and a maximum number of clients.

:mod:`.service` calls it for ``POST /register``.

Source: RFC 7591 sections 3 and 5; MCP 2026-07-28, basic/authorization/client-registration, "Dynamic Client
Registration".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from .client_metadata import RegistrationMetadata, read_client_metadata
from .clients import RegisteredClient
from .config import Config
from .ledger import Ledger
from .opaque import digest_of, new_id, new_opaque
from .rates import Rate, address_key, count_attempt
from .refusals import Refusal, too_often

__all__ = ["note_use", "register_client"]

# Seconds for which a client is kept before its first use.
_UNUSED_SECONDS: Final = 3600.0
# The two groups of registered clients.
_NEW, _USED = "new", "used"


def register_client(
    ledger: Ledger, config: Config, document: Mapping[str, Any], *, address: str | None, now: float
) -> dict[str, Any]:
    """Register a client.

    Args:
        document: The body of the request.
        address: The address of the client.
        now: Seconds since 1970.

    Returns:
        The body of the response, the only place that contains the secret.

    Raises:
        Refusal: The registration is refused, permanently or until the time in ``Retry-After``.
    """
    if not config.registration:
        raise Refusal(
            "access_denied",
            "dynamic registration is disabled; the operator has to register the client",
            status=403,
        )
    rate = Rate(kind="register", max_attempts=config.registrations_per_hour, seconds=3600)
    if (wait := count_attempt(ledger, rate, address_key(address), now)) > 0:
        raise too_often(wait)
    metadata = read_client_metadata(document, default_method="client_secret_basic", app_schemes=config.app_schemes)
    used = ledger.count("client", _USED)
    if used >= config.max_clients:
        raise Refusal("temporarily_unavailable", "too many clients are registered (max_clients)", status=503)
    has_secret = metadata.auth_method in ("client_secret_basic", "client_secret_post")
    secret = new_opaque("mcpas_") if has_secret else None
    client = RegisteredClient(
        id=new_id(),
        name=metadata.name or "An application without a name",
        origin="registration",
        redirect_uris=metadata.redirect_uris,
        grant_types=metadata.grant_types,
        auth_method=metadata.auth_method,
        secret_digest=digest_of(secret) if secret is not None else None,
        keys=metadata.keys,
        jwks_uri=metadata.jwks_uri,
        # Scopes in the registration are no limit: clients register before they know what they will request.
        scopes=None,
        made=now,
    )
    # A flood of registrations evicts only unused clients, the oldest first; clients that a user has authorized stay.
    room = config.max_clients - used
    ledger.put("client", client.id, client.record(), until=now + _UNUSED_SECONDS, group=_NEW, max_records=room)
    return _registration_response(config, client, metadata, secret)


def _registration_response(
    config: Config, client: RegisteredClient, metadata: RegistrationMetadata, secret: str | None
) -> dict[str, Any]:
    """Return the body of the response: the client as it is registered, and its secret (RFC 7591 section 3.2.1)."""
    body: dict[str, Any] = {
        "client_id": client.id,
        "client_id_issued_at": int(client.made),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": list(client.grant_types),
        "response_types": ["code"] if "authorization_code" in client.grant_types else [],
        "token_endpoint_auth_method": client.auth_method,
        "application_type": metadata.application_type,
    }
    if metadata.scopes is not None:
        body["scope"] = " ".join(scope for scope in metadata.scopes if scope in config.scopes)
    if client.keys is not None:
        body["jwks"] = client.keys
    if client.jwks_uri is not None:
        body["jwks_uri"] = client.jwks_uri
    if secret is not None:
        # 0 means that the secret does not expire.
        body |= {"client_secret": secret, "client_secret_expires_at": 0}
    return body


def note_use(ledger: Ledger, config: Config, client: RegisteredClient, now: float) -> None:
    """Keep a registered client for longer, because it has received a token."""
    if client.origin == "registration":
        client = evolve(client, used=now)
        ledger.put("client", client.id, client.record(), until=now + config.registration_lifetime, group=_USED)
