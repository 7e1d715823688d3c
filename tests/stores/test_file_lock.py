"""The lock that processes share through a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcptrio.errors import StoreFailed
from mcptrio.stores.file_lock import lock_file, try_lock

__all__: list[str] = []


def test_lock_is_held_by_one_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    one, other = (os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for _ in range(2))
    try:
        assert try_lock(one)
        assert not try_lock(other)
    finally:
        os.close(one)
    assert try_lock(other)
    os.close(other)


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="needs a descriptor that cannot be locked")
async def test_error_of_the_file_system_is_raised(tmp_path: Path) -> None:
    """Only another process that holds the lock is waited for."""

    def make_unlockable(descriptor: int) -> None:
        only_a_name = os.open(tmp_path, os.O_PATH)
        os.dup2(only_a_name, descriptor)
        os.close(only_a_name)

    with pytest.raises(OSError, match="cannot be locked: Bad file descriptor") as failed:
        async with lock_file(tmp_path / "lock", timeout=60, check=make_unlockable):
            pass
    assert not isinstance(failed.value, StoreFailed)
