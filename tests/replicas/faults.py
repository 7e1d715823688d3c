"""The faults of a trial: they kill, stop and restart replicas and damage the engine, in an order drawn from a seed."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

import trio
from attrs import define, field, frozen

from tests.replicas.engines import Engine
from tests.replicas.processes import LEASE, Replica

__all__ = ["REPLICA_FAULTS", "Fault", "Faults", "plan"]

REPLICA_FAULTS: Final = ("stall a replica", "restart all replicas in turn")
_SECONDS: Final = {
    # Beyond the lease: the other replicas complete its streams, after a lease has been missing for a whole lease.
    "stall a replica": (2.2 * LEASE, 3 * LEASE),
    "restart all replicas in turn": (0.0, 0.0),
    "lock the file": (1.0, 3.0),
    "kill the engine": (0.3, 1.5),
    "stall the engine": (2.0, 5.0),
    "delay the network": (2.0, 4.0),
    "stall the network": (2.0, 5.0),
    "cut the network to the engine": (2.0, 5.0),
    "cut the network from the engine": (2.0, 5.0),
    "terminate connections": (0.0, 0.0),
    "flush the scripts": (0.0, 0.0),
    "fill the memory": (1.0, 4.0),
    # Commands wait for two seconds at most.
    "lock the tables": (1.0, 3.0),
}


@frozen
class Fault:
    """A fault that is neither a killed replica nor over at once.

    Attributes:
        pause: Seconds without such a fault before it.
    """

    kind: str
    replica: int
    seconds: float
    pause: float


def plan(random: Random, kinds: Iterable[str], replicas: int) -> Iterator[Fault]:
    """Yield faults without an end: all kinds in one random order, then all in another one."""
    kinds = sorted(kinds)
    while kinds:
        for kind in random.sample(kinds, len(kinds)):
            seconds = random.uniform(*_SECONDS[kind])
            yield Fault(kind, random.randrange(replicas), seconds, random.uniform(0.5, 2.0))


@define
class Faults:
    """Causes the faults of a trial, in an order that its seed determines.

    Attributes:
        counts: How often each fault has happened.
    """

    replicas: list[Replica]
    engine: Engine
    seed: str
    counts: Counter[str] = field(factory=Counter)
    exits: list[str] = field(factory=list)
    """The last words of replicas that have ended although no fault ended them."""
    busy: set[int] = field(factory=set)
    """Replicas that a fault is at work on."""

    async def run(self, seconds: float) -> None:
        """Do damage for some seconds, then heal everything."""
        async with trio.open_nursery() as nursery:
            end = trio.current_time() + seconds
            nursery.start_soon(self._kill_replicas, Random(f"{self.seed} kills"), end)
            nursery.start_soon(self._others, Random(f"{self.seed} faults"), end)
        for number in range(len(self.replicas)):
            await self._until_ready(number)

    async def _kill_replicas(self, random: Random, end: float) -> None:
        while True:
            await trio.sleep(random.uniform(2.0, 3.0))
            number, pause = random.randrange(len(self.replicas)), random.uniform(0.2, 1.0)
            if trio.current_time() >= end:
                return
            with self._owning(number) as is_free:
                # On a slow machine, starting takes longer than the pause. Without any replica, no call can end.
                if is_free and await self._another_is_ready(number):
                    self._note_exit(number)
                    self.counts["kill a replica"] += 1
                    await self.replicas[number].kill()
                    await trio.sleep(pause)
                    self.replicas[number].start()

    async def _others(self, random: Random, end: float) -> None:
        for fault in plan(random, (*REPLICA_FAULTS, *self.engine.faults), len(self.replicas)):
            await trio.sleep(fault.pause)
            if trio.current_time() >= end:
                return
            self.counts[fault.kind] += 1
            if fault.kind == "stall a replica":
                await self._stall(fault)
            elif fault.kind == "restart all replicas in turn":
                await self._restart_all()
            else:
                async with self.engine.faults[fault.kind](fault.seconds):
                    await trio.sleep(fault.seconds)

    async def _stall(self, fault: Fault) -> None:
        with self._owning(fault.replica) as is_free:
            if not is_free or self._note_exit(fault.replica):
                return
            self.replicas[fault.replica].signal(signal.SIGSTOP)
            try:
                await trio.sleep(fault.seconds)
            finally:
                self.replicas[fault.replica].signal(signal.SIGCONT)

    async def _restart_all(self) -> None:
        for number, replica in enumerate(self.replicas):
            with self._owning(number) as is_free:
                if not is_free:
                    continue
                self._note_exit(number)
                replica.signal(signal.SIGTERM)
                await replica.wait()
                replica.start()
                await self._until_ready(number)

    async def _another_is_ready(self, number: int) -> bool:
        others = (replica for each, replica in enumerate(self.replicas) if each != number)
        return any([await replica.is_ready(0.5) for replica in others])

    async def _until_ready(self, number: int) -> None:
        """Wait until a replica serves, and start it again if it ends first, as a service manager does."""
        while not await self.replicas[number].until_ready():
            self._note_exit(number)

    def _note_exit(self, number: int) -> bool:
        """Start a replica again if it has ended. Returns whether it had."""
        replica = self.replicas[number]
        if replica.is_running:
            return False
        self.exits.append(replica.log.read_text(errors="replace").rstrip().rpartition("\n")[2][:300])
        replica.start()
        return True

    @contextmanager
    def _owning(self, number: int) -> Iterator[bool]:
        """Yield whether no other fault is at work on the replica."""
        if number in self.busy:
            yield False
            return
        self.busy.add(number)
        try:
            yield True
        finally:
            self.busy.discard(number)
