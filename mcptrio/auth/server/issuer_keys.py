"""The public keys of an issuer: fetched when they are needed, and again when they have changed.

Used by :mod:`mcptrio.auth.server.jwt_tokens`.
The one rule: what comes in a token makes nobody fetch more often than the operator has said. A key that is not known is
looked for once in ``refetch_after`` seconds, however many tokens name one; and one request fetches, the others wait.

Where the issuer does not answer, the keys there are stay good for ``stale`` seconds after they were fetched. Without
any, nobody can be told from anybody, and requests are refused until it answers.

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
_GIVEN_UP: Final = 1.0

_log = logging.getLogger("mcptrio.auth")


@frozen(kw_only=True)
class KeyTimes:
    """Seconds.

    Args:
        fresh: after which the keys are fetched again, with the next token.
        stale: for which they are used if that fails.
        refetch_after: between two attempts, whatever happens.
        fetch_timeout: for one attempt.
    """

    fresh: float = field(default=3600.0, validator=validators.gt(0))
    stale: float = field(default=86400.0, validator=validators.ge(0))
    refetch_after: float = field(default=30.0, validator=validators.gt(0))
    fetch_timeout: float = field(default=10.0, validator=validators.gt(0))


class IssuerKeys:
    """
    Args:
        issuer: as tokens name it.
        fetch: sends the requests.
        jwks: where the keys are; ``None``: where the issuer's metadata says.
        ticks: seconds that never run backwards.

    Raises:
        ValueError: an address cannot be used.
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
        """The keys, among them the one with this id, if the issuer has it.

        Args:
            kid: that a token names, which nobody has verified.

        Raises:
            Overloaded: there are none to be had now.
        """
        # Who finds the key among old ones does not wait for somebody else to fetch new ones.
        if self._is_due(kid) and not (self._fetching.locked() and self._has(kid)):
            async with self._fetching:
                # Somebody else may have fetched them while this one waited.
                if self._is_due(kid):
                    await self._fetch_keys()
        if self._keys is None or not self._has(None):
            wait = self._tried_at + self._times.refetch_after - self._ticks()
            raise Overloaded("tokens cannot be verified now", retry_after=max(1.0, wait))
        return self._keys

    async def newer_than(self, keys: KeySet) -> KeySet:
        """Other keys, for a token that these did not fit; the same, where the issuer was asked a moment ago.

        An issuer may have changed a key and its name not, or may give keys no names.
        """
        if self._keys is keys and self._may_ask():
            async with self._fetching:
                if self._keys is keys and self._may_ask():
                    await self._fetch_keys()
        return self._keys or keys

    # Private

    def _has(self, kid: str | None) -> bool:
        """Whether there are keys that may be used, with this one among them."""
        if self._keys is None or self._ticks() >= self._fetched_at + max(self._times.stale, self._times.fresh):
            return False
        return kid is None or self._keys.has(kid)

    def _is_due(self, kid: str | None) -> bool:
        if not self._may_ask():
            return False
        if self._keys is None or self._ticks() >= self._fetched_at + self._times.fresh:
            return True
        return kid is not None and not self._keys.has(kid)

    def _may_ask(self) -> bool:
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
                    # Its request was given up, which says nothing of the issuer: who waits behind it tries at once. If
                    # nobody does, who gives up again and again still costs the issuer no more than one a second.
                    self._tried_at = self._ticks() - self._times.refetch_after + _GIVEN_UP
                raise
        self._tried_at = self._ticks()
        _log.error("the keys of %s cannot be fetched: %s", shown(self.issuer), problem)

    def _keys_of_issuer(self) -> Flow[KeySet]:
        where = self._jwks
        if where is None:
            where = (yield from discover_server(self.issuer)).jwks_uri
            if where is None:
                raise AuthorizationError(f"jwks_uri: expected to be there, got none from {shown(self.issuer)}")
        response = yield FetchRequest(url=where, headers=_ACCEPT)
        if response.status != 200:
            raise AuthorizationError(f"expected keys, got HTTP {response.status} @ {shown(where)}")
        keys = KeySet.read(response.body)
        if not keys.keys:
            raise BadKey(f"expected a key that can be used here, got none @ {shown(where)}")
        return keys
