"""What an operator may say of a resource server beside who is trusted.

Read by :mod:`mcptrio.auth.server.resource_server`.
The one rule: the defaults are safe for a server that says nothing.
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
"""Whether tokens may, or must, be bound to a key."""


@frozen(kw_only=True)
class DPoPRule:
    """What is asked of tokens that are bound to a key (RFC 9449).

    Args:
        use: ``off``: they are refused; ``accepted``: they are taken, with a proof, beside others; ``required``: no
            others are taken.
        nonces: seconds for which a nonce is given out that proofs have to name; ``None``: proofs need none.
        nonce_key: shared by replicas, so that each takes the others' nonces; by default one of this process.
        window: seconds that the time of a proof may be off.
        bounds: of what is remembered.
    """

    use: DPoPUse = field(default="accepted", validator=validators.in_(("off", "accepted", "required")))
    nonces: float | None = field(default=None, validator=validators.optional(validators.ge(1)))
    nonce_key: bytes | None = field(default=None, repr=False)
    window: float = field(default=300.0, validator=[validators.gt(0), validators.le(3600)])
    bounds: ReplayBounds = field(factory=ReplayBounds)


@frozen(kw_only=True)
class ResourceServerOptions:
    """
    Args:
        includes: by scope the narrower ones that it stands for.
        scopes_supported: published, for clients that are told no scope; by default those that everybody needs.
        scope_prefix: what clients have to write before a scope, and tokens leave out: Entra wants to be asked for
            ``api://ID/read``, and grants ``read``.
        dpop: what is asked of tokens that are bound to a key.
        certificates: lets clients in by their TLS certificates; ``None`` for none.
        failures: how often an address may come with credentials that are not good.
        recheck: seconds after which the token of a connection that stays open (WebSocket, event stream) is verified
            again; a token that has expired or was revoked ends the connection.
        name: published, for people.
        documentation: a URL, published, for people.
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
