"""Replay protection for DPoP proofs: a cache of used proofs, and the nonces of new ones.

The resource server and authorization servers use it. The cache belongs to one process. Without shared stores a fresh
proof can be used once more on each other worker or replica; nonces shorten that time.

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

# Separates nonces from other uses of a shared key.
_LABEL: Final = b"mcptrio dpop nonce "
# Bytes of a nonce's MAC: 128 bits cannot be guessed while the nonce is valid.
_MAC_BYTES: Final = 16


@frozen(kw_only=True)
class ReplayBounds:
    """The size of the replay cache.

    Args:
        proofs: Proofs in the cache, about 250 bytes each.
        proofs_per_key: Proofs of one key.
    """

    proofs: int = field(default=100_000, validator=validators.ge(1))
    proofs_per_key: int = field(default=10_000, validator=validators.ge(1))


class ReplayCache:
    """The proofs that were used and could still be accepted.

    Args:
        clock: Returns seconds since 1970; proofs are verified by it.
        ticks: Returns monotonic seconds.
    """

    def __init__(self, bounds: ReplayBounds, clock: Callable[[], float], ticks: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._ticks = ticks
        self._seen: set[bytes] = set()
        self._expiring: list[tuple[float, float, bytes, str]] = []
        self._by_key: dict[str, int] = {}

    def is_new(self, name: str, until: float) -> bool:
        """Return whether a proof is used for the first time, and record it. For :class:`mcptrio.auth.DPoPVerifier`.

        Args:
            name: The thumbprint of the key, a colon, and a part that is unique to the proof.
            until: The time at which the proof expires, in seconds since 1970.

        Raises:
            RateLimited: The cache has too many proofs of this key.
            Overloaded: The cache is full.
        """
        self._drop_expired()
        key = name.partition(":")[0]
        digest = sha256(name.encode()).digest()
        if digest in self._seen:
            return False
        count = self._by_key.get(key, 0)
        # When full, new proofs are refused: an evicted one could be replayed. The limit per key comes first, so a
        # client that floods is refused before it affects the others.
        if count >= self._bounds.proofs_per_key:
            raise RateLimited(
                f"too many DPoP proofs of one key: {self._bounds.proofs_per_key} are remembered",
                retry_after=self._seconds_until_room(),
            )
        if len(self._seen) >= self._bounds.proofs:
            raise Overloaded(
                f"too many DPoP proofs: {self._bounds.proofs} are remembered", retry_after=self._seconds_until_room()
            )
        self._seen.add(digest)
        self._by_key[key] = count + 1
        heappush(self._expiring, (self._ticks() + until - self._clock(), until, digest, key))
        return True

    def __len__(self) -> int:
        return len(self._seen)

    # Private

    def _seconds_until_room(self) -> float:
        """Return the seconds until the next proof is removed, from 1 to 60."""
        return min(60.0, max(1.0, self._expiring[0][0] - self._ticks(), self._expiring[0][1] - self._clock()))

    def _drop_expired(self) -> None:
        # Both clocks must have passed. If the wall clock is set forward, proofs would be removed that are valid again
        # when it is set back; if it is set back, proofs stay valid for longer.
        ticks, now = self._ticks(), self._clock()
        while self._expiring and self._expiring[0][0] < ticks and self._expiring[0][1] < now:
            _, _, digest, key = heappop(self._expiring)
            self._seen.discard(digest)
            count = self._by_key.pop(key) - 1
            if count:
                self._by_key[key] = count


class Nonces:
    """Nonces that need no memory: a MAC of the current period.

    Args:
        rotate: Seconds for which a nonce is issued. It stays accepted for the same time after that.
        clock: Returns seconds since 1970.
        key: The MAC key, shared by replicas so that each accepts the others' nonces; by default a random key of this
            process.
    """

    def __init__(self, *, rotate: float, clock: Callable[[], float], key: bytes | None = None) -> None:
        self._rotate = rotate
        self._clock = clock
        self._key = key if key is not None else secrets.token_bytes(32)

    def current(self) -> str:
        """Return the nonce for new proofs."""
        return self._nonce_of(self._period())

    def accepts(self, nonce: str) -> bool:
        """Return whether the nonce is the current or the previous one."""
        period = self._period()
        # Compare both, so the time does not show which one matches.
        fits = [hmac.compare_digest(nonce.encode(), self._nonce_of(each).encode()) for each in (period, period - 1)]
        return any(fits)

    # Private

    def _period(self) -> int:
        return int(self._clock() // self._rotate)

    def _nonce_of(self, period: int) -> str:
        code = hmac.digest(self._key, _LABEL + str(period).encode(), "sha256")[:_MAC_BYTES]
        return base64.urlsafe_b64encode(code).rstrip(b"=").decode()
