"""Clients of the authorization server, from the settings, a registration or a metadata document.

Only clients in the settings are trusted: any program can create the others, with any name.

Source: RFC 7591 section 2; OAuth Client ID Metadata Document (draft 00) section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from attrs import asdict, field, frozen

from .config import ClientSettings, Config
from .grants import end_grant, list_grants
from .ledger import Ledger
from .opaque import digest_of

__all__ = ["AUTH_METHODS", "Origin", "RegisteredClient", "find_client", "list_clients", "remove_client"]

Origin = Literal["settings", "registration", "document"]

AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")


@frozen(kw_only=True)
class RegisteredClient:
    """A client.

    Args:
        id: The client id.
        name: The name that users see.
        origin: The way in which the client was registered.
        redirect_uris: The registered redirect URIs.
        grant_types: The allowed grants.
        auth_method: One of :data:`AUTH_METHODS`; a client with a secret in the settings may use either secret method.
        secret_digest: The digest of its secret, if any.
        keys: The client's public keys as a JWK set.
        jwks_uri: The URL of its public keys.
        scopes: The scopes that it may be granted; ``None`` for all.
        introspect: True if it may introspect all tokens.
        dpop: True if its tokens must be bound to a key.
        made: The time of the registration, in seconds since 1970.
        used: The time at which the client last received a token, in seconds since 1970; 0 for never.
    """

    id: str
    name: str
    origin: Origin
    redirect_uris: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = ("authorization_code",)
    auth_method: str = "none"
    secret_digest: str | None = field(default=None, repr=False)
    keys: Mapping[str, Any] | None = field(default=None, repr=False)
    jwks_uri: str | None = None
    scopes: tuple[str, ...] | None = None
    introspect: bool = False
    dpop: bool = False
    made: float = 0
    used: float = 0

    @property
    def is_trusted(self) -> bool:
        """True if the operator registered it."""
        return self.origin == "settings"

    @property
    def is_public(self) -> bool:
        """True if it cannot authenticate."""
        return self.auth_method == "none"

    @classmethod
    def of_settings(cls, id: str, settings: ClientSettings) -> Self:
        secret = settings.secret
        if secret is not None:
            method = "client_secret_basic"
        else:
            method = "none" if settings.is_public else "private_key_jwt"
        return cls(
            id=id,
            name=settings.name or id,
            origin="settings",
            redirect_uris=settings.redirect_uris,
            grant_types=settings.grant_types,
            auth_method=method,
            secret_digest=digest_of(secret.reveal()) if secret is not None else None,
            keys=settings.keys(),
            jwks_uri=settings.jwks_uri,
            scopes=settings.scopes,
            introspect=settings.introspect,
            dpop=settings.dpop,
        )

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        lists = {name: tuple(record[name]) for name in ("redirect_uris", "grant_types")}
        scopes = tuple(record["scopes"]) if record["scopes"] is not None else None
        return cls(**{**record, **lists, "scopes": scopes})

    def record(self) -> dict[str, Any]:
        return asdict(self, recurse=False)


def find_client(ledger: Ledger, config: Config, id: str) -> RegisteredClient | None:
    """Return a known client, or one whose document is cached; ``None`` for others."""
    if id in config.clients:
        return RegisteredClient.of_settings(id, config.clients[id])
    for kind in ("client", "document"):
        record = ledger.get(kind, id)
        if record is not None and "id" in record:
            return RegisteredClient.of_record(record)
    return None


def list_clients(ledger: Ledger) -> Sequence[RegisteredClient]:
    """Return the clients outside the settings: those that registered themselves, and those whose document is cached."""
    return [
        RegisteredClient.of_record(record)
        for kind in ("client", "document")
        for record in ledger.list(kind)
        if "id" in record
    ]


def remove_client(ledger: Ledger, id: str) -> tuple[bool, int]:
    """Remove a client outside the settings, and end the grants of any client.

    Returns:
        True if the client was stored, and the number of ended grants.
    """
    deletions = [ledger.delete(kind, id) for kind in ("client", "document")]
    grants = [grant for grant in list_grants(ledger) if grant.client_id == id]
    return any(deletions), sum(end_grant(ledger, grant.id) for grant in grants)
