"""Authorizing a client's requests with OAuth, on behalf of a person.

``connect`` makes an :class:`OAuthClient` of an :class:`OAuth` for the server it connects to.
The one rule: what an authorization server gave us is shown to that one and nobody else. What happens when is up to
:mod:`mcptrio.auth.engine`, how a person is asked to :mod:`mcptrio.auth.person_grant`.

Source: MCP 2026-07-28, basic/authorization; RFC 6750; RFC 9449.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import Factory, field, frozen

from mcptrio.abc import Fetch, TokenStore
from mcptrio.auth.credentials import Credentials
from mcptrio.auth.engine import GrantClient
from mcptrio.auth.grants import GrantMethod, text_tuple
from mcptrio.auth.loopback import LoopbackRedirects
from mcptrio.auth.person_grant import PersonGrant
from mcptrio.auth.redirects import Redirects
from mcptrio.auth.refusals import Refusal
from mcptrio.auth.registration import ClientMetadata, PreRegistered

__all__ = ["OAuth", "OAuthClient"]


@frozen(kw_only=True)
class OAuth(GrantMethod):
    """OAuth for a client that acts for a person. One value serves for any number of servers and clients.

    Args:
        client_name: what the person is told asks for access.
        redirects: how they are sent to the authorization server and back; by default its address is printed, and their
            browser comes back to a port of this machine.
        store: keeps what was granted; by default it is forgotten with this value.
        scopes: wanted beside those that the server asks for.
        client: registered by hand, where authorization servers do not let clients register.
        client_metadata_url: of our Client ID Metadata Document, which is our id where it is understood.
        client_uri: a page about the program.
        private_servers: URLs of authorization servers that may be reached in private networks too. Others have to be
            public, unless they are the server itself.
        dpop: whether tokens are bound to a key of ours: where the server asks for it, always, or never.
        clock: seconds since 1970.

    Raises:
        ConfigError: the client has a secret or a key, and no issuer.
    """

    client_name: str = "mcptrio"
    redirects: Redirects = field(factory=LoopbackRedirects)
    store: TokenStore | None = field(default=None, repr=False)
    client: PreRegistered | None = None
    client_metadata_url: str | None = None
    client_uri: str | None = None
    private_servers: tuple[str, ...] = field(default=(), converter=text_tuple)
    _met: dict[str, None] = field(factory=dict, init=False, repr=False, eq=False)
    """Of the client that was registered by hand: the first one, where it was not said."""
    _credentials: Credentials = field(
        default=Factory(lambda self: Credentials(self.store), takes_self=True), init=False, repr=False, eq=False
    )
    _metadata: ClientMetadata = field(
        default=Factory(lambda self: _own_metadata(self), takes_self=True), init=False, repr=False, eq=False
    )

    def __attrs_post_init__(self) -> None:
        if self.client is not None:
            self.client.check_issuer()

    @property
    def named_servers(self) -> Sequence[str]:
        """See :class:`mcptrio.abc.AuthMethod`."""
        own = () if self.client is None or self.client.issuer is None else (self.client.issuer,)
        return (*self.private_servers, *own)

    def client_auth(self, url: str, fetch: Fetch) -> OAuthClient:
        """See :class:`mcptrio.abc.AuthMethod`. Clients of one server share what was granted for it.

        Raises:
            AuthorizationError: it is no http or https URL.
        """
        return OAuthClient(PersonGrant(self, self._state_of(url), fetch, self._credentials, self._metadata))


class OAuthClient(GrantClient):
    """Authorizes the requests to one server. Made by :meth:`OAuth.client_auth`."""

    def __init__(self, grant: PersonGrant) -> None:
        super().__init__(grant)
        self._person = grant

    async def log_in(self, headers: Mapping[str, str] | None = None) -> None:
        """Ask the person now, whatever there is.

        Args:
            headers: of the server's answer to somebody without credentials, in lower case; it may say where its
                metadata is, and which scopes it wants.

        Raises:
            AuthorizationError: they said no, or it is not possible.
            RequestFailed: somebody cannot be reached.
        """
        await self._load()
        refusal = Refusal.read(headers or {})
        await self._round(lambda: self._obtain(refusal, None))

    async def log_out(self) -> bool:
        """Forget what was granted, and have it made worthless where the authorization server can do that.

        Returns:
            Whether there was something.
        """
        await self._load()
        server = self._server
        async with server.lock:
            await self._person.revoke()
            server.granted = server.binding = server.place = None
            return await self._person.forget()


def _own_metadata(oauth: OAuth) -> ClientMetadata:
    return ClientMetadata(
        name=oauth.client_name,
        uri=oauth.client_uri,
        document=oauth.client_metadata_url,
        application_type=oauth.redirects.application_type,
    )
