"""The installations of the tests are complete or absent, even after an interrupted installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import cache

__all__: list[str] = []


@pytest.fixture(autouse=True)
def _temporary_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")


def write(home: Path) -> None:
    (home / "content").write_text("whole")


def refuse(home: Path) -> None:
    (home / "content").write_text("ha")
    raise OSError("no space left")


def test_folder_is_created_once() -> None:
    home = cache.cached_folder("packages", b"one", write)

    assert (home / "content").read_text() == "whole"
    assert cache.cached_folder("packages", b"one", refuse) == home


def test_another_lock_file_creates_another_folder() -> None:
    assert cache.cached_folder("packages", b"one", write) != cache.cached_folder("packages", b"two", write)


def test_partial_folder_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no space left"):
        cache.cached_folder("packages", b"one", refuse)

    assert list((tmp_path / "cache").iterdir()) == []
    assert (cache.cached_folder("packages", b"one", write) / "content").read_text() == "whole"


def test_concurrent_installations_use_one_folder() -> None:
    """The folder of the faster one is kept, and the other is removed."""

    def make_beside_another(home: Path) -> None:
        cache.cached_folder("packages", b"one", write)
        (home / "content").write_text("late")

    home = cache.cached_folder("packages", b"one", make_beside_another)

    assert (home / "content").read_text() == "whole"
    assert [each.name for each in home.parent.iterdir()] == [home.name]
