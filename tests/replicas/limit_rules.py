"""The judge's rules about quotas and about proofs that may be used once."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Final

from tests.replicas.history import Delivery, History, LimitedRequest

__all__ = ["proofs_once", "quota_holds", "quota_is_used"]

_TOLERANCE: Final = 0.05
"""The share of the limit by which clients may exceed it: the engine has another clock than the trial."""

_Found = Iterator[tuple[str, str]]


def quota_holds(history: History) -> _Found:
    """In any period, replicas allow the burst and the rate together, and their parts while the store fails.

    A request was allowed between its sending and the run of its handler. A request that was sent and has run within a
    period was allowed within it, however slow the machine is.

    A replica logs when it counts in memory because its store fails, and by how many it has divided the limits. Then it
    allows its part of the burst at once and its part of the rate. These come on top of the shared quota, which fills up
    meanwhile. A restarted replica has a full part. The parts may exceed the whole if a replica has started after the
    others have divided.
    """
    limits = history.limits
    allowed = sorted((request.sent, ran) for request in history.limited for ran in request.ran)
    worst, where = 0.0, None
    runs: list[float] = []
    for begun, ran in reversed(allowed):
        insort(runs, ran)
        for count, ended in enumerate(runs, 1):
            expected = (limits.burst + limits.per_second * (ended - begun)) * (1 + _TOLERANCE)
            if count - expected <= worst:
                continue
            expected += _local_parts(history, begun, ended) * (1 + _TOLERANCE)
            if count - expected > worst:
                worst, where = count - expected, (begun, ended, count, expected)
    if where is not None:
        begun, ended, count, expected = where
        yield f"{begun:.2f} to {ended:.2f} s", f"expected at most {expected:.1f} allowed requests, got {count}"


def _local_parts(history: History, begun: float, ended: float) -> float:
    """Return how many requests replicas may have allowed with separate counters from ``begun`` to ``ended``."""
    limits, parts = history.limits, 0.0
    for local in history.local_quotas:
        seconds = min(ended, local.ended) - max(begun, local.begun)
        if seconds >= 0:
            parts += max(1, limits.burst // local.replicas) + limits.per_second / local.replicas * seconds
    return parts


def quota_is_used(history: History) -> _Found:
    """Without faults, replicas allow the whole rate while clients ask for more.

    A refusal means that the quota was empty. An empty quota needs ``(burst - 1) / rate`` seconds to fill up. Between
    two refusals that are closer than that, it was never full, so each new unit of it was taken.
    """
    if not history.is_calm:
        return
    limits = history.limits
    refused = sorted((each for each in history.limited if each.refused is not None), key=lambda each: each.sent)
    # A replica repeats a refusal of the store, and measures its time from when the response of the store has arrived.
    late = max((_refused(each) - each.sent for each in refused), default=0.0)
    for first, last in _stretches(refused, (limits.burst - 1) / limits.per_second - late):
        seconds = last.sent - _refused(first)
        expected = limits.per_second * seconds * (1 - _TOLERANCE) - 1 - limits.per_second * late
        count = sum(
            ran >= first.sent and request.sent <= _refused(last) for request in history.limited for ran in request.ran
        )
        if count < expected:
            where = f"{_refused(first):.2f} to {last.sent:.2f} s"
            yield where, f"expected at least {expected:.1f} allowed requests, got {count}"


def _stretches(refused: Sequence[LimitedRequest], gap: float) -> Iterator[tuple[LimitedRequest, LimitedRequest]]:
    """Yield the first and the last refusal of each time without a longer gap between refusals."""
    begun = 0
    for at, each in enumerate(refused):
        is_last = at + 1 == len(refused) or _refused(refused[at + 1]) - each.sent > gap
        if is_last:
            yield refused[begun], each
            begun = at + 1


def _refused(request: LimitedRequest) -> float:
    assert request.refused is not None
    return request.refused


def proofs_once(history: History) -> _Found:
    """At most one request with the same proof is accepted.

    If none is, one of the requests got 502, 503 or 504, or no response: that request may have used the proof up.
    """
    for proof in history.proofs:
        accepted = proof.deliveries.count(Delivery.ACCEPTED)
        if accepted > 1 or proof.runs > 1:
            yield proof.token, f"{accepted} requests with one proof were accepted, and {proof.runs} have run"
        if proof.wrong:
            yield proof.token, f"expected 200, 401 or 503, got {proof.wrong[0]}"
        elif proof.deliveries and set(proof.deliveries) == {Delivery.REFUSED}:
            yield proof.token, f"all {len(proof.deliveries)} requests with a new proof were refused"
