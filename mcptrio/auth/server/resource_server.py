"""The guard of an HTTP endpoint: says who sends a request, and what is missing where nobody may.

Given to the endpoint: ``HTTPOptions(auth=ResourceServer(...))``, or made of ``[auth]`` in ``mcptrio.toml``.
The one rule: a request is let in by what it carries itself: one token in one ``Authorization`` field, or the
certificate of its connection. Never by a session, never by a token in the URL; and a token goes nowhere from here, not
into a log, not into an error, not to anybody else.

Whatever is wrong with a token, its sender hears the same; the log says why, without the token.

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

from mcptrio.abc import Principal, RequestHead, TokenVerifier
from mcptrio.auth.dpop import DPOP, BadDPoPProof, DPoPVerifier, normal_url
from mcptrio.auth.jose import BadToken, peek
from mcptrio.auth.scopes import ScopeHierarchy, check_scope
from mcptrio.auth.server.certificates import certificate_thumbprint
from mcptrio.auth.server.challenge_documents import NEVER_REQUESTED_SCOPES, ChallengeDocuments, path_of
from mcptrio.auth.server.failures import Failures
from mcptrio.auth.server.replay_cache import Nonces, ReplayCache
from mcptrio.auth.server.request_credentials import SCHEMES, CredentialsRefused, binding_of, credentials_in, scheme_of
from mcptrio.auth.server.resource_options import ResourceServerOptions
from mcptrio.auth.server.verification_cache import VerificationCache, hash_of
from mcptrio.auth.server.verifiers import Verifiers
from mcptrio.auth.urls import canonical, check_url, origin
from mcptrio.errors import AuthorizationError

__all__ = ["ResourceServer"]

_NO_TOKEN: Final = "expected an access token in the header Authorization"
_NO_LOGIN: Final = f"{_NO_TOKEN} (Bearer); there is no login here: ask the operator of the server for a token"
_NOT_GOOD: Final = "the access token is not good here: unknown, expired, or made out to somebody else"
_NOT_GOOD_IN_HEADER: Final = f"{_NOT_GOOD}; check the header Authorization, or ask the operator for a new token"
_NOT_BOUND_HERE: Final = "the access token is bound to a key or a certificate that did not come with it"
_NO_CERTIFICATE: Final = "expected a client certificate with a name that is known here"
_TOKEN_CACHE_SIZE: Final = 10_000
_TOKEN_CACHE_SECONDS: Final = 600.0
"""Tokens that were good lately, and for how many seconds that counts."""

_log = logging.getLogger("mcptrio.auth")


class ResourceServer:
    """Lets requests in by access tokens and certificates: a :class:`mcptrio.abc.Guard`.

    Args:
        resource: the address of the endpoint as its clients write it, ``https://mcp.example.com/mcp``; several where it
            is mounted several times. May be left out where tokens come from no issuer and are bound to no key.
        tokens: say whose a token is. The one whose own it is (:meth:`mcptrio.abc.TokenVerifier.is_own`) is the only one
            asked; where no text shows that, those that cannot tell are asked one after another, until one knows.
        authorization_servers: issuers that clients are sent to for a token.
        scopes: that everybody needs.
        clock: seconds since 1970.
        ticks: seconds that never run backwards.

    Raises:
        ValueError: an address cannot be used, or nobody could ever be let in.
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
        resources = _checked((resource,) if isinstance(resource, str) else resource)
        issuers = [_url(each, "authorization_servers") for each in authorization_servers]
        if issuers and not resources:
            raise ValueError("resource: expected the address of the endpoint, which its clients ask tokens for")
        if options.dpop.use == "required" and not resources:
            raise ValueError("resource: expected the address of the endpoint, which proofs of possession name")
        if not tokens and options.certificates is None:
            raise ValueError("tokens: expected a verifier of tokens, or certificates: else nobody is let in")
        self._verifiers = Verifiers(tuple(tokens))
        self._takes_tokens = bool(tokens)
        self._scopes = frozenset(map(check_scope, scopes))
        if wrong := self._scopes & NEVER_REQUESTED_SCOPES:
            raise ValueError(f"scopes: expected what is needed here, got {', '.join(wrong)}, which no server asks for")
        for each in (*(options.scopes_supported or ()), f"{options.scope_prefix}scope"):
            check_scope(each)
        self._hierarchy = ScopeHierarchy(options.includes)
        self._notices = ChallengeDocuments(
            resources=resources, issuers=issuers, scopes=self._hierarchy.reduced(self._scopes), options=options
        )
        self._documents = MappingProxyType(dict(self._notices.documents()))
        self._certificates = options.certificates
        self._clock = clock
        self._recheck = options.recheck
        self._failures = Failures(options.failures, ticks)
        self._known: VerificationCache[None] = VerificationCache(_TOKEN_CACHE_SIZE, ticks)
        rule = options.dpop
        self._dpop = rule.use if resources else "off"
        self._nonces = None
        if rule.nonces is not None and self._dpop != "off":
            self._nonces = Nonces(rotate=rule.nonces, clock=clock, key=rule.nonce_key)
        self._judge = DPoPVerifier(
            is_new=ReplayCache(rule.bounds, clock, ticks).is_new,
            window=rule.window,
            clock=clock,
            is_current=self._nonces.accepts if self._nonces is not None else None,
        )

    @property
    def documents(self) -> Mapping[str, bytes]:
        """See :class:`mcptrio.abc.Guard`: metadata of each resource, and of the first one at the root."""
        return self._documents

    async def admit(self, request: RequestHead) -> Principal:
        """See :class:`mcptrio.abc.Guard`."""
        try:
            return await self._admitted(request)
        except CredentialsRefused as refused:
            if refused.counts:
                self._failures.count(request.address)
                _log.info("refused %s: %s", request.address or "a client", refused.reason)
            raise self._error(request, refused) from None

    async def admit_token(self, token: str) -> Principal:
        """Whose a token is that came with no HTTP request: in the environment, for example.

        Raises:
            AuthorizationError: it is not good, is bound to a key, or lacks scopes that everybody needs.
            Overloaded: that cannot be found out now.
        """
        principal = await self._verified(token)
        if principal is None:
            raise AuthorizationError(_NOT_GOOD)
        if principal.claims.get("cnf") is not None or self._dpop == "required":
            raise AuthorizationError("expected an access token that is bound to no key: no proof can come with it")
        if lacking := self._scopes - principal.scopes:
            raise AuthorizationError(f"the access token lacks scopes: {' '.join(sorted(lacking))}", status=403)
        return principal

    def recheck_after(self, principal: Principal) -> float:
        """See :class:`mcptrio.abc.Guard`."""
        ends = principal.claims.get("exp")
        if isinstance(ends, int | float):
            return max(1.0, min(self._recheck, ends - self._clock()))
        return self._recheck

    async def recheck(self, request: RequestHead, principal: Principal) -> Principal:
        """See :class:`mcptrio.abc.Guard`: verifies the token again, or the time of the certificate."""
        try:
            scheme, token = credentials_in(request)
            again = await self._verified(token) if scheme in SCHEMES else self._by_certificate(request)
        except CredentialsRefused as refused:
            raise AuthorizationError(refused.reason) from None
        if again is None:
            raise AuthorizationError(_NOT_GOOD_IN_HEADER)
        if again.identity != principal.identity or not again.scopes >= principal.scopes:
            raise AuthorizationError("the access token is good for less than when the connection was opened")
        return again

    def demand(self, request: RequestHead, principal: Principal, scopes: frozenset[str]) -> AuthorizationError:
        """See :class:`mcptrio.abc.Guard`: asks for what there is and what is needed together."""
        needed = self._hierarchy.reduced(scopes | self._scopes)
        wanted = self._hierarchy.reduced(needed | principal.scopes)
        lacking = " ".join(sorted(scopes - principal.scopes))[:500]
        refused = CredentialsRefused(
            f"this needs more scopes: {lacking}" if lacking else "this needs more scopes",
            status=403,
            error="insufficient_scope",
            scope=self._notices.asked(wanted, needed=needed),
            scheme=scheme_of(request),
        )
        return self._error(request, refused)

    # Private

    async def _admitted(self, request: RequestHead) -> Principal:
        scheme, token = credentials_in(request)
        if scheme not in SCHEMES:
            principal = self._by_certificate(request)
        else:
            principal = await self._by_token(request, scheme, token)
        if not self._scopes <= principal.scopes:
            raise self.demand(request, principal, self._scopes)
        return principal

    def _by_certificate(self, request: RequestHead) -> Principal:
        rule, shown = self._certificates, request.certificate
        principal = rule.principal(shown, self._clock()) if rule is not None and shown is not None else None
        if principal is not None:
            return self._expanded(principal)
        if not self._takes_tokens:
            raise CredentialsRefused(_NO_CERTIFICATE, status=403, counts=shown is not None)
        raise CredentialsRefused(_NO_TOKEN if self._notices.issuers else _NO_LOGIN)

    async def _by_token(self, request: RequestHead, scheme: str, token: str) -> Principal:
        if scheme == "dpop" and self._dpop == "off":
            raise CredentialsRefused("expected the scheme Bearer, got DPoP", counts=True)
        if scheme == "bearer" and self._dpop == "required":
            raise CredentialsRefused("expected the scheme DPoP, got Bearer", error="invalid_token", counts=True)
        key = hash_of(token)
        # Who was let in lately is not shut out by what others behind the same address do.
        is_known = self._known.get(key) is not None
        end = _nothing if is_known else await self._failures.begin(request.address)
        try:
            principal = await self._verified(token)
            if principal is None:
                raise CredentialsRefused(
                    _NOT_GOOD_IN_HEADER, error="invalid_token", counts=True, scheme=SCHEMES[scheme]
                )
            self._check_binding(request, scheme, token, principal)
        except AuthorizationError as error:
            self._known.forget(key)
            raise CredentialsRefused(str(error), error="invalid_token", counts=True, scheme=SCHEMES[scheme]) from None
        except CredentialsRefused as refused:
            if refused.counts:
                self._known.forget(key)  # perhaps stolen, which is no reason to look at it more often than at others
            raise
        finally:
            end()
        self._known.put(key, None, seconds=_TOKEN_CACHE_SECONDS)
        return principal

    async def _verified(self, token: str) -> Principal | None:
        principal = await self._verifiers.verify(token)
        return None if principal is None else self._expanded(principal)

    def _expanded(self, principal: Principal) -> Principal:
        scopes = self._hierarchy.expanded(principal.scopes)
        return principal if scopes == principal.scopes else evolve(principal, scopes=scopes)

    def _check_binding(self, request: RequestHead, scheme: str, token: str, principal: Principal) -> None:
        """That who shows a token has what it is bound to, and proves it with each request."""
        bound = binding_of(principal)
        if "x5t#S256" in bound:
            shown = certificate_thumbprint(request.certificate) if request.certificate is not None else None
            if shown is None or not compare_digest(bound["x5t#S256"].encode(), shown.encode()):
                raise CredentialsRefused(_NOT_BOUND_HERE, error="invalid_token", counts=True, scheme=SCHEMES[scheme])
        if "jkt" not in bound and scheme == "dpop":
            raise CredentialsRefused(
                "the access token is bound to no key", error="invalid_token", counts=True, scheme="DPoP"
            )
        if "jkt" in bound:
            if scheme != "dpop":
                raise CredentialsRefused(_NOT_BOUND_HERE, error="invalid_token", counts=True, scheme=SCHEMES[scheme])
            self._check_proof(request, token, bound["jkt"])

    def _check_proof(self, request: RequestHead, token: str, key: str) -> None:
        proofs = request.headers.get(DPOP, ())
        url = self._proven_url(request, proofs)
        try:
            self._judge.judge(proofs, method=request.method, url=url, token=token, bound_to=key)
        except BadDPoPProof as error:
            is_asking = error.error == "use_dpop_nonce"
            raise CredentialsRefused(str(error), error=error.error, counts=not is_asking, scheme="DPoP") from None

    def _proven_url(self, request: RequestHead, proofs: Sequence[str]) -> str:
        """Where the client may say that it sent this to: the resource, or a path beside it, never another origin.

        Behind a proxy neither scheme nor host of the request are what the client wrote, and perhaps not the path; the
        configured resource is. A path beside the endpoint is another URL, and a proof for the endpoint is none for it.
        """
        resource = self._notices.resource_of(request)
        path = path_of(request) or "/"
        if request.is_beside:
            return origin(resource) + path
        try:
            named = peek(proofs[0]).claims.get("htu")
            if isinstance(named, str) and normal_url(named) == normal_url(resource):
                return resource
        except (BadToken, ValueError, IndexError):
            pass  # the judge says what is wrong with it
        return origin(resource) + path

    def _error(self, request: RequestHead, refused: CredentialsRefused) -> AuthorizationError:
        headers = {"DPoP-Nonce": self._nonces.current()} if self._nonces is not None and refused.status == 401 else {}
        # Who lets in by certificates alone has nothing to challenge for.
        challenge = self._notices.challenge(request, refused) if self._takes_tokens else None
        return AuthorizationError(refused.reason, challenge=challenge, status=refused.status, headers=headers)


def _nothing() -> None:
    """Ends an attempt that is not held against its address."""


def _checked(resources: Sequence[str]) -> tuple[str, ...]:
    """
    Raises:
        ValueError: an address is not written as clients compare it, or two have the same path.
    """
    for each in resources:
        if (expected := canonical(_url(each, "resource"))) != each:
            raise ValueError(f"resource: expected {expected}, got {each}: clients compare it as it is written")
    paths = [urlsplit(each).path for each in resources]
    if len(set(paths)) != len(paths):
        raise ValueError("resource: expected paths that differ, since the metadata of each is at its path")
    return tuple(resources)


def _url(url: str, what: str) -> str:
    try:
        return check_url(url, what, query=False)
    except AuthorizationError as error:
        raise ValueError(str(error)) from None
