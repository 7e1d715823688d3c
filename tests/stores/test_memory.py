"""The bus in memory. The stores are in test_contract.py and test_model.py."""

from __future__ import annotations

import trio

from mcptrio.stores.memory import MemoryBus

__all__: list[str] = []


async def test_bus_reaches_every_reader_of_a_topic_from_now_on() -> None:
    bus = MemoryBus()
    await bus.publish("t", b"before")
    async with bus.subscribe("t") as one, bus.subscribe("t") as two, bus.subscribe("u") as other:
        await bus.publish("t", b"now")
        assert await anext(one) == b"now"
        assert await anext(two) == b"now"
        with trio.move_on_after(0.01) as scope:
            await anext(other)

    assert scope.cancelled_caught
    assert bus._topics == {}


async def test_slow_reader_of_the_bus_loses_the_oldest() -> None:
    bus = MemoryBus(queue=2)
    async with bus.subscribe("t") as reader:
        for n in range(5):
            await bus.publish("t", b"%d" % n)

        assert [await anext(reader), await anext(reader)] == [b"3", b"4"]
