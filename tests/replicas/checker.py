"""Runs a trial: replicas that share an engine, behind a proxy, with clients and faults. Then runs the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final

import trio
from attrs import define

from tests.processes import held_port
from tests.replicas.credentials import Issuer, issuer_of_keys
from tests.replicas.engines import engine_of
from tests.replicas.faults import Faults
from tests.replicas.handshake_client import HandshakeClient
from tests.replicas.history import History
from tests.replicas.judge import CHANGE_SECONDS, Violation, changes_arrive, judge
from tests.replicas.modern_client import ModernClient
from tests.replicas.processes import Program, haproxy, nginx, replica
from tests.replicas.proof_client import PROOF_CLIENTS, ProofClient, read_runs
from tests.replicas.quota_client import QUOTA_CLIENTS, QuotaClient, read_limited, read_local_quotas
from tests.replicas.sse_client import SSEClient
from tests.replicas.trial import CALL_SECONDS, Trial

__all__ = ["BALANCERS", "Report", "run_trial"]

BALANCERS: Final[dict[str, Callable[[Path, int, Sequence[int]], AbstractAsyncContextManager[Program]]]] = {
    "nginx": nginx,
    "haproxy": haproxy,
}
_KINDS: Final = (ModernClient, HandshakeClient, SSEClient)
_REPLICAS: Final = 3
_LISTENER_OF: Final = 5
"""One of this many clients listens for changes."""


@define
class Report:
    """The result of a trial."""

    seed: str
    engine: str
    balancers: str
    history: History
    faults: Counter[str]
    counts: Counter[str]
    gaps: list[float]
    violations: list[Violation]

    def __str__(self) -> str:
        gaps = sorted(self.gaps)
        gap = f"p50 {gaps[len(gaps) // 2]:.2f} s, longest {gaps[-1]:.2f} s" if gaps else "none"
        lines = [
            f"{self.engine} behind {self.balancers}, MCPTRIO_HISTORY_SEED={self.seed}",
            f"faults: {_list(self.faults)}",
            f"clients: {_list(self.counts)}",
            f"calls: {len(self.history.calls)}, effects: {len(self.history.effects)}, "
            f"changes: {len(self.history.changes)}",
            f"limited requests: {len(self.history.limited)}, "
            f"local quotas: {len(self.history.local_quotas)}, proofs: {len(self.history.proofs)}",
            f"gaps of resumed streams: {gap}",
            f"violations: {len(self.violations)}",
            *(f"  {violation}" for violation in self.violations[:50]),
        ]
        return "\n".join(lines)


async def run_trial(
    engine: str,
    balancers: Sequence[str],
    folder: Path,
    *,
    seed: str,
    seconds: float = 20.0,
    clients: int = 40,
    is_calm: bool = False,
) -> Report:
    """Run a trial in a folder, which keeps the logs of all processes.

    Args:
        balancers: Names of the proxies in front of the replicas. Requests use them in turn.
        seconds: The time during which faults happen, without the time to start and to stop.
        clients: The number of clients, in addition to those that test quotas and proofs.
        is_calm: Whether to inject no faults.
    """
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(engine_of(engine, folder))
        fronts = [stack.enter_context(held_port()) for _ in balancers]
        ports = [stack.enter_context(held_port()) for _ in range(_REPLICAS)]
        issuer = await stack.enter_async_context(issuer_of_keys())
        settings = {**opened.settings, **issuer.settings}
        replicas = [replica(folder, number, port, opened.url, settings) for number, port in enumerate(ports)]
        for each in replicas:
            each.start()
            stack.callback(each.end)
        for each in replicas:
            assert await each.until_ready(), f"a replica has ended: {each.log.read_text()[-2000:]}"
        for balancer, front in zip(balancers, fronts, strict=True):
            await stack.enter_async_context(BALANCERS[balancer](folder, front, ports))
        trial = Trial(fronts, History(durable=opened.durable, is_calm=is_calm))
        faults = Faults(replicas, opened, seed)
        await _run(trial, faults, issuer, seed, seconds, clients)
    effects = folder / "effects"
    if effects.exists():
        trial.history.effects = effects.read_text().split()
    read_limited(folder, trial)
    read_runs(folder, trial)
    for each in replicas:
        trial.history.local_quotas += read_local_quotas(each.log, trial)
    trial.history.exits = faults.exits
    trial.history.end = trial.now()
    return Report(
        seed,
        opened.name,
        " and ".join(balancers),
        trial.history,
        faults.counts,
        trial.counts,
        trial.gaps,
        judge(trial.history),
    )


async def _run(trial: Trial, faults: Faults, issuer: Issuer, seed: str, seconds: float, clients: int) -> None:
    """Let the clients work while faults happen, then until everything that was acknowledged has arrived."""
    async with trio.open_nursery() as listeners:
        # The trial does not wait for these clients: a request without a response says nothing about quotas and proofs.
        for number in range(QUOTA_CLIENTS):
            listeners.start_soon(QuotaClient(trial, f"q{number}", Random(f"{seed} q{number}")).run)
        for number in range(PROOF_CLIENTS):
            listeners.start_soon(ProofClient(trial, f"p{number}", Random(f"{seed} p{number}"), issuer).run)
        async with trio.open_nursery() as workers:
            for number in range(clients):
                listens = number % _LISTENER_OF == 0
                client = _KINDS[number % len(_KINDS)](trial, f"c{number}", Random(f"{seed} {number}"), listens=listens)
                (listeners if listens else workers).start_soon(client.run)
            if trial.history.is_calm:
                await trio.sleep(seconds)
            else:
                await faults.run(seconds)
            trial.stopping.set()
            workers.cancel_scope.deadline = trial.now() + CALL_SECONDS
        if workers.cancel_scope.cancelled_caught:
            trial.counts["clients cut off"] += 1
        # Listeners are clients too, with calls that have begun before.
        await _until(lambda: all(call.ended is not None for call in trial.history.calls), CALL_SECONDS)
        await _until(lambda: not any(changes_arrive(trial.history)), CHANGE_SECONDS)
        listeners.cancel_scope.cancel()


async def _until(is_so: Callable[[], bool], seconds: float) -> None:
    """Wait for some seconds at most; the judge reports a missing response or change."""
    with trio.move_on_after(seconds):
        while not is_so():  # noqa: ASYNC110 - any of the clients may end it
            await trio.sleep(0.1)


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items())) or "none"
