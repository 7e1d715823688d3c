"""Token stores: one contract for all, and the properties of the file and the keyring."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keyring
import keyring.backends.fail
import keyring.backends.null
import pytest
import trio
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

from mcptrio.abc import TokenStore
from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores.tokens_file import FileTokenStore
from mcptrio.stores.tokens_keyring import KeyringTokenStore
from mcptrio.stores.tokens_memory import MemoryTokenStore

__all__: list[str] = []

VALUE = {"access_token": "s3cret", "scopes": ["a", "b"], "expires_at": None, "key": {"d": "x"}}
needs_modes = pytest.mark.skipif(sys.platform == "win32", reason="there are no modes")


class Ring(KeyringBackend):
    """A keyring as strict as that of Windows."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise KeyringLocked("the keyring is locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        assert len(password) <= 1280
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.entries.pop((service, username), None) is None:
            raise PasswordDeleteError(username)


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    ring = Ring()
    use_ring(ring, monkeypatch)
    return ring


def use_ring(ring: KeyringBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "get_keyring", lambda: ring)


@pytest.fixture(params=["memory", "file", "keyring"])
def store(request: pytest.FixtureRequest, tmp_path: Path, ring: Ring) -> TokenStore:
    stores: dict[str, Callable[[], TokenStore]] = {
        "memory": MemoryTokenStore,
        "file": lambda: FileTokenStore(tmp_path / "private" / "tokens.json"),
        "keyring": KeyringTokenStore,
    }
    return stores[request.param]()


async def test_saved_token_is_loaded(store: TokenStore) -> None:
    assert await store.load("a") is None
    assert await store.keys() == ()

    await store.save("tokens https://as https://mcp", VALUE)
    await store.save("b", {})

    assert await store.load("tokens https://as https://mcp") == VALUE
    assert await store.load("b") == {}
    assert sorted(await store.keys()) == ["b", "tokens https://as https://mcp"]


async def test_one_at_a_time_renews(store: TokenStore) -> None:
    inside, most = 0, 0

    async def renew() -> None:
        nonlocal inside, most
        async with store.lock("server https://mcp.example.com/mcp"):
            inside += 1
            most = max(most, inside)
            await store.save("k", VALUE)
            inside -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(renew)
    async with store.lock("one"), store.lock("another"):
        assert await store.load("k") == VALUE

    assert most == 1


async def test_second_save_replaces_the_token(store: TokenStore) -> None:
    await store.save("a", VALUE)
    await store.save("a", {"access_token": "x" * 20_000})
    await store.save("a", {"access_token": "short"})

    assert await store.load("a") == {"access_token": "short"}
    assert await store.keys() == ("a",)


async def test_deleted_token_is_not_loaded(store: TokenStore) -> None:
    await store.save("a", VALUE)
    await store.save("b", VALUE)

    assert await store.delete("a")
    assert not await store.delete("a")
    assert await store.load("a") is None
    assert await store.keys() == ("b",)


async def test_stored_values_cannot_be_changed(store: TokenStore) -> None:
    value: dict[str, Any] = {"scopes": ["a"]}
    await store.save("a", value)
    value["scopes"].append("b")
    loaded = await store.load("a")
    assert loaded == {"scopes": ["a"]}
    loaded["scopes"].append("c")

    assert await store.load("a") == {"scopes": ["a"]}


async def test_concurrent_saves_are_all_stored(store: TokenStore) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(store.save, f"k{number}", {"n": number})

    assert sorted(await store.keys()) == [f"k{number}" for number in range(10)]
    assert await store.load("k7") == {"n": 7}


async def test_memory_has_a_bound() -> None:
    store = MemoryTokenStore(max_keys=2)
    for name in ("a", "b"):
        await store.save(name, {})
    await store.load("a")
    await store.save("c", {})

    assert await store.keys() == ("a", "c")


# The file


@needs_modes
async def test_file_and_folder_are_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "private" / "tokens.json"
    before = os.umask(0)
    try:
        await FileTokenStore(file).save("a", VALUE)
    finally:
        os.umask(before)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in file.parent.iterdir()) == ["tokens.json", "tokens.json.lock"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}


@needs_modes
@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "message"),
    [
        (0o640, 0o700, "tokens.json: expected access for its owner only, got mode 640"),
        (0o604, 0o700, "got mode 604"),
        (0o620, 0o700, "got mode 620"),
        (0o600, 0o750, "private: expected access for its owner only, got mode 750"),
        (0o600, 0o707, "got mode 707"),
    ],
)
async def test_token_file_accessible_to_others_is_refused(
    tmp_path: Path, file_mode: int, folder_mode: int, message: str
) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    file = folder / "tokens.json"
    file.write_text('{"a": {"access_token": "s3cret"}}')
    file.chmod(file_mode)
    folder.chmod(folder_mode)
    store = FileTokenStore(file)

    for attempt in (store.load("a"), store.keys(), store.save("b", {}), store.delete("a")):
        with pytest.raises(StoreFailed, match=message) as caught:
            await attempt
        assert "chmod" in str(caught.value)
    assert json.loads(file.read_text()) == {"a": {"access_token": "s3cret"}}


@needs_modes
async def test_link_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir(0o700)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("{}")
    elsewhere.chmod(0o600)
    (folder / "tokens.json").symlink_to(elsewhere)

    with pytest.raises(StoreFailed):
        await FileTokenStore(folder / "tokens.json").load("a")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "expected JSON"), ('{"a": "s3cret', "expected JSON"), ("[1]", "expected a JSON object, got list")],
    ids=["empty", "torn", "list"],
)
async def test_file_of_another_kind_is_refused(tmp_path: Path, text: str, message: str) -> None:
    folder = tmp_path / "private"
    folder.mkdir(0o700)
    file = folder / "tokens.json"
    file.write_text(text)
    file.chmod(0o600)

    with pytest.raises(StoreFailed, match=message) as caught:
        await FileTokenStore(file).save("b", {})
    assert "s3cret" not in str(caught.value)
    assert file.read_text() == text


async def test_file_has_a_bound(tmp_path: Path) -> None:
    store = FileTokenStore(tmp_path / "private" / "tokens.json")
    await store.save("a", VALUE)

    with pytest.raises(StoreFailed, match="expected at most 4194304 bytes of credentials"):
        await store.save("b", {"x": "y" * 5_000_000})
    assert await store.keys() == ("a",)
    assert len(list((tmp_path / "private").iterdir())) == 2


async def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreFailed, match=r"tokens.json"):
        await FileTokenStore(tmp_path / "file" / "tokens.json").save("a", {})


WRITER = """
import sys, trio
from mcptrio.stores.tokens_file import FileTokenStore
async def main():
    store = FileTokenStore(sys.argv[1], lock_timeout=60)
    for number in range(40):
        await store.save(f"{sys.argv[2]}{number}", {"n": number})
        await store.load(f"{sys.argv[2]}{number}")
trio.run(main)
"""


async def test_two_processes_write_at_once(tmp_path: Path) -> None:
    file = tmp_path / "private" / "tokens.json"
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for name in ("a", "b"):
                nursery.start_soon(trio.run_process, [sys.executable, "-c", WRITER, str(file), name])

    assert len(await FileTokenStore(file).keys()) == 80
    assert len(list(file.parent.iterdir())) == 2


@needs_modes
async def test_wait_for_a_lock_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "private" / "tokens.json"
    store = FileTokenStore(file, lock_timeout=0.1)
    await store.save("a", VALUE)
    holder = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); print(); sys.stdin.read()"
    lock = file.with_name("tokens.json.lock")
    with subprocess.Popen(  # noqa: ASYNC220 - it writes a line at once, and is waited for by its end
        [sys.executable, "-c", holder, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        with pytest.raises(StoreFailed, match=r"another process has held the lock for 0\.1 seconds"):
            await store.save("b", {})
        assert await store.load("a") == VALUE
        process.communicate(b"")
    await store.save("b", {})


async def test_cancelled_writer_leaves_the_lock(tmp_path: Path) -> None:
    store = FileTokenStore(tmp_path / "private" / "tokens.json")
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.save("a", {})

    with trio.fail_after(30):
        await store.save("b", {})
    assert await store.load("b") == {}


# The keyring


async def test_long_value_is_in_parts_and_none_is_left(ring: Ring) -> None:
    store = KeyringTokenStore(service="mine")
    long = {"access_token": "é" * 5_000}
    await store.save("a", long)

    assert await store.load("a") == long
    assert {service for service, _ in ring.entries} == {"mine"}
    await store.save("a", {"n": 1})
    assert len(ring.entries) == 4  # a value and the list of keys, each a head and a part
    await store.delete("a")
    assert {name.partition("#")[0] for _, name in ring.entries} == {"keys"}


async def test_token_with_a_missing_part_is_absent(ring: Ring) -> None:
    store = KeyringTokenStore()
    await store.save("a", {"x": "y" * 3_000})
    torn = next(name for name in ring.entries if name[1].startswith("key:a#") and name[1].endswith(".1"))
    del ring.entries[torn]

    assert await store.load("a") is None
    assert await store.delete("a")


async def test_value_that_is_too_long(ring: Ring) -> None:
    with pytest.raises(StoreFailed, match="at most 200000 characters"):
        await KeyringTokenStore().save("a", {"x": "y" * 200_000})
    assert ring.entries == {}


async def test_locked_keyring_raises_store_failed(ring: Ring) -> None:
    ring.locked = True

    with pytest.raises(StoreFailed, match="the keyring is locked"):
        await KeyringTokenStore().load("a")


@pytest.mark.parametrize("backend", [keyring.backends.fail.Keyring, keyring.backends.null.Keyring])
async def test_missing_keyring_raises_store_failed(
    backend: Callable[[], KeyringBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The null keyring stores nothing, so it counts as missing."""
    use_ring(backend(), monkeypatch)

    with pytest.raises(StoreFailed, match="expected a system keyring"):
        await KeyringTokenStore().save("a", VALUE)


async def test_missing_keyring_package_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(ConfigError, match="pip install keyring"):
        await KeyringTokenStore().load("a")
