"""The base of all grants: the ways to obtain tokens for one server.

:mod:`mcptrio.auth.client.engine` runs a grant and does what all grants have in common.

Source: MCP 2026-07-28, basic/authorization, and basic/authorization/client-registration, "Authorization Server
Binding"; RFC 6749 section 1.3.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

import trio
from attrs import define, field, frozen, validators

from mcptrio.abc import Fetch
from mcptrio.auth.client.credentials import Binding, Granted
from mcptrio.auth.client.registration import Registered
from mcptrio.auth.discovery import TokenSource, discover
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.flows import Flow, drive
from mcptrio.auth.token_requests import ClientIdentity, Tokens, request_tokens
from mcptrio.auth.urls import canonical, check_url, shown
from mcptrio.errors import AuthorizationError, ConfigError, MCPTrioError

__all__ = [
    "JWT_BEARER",
    "MAX_STEP_UPS",
    "USER_TIMEOUT",
    "Grant",
    "GrantMethod",
    "GrantRequest",
    "ServerState",
    "text_tuple",
]

T = TypeVar("T")
M_co = TypeVar("M_co", bound="GrantMethod", covariant=True)

MAX_STEP_UPS: Final = 3
"""Logins of a user at one server, and requests for more scopes, within :data:`USER_TIMEOUT`."""
USER_TIMEOUT: Final = 300.0
"""Seconds over which :data:`MAX_STEP_UPS` counts. A step-up that did not help is not repeated within this time."""

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""The grant type of an assertion that is a signed token (RFC 7523 section 2.1)."""


def text_tuple(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts as a tuple. A single text is an error, because its characters would become the items.

    Raises:
        ConfigError: A single text was given.
    """
    if isinstance(texts, str):
        raise ConfigError(f"expected a list of strings, got the string {texts[:80]!r}")
    return tuple(texts)


@define(eq=False)
class ServerState:
    """The tokens, locks and counters of one server, shared by all its clients.

    Attributes:
        url: The canonical URL of the server.
        lock: Held while credentials are obtained or renewed.
        loaded: True once the token store was read.
        binding: The authorization server and the resource of the tokens.
        source: The authorization server, once it was discovered.
        issuer: The first authorization server that was discovered. A grant without a configured issuer sends its
            credentials to no other.
        wanted: The scopes of the last token request.
        rounds: The number of attempts to obtain credentials, successful or not.
        failure: The error of the last round, if it failed.
        prompted_at: The times at which a user was asked.
        step_ups: The times at which scopes were requested because others did not suffice.
        sent: The tokens that each task sent last. The server's response reaches the same task.
    """

    url: str
    lock: trio.Lock = field(factory=trio.Lock)
    loaded: bool = False
    binding: Binding | None = None
    granted: Granted | None = None
    source: TokenSource | None = None
    issuer: str | None = None
    wanted: tuple[str, ...] | None = None
    rounds: int = 0
    failure: MCPTrioError | None = None
    prompted_at: deque[float] = field(factory=lambda: deque(maxlen=MAX_STEP_UPS))
    step_ups: dict[frozenset[str], float] = field(factory=dict)
    sent: WeakKeyDictionary[trio.lowlevel.Task, Granted | None] = field(factory=WeakKeyDictionary)


@frozen(kw_only=True)
class GrantRequest:
    """One request for tokens.

    Args:
        source: The resource and its authorization server.
        scopes: The scopes to request; ``None`` omits the parameter.
        prover: The key to which the tokens should be bound, if any.
        clock: Returns seconds since 1970.
    """

    source: TokenSource
    scopes: tuple[str, ...] | None
    prover: DPoPSigner | None
    clock: Callable[[], float]

    @property
    def parameters(self) -> dict[str, str]:
        """The ``resource`` and ``scope`` parameters of every token request."""
        parameters = {"resource": self.source.resource}
        return parameters if self.scopes is None else {**parameters, "scope": " ".join(self.scopes)}

    def tokens(self, client: ClientIdentity | None, grant_type: str, **parameters: str) -> Flow[Tokens]:
        """Request tokens of the authorization server, as :func:`mcptrio.auth.token_requests.request_tokens` does.

        Args:
            parameters: The parameters of the grant.
        """
        parameters = {"grant_type": grant_type, **parameters, **self.parameters}
        return request_tokens(self.source.server, client, parameters, prover=self.prover, clock=self.clock)

    def granted(self, tokens: Tokens, *, client: Registered | None = None) -> Granted:
        """Return a record of the tokens that the request obtained."""
        return Granted(
            issuer=self.source.server.issuer,
            resource=self.source.resource,
            tokens=tokens,
            requested_scopes=self.scopes,
            obtained_at=self.clock(),
            is_from_grant=True,
            client=client,
            prover=self.prover if tokens.scheme == "DPoP" else None,
        )


@frozen(kw_only=True)
class GrantMethod:
    """The settings that all grants share. One instance serves any number of servers.

    Args:
        scopes: The scopes to request in addition to those in a challenge.
        dpop: Whether tokens are bound to a key of the client: ``auto`` (if the server asks for it), ``always`` or
            ``never``.
        clock: Returns seconds since 1970.
    """

    scopes: tuple[str, ...] = field(default=(), converter=text_tuple)
    dpop: Literal["auto", "always", "never"] = field(
        default="auto", validator=validators.in_(("auto", "always", "never"))
    )
    clock: Callable[[], float] = field(default=time.time, repr=False)
    _servers: dict[str, ServerState] = field(factory=dict, init=False, repr=False, eq=False)

    def _state_of(self, url: str) -> ServerState:
        """Return the state that all clients of a server share.

        Raises:
            AuthorizationError: The URL is not an http or https URL.
        """
        name = canonical(url)
        return self._servers.setdefault(name, ServerState(name))


class Grant(ABC, Generic[M_co]):
    """A way to obtain tokens for one server.

    The caller holds the server's lock, so the methods never run concurrently.

    Args:
        issuer: The authorization server of the credentials; ``None`` for the first that the server names.
    """

    needs_user: ClassVar[bool] = False
    """True if a user has to be asked before :meth:`obtain`."""

    def __init__(self, method: M_co, server: ServerState, fetch: Fetch, *, issuer: str | None = None) -> None:
        self.method = method
        self.server = server
        self._fetch = fetch
        self._issuer = issuer

    @abstractmethod
    async def obtain(self, request: GrantRequest) -> Granted:
        """Obtain new tokens.

        Raises:
            AuthorizationError: The grant was refused.
            RequestFailed: The authorization server is unreachable.
        """

    async def renew(self, granted: Granted, is_usable: Callable[[Granted], bool]) -> Granted | None:
        """Return newer tokens without another grant, or ``None`` if none are available.

        Args:
            is_usable: Returns whether tokens that another process has stored can be used without a renewal.
        """
        await trio.lowlevel.checkpoint()
        return None

    async def load(self) -> None:
        """Load stored tokens into the server's state."""
        await trio.lowlevel.checkpoint()

    async def keep(self, binding: Binding, granted: Granted) -> None:
        """Store granted tokens."""
        await trio.lowlevel.checkpoint()
        self.server.binding, self.server.granted = binding, granted

    async def has_moved(self, granted: Granted, metadata_url: str | None) -> bool:
        """Return whether the server now requires tokens of another authorization server."""
        await trio.lowlevel.checkpoint()
        return False

    async def find(self, metadata_url: str | None) -> TokenSource:
        """Discover the authorization server.

        Raises:
            AuthorizationError: The server names another authorization server than the credentials are for.
            RequestFailed: The metadata is unreachable.
        """
        server, pinned = self.server, self.pinned_issuer()
        check_url(server.url, "url")
        before = None if server.binding is None else server.binding.issuer
        preferred = [issuer for issuer in (pinned, before) if issuer is not None]
        source = await self.drive(discover(server.url, metadata_url=metadata_url, preferred=preferred))
        found = source.server.issuer
        # A compromised server could name an attacker's authorization server to obtain the credentials.
        if pinned is not None and found != pinned:
            raise AuthorizationError(self.other_issuer_message(pinned, found))
        server.issuer, server.source = found, source
        return source

    def pinned_issuer(self) -> str | None:
        """Return the only issuer that may receive the credentials; ``None`` before the first discovery."""
        return self._issuer or self.server.issuer

    def other_issuer_message(self, pinned: str, issuer: str) -> str:
        """Return the error for a server that names another issuer than the pinned one."""
        return (
            f"the credentials are for {shown(pinned)}, but {shown(self.server.url)} requires tokens of {shown(issuer)};"
            " nothing was sent"
        )

    async def drive(self, flow: Flow[T]) -> T:
        return await drive(flow, self._fetch)
