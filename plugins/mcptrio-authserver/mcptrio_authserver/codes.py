"""Authorization codes: issued once, redeemed once by the same client.

Source: OAuth 2.1 sections 4.1.2, 4.1.3 and 7.5; RFC 7636 section 4.6.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from attrs import asdict, field, frozen

from .authorization_requests import AuthorizationRequest
from .clients import RegisteredClient
from .config import Config
from .grants import end_grant
from .ledger import Ledger
from .opaque import MAX_TOKEN_CHARS, digest_of, new_id, new_opaque
from .refusals import Refusal
from .resources import resource_of

__all__ = ["AuthorizationCode", "issue_code", "redeem_code"]

_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
# Seconds for which a used code is recognised.
_USED_CODE_SECONDS: Final = 3600.0
# Codes of one user that are not redeemed yet.
_MAX_CODES_OF_USER: Final = 20


@frozen(kw_only=True)
class AuthorizationCode:
    """The grant that a code stands for."""

    grant: str
    """The id that the grant will have."""
    client_id: str
    redirect_uri: str
    challenge: str
    resource: str
    scopes: tuple[str, ...]
    subject: str
    auth_time: float
    dpop_key: str | None = None
    upstream: str | None = field(default=None, repr=False)
    """The provider's tokens, encrypted with the code."""


def issue_code(
    ledger: Ledger,
    config: Config,
    request: AuthorizationRequest,
    *,
    subject: str,
    scopes: tuple[str, ...],
    auth_time: float,
    now: float,
    code: str | None = None,
    upstream: str | None = None,
) -> str:
    """Return a new code.

    Args:
        request: The client's request.
        subject: The id of the user.
        scopes: The scopes to which the user consented.
        auth_time: The time at which the user logged in, in seconds since 1970.
        now: Seconds since 1970.
        code: An existing code, with which ``upstream`` was encrypted.
        upstream: The provider's encrypted tokens.
    """
    code = code if code is not None else new_opaque("mcpac_")
    value = AuthorizationCode(
        grant=new_id(),
        client_id=request.client.id,
        redirect_uri=request.redirect_uri,
        challenge=request.challenge,
        resource=request.resource,
        scopes=scopes,
        subject=subject,
        auth_time=auth_time,
        dpop_key=request.dpop_key,
        upstream=upstream,
    )
    ledger.put(
        "code",
        digest_of(code),
        asdict(value),
        until=now + config.code_lifetime,
        group=subject,
        max_records=_MAX_CODES_OF_USER,
    )
    return code


def redeem_code(
    ledger: Ledger,
    config: Config,
    client: RegisteredClient,
    form: Mapping[str, str],
    *,
    dpop_key: str | None,
    now: float,
) -> AuthorizationCode:
    """Redeem a code. It is used up even if the request is refused.

    Args:
        client: The authenticated client.
        form: The parameters of the request.
        dpop_key: The thumbprint of the key that the request proves, if any.
        now: Seconds since 1970.

    Raises:
        Refusal: ``invalid_grant``, or ``invalid_request`` if a parameter is missing.
    """
    text = form.get("code", "")[:MAX_TOKEN_CHARS]
    if not text:
        raise Refusal("invalid_request", "code: expected a value, got none")
    digest = digest_of(text)
    spent = ledger.get("spent", digest)
    if spent is not None:
        # OAuth 2.1 section 4.1.3: a repeated code was probably stolen, so end the tokens of its first use.
        end_grant(ledger, str(spent["grant"]))
        raise Refusal("invalid_grant", "code: it was used before, so its grant has ended", is_alarming=True)
    record: Mapping[str, Any] | None = ledger.get("code", digest)
    if record is None:
        raise Refusal("invalid_grant", "code: expected a valid code of this client")
    code = AuthorizationCode(**{**record, "scopes": tuple(record["scopes"])})
    # Used up before the checks below: a wrong verifier must not be tried twice.
    ledger.delete("code", digest)
    ledger.put(
        "spent", digest, {"grant": code.grant}, until=now + _USED_CODE_SECONDS, group=code.subject, max_records=1000
    )
    if code.client_id != client.id:
        raise Refusal("invalid_grant", "code: expected a valid code of this client")
    # OAuth 2.1 omits the redirect URI here; if a client sends it, it has to match.
    if form.get("redirect_uri", code.redirect_uri) != code.redirect_uri:
        raise Refusal("invalid_grant", "redirect_uri: expected the redirect URI of the authorization request")
    verifier = form.get("code_verifier", "")
    if not _VERIFIER.fullmatch(verifier) or not hmac.compare_digest(_challenge(verifier), code.challenge):
        raise Refusal("invalid_grant", "code_verifier: expected the verifier of the code_challenge")
    if "resource" in form and resource_of(config, form["resource"]) != code.resource:
        raise Refusal("invalid_target", "resource: expected the resource of the authorization request")
    # RFC 9449 section 10: a code bound to a key is useless to a thief.
    if code.dpop_key is not None and dpop_key != code.dpop_key:
        raise Refusal("invalid_dpop_proof", "expected a DPoP proof with the key of the authorization request")
    return code


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
