"""Which files are watched, and when they count as changed."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from mcptrio.cli.dev.sources import MAX_FILES, MAX_POLL_INTERVAL, Sources, SourceWatch, file_names
from tests.distributions import install, one_tool

__all__: list[str] = []


def names(sources: Sources, folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in sources.all())


def test_sources_of_a_package_are_its_source_files(tmp_path: Path) -> None:
    for name in ("a.py", "deep/b.py", "data.json", "deep/page.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for name in ("__pycache__/a.py", ".git/c.py", "a.pyc", "state.db", ".a.py", "a.py~"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "round").symlink_to(tmp_path)

    assert names(Sources(folders=(tmp_path,)), tmp_path) == ["a.py", "data.json", "deep/b.py", "deep/page.html"]


def test_plugins_are_found_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = install(
        tmp_path / "lib",
        "mcptrio-shed",
        modules={"shed_one": one_tool("x"), "shed_broken": "def ("},
        shed="shed_one",
        spade="shed_broken:plugin",
        gone="shed_that_is_nowhere",
    )
    (lib / "shed_package").mkdir()
    (lib / "shed_package" / "__init__.py").write_text("raise SystemExit")
    install(tmp_path / "more", "mcptrio-rake", modules={}, rake="shed_package.deep:plugin")
    monkeypatch.syspath_prepend(str(lib))
    monkeypatch.syspath_prepend(str(tmp_path / "more"))

    found = Sources.of(["shed", "spade", "gone", "rake"], [], [tmp_path / "mine.py"])
    assert found.files == (tmp_path / "mine.py", lib / "shed_one.py", lib / "shed_broken.py")
    assert found.folders == (lib / "shed_package",)

    without = Sources.of(None, ["rake", "spade"], [])
    assert lib / "shed_one.py" in without.files
    assert {lib / "shed_broken.py", lib / "shed_package"}.isdisjoint({*without.files, *without.folders})
    assert Sources.of([], [], []) == Sources()


async def test_each_kind_of_change_is_seen(tmp_path: Path) -> None:
    edited, removed, added = (tmp_path / name for name in ("edited.py", "removed.py", "added.py"))
    edited.write_text("1")
    removed.write_text("1")
    watch = SourceWatch(lambda: Sources(folders=(tmp_path,)))
    watch.renew()
    edited.write_text("2")
    os.utime(edited, ns=(1, 1))
    removed.unlink()
    added.write_text("1")

    with trio.fail_after(30):
        assert await watch.wait_for_changes() == [added, edited, removed]
    watch.renew()
    with trio.move_on_after(0.3) as scope:
        await watch.wait_for_changes()
    assert scope.cancelled_caught


async def test_change_is_reported_when_it_is_complete(tmp_path: Path, autojump_clock: MockClock) -> None:
    """A file written every 50 milliseconds for two seconds is one change."""
    watch = SourceWatch(lambda: Sources(folders=(tmp_path,)))
    watch.renew()

    async def write() -> None:
        for number in range(40):
            (tmp_path / f"{number}.py").touch()
            await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        began = trio.current_time()
        changed = await watch.wait_for_changes()

        assert len(changed) == 40
        assert 2 <= trio.current_time() - began <= 2 + MAX_POLL_INTERVAL


async def test_continuous_change_is_reported_after_the_timeout(tmp_path: Path, autojump_clock: MockClock) -> None:
    watch = SourceWatch(lambda: Sources(folders=(tmp_path,)))
    watch.renew()

    async def write() -> None:
        for number in range(1_000):
            (tmp_path / "a.py").write_text("x" * number)
            await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        assert await watch.wait_for_changes() == [tmp_path / "a.py"]
        assert trio.current_time() < 10
        nursery.cancel_scope.cancel()


def test_number_of_watched_files_is_bounded_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(MAX_FILES + 1):
        (tmp_path / f"{number}.py").touch()
    watch = SourceWatch(lambda: Sources(folders=(tmp_path,)))
    with caplog.at_level(logging.WARNING, "mcptrio.dev"):
        watch.renew()
        watch.renew()

    assert len(watch) == MAX_FILES
    assert [record.message for record in caplog.records] == ["more than 2000 source files: the others are not watched"]


def test_message_names_the_first_changed_files_only() -> None:
    assert file_names([Path("x/a.py")]) == "a.py"
    assert file_names([Path(f"x/{name}.py") for name in "abcde"]) == "a.py, b.py, c.py and 2 more"
