"""Options of a resource server other than its trusted issuers and tokens.

:class:`mcptrio.auth.ResourceServer` reads them. The defaults are safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from attrs import field, frozen, validators

from mcptrio.auth.server.certificates import CertificatePrincipals
from mcptrio.auth.server.failures import FailureLimit
from mcptrio.auth.server.replay_cache import ReplayBounds

__all__ = ["DPoPRule", "DPoPUse", "ResourceServerOptions"]

DPoPUse: TypeAlias = Literal["off", "accepted", "required"]
"""``off``: no token may be bound to a key; ``accepted``: tokens may be bound; ``required``: all must be bound."""


@frozen(kw_only=True)
class DPoPRule:
    """The requirements for tokens that are bound to a key (RFC 9449).

    Args:
        use: ``off`` rejects them, ``accepted`` accepts them with a proof, in addition to bearer tokens, ``required``
            rejects all others.
        nonces: Seconds for which the server issues the same nonce. Each proof must contain the current or the previous
            nonce; ``None`` if proofs need no nonce.
        nonce_key: The key of the nonces, shared by replicas; by default a random key of this process.
        window: Seconds by which the time of a proof may differ, from more than 0 to 3600.
        bounds: The size of the replay cache.
    """

    use: DPoPUse = field(default="accepted", validator=validators.in_(("off", "accepted", "required")))
    nonces: float | None = field(default=None, validator=validators.optional(validators.ge(1)))
    nonce_key: bytes | None = field(default=None, repr=False)
    window: float = field(default=300.0, validator=[validators.gt(0), validators.le(3600)])
    bounds: ReplayBounds = field(factory=ReplayBounds)


@frozen(kw_only=True)
class ResourceServerOptions:
    """The options of :class:`mcptrio.auth.ResourceServer`.

    Args:
        includes: The narrower scopes that each scope includes, by scope.
        scopes_supported: Scopes in the published metadata; by default those that every request needs.
        scope_prefix: A prefix that clients write before a scope and tokens omit. Entra expects requests for
            ``api://ID/read`` and grants ``read``.
        dpop: The requirements for tokens that are bound to a key.
        certificates: Authenticates clients by their TLS certificates; ``None`` for none.
        failures: The limit on the failed authentications of one address.
        recheck: Seconds, from 1 to 3600, after which the token of an open connection (WebSocket, event stream) is
            verified again; an expired or revoked token ends the connection.
        name: The published name, for users.
        documentation: The published URL of documentation, for users.
    """

    includes: Mapping[str, Sequence[str]] = field(factory=dict)
    scopes_supported: Sequence[str] | None = None
    scope_prefix: str = ""
    dpop: DPoPRule = field(factory=DPoPRule)
    certificates: CertificatePrincipals | None = None
    failures: FailureLimit = field(factory=FailureLimit)
    recheck: float = field(default=60.0, validator=[validators.ge(1), validators.le(3600)])
    name: str | None = None
    documentation: str | None = None
