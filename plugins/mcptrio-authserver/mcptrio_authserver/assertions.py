"""The JWT bearer grant: assertions of trusted issuers, exchanged for tokens.

A company's identity provider issues them for its users (ID-JAG), a platform for its workloads.

Source: RFC 7521 section 5.2; RFC 7523 sections 2.1 and 3; ext-auth, Enterprise-Managed Authorization, section 5.1;
Identity Assertion JWT Authorization Grant (draft); SEP-1933 (workload identity federation).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from mcptrio.auth import check_claims
from mcptrio.auth.jose import ALGORITHMS, BadToken, KeySet, peek, verify

from .clients import RegisteredClient
from .config import Config, TrustedIssuer
from .ledger import Ledger
from .opaque import digest_of
from .refusals import Refusal, too_often
from .resources import resource_of
from .scopes import granted_scopes

__all__ = ["AcceptedAssertion", "accept_assertion", "issuer_of"]

# Seconds by which the issuer's clock may differ.
_SKEW_SECONDS: Final = 60.0
# Longest remaining lifetime of an assertion in seconds.
_MAX_LIFETIME_SECONDS: Final = 86_400.0
# Used assertions that are remembered.
_MAX_REMEMBERED: Final = 50_000
# Longest subject in characters.
_MAX_SUBJECT_CHARS: Final = 200


@frozen(kw_only=True)
class AcceptedAssertion:
    """The tokens that an assertion allows."""

    subject: str
    client_id: str
    resource: str
    scopes: tuple[str, ...]


def issuer_of(config: Config, assertion: str) -> tuple[str, TrustedIssuer]:
    """Return the trusted issuer that an assertion names, with its name in the settings.

    Raises:
        Refusal: ``invalid_grant``: The issuer is not trusted.
    """
    try:
        issuer = peek(assertion).claims.get("iss")
    except BadToken as error:
        raise _invalid_assertion(str(error)) from None
    for name, trusted in config.trusted_issuers.items():
        if trusted.issuer == issuer:
            return name, trusted
    raise _invalid_assertion("iss: expected an issuer in trusted_issuers of the settings")


def accept_assertion(
    ledger: Ledger,
    config: Config,
    client: RegisteredClient | None,
    keys: KeySet,
    form: Mapping[str, str],
    *,
    now: float,
) -> AcceptedAssertion:
    """Verify an assertion.

    Args:
        client: The authenticated client; ``None`` if the request named none.
        keys: The keys of the issuer.
        form: The parameters of the request.
        now: Seconds since 1970.

    Raises:
        Refusal: The assertion is invalid or not accepted.
    """
    assertion = form.get("assertion", "")
    name, trusted = issuer_of(config, assertion)
    is_jag = trusted.kind == "id-jag"
    types = frozenset({"oauth-id-jag+jwt"}) if is_jag else frozenset({"jwt", ""})
    try:
        claims = verify(assertion, keys, algorithms=ALGORITHMS, typ=types).claims
        audiences = {config.issuer} if is_jag else {config.issuer, config.addresses.url("token")}
        check_claims(
            claims,
            audience=audiences,
            sole_audience=is_jag,
            now=now,
            skew=_SKEW_SECONDS,
            max_lifetime=_MAX_LIFETIME_SECONDS,
        )
    except BadToken as error:
        raise _invalid_assertion(str(error)) from None
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS or not subject.isprintable():
        raise _invalid_assertion(f"sub: expected 1 to {_MAX_SUBJECT_CHARS} printable characters")
    if is_jag:
        return _accept_id_jag(ledger, config, client, trusted, name, claims, form)
    if client is not None and client.is_public:
        # Any program can name a public client, so its name would prove nothing.
        raise Refusal("invalid_client", "expected a client that authenticates, or no client", status=401)
    if not any(_matches(subject, pattern) for pattern in trusted.subjects):
        raise _invalid_assertion("sub: expected a subject that matches `subjects` of the trusted issuer")
    return AcceptedAssertion(
        subject=f"{name}:{subject}",
        client_id=client.id if client is not None else f"{name}:{subject}",
        resource=resource_of(config, form.get("resource")),
        scopes=granted_scopes(config, form.get("scope"), trusted.scopes, client.scopes if client is not None else None),
    )


def _accept_id_jag(
    ledger: Ledger,
    config: Config,
    client: RegisteredClient | None,
    trusted: TrustedIssuer,
    name: str,
    claims: Mapping[str, Any],
    form: Mapping[str, str],
) -> AcceptedAssertion:
    if client is None or client.is_public:
        raise Refusal("invalid_client", "expected a client that authenticates", status=401)
    if claims.get("client_id") != client.id:
        raise _invalid_assertion("client_id: expected the id of the authenticated client")
    id = claims.get("jti")
    if not isinstance(id, str) or not id:
        raise _invalid_assertion("jti: expected a value, got none")
    key = digest_of(f"{trusted.issuer} {id}")
    if ledger.get("jag", key) is not None:
        raise _invalid_assertion("jti: the assertion was used before")
    if ledger.count("jag") >= _MAX_REMEMBERED:
        raise too_often(_SKEW_SECONDS)
    # Remembered until it expires: an ID-JAG is valid once.
    ledger.put("jag", key, {}, until=float(claims["exp"]) + _SKEW_SECONDS)
    audience = claims.get("resource")
    if not isinstance(audience, str):
        raise _invalid_assertion("resource: expected the URL of an MCP server")
    resource = resource_of(config, audience)
    if "resource" in form and resource_of(config, form["resource"]) != resource:
        raise Refusal("invalid_target", "resource: expected the resource of the assertion")
    scope = claims.get("scope")
    allowed = scope.split() if isinstance(scope, str) else None
    return AcceptedAssertion(
        subject=f"{name}:{claims['sub']}",
        client_id=client.id,
        resource=resource,
        scopes=granted_scopes(config, form.get("scope"), allowed, trusted.scopes, client.scopes),
    )


def _matches(subject: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), subject) is not None


def _invalid_assertion(description: str) -> Refusal:
    return Refusal("invalid_grant", f"assertion: {description}")
