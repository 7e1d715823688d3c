"""Each proof is accepted once; a nonce is valid for a limited time in every process that has the key."""

from __future__ import annotations

import pytest

from mcptrio.auth.server.replay_cache import Nonces, ReplayBounds, ReplayCache
from mcptrio.auth.server.verification_cache import VerificationCache, hash_of
from mcptrio.errors import Overloaded
from tests.auth.server_parts import Clock

__all__: list[str] = []


def test_proof_is_accepted_once_and_evicted_after_it_expires() -> None:
    clock = Clock()
    replays = ReplayCache(ReplayBounds(), clock, clock)

    assert replays.is_new("key:1", clock.now + 300)
    assert not replays.is_new("key:1", clock.now + 300)
    assert replays.is_new("key:2", clock.now + 300)
    assert replays.is_new("other:1", clock.now + 300)
    clock.now += 300
    assert not replays.is_new("key:1", clock.now + 300)
    clock.now += 1
    assert replays.is_new("key:1", clock.now + 300)
    assert len(replays) == 1


def test_flood_of_one_key_is_refused_without_affecting_other_keys() -> None:
    clock = Clock()
    replays = ReplayCache(ReplayBounds(proofs=100, proofs_per_key=10), clock, clock)
    for number in range(10):
        assert replays.is_new(f"flood:{number}", clock.now + 300)

    with pytest.raises(Overloaded, match="of one key") as refused:
        replays.is_new("flood:10", clock.now + 300)
    assert 1 <= refused.value.retry_after <= 60
    assert replays.is_new("calm:1", clock.now + 300)
    assert not replays.is_new("flood:0", clock.now + 300)
    clock.now += 301
    assert replays.is_new("flood:10", clock.now + 300)


def test_full_replay_cache_evicts_no_valid_proof() -> None:
    clock = Clock()
    replays = ReplayCache(ReplayBounds(proofs=50), clock, clock)
    for number in range(50):
        assert replays.is_new(f"{number}:1", clock.now + 300)

    with pytest.raises(Overloaded, match="too many DPoP proofs"):
        replays.is_new("more:1", clock.now + 300)
    assert not any(replays.is_new(f"{number}:1", clock.now + 300) for number in range(50))


def test_proof_is_remembered_when_the_wall_clock_is_set_back() -> None:
    wall, ticks = Clock(), Clock()
    replays = ReplayCache(ReplayBounds(), wall, ticks)
    began = wall.now
    assert replays.is_new("key:1", began + 300)

    wall.now += 86400
    assert not replays.is_new("key:1", began + 300)
    wall.now = began - 3600
    ticks.now += 301
    assert not replays.is_new("key:1", began + 300)
    wall.now = began + 301
    assert replays.is_new("key:1", began + 602)


def test_nonce_is_valid_for_two_periods_with_the_same_key() -> None:
    clock = Clock()
    clock.now = 600.0
    nonces = Nonces(rotate=300, clock=clock, key=b"k" * 32)
    first = nonces.current()

    assert nonces.accepts(first)
    clock.now = 900.0
    assert nonces.current() != first
    assert nonces.accepts(first)
    clock.now = 1200.0
    assert not nonces.accepts(first)
    assert Nonces(rotate=300, clock=clock, key=b"k" * 32).accepts(nonces.current())
    assert not Nonces(rotate=300, clock=clock).accepts(nonces.current())
    assert not nonces.accepts("")
    assert not nonces.accepts("é")


def test_verification_cache_is_bounded_and_entries_expire() -> None:
    clock = Clock()
    kept: VerificationCache[int] = VerificationCache(2, clock)
    for number in range(3):
        kept.put(hash_of(str(number)), number, seconds=10)
    kept.put(hash_of("late"), 9, seconds=0)

    assert len(kept) == 2
    assert kept.get(hash_of("0")) is None
    assert kept.get(hash_of("1")) == (1,)
    assert kept.get(hash_of("late")) is None
    clock.now += 10
    assert kept.get(hash_of("1")) is None
    assert len(kept) == 1
