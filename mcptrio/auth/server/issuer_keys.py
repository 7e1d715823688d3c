"""The public keys of an issuer: fetched on first use and again after a rotation.

:mod:`mcptrio.auth.server.jwt_tokens` verifies tokens with them. If the issuer is unreachable, fetched keys stay valid
for ``stale`` seconds; without keys, requests are rejected until the issuer responds.

Source: RFC 7517 section 5; RFC 8414 section 2 (``jwks_uri``); OpenID Connect Core 1.0 section 10.1.1 (rotation).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import trio
from attrs import field, frozen, validators

from mcptrio.abc import Fetch, FetchRequest
from mcptrio.auth.discovery import discover_server
from mcptrio.auth.flows import Flow, drive
from mcptrio.auth.jose import BadKey, KeySet
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError, Overloaded, RequestFailed

__all__ = ["IssuerKeys", "KeyTimes"]

_ACCEPT: Final = {"accept": "application/jwk-set+json, application/json"}
# Seconds until the next attempt after the request that fetched the keys was cancelled.
_CANCELLED_RETRY_SECONDS: Final = 1.0

_log = logging.getLogger("mcptrio.auth")


@frozen(kw_only=True)
class KeyTimes:
    """When keys are fetched; all values in seconds.

    Args:
        fresh: Age at which the next token causes another fetch.
        stale: Age until which keys are used if fetching fails.
        refetch_after: Minimum time between two attempts.
        fetch_timeout: Limit for one attempt.
    """

    fresh: float = field(default=3600.0, validator=validators.gt(0))
    stale: float = field(default=86400.0, validator=validators.ge(0))
    refetch_after: float = field(default=30.0, validator=validators.gt(0))
    fetch_timeout: float = field(default=10.0, validator=validators.gt(0))


class IssuerKeys:
    """The signing keys of one issuer.

    Args:
        issuer: The issuer as tokens name it.
        fetch: Sends the requests.
        jwks: The URL of the keys; ``None`` takes it from the issuer's metadata.
        times: The times after which keys are fetched again.
        ticks: Returns monotonic seconds.

    Raises:
        ValueError: A URL is not allowed.
    """

    def __init__(
        self,
        issuer: str,
        fetch: Fetch,
        *,
        jwks: str | None = None,
        times: KeyTimes | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            self.issuer = check_url(issuer, "issuer", query=False)
            self._jwks = None if jwks is None else check_url(jwks, "jwks")
        except AuthorizationError as error:
            raise ValueError(str(error)) from None
        self._fetch = fetch
        self._times = times or KeyTimes()
        self._ticks = ticks
        self._keys: KeySet | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = trio.Lock()

    async def for_token(self, kid: str | None) -> KeySet:
        """Return the keys, fetched again if they are old or lack this id.

        Args:
            kid: The key id in a token, unverified.

        Raises:
            Overloaded: No valid keys are available now.
        """
        # If the known keys include this id, do not wait for another task's fetch.
        if self._is_due(kid) and not (self._fetching.locked() and self._has_key(kid)):
            async with self._fetching:
                # Another task may have fetched the keys in the meantime.
                if self._is_due(kid):
                    await self._fetch_keys()
        if self._keys is None or not self._has_key(None):
            wait = self._tried_at + self._times.refetch_after - self._ticks()
            raise Overloaded("tokens cannot be verified now", retry_after=max(1.0, wait))
        return self._keys

    async def newer_than(self, keys: KeySet) -> KeySet:
        """Return newer keys for a token that matched none of ``keys``; the same keys if the last fetch was recent.

        An issuer may rotate a key under the same id, or publish keys without ids.
        """
        if self._keys is keys and self._may_fetch():
            async with self._fetching:
                if self._keys is keys and self._may_fetch():
                    await self._fetch_keys()
        return self._keys or keys

    # Private

    def _has_key(self, kid: str | None) -> bool:
        """Return True if valid keys are available, among them the one with this id."""
        if self._keys is None or self._ticks() >= self._fetched_at + max(self._times.stale, self._times.fresh):
            return False
        return kid is None or self._keys.has(kid)

    def _is_due(self, kid: str | None) -> bool:
        if not self._may_fetch():
            return False
        if self._keys is None or self._ticks() >= self._fetched_at + self._times.fresh:
            return True
        return kid is not None and not self._keys.has(kid)

    def _may_fetch(self) -> bool:
        # Tokens with invented key ids must not make the server fetch more often than the operator allows.
        return self._ticks() >= self._tried_at + self._times.refetch_after

    async def _fetch_keys(self) -> None:
        problem = f"no answer within {self._times.fetch_timeout:g} seconds"
        with trio.move_on_after(self._times.fetch_timeout) as scope:
            try:
                self._keys = await drive(self._keys_of_issuer(), self._fetch)
                self._fetched_at = self._tried_at = self._ticks()
                return
            except (RequestFailed, AuthorizationError, BadKey) as error:
                problem = str(error)
            except trio.Cancelled:
                if not scope.cancel_called and not self._fetching.statistics().tasks_waiting:
                    # The caller was cancelled, which does not mean that the issuer failed: a waiting task tries at
                    # once. If no task waits, the next attempt is a second later, so repeated cancellations cause at
                    # most one request per second.
                    self._tried_at = self._ticks() - self._times.refetch_after + _CANCELLED_RETRY_SECONDS
                raise
        self._tried_at = self._ticks()
        _log.error("keys not fetched: issuer=%s: %s", shown(self.issuer), problem)

    def _keys_of_issuer(self) -> Flow[KeySet]:
        url = self._jwks
        if url is None:
            url = (yield from discover_server(self.issuer)).jwks_uri
            if url is None:
                raise AuthorizationError(f"jwks_uri: missing from {shown(self.issuer)}")
        response = yield FetchRequest(url=url, headers=_ACCEPT)
        if response.status != 200:
            raise AuthorizationError(f"expected keys, got HTTP {response.status} at {shown(url)}")
        keys = KeySet.read(response.body)
        if not keys.keys:
            raise BadKey(f"expected a key that can be used here, got none at {shown(url)}")
        return keys
