"""The stores in memory and in SQLite against the contract, and their limit of all bytes."""

from __future__ import annotations

import pytest

from mcptrio.errors import ConnectionClosed
from mcptrio.stores import StoreBounds

from .contract import *  # noqa: F403 - these are the tests
from .contract import Opener, StoreTime
from .expiry_contract import *  # noqa: F403 - as above

__all__: list[str] = []


async def test_total_bound_is_paid_by_the_session_that_was_quiet_longest(opener: Opener) -> None:
    async with opener(StoreBounds(total_bytes=3000)) as stores:
        store = stores.events
        quiet = await store.append("quiet", "x", b"1" * 1000)
        second = await store.append("quiet", "x", b"2" * 1000)
        busy = await store.append("busy", "x", b"3" * 1000)
        later = await store.append("busy", "x", b"4" * 1000)

        assert await store.after("busy", busy.id) == ("x", [later], False)
        assert (await store.read("quiet", "x", 0))[0] == []
        # The stream continues at its position.
        after = await store.append("quiet", "x", b"5")
        assert await store.after("quiet", quiet.id) is None
        assert await store.after("quiet", second.id) == ("x", [after], False)


async def test_refused_event_does_not_count_as_use_of_a_session(opener: Opener, store_time: StoreTime) -> None:
    async with opener(StoreBounds(total_bytes=1000)) as stores:
        for session in ("old", "new"):
            await stores.events.append(session, "s", b"x" * 200, last=True)
            await store_time.advance(store_time.bound / 100)
        with pytest.raises(ConnectionClosed):
            await stores.events.append("old", "s", b"more")
        await stores.events.append("newest", "s", b"x" * 300)

        assert await stores.events.read("old", "s", 0) == ([], False)
        assert len((await stores.events.read("new", "s", 0))[0]) == 1
