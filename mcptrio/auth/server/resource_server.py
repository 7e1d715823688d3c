"""Authentication of requests at an HTTP endpoint, by access token or TLS client certificate.

Pass it as ``HTTPOptions(auth=ResourceServer(...))``; ``[auth]`` in ``mcptrio.toml`` creates one.

Source: MCP 2025-03-26 to 2026-07-28, basic/authorization; RFC 6750 section 3.1; RFC 9449 sections 7 to 9; RFC 8705
section 3.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from hmac import compare_digest
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from attrs import evolve

from mcptrio.abc import Principal, ReplayStore, RequestHead, Stores, TokenVerifier
from mcptrio.auth.dpop import DPOP, BadDPoPProof, DPoPProof, DPoPVerifier, normal_url
from mcptrio.auth.jose import BadToken, named_issuer, peek
from mcptrio.auth.scopes import ScopeHierarchy, check_scope
from mcptrio.auth.server.certificates import certificate_thumbprint
from mcptrio.auth.server.challenge_documents import NEVER_REQUESTED_SCOPES, ChallengeDocuments, path_of
from mcptrio.auth.server.failures import Failures
from mcptrio.auth.server.replay_cache import Nonces, ReplayCache
from mcptrio.auth.server.request_credentials import (
    SCHEMES,
    CredentialsRefused,
    binding_of,
    credentials_in,
    invalid_token,
    scheme_of,
)
from mcptrio.auth.server.resource_options import ResourceServerOptions
from mcptrio.auth.server.verification_cache import VerificationCache, hash_of
from mcptrio.auth.urls import canonical, check_url, origin
from mcptrio.errors import AuthorizationError, Overloaded, StoreFailed

__all__ = ["ResourceServer"]

_NO_TOKEN: Final = "expected an access token in the header Authorization"
_NO_LOGIN: Final = f"{_NO_TOKEN} (Bearer); there is no login here: ask the operator of the server for a token"
# One message for all causes: the exact one is in the log only, so an attacker cannot tell a revoked token from a guess.
_INVALID_TOKEN: Final = "invalid access token: unknown, expired, or issued for another server"
_INVALID_TOKEN_IN_HEADER: Final = (
    f"{_INVALID_TOKEN}; check the header Authorization, or ask the operator for a new token"
)
_POSSESSION_NOT_PROVED: Final = (
    "the access token is bound to a key or certificate, and the request does not prove its possession"
)
_NO_CERTIFICATE: Final = "expected a valid client certificate with exactly one name of the configured kind"
# Tokens that were valid recently; their requests do not wait for the failure limit of their address.
_TOKEN_CACHE_SIZE: Final = 10_000
# Seconds for which a successful request exempts its token from the failure limit.
_TOKEN_CACHE_SECONDS: Final = 600.0
# Seconds for which a proof is remembered in the stores after it has expired by the clock of this replica.
_CLOCK_DIFFERENCE_SECONDS: Final = 60.0

_log = logging.getLogger("mcptrio.auth")


class ResourceServer:
    """An authenticator for HTTP requests, as a :class:`mcptrio.abc.Guard`.

    It reads the credentials of each request: one token in one ``Authorization`` header, or the certificate of the
    connection. It ignores sessions and rejects tokens in URLs. Tokens are never logged, forwarded or repeated in
    errors.

    Args:
        resource: The URL of the endpoint as clients write it, for example ``https://mcp.example.com/mcp``; several if
            it is mounted several times. May be omitted if tokens come from no issuer and are not bound to a key.
        tokens: The token verifiers. A token that one recognizes (:meth:`mcptrio.abc.TokenVerifier.recognizes`) is
            passed to that verifier only; otherwise, those that cannot tell are tried in order.
        authorization_servers: The issuers from which clients obtain tokens.
        scopes: The scopes that every request needs.
        options: Further settings; the defaults are safe.
        clock: Returns seconds since 1970.
        ticks: Returns monotonic seconds.

    Raises:
        ValueError: A URL or scope is invalid, or no request could ever be authenticated.
    """

    def __init__(
        self,
        resource: str | Sequence[str] = (),
        *,
        tokens: Sequence[TokenVerifier] = (),
        authorization_servers: Sequence[str] = (),
        scopes: Iterable[str] = (),
        options: ResourceServerOptions | None = None,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        options = options or ResourceServerOptions()
        resources = _check_resources((resource,) if isinstance(resource, str) else resource)
        issuers = [_url(each, "authorization_servers") for each in authorization_servers]
        if issuers and not resources:
            raise ValueError(
                "resource: expected the address of the endpoint, for which clients request tokens; got none"
            )
        if options.dpop.use == "required" and not resources:
            raise ValueError(
                "resource: expected the address of the endpoint, which proofs of possession name; got none"
            )
        if not tokens and options.certificates is None:
            raise ValueError(
                "tokens: expected a token verifier or client certificates, got neither; every request would be rejected"
            )
        self._verifiers = tuple(tokens)
        self._scopes = frozenset(map(check_scope, scopes))
        if wrong := self._scopes & NEVER_REQUESTED_SCOPES:
            raise ValueError(f"scopes: expected scopes that a server may request, got {', '.join(wrong)}")
        for each in (*(options.scopes_supported or ()), f"{options.scope_prefix}scope"):
            check_scope(each)
        self._hierarchy = ScopeHierarchy(options.includes)
        self._challenge_documents = ChallengeDocuments(
            resources=resources, issuers=issuers, scopes=self._hierarchy.reduced(self._scopes), options=options
        )
        self._documents = MappingProxyType(dict(self._challenge_documents.documents()))
        self._certificates = options.certificates
        self._clock = clock
        self._recheck = options.recheck
        self._failures = Failures(options.failures, ticks)
        self._recent_tokens: VerificationCache[None] = VerificationCache(_TOKEN_CACHE_SIZE, ticks)
        rule = options.dpop
        # A DPoP proof names the URL, so without a known URL proofs cannot be checked.
        self._dpop = rule.use if resources else "off"
        self._nonces = None
        if rule.nonces is not None and self._dpop != "off":
            self._nonces = Nonces(rotate=rule.nonces, clock=clock, key=rule.nonce_key)
        self._replays: ReplayStore | None = None
        self._dpop_verifier = DPoPVerifier(
            is_new=ReplayCache(rule.bounds, clock, ticks).is_new,
            window=rule.window,
            clock=clock,
            is_current=self._nonces.accepts if self._nonces is not None else None,
        )

    @property
    def documents(self) -> Mapping[str, bytes]:
        """The metadata of each resource, and of the first resource at the root. See :class:`mcptrio.abc.Guard`."""
        return self._documents

    def use_stores(self, stores: Stores) -> None:
        """Accept each DPoP proof once over all replicas with these stores. See :class:`mcptrio.abc.UsesStores`.

        ``over_http`` and the other functions that serve HTTP call it with the stores of the server.
        """
        self._replays = stores.replays

    async def admit(self, request: RequestHead) -> Principal:
        """See :class:`mcptrio.abc.Guard`."""
        try:
            return await self._admit(request)
        except CredentialsRefused as refused:
            if refused.counts:
                self._failures.count(request.address)
                _log.info("request refused: client=%s: %s", request.address or "unknown", refused.reason)
            raise self._error(request, refused) from None

    async def admit_token(self, token: str) -> Principal:
        """Return the principal of a token that arrived without an HTTP request, for example in the environment.

        Raises:
            AuthorizationError: The token is invalid, is bound to a key, or lacks scopes that every request needs.
            Overloaded: The token cannot be verified now.
        """
        principal = await self._verify(token)
        if principal is None:
            raise AuthorizationError(_INVALID_TOKEN)
        # Only an HTTP request can carry the proof for a bound token.
        if principal.claims.get("cnf") is not None or self._dpop == "required":
            got = "a server that requires proofs" if principal.claims.get("cnf") is None else "a bound token"
            raise AuthorizationError(
                f"expected an unbound access token, because a proof of possession needs an HTTP request; got {got}"
            )
        if lacking := self._scopes - principal.scopes:
            raise AuthorizationError(f"the access token lacks scopes: {' '.join(sorted(lacking))}", status=403)
        return principal

    def recheck_after(self, principal: Principal) -> float:
        """See :class:`mcptrio.abc.Guard`."""
        expires_at = principal.claims.get("exp")
        if isinstance(expires_at, int | float):
            # At least a second: at a zero delay, a clock difference would make the caller verify in a loop.
            return max(1.0, min(self._recheck, expires_at - self._clock()))
        return self._recheck

    async def recheck(self, request: RequestHead, principal: Principal) -> Principal:
        """Verify the token again, or the validity period of the certificate. See :class:`mcptrio.abc.Guard`."""
        try:
            scheme, token = credentials_in(request)
            again = await self._verify(token) if scheme in SCHEMES else self._principal_of_certificate(request)
        except CredentialsRefused as refused:
            raise AuthorizationError(refused.reason) from None
        if again is None:
            raise AuthorizationError(_INVALID_TOKEN_IN_HEADER)
        # The open connection was authorized with the earlier scopes, so a token with fewer must not keep it open.
        if again.identity != principal.identity or not again.scopes >= principal.scopes:
            raise AuthorizationError(
                "the access token has another principal or fewer scopes than when the connection was opened"
            )
        return again

    def insufficient_scope(
        self, request: RequestHead, principal: Principal, scopes: frozenset[str]
    ) -> AuthorizationError:
        """See :class:`mcptrio.abc.Guard`. The error names the missing scopes and those already granted."""
        needed = self._hierarchy.reduced(scopes | self._scopes)
        # MCP "Step-Up Authorization Flow": a client that requests only the missing scope would lose those it has.
        wanted = self._hierarchy.reduced(needed | principal.scopes)
        lacking = " ".join(sorted(scopes - principal.scopes))[:500]
        refused = CredentialsRefused(
            f"the request needs more scopes: {lacking}" if lacking else "the request needs more scopes",
            status=403,
            error="insufficient_scope",
            scope=self._challenge_documents.scope_text(wanted, needed=needed),
            scheme=scheme_of(request),
        )
        return self._error(request, refused)

    # Private

    async def _admit(self, request: RequestHead) -> Principal:
        scheme, token = credentials_in(request)
        if scheme not in SCHEMES:
            principal = self._principal_of_certificate(request)
        else:
            principal = await self._principal_of_token(request, scheme, token)
        if not self._scopes <= principal.scopes:
            raise self.insufficient_scope(request, principal, self._scopes)
        return principal

    def _principal_of_certificate(self, request: RequestHead) -> Principal:
        rule, certificate = self._certificates, request.certificate
        principal = None
        if rule is not None and certificate is not None:
            principal = rule.principal(certificate, self._clock())
        if principal is not None:
            return self._with_implied_scopes(principal)
        # 401 would require a challenge (RFC 9110 section 15.5.2), and no scheme exists for certificates.
        if not self._verifiers:
            raise CredentialsRefused(_NO_CERTIFICATE, status=403, counts=certificate is not None)
        raise CredentialsRefused(_NO_TOKEN if self._challenge_documents.issuers else _NO_LOGIN)

    async def _principal_of_token(self, request: RequestHead, scheme: str, token: str) -> Principal:
        if scheme == "dpop" and self._dpop == "off":
            raise CredentialsRefused("expected the scheme Bearer, got DPoP", counts=True)
        if scheme == "bearer" and self._dpop == "required":
            raise invalid_token("expected the scheme DPoP, got Bearer")
        key = hash_of(token)
        # A token that was valid recently is not delayed by failures of other clients behind the same address.
        is_known = self._recent_tokens.get(key) is not None
        end_attempt = await self._failures.begin(None if is_known else request.address)
        try:
            principal = await self._verify(token)
            if principal is None:
                raise invalid_token(_INVALID_TOKEN_IN_HEADER, SCHEMES[scheme])
            await self._check_binding(request, scheme, token, principal)
        except AuthorizationError as error:
            self._recent_tokens.forget(key)
            raise invalid_token(str(error), SCHEMES[scheme]) from None
        except CredentialsRefused as refused:
            if refused.counts:
                # A valid token without its proof may be stolen; it loses its exemption from the failure limit.
                self._recent_tokens.forget(key)
            raise
        finally:
            end_attempt()
        self._recent_tokens.put(key, None, seconds=_TOKEN_CACHE_SECONDS)
        return principal

    async def _verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or ``None`` if no verifier knows the token.

        Raises:
            AuthorizationError: The token is genuine but not accepted; the message may be sent to the client.
            Overloaded: A verifier cannot decide now.
        """
        errors: list[AuthorizationError | Overloaded] = []
        for verifier in self._verifiers_of(token):
            try:
                principal = await verifier.verify(token)
            except (AuthorizationError, Overloaded) as error:
                # An issuer that is unreachable must not stop the verification of another issuer's tokens.
                errors.append(error)
            else:
                if principal is not None:
                    return self._with_implied_scopes(principal)
        if errors:
            raise next((each for each in errors if isinstance(each, AuthorizationError)), errors[0])
        return None

    def _verifiers_of(self, token: str) -> Sequence[TokenVerifier]:
        # A verifier recognizes its tokens by their prefix or issuer, and no other verifier receives them: an issuer
        # could use a token of another issuer.
        issuer = named_issuer(token)
        answers = [(verifier.recognizes(token, issuer), verifier) for verifier in self._verifiers]
        recognizing = [verifier for is_recognized, verifier in answers if is_recognized]
        return recognizing or [verifier for is_recognized, verifier in answers if is_recognized is None]

    def _with_implied_scopes(self, principal: Principal) -> Principal:
        scopes = self._hierarchy.expanded(principal.scopes)
        return principal if scopes == principal.scopes else evolve(principal, scopes=scopes)

    async def _check_binding(self, request: RequestHead, scheme: str, token: str, principal: Principal) -> None:
        # RFC 8705 section 3 and RFC 9449 section 7.1: a stolen token is useless without the certificate or key.
        bound = binding_of(principal)
        if "x5t#S256" in bound:
            thumbprint = certificate_thumbprint(request.certificate) if request.certificate is not None else None
            if thumbprint is None or not compare_digest(bound["x5t#S256"].encode(), thumbprint.encode()):
                raise invalid_token(_POSSESSION_NOT_PROVED, SCHEMES[scheme])
        # RFC 9449 section 7.1: with the DPoP scheme, the token has to be bound to the key of the proof.
        if "jkt" not in bound and scheme == "dpop":
            raise invalid_token("the access token is bound to no key", "DPoP")
        if "jkt" in bound:
            if scheme != "dpop":
                raise invalid_token(_POSSESSION_NOT_PROVED, SCHEMES[scheme])
            await self._check_proof(request, token, bound["jkt"])

    async def _check_proof(self, request: RequestHead, token: str, key: str) -> None:
        proofs = request.headers.get(DPOP, ())
        url = self._url_to_prove(request, proofs)
        try:
            proof = self._dpop_verifier.verify(proofs, method=request.method, url=url, token=token, bound_to=key)
            await self._check_other_replicas(proof)
        except BadDPoPProof as error:
            # A client without a current nonce requests one this way; that is not a failed authentication.
            is_nonce_request = error.error == "use_dpop_nonce"
            raise CredentialsRefused(
                str(error), error=error.error, counts=not is_nonce_request, scheme="DPoP"
            ) from None

    async def _check_other_replicas(self, proof: DPoPProof) -> None:
        """Check that no other replica has accepted this proof, and record it in the shared store.

        Raises:
            BadDPoPProof: Another replica has accepted the proof.
            Overloaded: The store has failed.
        """
        if self._replays is None:
            return
        until = proof.issued_at + self._dpop_verifier.window
        try:
            is_new = await self._replays.use(f"dpop:{proof.name}", until - self._clock() + _CLOCK_DIFFERENCE_SECONDS)
        except StoreFailed as error:
            _log.error("%s", error)
            raise Overloaded("the proof of possession cannot be checked now") from error
        if not is_new:
            raise BadDPoPProof("jti: the proof was used before")

    def _url_to_prove(self, request: RequestHead, proofs: Sequence[str]) -> str:
        """Return the URL that the proof has to name: the resource, or another path on its origin."""
        # Behind a proxy, scheme, host and perhaps path of the request differ from what the client wrote, so the
        # configured resource counts. Another path of the server is another URL: a proof for the endpoint is not valid
        # there.
        resource = self._challenge_documents.resource_of(request)
        path = path_of(request) or "/"
        if request.is_outside_endpoint:
            return origin(resource) + path
        try:
            named = peek(proofs[0]).claims.get("htu")
            if isinstance(named, str) and normal_url(named) == normal_url(resource):
                return resource
        except (BadToken, ValueError, IndexError):
            # The verifier reports what is wrong with the proof.
            pass
        return origin(resource) + path

    def _error(self, request: RequestHead, refused: CredentialsRefused) -> AuthorizationError:
        headers = {"DPoP-Nonce": self._nonces.current()} if self._nonces is not None and refused.status == 401 else {}
        # Without token verifiers there is no scheme to offer.
        challenge = self._challenge_documents.challenge(request, refused) if self._verifiers else None
        return AuthorizationError(refused.reason, challenge=challenge, status=refused.status, headers=headers)


def _check_resources(resources: Sequence[str]) -> tuple[str, ...]:
    """Return the resources if they are valid.

    Raises:
        ValueError: A URL is not in the form in which clients compare it, or two have the same path.
    """
    for each in resources:
        if (expected := canonical(_url(each, "resource"))) != each:
            raise ValueError(f"resource: expected {expected}, got {each}: clients compare it as it is written")
    paths = [urlsplit(each).path for each in resources]
    if len(set(paths)) != len(paths):
        got = " and ".join(resources)
        raise ValueError(f"resource: expected paths that differ, since the metadata of each is at its path, got {got}")
    return tuple(resources)


def _url(url: str, what: str) -> str:
    try:
        return check_url(url, what, query=False)
    except AuthorizationError as error:
        raise ValueError(str(error)) from None
