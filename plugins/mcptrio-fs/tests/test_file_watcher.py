from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
import trio
from attrs import define, field
from mcptrio_fs.file_watcher import FileSubscriptions, FileWatcher, Fingerprint


@define
class FileVersions:
    """File versions as numbers, and their subscribers."""

    files: dict[str, int] = field(factory=dict)
    hung: set[str] = field(factory=set)
    subscribed: frozenset[str] = frozenset()
    told: list[str] = field(factory=list)
    looks: int = 0
    _event: trio.Event = field(factory=trio.Event)

    async def read_fingerprints(self, uris: Iterable[str]) -> Mapping[str, Fingerprint]:
        self.looks += 1
        await trio.lowlevel.checkpoint()
        return {uri: (self.files[uri],) if uri in self.files else None for uri in uris if uri not in self.hung}

    def subscribe(self, *uris: str) -> None:
        self.subscribed = frozenset(uris)
        self._event.set()
        self._event = trio.Event()

    async def changed(self) -> None:
        await self._event.wait()

    def notify(self, uri: str) -> None:
        self.told.append(uri)

    def watcher(self, limit: int = 10) -> FileWatcher:
        return FileWatcher(
            subscriptions=FileSubscriptions(lambda: self.subscribed, self.changed, self.notify),
            read_fingerprints=self.read_fingerprints,
            interval=1,
            limit=limit,
        )


async def test_change_creation_and_removal_are_reported_once_each(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    versions = FileVersions({"file:///a": 1})
    nursery.start_soon(versions.watcher().run)
    versions.subscribe("file:///a", "file:///b", "other:x")
    await trio.sleep(5)
    assert versions.told == []

    versions.files["file:///a"] = 2
    await trio.sleep(5)
    versions.files["file:///b"] = 1
    await trio.sleep(5)
    del versions.files["file:///a"]
    await trio.sleep(5)

    assert versions.told == ["file:///a", "file:///b", "file:///a"]


async def test_nothing_is_checked_without_subscribers(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    versions = FileVersions({"file:///a": 1})
    nursery.start_soon(versions.watcher().run)
    await trio.sleep(100)
    assert versions.looks == 0

    versions.subscribe("file:///a")
    await trio.sleep(3.5)
    versions.subscribe()
    await trio.sleep(1.5)
    looks = versions.looks
    await trio.sleep(100)

    assert looks in (4, 5)
    assert versions.looks == looks


async def test_new_subscription_is_checked_at_once(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    versions = FileVersions({"file:///a": 1, "file:///b": 1})
    nursery.start_soon(versions.watcher().run)
    versions.subscribe("file:///a")
    await trio.sleep(0.1)
    versions.subscribe("file:///a", "file:///b")
    await trio.sleep(0.1)
    versions.files["file:///b"] = 2
    await trio.sleep(1.5)

    assert versions.told == ["file:///b"]


async def test_temporary_stat_failure_is_not_a_change(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    versions = FileVersions({"file:///a": 1})
    nursery.start_soon(versions.watcher().run)
    versions.subscribe("file:///a")
    await trio.sleep(2)
    versions.hung.add("file:///a")
    await trio.sleep(2)
    versions.hung.clear()
    await trio.sleep(2)

    assert versions.told == []


async def test_files_over_the_limit_are_ignored_and_logged_once(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    versions = FileVersions({"file:///a": 1, "file:///b": 1})
    nursery.start_soon(versions.watcher(limit=1).run)
    versions.subscribe("file:///a", "file:///b")
    await trio.sleep(3)
    versions.files = {"file:///a": 2, "file:///b": 2}
    await trio.sleep(3)

    assert versions.told == ["file:///a"]
    assert [record.message for record in caplog.records] == ["1 subscribed files are not watched: max_watched is 1"]
