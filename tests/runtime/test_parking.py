"""ParkableHandler handlers: a bounded number, of which the longest waiting is evicted first."""

from __future__ import annotations

from attrs import define, field

from mcptrio.abc.status import ParkedStatus
from mcptrio.runtime.parking import ParkedHandlers

__all__: list[str] = []


@define(eq=False)
class Run:
    label: str
    cancelled: list[str] = field(factory=list)

    @property
    def status(self) -> ParkedStatus:
        return ParkedStatus(label=self.label, client=None, principal=None, age=0.0)

    def cancel(self, reason: str) -> None:
        self.cancelled.append(reason)


async def test_longest_parked_handler_is_cancelled_over_the_limit() -> None:
    lot = ParkedHandlers(2)
    runs = [Run(str(number)) for number in range(4)]
    for run in runs:
        assert lot.park(run.label, run)

    assert [bool(run.cancelled) for run in runs] == [True, True, False, False]
    assert [lot.find(run.label) for run in runs] == [None, None, runs[2], runs[3]]
    assert [parked.label for parked in lot.status] == ["2", "3"]


async def test_limit_of_zero_parks_nothing() -> None:
    lot = ParkedHandlers(0)

    assert not lot.park("t", Run("x"))
    assert lot.status == ()


async def test_removed_handler_is_not_cancelled_by_clear() -> None:
    lot = ParkedHandlers(5)
    gone, there = Run("gone"), Run("there")
    lot.park("g", gone)
    lot.park("t", there)
    lot.remove(gone)
    lot.remove(gone)
    lot.clear("over")

    assert (gone.cancelled, there.cancelled) == ([], ["over"])
    assert lot.status == ()
