"""The table ``[stores]`` with a URL for each kind of state: each engine is opened once, and reports its status."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import evolve

from mcptrio.abc import Bus, Stores, StoreStatus
from mcptrio.errors import ConfigError
from mcptrio.serve.stores import open_table
from mcptrio.serve.stores_table import StoreName, StoresTable
from mcptrio.stores import MemoryBus, StoreSettings, memory_stores
from tests.distributions import install

__all__: list[str] = []

OPENED: list[str] = []
FAILING: dict[str, float] = {}
"""By URL, the seconds for which an engine has failed."""


@asynccontextmanager
async def open_fake(url: str, settings: StoreSettings, *, bus: Bus | None = None) -> AsyncIterator[Stores]:
    """Open stores in memory as if other machines shared them."""
    OPENED.append(url)
    stores = memory_stores(settings, bus=bus or MemoryBus())

    def status() -> StoreStatus:
        return StoreStatus(kind=url, is_reachable=url not in FAILING, failing_since=FAILING.get(url))

    yield evolve(stores, is_shared=True, status=status)


@pytest.fixture(autouse=True)
def fake_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OPENED.clear()
    FAILING.clear()
    point = {"fake": f"{__name__}:open_fake"}
    monkeypatch.syspath_prepend(install(tmp_path, "fake-store", modules={}, groups={"mcptrio.stores": point}))


async def test_each_url_is_opened_once_and_the_bus_first() -> None:
    table = StoresTable(url=StoreName("fake:a"), events=StoreName("fake:b"), bus=StoreName("fake:b"))
    async with open_table(table) as stores:
        assert OPENED == ["fake:b", "fake:a"]
        assert stores.is_shared
        assert stores.bus is not None


@pytest.mark.parametrize("url", ["memory", "fake:a"])
async def test_status_is_that_of_the_failing_engine(url: str) -> None:
    async with open_table(StoresTable(url=StoreName(url), sessions=StoreName("fake:b"))) as stores:
        assert stores.status().is_reachable
        FAILING["fake:b"] = 7.0

        assert stores.status() == StoreStatus(kind="fake:b", is_reachable=False, failing_since=7.0)


async def test_state_that_an_engine_does_not_have_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"stores\.bus: expected an engine that supports it, got memory"):
        async with open_table(StoresTable(bus=StoreName("memory"))):
            raise AssertionError("memory alone has no bus")
