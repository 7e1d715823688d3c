"""Grants: the ways to get tokens for one server.

:mod:`mcptrio.auth.client.engine` runs a grant and does everything that grants have in common.
A grant sends its credentials to one authorization server. If the server names another one later, the grant refuses.

Source: MCP 2026-07-28, basic/authorization, and basic/authorization/client-registration, "Authorization Server
Binding"; RFC 6749 section 1.3.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, Literal, TypeVar
from weakref import WeakKeyDictionary

import trio
from attrs import define, field, frozen, validators

from mcptrio.abc import Fetch
from mcptrio.auth.client.credentials import Binding, Granted
from mcptrio.auth.client.registration import Registered
from mcptrio.auth.discovery import TokenSource, discover
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.flows import Flow, drive
from mcptrio.auth.token_requests import Tokens
from mcptrio.auth.urls import canonical, check_url, shown
from mcptrio.errors import AuthorizationError, ConfigError, MCPTrioError

__all__ = ["MAX_STEP_UPS", "USER_TIMEOUT", "Grant", "GrantMethod", "GrantRequest", "ServerState", "text_tuple"]

T = TypeVar("T")

MAX_STEP_UPS: Final = 3
"""Times within :data:`USER_TIMEOUT` that a person is asked for one server, or that more scopes are."""
USER_TIMEOUT: Final = 300.0
"""Seconds; also how long a step up that did not help is not tried again."""


def text_tuple(texts: Iterable[str]) -> tuple[str, ...]:
    """Refuse a text where a list of texts is expected: each of its letters would be one."""
    if isinstance(texts, str):
        raise ConfigError(f"expected a list of texts, got the text {texts[:80]!r}")
    return tuple(texts)


@define(eq=False)
class ServerState:
    """The tokens, locks and counters of one server, shared by all its clients."""

    url: str
    lock: trio.Lock = field(factory=trio.Lock)
    loaded: bool = False
    binding: Binding | None = None
    granted: Granted | None = None
    place: TokenSource | None = None
    issuer: str | None = None
    """The first that was found; a grant without an issuer of its own shows its credentials to no other."""
    wanted: tuple[str, ...] | None = None
    """The scopes that were asked for last."""
    rounds: int = 0
    """How often credentials were looked for, with whatever end."""
    failure: MCPTrioError | None = None
    """Of the last round."""
    asked: deque[float] = field(factory=lambda: deque(maxlen=MAX_STEP_UPS))
    """When a person was."""
    stepped: dict[frozenset[str], float] = field(factory=dict)
    """When which scopes were asked for because others did not suffice."""
    sent: WeakKeyDictionary[trio.lowlevel.Task, Granted | None] = field(factory=WeakKeyDictionary)
    """The tokens that each task sent last. The server's refusal reaches the same task."""


@frozen(kw_only=True)
class GrantRequest:
    """One request for tokens.

    Args:
        scopes: ``None`` where the parameter is left out.
        prover: has the tokens bound to its key.
    """

    place: TokenSource
    scopes: tuple[str, ...] | None
    prover: DPoPSigner | None
    clock: Callable[[], float]

    @property
    def parameters(self) -> dict[str, str]:
        """``resource`` and ``scope``, which every token request has."""
        wanted = {"resource": self.place.resource}
        return wanted if self.scopes is None else {**wanted, "scope": " ".join(self.scopes)}

    def granted(self, tokens: Tokens, *, client: Registered | None = None) -> Granted:
        """Describe the tokens of the answer."""
        return Granted(
            issuer=self.place.server.issuer,
            resource=self.place.resource,
            tokens=tokens,
            asked=self.scopes,
            obtained_at=self.clock(),
            is_from_grant=True,
            client=client,
            prover=self.prover if tokens.scheme == "DPoP" else None,
        )


@frozen(kw_only=True)
class GrantMethod:
    """Settings that all grants share. One value serves any number of servers.

    Args:
        scopes: to request in addition to the scopes that a challenge names.
        dpop: whether tokens are bound to a key of ours: where the server asks for it, always, or never.
        clock: seconds since 1970.
    """

    scopes: tuple[str, ...] = field(default=(), converter=text_tuple)
    dpop: Literal["asked", "always", "never"] = field(
        default="asked", validator=validators.in_(("asked", "always", "never"))
    )
    clock: Callable[[], float] = field(default=time.time, repr=False)
    _servers: dict[str, ServerState] = field(factory=dict, init=False, repr=False, eq=False)

    def _state_of(self, url: str) -> ServerState:
        """Return the state that all clients of a server share.

        Raises:
            AuthorizationError: it is no http or https URL.
        """
        name = canonical(url)
        return self._servers.setdefault(name, ServerState(name))


class Grant(ABC):
    """A way to get tokens for one server.

    Its caller holds the server's lock, so nothing here is done twice at the same time.

    Args:
        issuer: whom the credentials are for; ``None`` for the first that the server names.
    """

    needs_user: ClassVar[bool] = False
    """Whether a person has to be asked before :meth:`obtain`."""

    def __init__(self, method: GrantMethod, server: ServerState, fetch: Fetch, *, issuer: str | None = None) -> None:
        self.method = method
        self.server = server
        self._fetch = fetch
        self._issuer = issuer

    @abstractmethod
    async def obtain(self, request: GrantRequest) -> Granted:
        """Get new tokens.

        Raises:
            AuthorizationError: there are none.
            RequestFailed: those who give them cannot be reached.
        """

    async def renew(self, granted: Granted, is_good: Callable[[Granted], bool]) -> Granted | None:
        """Other tokens without asking for a grant again.

        Args:
            is_good: returns whether tokens that another process stored need no renewal.

        Returns:
            ``None`` where this grant has no such tokens.
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
        """Whether the server wants tokens of another authorization server now."""
        await trio.lowlevel.checkpoint()
        return False

    async def find(self, metadata_url: str | None) -> TokenSource:
        """Find the authorization server that issues the tokens.

        Args:
            metadata_url: of the server's metadata, if a challenge named it.
        """
        server, pinned = self.server, self.pinned_issuer()
        check_url(server.url, "url")
        before = None if server.binding is None else server.binding.issuer
        preferred = [issuer for issuer in (pinned, before) if issuer is not None]
        place = await self.drive(discover(server.url, metadata_url=metadata_url, preferred=preferred))
        found = place.server.issuer
        if pinned is not None and found != pinned:
            raise AuthorizationError(self.names_other_issuer(pinned, found))
        server.issuer, server.place = found, place
        return place

    def pinned_issuer(self) -> str | None:
        """The only authorization server that may see the credentials, as far as there is one already."""
        return self._issuer or self.server.issuer

    def names_other_issuer(self, pinned: str, found: str) -> str:
        return (
            f"the credentials are for {shown(pinned)}, and {shown(self.server.url)} wants tokens of {shown(found)}: "
            "it is not shown them"
        )

    async def drive(self, flow: Flow[T]) -> T:
        """See :func:`mcptrio.auth.flows.drive`."""
        return await drive(flow, self._fetch)
