"""The bus in memory. The stores are in test_contract.py and test_model.py."""

from __future__ import annotations

from mcptrio.stores.memory import MemoryBus

__all__: list[str] = []


def test_bus_reaches_every_follower_of_a_topic_from_now_on() -> None:
    bus = MemoryBus()
    one: list[bytes | None] = []
    two: list[bytes | None] = []
    bus.publish("t", b"before")
    unfollow_one, unfollow_two = bus.follow("t", one.append), bus.follow("t", two.append)
    bus.publish("t", b"now")
    bus.publish("u", b"other")
    unfollow_one()
    bus.publish("t", b"later")
    unfollow_two()
    unfollow_two()
    bus.publish("t", b"after")

    assert one == [b"now"]
    assert two == [b"now", b"later"]


def test_follower_that_leaves_while_a_message_is_delivered_does_not_disturb_the_others() -> None:
    bus = MemoryBus()
    received: list[bytes | None] = []

    def leave(_: bytes | None) -> None:
        unfollow()

    unfollow = bus.follow("t", leave)
    bus.follow("t", received.append)
    bus.publish("t", b"1")
    bus.publish("t", b"2")

    assert received == [b"1", b"2"]
