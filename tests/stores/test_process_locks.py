"""The locks by which processes that share a file know each other."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcptrio.stores.process_locks import ProcessRegistry

__all__: list[str] = []


@contextmanager
def no_more_files() -> Iterator[None]:
    """The process may open no file more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_opening_lives_until_it_is_left(tmp_path: Path) -> None:
    one, other = ProcessRegistry(tmp_path / "s.db"), ProcessRegistry(tmp_path / "s.db")
    assert other.is_alive(one.id)
    one.leave()
    assert not other.is_alive(one.id)
    other.leave()
    assert list(tmp_path.iterdir()) == []


def test_new_process_keeps_its_lock_file_during_a_scan_for_ended_processes(tmp_path: Path) -> None:
    """A new file is visible before it is locked; a look in between must not take it away from its maker."""
    file = tmp_path / "s.db"
    observer = ProcessRegistry(file)
    over = threading.Event()
    lost: list[str] = []

    def look() -> None:
        while not over.is_set():
            observer.sweep()

    def open_again_and_again() -> None:
        for _ in range(1500):
            opening = ProcessRegistry(file)
            if not observer.is_alive(opening.id):
                lost.append(opening.id)
            opening.leave()

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        open_again_and_again()
    finally:
        over.set()
        for looker in lookers:
            looker.join(60)
    observer.leave()
    assert lost == []


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs a limit of open files that holds at once")
def test_process_counts_as_running_without_free_file_descriptors(tmp_path: Path) -> None:
    one, other = ProcessRegistry(tmp_path / "s.db"), ProcessRegistry(tmp_path / "s.db")
    with no_more_files():
        lives = other.is_alive(one.id)
    assert lives
    one.leave()
    other.leave()
