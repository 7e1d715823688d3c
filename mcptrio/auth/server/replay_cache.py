"""Proofs of possession that have come already, and the nonces that new ones are made with.

Used by :mod:`mcptrio.auth.server.resource_server` and :mod:`mcptrio.auth.dpop` of a server.
The one rule: a proof is never forgotten while it would still be taken. When there is no more room, new ones are
refused, and not old ones forgotten.

A key that floods fills its own share first, and then is the only one that is refused. What is remembered is a process's
own: a proof may be used once more on each other worker or replica while it is fresh. Nonces narrow that to a shorter
time, and replicas that share the key of their nonces take each other's.

Source: RFC 9449 sections 8, 9, 11.1 (replay) and 11.2 (nonces).
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable
from hashlib import sha256
from heapq import heappop, heappush
from typing import Final

from attrs import field, frozen, validators

from mcptrio.errors import Overloaded, RateLimited

__all__ = ["Nonces", "ReplayBounds", "ReplayCache"]

_LABEL: Final = b"mcptrio dpop nonce "
_DIGEST: Final = 16
"""Bytes of a nonce's code: 128 bits, more than can be guessed within its time."""


@frozen(kw_only=True)
class ReplayBounds:
    """
    Args:
        proofs: remembered at the same time; about 250 bytes each.
        proofs_per_key: of one key.
    """

    proofs: int = field(default=100_000, validator=validators.ge(1))
    proofs_per_key: int = field(default=10_000, validator=validators.ge(1))


class ReplayCache:
    """
    Args:
        clock: seconds since 1970, which proofs are judged by.
        ticks: seconds that never run backwards.
    """

    def __init__(self, bounds: ReplayBounds, clock: Callable[[], float], ticks: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._ticks = ticks
        self._seen: set[bytes] = set()
        self._leaving: list[tuple[float, float, bytes, str]] = []
        self._by_key: dict[str, int] = {}

    def is_new(self, name: str, until: float) -> bool:
        """Whether a proof comes for the first time; it is remembered then. For :class:`mcptrio.auth.dpop.DPoPVerifier`.

        Args:
            name: the thumbprint of its key, a colon, and what no other proof of that key has.
            until: when it would not be taken any more, in seconds since 1970.

        Raises:
            Overloaded: there is no room for more, of this key or at all.
        """
        self._forget()
        key = name.partition(":")[0]
        digest = sha256(name.encode()).digest()
        if digest in self._seen:
            return False
        held = self._by_key.get(key, 0)
        if held >= self._bounds.proofs_per_key:
            raise RateLimited("too many proofs of one key", retry_after=self._room())
        if len(self._seen) >= self._bounds.proofs:
            raise Overloaded("too many proofs", retry_after=self._room())
        self._seen.add(digest)
        self._by_key[key] = held + 1
        heappush(self._leaving, (self._ticks() + until - self._clock(), until, digest, key))
        return True

    def __len__(self) -> int:
        return len(self._seen)

    # Private

    def _room(self) -> float:
        """Seconds until the next one is forgotten, within reason."""
        return min(60.0, max(1.0, self._leaving[0][0] - self._ticks(), self._leaving[0][1] - self._clock()))

    def _forget(self) -> None:
        # By both clocks: a wall clock that was set forward would forget proofs that are good again once it is set
        # back, and one that was set back takes proofs for longer.
        ticks, now = self._ticks(), self._clock()
        while self._leaving and self._leaving[0][0] < ticks and self._leaving[0][1] < now:
            _, _, digest, key = heappop(self._leaving)
            self._seen.discard(digest)
            held = self._by_key.pop(key) - 1
            if held:
                self._by_key[key] = held


class Nonces:
    """Nonces that need no memory: a number of the time, and a code that only this server can make.

    Args:
        rotate: seconds for which one is given out; it is taken for as long again.
        clock: seconds since 1970.
        key: shared by replicas whose clients go from one to another; without, one of this process.
    """

    def __init__(self, *, rotate: float, clock: Callable[[], float], key: bytes | None = None) -> None:
        self._rotate = rotate
        self._clock = clock
        self._key = key if key is not None else secrets.token_bytes(32)

    def current(self) -> str:
        """The one to make proofs with now."""
        return self._made(self._period())

    def accepts(self, nonce: str) -> bool:
        """Whether it is the current one, or the one before."""
        period = self._period()
        # One after the other, whether or not the first one fits.
        fits = [hmac.compare_digest(nonce.encode(), self._made(each).encode()) for each in (period, period - 1)]
        return any(fits)

    # Private

    def _period(self) -> int:
        return int(self._clock() // self._rotate)

    def _made(self, period: int) -> str:
        code = hmac.digest(self._key, _LABEL + str(period).encode(), "sha256")[:_DIGEST]
        return base64.urlsafe_b64encode(code).rstrip(b"=").decode()
