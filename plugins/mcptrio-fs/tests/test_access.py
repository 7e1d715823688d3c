from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define
from mcptrio_fs.access import FileAccess, path_of, uri_of
from mcptrio_fs.config import Config
from mcptrio_fs.file_watcher import FileSubscriptions
from mcptrio_fs.resources import FileResources
from mcptrio_fs.sandbox import Sandbox

from mcptrio.errors import ToolError


@define
class Call:
    """The part of a call's context that the plugin uses."""

    roots: tuple[str, ...] | None = None
    session_id: str | None = None
    asked: int = 0

    def supports(self, capability: str) -> bool:
        return capability == "roots" and self.roots is not None

    async def list_roots(self) -> tuple[Root, ...]:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        return tuple(Root(uri) for uri in self.roots or ())


@define
class Root:
    uri: str


def access(*folders: Path, **settings: Any) -> FileAccess:
    return FileAccess(Config(folders=folders, **settings))


async def set_on(clock: trio.testing.MockClock, seconds: float) -> None:
    """Advance the clock when all tasks are blocked."""
    await trio.testing.wait_all_tasks_blocked()
    clock.jump(seconds)


async def folders_of(door: FileAccess, *roots: Path, supported: bool = True) -> list[str]:
    call = Call(tuple(uri_of(str(root)) for root in roots)) if supported else Call()
    return [folder.path for folder in (await door.sandbox(call)).folders]


class TestFolders:
    async def test_configured_folders_are_used_without_roots(self, inside: Path) -> None:
        assert await folders_of(access(inside), supported=False) == [str(inside)]
        assert await folders_of(access(inside)) == [str(inside)]

    async def test_roots_narrow_the_folders(self, inside: Path, outside: Path) -> None:
        (inside / "a").mkdir()

        assert await folders_of(access(inside), inside / "a", outside) == [str(inside / "a")]
        assert await folders_of(access(inside, roots=False), inside / "a") == [str(inside)]

    async def test_roots_outside_the_folders_leave_nothing(self, inside: Path, outside: Path) -> None:
        with pytest.raises(ToolError, match="do not overlap"):
            await folders_of(access(inside), outside)

    async def test_roots_alone_are_used_only_if_configured(self, inside: Path) -> None:
        assert await folders_of(access(roots=True), inside) == [str(inside)]
        for door in (access(), access(roots=False)):
            with pytest.raises(ToolError, match=r"set folders = .* in \[plugins\.fs\]"):
                await folders_of(door, inside)
        with pytest.raises(ToolError, match="MCPTRIO_FS_FOLDERS"):
            await folders_of(access(roots=True), supported=False)

    async def test_session_is_asked_once_until_its_roots_change(
        self, inside: Path, outside: Path, autojump_clock: trio.testing.MockClock
    ) -> None:
        door = access(roots=True)
        call = Call((uri_of(str(inside)),), session_id="s")
        for _ in range(3):
            await door.sandbox(call)
        assert call.asked == 1

        call.roots = (uri_of(str(outside)),)
        assert (await door.sandbox(call)).folders[0].path == str(inside)
        door.clear_roots_cache()
        assert (await door.sandbox(call)).folders[0].path == str(outside)

        await trio.sleep(31)
        await door.sandbox(call)
        assert call.asked == 3

    async def test_every_call_asks_without_a_session(self, inside: Path) -> None:
        door, call = access(roots=True), Call((uri_of(str(inside)),))
        await door.sandbox(call)
        await door.sandbox(call)

        assert call.asked == 2


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b%20c", "/a/b c"),
        ("file://localhost/a", "/a"),
        ("file:///a/../b/", "/b"),
        ("file:////a", "/a"),
        ("file://host/a", None),
        ("http:///a", None),
        ("file:a", None),
        ("file:///a%00b", None),
        ("file:///%ff", None),
        ("/a", None),
        ("", None),
    ],
)
def test_file_uri_becomes_a_path(uri: str, path: str | None) -> None:
    assert path_of(uri) == path


@pytest.mark.parametrize("path", ["/", "/a b", "/ü/#?%", "/a:@!$&'()*+,;=~"])
def test_uri_of_a_path_becomes_that_path(path: str) -> None:
    assert path_of(uri_of(path)) == path
    assert uri_of("/ü#") == "file:///%C3%BC%23"


class TestHanging:
    """A thread that does not return, as on a mount whose server is unreachable."""

    # A clock that only the test advances: nothing times out except the hanging thread.

    async def test_hanging_call_times_out_and_others_continue(
        self, inside: Path, outside: Path, mock_clock: trio.testing.MockClock
    ) -> None:
        door = access(inside, outside, step_timeout=5, max_threads=2)
        sandbox = door.config.sandbox()
        gate = threading.Event()
        try:
            for _ in range(3):  # more than the folder has threads
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(set_on, mock_clock, 5)
                    with pytest.raises(ToolError, match="did not answer within 5 seconds"):
                        await door.run(sandbox, str(inside / "x"), gate.wait)

            assert await door.run(sandbox, str(outside / "x"), lambda: 7) == 7
        finally:
            gate.set()

    async def test_cancelled_call_does_not_wait_for_its_thread(self, inside: Path) -> None:
        door = access(inside)
        gate, ended = threading.Event(), threading.Event()

        def hang() -> None:
            gate.wait()
            ended.set()

        with trio.move_on_after(0.05) as scope:
            await door.run(door.config.sandbox(), str(inside), hang)
        assert scope.cancelled_caught
        assert not ended.is_set()

        gate.set()
        await trio.to_thread.run_sync(ended.wait)

    async def test_hanging_folder_is_not_watched(
        self, inside: Path, outside: Path, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        door = access(inside, outside, max_threads=1)
        gate = threading.Event()
        sandbox = door.config.sandbox()
        run = door.run

        async def run_and_set_on(sandbox: Sandbox, path: str, work: Callable[[], Any]) -> Any:
            result = await run(sandbox, path, work)
            mock_clock.jump(5)  # the other folder has answered
            return result

        async with trio.open_nursery() as nursery:
            nursery.start_soon(door.run, sandbox, str(inside), gate.wait)
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(door, "run", run_and_set_on)
            uris = [uri_of(str(inside)), uri_of(str(outside / "secret.txt")), "file:///etc/passwd"]

            found = await FileResources(door).fingerprints(uris)
            gate.set()

        assert uris[0] not in found
        assert found[uris[1]] is not None


async def test_edits_of_one_file_are_serialized(inside: Path) -> None:
    door = access(inside)
    steps: list[str] = []

    async def edit(name: str) -> None:
        async with door.edit_lock("f"):
            steps.append(f"{name} begins")
            await trio.lowlevel.checkpoint()
            steps.append(f"{name} ends")

    async with trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            nursery.start_soon(edit, name)

    assert [step.split()[0] for step in steps[::2]] == [step.split()[0] for step in steps[1::2]]
    assert door._edit_locks == {}


async def test_changed_file_notifies_its_subscribers(inside: Path) -> None:
    (inside / "a").write_text("1")
    uri = uri_of(str(inside / "a"))
    notified, looked = trio.Event(), trio.Event()

    def notify(changed: str) -> None:
        assert changed == uri
        notified.set()

    async def never_changes() -> None:
        looked.set()
        await trio.sleep_forever()

    resources = FileResources(access(inside, watch_interval=0.02))
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(resources.watch, FileSubscriptions(lambda: frozenset({uri}), never_changes, notify))
            await looked.wait()
            (inside / "a").write_text("22")
            await notified.wait()
            nursery.cancel_scope.cancel()


async def test_no_descriptor_is_left_open(inside: Path) -> None:
    door = access(inside)
    sandbox = door.config.sandbox()

    def read(name: str) -> None:
        with sandbox.open_file(name):
            raise AssertionError("nothing here can be read")

    before = len(os.listdir("/proc/self/fd"))
    for name in ("none", ".", "../x"):
        with pytest.raises(ToolError):
            await door.run(sandbox, name, partial(read, name))

    assert len(os.listdir("/proc/self/fd")) == before
