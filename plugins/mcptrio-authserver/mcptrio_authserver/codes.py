"""Authorization codes: given once, taken once, by the client they were given for.

The one rule: a code that comes again ends what came of it the first time, and one that comes with anything wrong is
spent.

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
_USED_CODE_SECONDS: Final = 3600.0
"""Seconds for which a used code is recognised."""
_MAX_CODES_OF_USER: Final = 20
"""Codes of one user that wait to be taken."""


@frozen(kw_only=True)
class AuthorizationCode:
    """What a code stands for."""

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
    """What the provider gave, sealed with the code."""


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
    """A new code.

    Args:
        scopes: what the user consented to.
        code: one that something was sealed with already.
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
        "code", digest_of(code), asdict(value), until=now + config.code_lifetime, group=subject, most=_MAX_CODES_OF_USER
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
    """What a code stands for; it is spent then, whatever comes of it.

    Args:
        dpop_key: of the proof that came with it.

    Raises:
        Refusal: ``invalid_grant``, or ``invalid_request`` where something is missing.
    """
    text = form.get("code", "")[:MAX_TOKEN_CHARS]
    if not text:
        raise Refusal("invalid_request", "code: expected one")
    digest = digest_of(text)
    spent = ledger.get("spent", digest)
    if spent is not None:
        end_grant(ledger, str(spent["grant"]))
        raise Refusal("invalid_grant", "code: it was used before, so what came of it has ended", is_alarming=True)
    record: Mapping[str, Any] | None = ledger.get("code", digest)
    if record is None:
        raise Refusal("invalid_grant", "code: expected one that is good, and of this client")
    code = AuthorizationCode(**{**record, "scopes": tuple(record["scopes"])})
    ledger.delete("code", digest)
    ledger.put("spent", digest, {"grant": code.grant}, until=now + _USED_CODE_SECONDS, group=code.subject, most=1000)
    if code.client_id != client.id:
        raise Refusal("invalid_grant", "code: expected one that is good, and of this client")
    # OAuth 2.1 has no redirect URI here any more; where there is one, it is the one of the request.
    if form.get("redirect_uri", code.redirect_uri) != code.redirect_uri:
        raise Refusal("invalid_grant", "redirect_uri: expected the one of the authorization request")
    verifier = form.get("code_verifier", "")
    if not _VERIFIER.fullmatch(verifier) or not hmac.compare_digest(_challenge(verifier), code.challenge):
        raise Refusal("invalid_grant", "code_verifier: expected the one of the authorization request")
    if "resource" in form and resource_of(config, form["resource"]) != code.resource:
        raise Refusal("invalid_target", "resource: expected the one of the authorization request")
    if code.dpop_key is not None and dpop_key != code.dpop_key:
        raise Refusal("invalid_dpop_proof", "expected a proof with the key of the authorization request")
    return code


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
