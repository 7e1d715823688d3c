"""The table ``[auth]`` of ``mcptrio.toml``, and the guard that it configures.

The commands that serve use it. An error in ``[auth]`` prevents the start, so that no server runs without its guard.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final, Literal

from attrs import field, fields, frozen

from mcptrio.abc import Fetch, Principal, TokenVerifier
from mcptrio.auth.server.certificates import CertificateNames, CertificatePrincipals
from mcptrio.auth.server.failures import FailureLimit
from mcptrio.auth.server.introspection import IntrospectedTokens, IntrospectionBounds
from mcptrio.auth.server.issuer_keys import IssuerKeys, KeyTimes
from mcptrio.auth.server.jwt_tokens import ClaimRules, JWTTokens
from mcptrio.auth.server.replay_cache import ReplayBounds
from mcptrio.auth.server.resource_options import DPoPRule, ResourceServerOptions
from mcptrio.auth.server.resource_server import ResourceServer
from mcptrio.auth.server.static_tokens import StaticTokens, read_tokens
from mcptrio.auth.token_requests import ClientIdentity
from mcptrio.errors import AuthorizationError, ConfigError, Overloaded
from mcptrio.ground.expected import integer, number
from mcptrio.ground.secret import Secret
from mcptrio.http.client.address_policy import AddressPolicy
from mcptrio.http.client.fetcher import Fetcher
from mcptrio.serve.config import ServeConfig, check_variables
from mcptrio.settings.reader import SettingsReader, keys_of_class, variable_of

__all__ = [
    "TOKEN",
    "AuthLimits",
    "AuthSettings",
    "Introspection",
    "guard_of",
    "principal_of_environment",
    "read_settings",
]

TOKEN: Final = "MCPTRIO_TOKEN"
"""The environment variable with the access token of the client over standard input and output."""

_TABLE: Final = "auth"

_log = logging.getLogger("mcptrio.auth")


@frozen(kw_only=True)
class Introspection:
    """The table ``[auth.introspection]``.

    Args:
        client_id: The id of this server's client at the issuer.
        client_secret: The secret of that client.
        method: The authentication method; by default chosen from the issuer's metadata.
        issuer: The issuer of the tokens; by default the only one of ``issuers``.
        endpoint: The introspection endpoint; by default taken from the issuer's metadata.
        audience: True if a response has to name one of the audiences; ``false`` if the issuer serves this server alone.
        remember: Seconds, up to 3600, for which a response is cached, and after which the token of an open connection
            is verified again, unless ``limits.remember`` is less.
    """

    client_id: str = ""
    client_secret: Secret | None = None
    method: Literal["client_secret_basic", "client_secret_post"] | None = None
    issuer: str | None = None
    endpoint: str | None = None
    audience: bool = True
    remember: float = field(default=30.0, validator=number(0, 3600))


@frozen(kw_only=True)
class AuthLimits:
    """The table ``[auth.limits]``.

    Args:
        failures_per_minute: Failed authentications of one address per minute; 0 for no limit.
        failures_burst: Failures of one address that may come at once.
        addresses: The number of addresses whose failures are counted.
        proofs: The number of DPoP proofs in the replay cache.
        proofs_per_key: The number of DPoP proofs of one key in the replay cache.
        tokens: The number of verified tokens in the cache.
        remember: Seconds, up to 3600, for which a signed token is not verified again. The token of an open connection
            is verified again after this time.
        keys_fresh: Seconds after which an issuer's keys are fetched again.
        keys_stale: Seconds for which keys are used if fetching fails.
        keys_refetch_after: Seconds between two attempts to fetch keys.
    """

    failures_per_minute: float = field(default=30.0, validator=number(0))
    failures_burst: int = field(default=30, validator=integer(1))
    addresses: int = field(default=10_000, validator=integer(1))
    proofs: int = field(default=100_000, validator=integer(1))
    proofs_per_key: int = field(default=10_000, validator=integer(1))
    tokens: int = field(default=10_000, validator=integer(0))
    remember: float = field(default=60.0, validator=number(0, 3600))
    keys_fresh: float = field(default=3600.0, validator=number(above=0))
    keys_stale: float = field(default=86400.0, validator=number(0))
    keys_refetch_after: float = field(default=30.0, validator=number(above=0))


@frozen(kw_only=True)
class AuthSettings:
    """The table ``[auth]``.

    Args:
        resource: The URL of the endpoint as clients write it; a list if it is mounted several times.
        issuers: The issuers of accepted tokens, from which clients obtain them.
        audience: Accepted audiences of tokens; by default ``resource``.
        jwks: The URL of the only issuer's keys; by default taken from its metadata.
        introspection: Asks an issuer about its tokens instead of verifying their signatures.
        tokens: A file of tokens that ``mcptrio token`` maintains.
        scopes: The scopes that every request needs.
        scopes_supported: The published scopes; by default ``scopes``.
        scope_prefix: A prefix that clients write before a scope and tokens omit.
        includes: The narrower scopes that each scope includes, by scope.
        algorithms: Accepted signature algorithms.
        types: Accepted ``typ`` headers of tokens in lower case. ``["at+jwt"]`` accepts those of RFC 9068 only; the
            default also accepts ``jwt`` and tokens without the header.
        scope_claims: The claims that contain scopes.
        clock_skew: Seconds, up to 600, by which an issuer's clock may differ.
        dpop: Tokens bound to a key: ``off``, ``accepted`` or ``required``.
        dpop_nonces: Seconds for which a nonce for proofs is issued; 0 requires no nonce.
        certificates: The name in a client's TLS certificate that identifies it; without it, certificates authenticate
            no client.
        certificate_scopes: The scopes of those clients.
        private_networks: True if an issuer's metadata may lead into private networks.
        name: The published name, for users.
        documentation: The published URL of documentation, for users.
        limits: The table ``[auth.limits]``.
    """

    resource: str | tuple[str, ...] = ()
    issuers: tuple[str, ...] = ()
    audience: tuple[str, ...] = ()
    jwks: str | None = None
    introspection: Introspection | None = None
    tokens: Path | None = None
    scopes: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    scope_prefix: str = ""
    includes: Mapping[str, tuple[str, ...]] = field(factory=dict)
    algorithms: tuple[str, ...] = ClaimRules().algorithms
    types: tuple[str, ...] = ()
    scope_claims: tuple[str, ...] = ClaimRules().scope_claims
    clock_skew: float = field(default=60.0, validator=number(0, 600))
    dpop: Literal["off", "accepted", "required"] = "accepted"
    dpop_nonces: int = field(default=0, validator=integer(0))
    certificates: CertificateNames | None = None
    certificate_scopes: tuple[str, ...] = ()
    private_networks: bool = False
    name: str | None = None
    documentation: str | None = None
    limits: AuthLimits = field(factory=AuthLimits)

    @property
    def resources(self) -> tuple[str, ...]:
        return (self.resource,) if isinstance(self.resource, str) else self.resource


def read_settings(config: ServeConfig, environ: Mapping[str, str] | None = None) -> AuthSettings | None:
    """Return the settings of ``[auth]``. The environment takes precedence over the file.

    Returns:
        ``None`` if neither the file nor the environment has a setting of ``[auth]``.

    Raises:
        ConfigError: A value is invalid. The message names file, line and key.
    """
    variables = os.environ if environ is None else environ
    if not config.has_auth(variables):
        return None
    reader = SettingsReader(folder=config.resolve_path("."), error=config.error, environ=variables)
    settings = reader.read(AuthSettings, config.auth or {}, (_TABLE,), variables=(_TABLE,))
    check_variables(variables, {variable_of((_TABLE, *key)) for key in keys_of_class(AuthSettings)}, (_TABLE,))
    return settings


def guard_of(
    config: ServeConfig,
    *,
    key: bytes | None = None,
    fetch: Fetch | None = None,
    environ: Mapping[str, str] | None = None,
) -> ResourceServer | None:
    """Return the guard that ``[auth]`` configures; ``None`` without such a table.

    Args:
        key: A secret that all replicas of the service share, so that each accepts the others' DPoP nonces.
        fetch: Sends requests to issuers; by default over the network, to configured and public addresses only.
        environ: The environment; by default that of the process.

    Raises:
        ConfigError: A value is invalid. The message names file, line and key.
    """
    settings = read_settings(config, environ)
    if settings is None:
        return None
    try:
        return _make_guard(settings, key, fetch)
    except ConfigError as error:
        raise config.error((_TABLE, "tokens"), str(error)) from error
    except ValueError as error:
        # The message begins with the name of the value, "resource: expected ...", which gives the line in the file.
        name, _, problem = str(error).partition(": ")
        known = {each.name for each in fields(AuthSettings)}
        where = {"authorization_servers": "issuers", "issuer": "issuers", "introspection_endpoint": "introspection"}
        name = where.get(name, name)
        if name in known and problem:
            raise config.error((_TABLE, name), problem) from error
        raise config.error((_TABLE,), str(error)) from error


async def principal_of_environment(
    config: ServeConfig, *, fetch: Fetch | None = None, environ: MutableMapping[str, str] | None = None
) -> Principal | None:
    """Return the principal of the client over standard input and output: that of the token in ``MCPTRIO_TOKEN``.

    Returns:
        ``None`` for an anonymous client: without ``[auth]``, or without a token.

    Raises:
        ConfigError: The token is invalid or cannot be verified, or a value of ``[auth]`` is invalid.
    """
    variables = os.environ if environ is None else environ
    # Removed from the environment, so that neither plugins nor their child processes receive it.
    token = variables.pop(TOKEN, "")
    guard = guard_of(config, fetch=fetch, environ=variables)
    if guard is None or not token:
        return None
    try:
        return await guard.admit_token(token)
    except AuthorizationError as error:
        raise ConfigError(f"{TOKEN}: {error}") from error
    except Overloaded as error:
        raise ConfigError(f"{TOKEN}: {error.message}; the log says why") from error


def _make_guard(settings: AuthSettings, key: bytes | None, fetch: Fetch | None) -> ResourceServer:
    limits = settings.limits
    if settings.issuers and not settings.scopes:
        _log.warning("auth.scopes is empty: every token that an issuer issues for this audience is accepted")
    verifiers = [*_issuer_verifiers(settings, fetch), *_file_verifiers(settings.tokens)]
    if settings.dpop_nonces and settings.dpop == "off":
        raise ValueError("dpop_nonces: expected dpop to be accepted or required, got off")
    certificates = None
    if settings.certificates is not None:
        scopes = frozenset(settings.certificate_scopes)
        certificates = CertificatePrincipals(name=settings.certificates, scopes=scopes)
    elif settings.certificate_scopes:
        raise ValueError(
            "certificate_scopes: expected certificates too, which selects the name of the client; got none"
        )
    if not verifiers and certificates is None:
        raise ValueError("expected issuers, tokens or certificates, got none; every request would be rejected")
    return ResourceServer(
        settings.resources,
        tokens=verifiers,
        authorization_servers=settings.issuers,
        scopes=settings.scopes,
        options=ResourceServerOptions(
            includes=settings.includes,
            scopes_supported=settings.scopes_supported,
            scope_prefix=settings.scope_prefix,
            dpop=DPoPRule(
                use=settings.dpop,
                nonces=settings.dpop_nonces or None,
                nonce_key=key,
                bounds=ReplayBounds(proofs=limits.proofs, proofs_per_key=limits.proofs_per_key),
            ),
            certificates=certificates,
            failures=FailureLimit(
                per_minute=limits.failures_per_minute, burst=limits.failures_burst, addresses=limits.addresses
            ),
            recheck=_recheck(settings),
            name=settings.name,
            documentation=settings.documentation,
        ),
    )


def _recheck(settings: AuthSettings) -> float:
    """Return the seconds between two verifications of an open connection's token: the cache time for requests."""
    introspection = settings.introspection
    remember = settings.limits.remember
    return max(1.0, remember if introspection is None else min(remember, introspection.remember))


def _issuer_verifiers(settings: AuthSettings, fetch: Fetch | None) -> Sequence[TokenVerifier]:
    introspection, audience = settings.introspection, settings.audience or settings.resources
    if not settings.issuers:
        for name, value in (("jwks", settings.jwks), ("introspection", introspection), ("audience", settings.audience)):
            if value:
                raise ValueError(f"{name}: expected issuers too, the issuers of the tokens; got none")
        return []
    if not audience:
        raise ValueError("resource: expected the address of the endpoint, for which clients request tokens; got none")
    if settings.jwks is not None and len(settings.issuers) != 1:
        raise ValueError(f"jwks: expected one issuer, whose keys these are, got {len(settings.issuers)}")
    if fetch is None:
        named = [*settings.issuers, settings.jwks, introspection.endpoint if introspection else None]
        # Only configured URLs may be in private networks. URLs in an issuer's metadata may be there only if
        # private_networks is True.
        policy = AddressPolicy(private=settings.private_networks, origins=[each for each in named if each is not None])
        fetch = Fetcher(policy)
    rules = ClaimRules(
        algorithms=settings.algorithms,
        types=settings.types or ClaimRules().types,
        scope_claims=settings.scope_claims,
        clock_skew=settings.clock_skew,
        remember=settings.limits.remember,
        remembered=settings.limits.tokens,
    )
    return [_issuer_verifier(settings, each, fetch, audience, rules) for each in settings.issuers]


def _issuer_verifier(
    settings: AuthSettings, issuer: str, fetch: Fetch, audience: Sequence[str], rules: ClaimRules
) -> TokenVerifier:
    introspection, limits = settings.introspection, settings.limits
    if introspection is not None:
        if introspection.issuer is None and len(settings.issuers) != 1:
            raise ValueError(
                f"introspection: expected issuer, since there are {len(settings.issuers)} issuers, got none"
            )
        if introspection.issuer is not None and introspection.issuer not in settings.issuers:
            raise ValueError(f"introspection: issuer: expected one of issuers, got {introspection.issuer}")
        if not introspection.client_id:
            raise ValueError(
                "introspection: client_id: expected the id of this server's client at the issuer, got none"
            )
        if introspection.issuer in (None, issuer):
            return IntrospectedTokens(
                issuer,
                ClientIdentity(
                    client_id=introspection.client_id,
                    client_secret=introspection.client_secret,
                    method=introspection.method,
                ),
                fetch,
                audience=audience if introspection.audience else (),
                endpoint=introspection.endpoint,
                rules=rules,
                bounds=IntrospectionBounds(remember=introspection.remember, remembered=limits.tokens),
            )
    times = KeyTimes(fresh=limits.keys_fresh, stale=limits.keys_stale, refetch_after=limits.keys_refetch_after)
    return JWTTokens(IssuerKeys(issuer, fetch, jwks=settings.jwks, times=times), audience=audience, rules=rules)


def _file_verifiers(path: Path | None) -> Sequence[TokenVerifier]:
    """Return the verifier of a token file.

    Raises:
        ConfigError: The file cannot be read.
    """
    if path is None:
        return []
    # A missing file is an error at the start; later, StaticTokens rejects all tokens until the file exists.
    read_tokens(path)
    return [StaticTokens(path)]
