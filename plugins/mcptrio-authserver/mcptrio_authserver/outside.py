"""What is fetched from others: clients' documents and keys, issuers' keys, and the provider's answers.

Used by :mod:`.service`, before a transaction that needs it.
The one rule: what the operator has named is fetched wherever it is; what anybody else has named only from where anybody
may look. What was fetched is kept in the ledger, so that all workers have it.

Eight requests are out at a time; each is bounded in size and time by the ``Fetch`` it was given.
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
from .client_documents import FetchedClient, fetch_client, is_document, keep_client, needs_fetch
from .clients import RegisteredClient, find_client
from .config import Config
from .grants import end_grant, find_refreshed
from .ledger import Ledger, Store
from .published_keys import fetch_keys, keep_keys, kept_keys, needs_keys, where_keys_are
from .refusals import Refusal
from .upstream import Errand, Provider, UpstreamEnded, exchange, find_provider, renew
from .upstream_tokens import UpstreamTokens

__all__ = ["Outside"]

T = TypeVar("T")

_OUT: Final = 8
_METADATA_CACHE_SECONDS: Final = 3600.0
"""Seconds for which the metadata of the provider and of issuers is kept."""
_RETRY_SECONDS: Final = 10.0
"""Seconds after which it is asked for again that could not be had, however many want it."""


class Outside:
    """
    Args:
        fetch: reaches what clients name: their documents and keys.
        fetch_named: reaches what the operator has named: issuers and the provider.
        clock: seconds since 1970.
    """

    def __init__(
        self, config: Config, store: Store, *, fetch: Fetch, fetch_named: Fetch, clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._store = store
        self._fetch = fetch
        self._fetch_named = fetch_named
        self._clock = clock
        self._limit = trio.CapacityLimiter(_OUT)
        self._provider: tuple[float, Provider | Refusal] | None = None

    async def client(self, id: str, address: str | None) -> RegisteredClient | None:
        """A client, whose document is fetched where it has one.

        Raises:
            Refusal: its document cannot be had, or is not good.
        """
        if is_document(id, self._config):
            now = self._clock()
            if await self._store.transact(lambda ledger: needs_fetch(ledger, id, address=address, now=now)):
                fetched: FetchedClient | Refusal
                try:
                    fetched = await self._drive(fetch_client(id, self._config.app_schemes))
                except Refusal as refusal:
                    fetched = refusal
                await self._store.transact(lambda ledger: keep_client(ledger, id, fetched, now))
                if isinstance(fetched, Refusal):
                    raise fetched
        return await self._store.transact(lambda ledger: find_client(ledger, self._config, id))

    async def credentials(
        self, form: Mapping[str, str], authorization: str | None, address: str | None
    ) -> UnverifiedClient | None:
        """What a request says of its client; what is needed to judge it has been fetched then.

        Raises:
            Refusal: it is malformed, or what is needed cannot be had.
        """
        credentials = read_credentials(form, authorization)
        if credentials is None:
            return None
        client = await self.client(credentials.client_id, address)
        if client is not None and client.jwks_uri is not None and credentials.assertion is not None:
            await self._keep_keys(client.jwks_uri, credentials.assertion, named=client.is_trusted)
        return credentials

    async def issuer_keys(self, assertion: str) -> KeySet:
        """The keys of the trusted issuer that an assertion says it is from.

        Raises:
            Refusal: there is no such issuer, or its keys cannot be had.
        """
        _, trusted = issuer_of(self._config, assertion)
        url = trusted.jwks_uri if trusted.jwks_uri is not None else await self._where_keys_are(trusted.issuer)
        await self._keep_keys(url, assertion, named=True)
        return await self._store.transact(lambda ledger: kept_keys(ledger, url))

    async def renew(self, tokens: UpstreamTokens, refresh_token: str, client_id: str) -> UpstreamTokens:
        """Ask the provider whether it still stands by a user. Where it does not, the grant ends.

        Raises:
            UpstreamEnded: it does not.
            Refusal: it cannot be asked.
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
        """The provider's endpoints.

        Raises:
            Refusal: it cannot be reached.
        """
        settings = self._config.upstream
        assert settings is not None
        if self._provider is None or self._provider[0] <= self._clock():
            try:
                found = await self._drive(find_provider(settings), named=True)
                self._provider = (self._clock() + _METADATA_CACHE_SECONDS, found)
            except Refusal as refusal:
                self._provider = (self._clock() + _RETRY_SECONDS, refusal)
        provider = self._provider[1]
        if isinstance(provider, Refusal):
            raise provider
        return provider

    async def exchange(self, errand: Errand, answer: Mapping[str, str]) -> UpstreamTokens:
        """What the provider gives for what a browser came back with.

        Raises:
            Refusal: nothing, or nothing that can be believed.
        """
        provider = await self.provider()
        return await self._drive(exchange(self._config, provider, errand, answer, now=self._clock()), named=True)

    # Private

    async def _where_keys_are(self, issuer: str) -> str:
        """As its metadata says, which is kept; and that there is none, for a moment."""
        known = await self._store.transact(lambda ledger: ledger.get("keys-of", issuer))
        if known is None:
            now = self._clock()
            try:
                known, until = (
                    {"url": await self._drive(where_keys_are(issuer), named=True)},
                    now + _METADATA_CACHE_SECONDS,
                )
            except Refusal as refusal:
                known, until = {"problem": refusal.description}, now + _RETRY_SECONDS
            value = known
            await self._store.transact(lambda ledger: ledger.put("keys-of", issuer, value, until=until))
        if "problem" in known:
            raise Refusal("temporarily_unavailable", str(known["problem"]), status=503)
        return str(known["url"])

    async def _keep_keys(self, url: str, token: str, *, named: bool) -> None:
        now = self._clock()
        if await self._store.transact(lambda ledger: needs_keys(ledger, url, token, now)):
            fetched: KeySet | Refusal
            try:
                fetched = await self._drive(fetch_keys(url), named=named)
            except Refusal as refusal:
                fetched = refusal
            await self._store.transact(lambda ledger: keep_keys(ledger, url, fetched, now))
            if isinstance(fetched, Refusal):
                raise fetched

    async def _drive(self, flow: Flow[T], *, named: bool = False) -> T:
        """
        Args:
            named: whether it goes where the operator has said.

        Raises:
            Refusal: what the flow says, or that it cannot go on.
        """
        async with self._limit:
            try:
                return await drive(flow, self._fetch_named if named else self._fetch)
            except RequestFailed:
                raise Refusal("temporarily_unavailable", "another server cannot be reached", status=503) from None
