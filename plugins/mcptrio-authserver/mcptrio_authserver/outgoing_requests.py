"""Requests to other servers: documents and keys of clients, keys of issuers, and the upstream provider.

:mod:`.service` calls it before a transaction that needs the results. Results are kept in the ledger, so all workers
share them. The given ``Fetch`` limits size and time of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import trio

from mcptrio.abc import Fetch
from mcptrio.auth import Flow, drive
from mcptrio.auth.jose import KeySet
from mcptrio.errors import RequestFailed

from .assertions import issuer_of
from .client_authentication import UnverifiedClient, read_credentials
from .client_documents import FetchedClient, cache_client, fetch_client, is_document, needs_fetch
from .clients import RegisteredClient, find_client
from .config import Config
from .grants import end_grant, find_refreshed
from .ledger import Ledger, Store
from .published_keys import cache_keys, cached_keys, fetch_keys, find_jwks_uri, needs_keys
from .refusals import Refusal
from .upstream import Provider, UpstreamEnded, UpstreamLogin, exchange, find_provider, renew
from .upstream_tokens import UpstreamTokens

__all__ = ["OutgoingRequests"]

T = TypeVar("T")

# Concurrent requests.
_MAX_REQUESTS: Final = 8
# Seconds for which metadata of the provider and of issuers is kept.
_METADATA_CACHE_SECONDS: Final = 3600.0
# Seconds until metadata is requested again after a failure.
_RETRY_SECONDS: Final = 10.0


class OutgoingRequests:
    """Fetches what the protocol logic needs.

    Args:
        fetch: Sends requests to URLs that clients name: their documents and keys.
        fetch_named: Sends requests to URLs that the operator names: issuers and the provider.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self, config: Config, store: Store, *, fetch: Fetch, fetch_named: Fetch, clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._store = store
        # Two functions: URLs of the operator may be in private networks; URLs of clients must not reach what only this
        # machine can.
        self._fetch = fetch
        self._fetch_named = fetch_named
        self._clock = clock
        self._limiter = trio.CapacityLimiter(_MAX_REQUESTS)
        self._provider: tuple[float, Provider | Refusal] | None = None

    async def client(self, id: str, address: str | None) -> RegisteredClient | None:
        """Return a client, after fetching its metadata document if necessary; ``None`` if it is unknown.

        Raises:
            Refusal: The document is unreachable or invalid.
        """
        if is_document(id, self._config):
            now = self._clock()
            if await self._store.transact(lambda ledger: needs_fetch(ledger, id, address=address, now=now)):
                fetched: FetchedClient | Refusal
                try:
                    fetched = await self._drive(fetch_client(id, self._config.app_schemes))
                except Refusal as refusal:
                    fetched = refusal
                await self._store.transact(lambda ledger: cache_client(ledger, id, fetched, now))
                if isinstance(fetched, Refusal):
                    raise fetched
        return await self._store.transact(lambda ledger: find_client(ledger, self._config, id))

    async def credentials(
        self, form: Mapping[str, str], authorization: str | None, address: str | None
    ) -> UnverifiedClient | None:
        """Return the client credentials of a request, after fetching the keys needed to verify them.

        Raises:
            Refusal: The credentials are malformed, or the keys are unavailable.
        """
        credentials = read_credentials(form, authorization)
        if credentials is None:
            return None
        client = await self.client(credentials.client_id, address)
        if client is not None and client.jwks_uri is not None and credentials.assertion is not None:
            await self._cache_keys(client.jwks_uri, credentials.assertion, named=client.is_trusted)
        return credentials

    async def issuer_keys(self, assertion: str) -> KeySet:
        """Return the keys of the trusted issuer that an assertion names.

        Raises:
            Refusal: The issuer is not trusted, or its keys are unavailable.
        """
        _, trusted = issuer_of(self._config, assertion)
        url = trusted.jwks_uri if trusted.jwks_uri is not None else await self._find_jwks_uri(trusted.issuer)
        await self._cache_keys(url, assertion, named=True)
        return await self._store.transact(lambda ledger: cached_keys(ledger, url))

    async def renew(self, tokens: UpstreamTokens, refresh_token: str, client_id: str) -> UpstreamTokens:
        """Ask the provider whether a user's login is still valid; end the grant if it is not.

        Raises:
            UpstreamEnded: The provider has ended it.
            Refusal: The provider is unreachable.
        """
        ended: UpstreamEnded
        try:
            if self._config.upstream is None:
                raise UpstreamEnded
            provider = await self.provider()
            return await self._drive(renew(self._config, provider, tokens, now=self._clock()), named=True)
        except UpstreamEnded as error:
            ended = error

        def end(ledger: Ledger) -> None:
            end_grant(ledger, find_refreshed(ledger, refresh_token, client_id, self._clock()).id)

        await self._store.transact(end)
        raise ended

    async def provider(self) -> Provider:
        """Return the provider's endpoints.

        Raises:
            Refusal: The provider is unreachable.
        """
        settings = self._config.upstream
        assert settings is not None
        if self._provider is None or self._provider[0] <= self._clock():
            try:
                endpoints = await self._drive(find_provider(settings), named=True)
                self._provider = (self._clock() + _METADATA_CACHE_SECONDS, endpoints)
            except Refusal as refusal:
                self._provider = (self._clock() + _RETRY_SECONDS, refusal)
        provider = self._provider[1]
        if isinstance(provider, Refusal):
            raise provider
        return provider

    async def exchange(self, login: UpstreamLogin, answer: Mapping[str, str]) -> UpstreamTokens:
        """Exchange the provider's code for its tokens.

        Raises:
            Refusal: The provider refused, or its response is invalid.
        """
        provider = await self.provider()
        return await self._drive(exchange(self._config, provider, login, answer, now=self._clock()), named=True)

    # Private

    async def _find_jwks_uri(self, issuer: str) -> str:
        """Return the URL of an issuer's keys from its metadata. Failures are cached for a short time too."""
        record = await self._store.transact(lambda ledger: ledger.get("keys-of", issuer))
        if record is None:
            now = self._clock()
            try:
                record, until = (
                    {"url": await self._drive(find_jwks_uri(issuer), named=True)},
                    now + _METADATA_CACHE_SECONDS,
                )
            except Refusal as refusal:
                record, until = {"problem": refusal.description}, now + _RETRY_SECONDS
            value = record
            await self._store.transact(lambda ledger: ledger.put("keys-of", issuer, value, until=until))
        if "problem" in record:
            raise Refusal("temporarily_unavailable", str(record["problem"]), status=503)
        return str(record["url"])

    async def _cache_keys(self, url: str, token: str, *, named: bool) -> None:
        now = self._clock()
        if await self._store.transact(lambda ledger: needs_keys(ledger, url, token, now)):
            fetched: KeySet | Refusal
            try:
                fetched = await self._drive(fetch_keys(url), named=named)
            except Refusal as refusal:
                fetched = refusal
            await self._store.transact(lambda ledger: cache_keys(ledger, url, fetched, now))
            if isinstance(fetched, Refusal):
                raise fetched

    async def _drive(self, flow: Flow[T], *, named: bool = False) -> T:
        """Run a flow.

        Args:
            named: True if the operator names the URLs.

        Raises:
            Refusal: The flow raised it, or a server is unreachable.
        """
        async with self._limiter:
            try:
                return await drive(flow, self._fetch_named if named else self._fetch)
            except RequestFailed:
                raise Refusal("temporarily_unavailable", "another server cannot be reached", status=503) from None
