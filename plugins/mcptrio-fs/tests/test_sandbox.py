from __future__ import annotations

import os
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from mcptrio_fs.errors import AccessDenied, PathNotFound
from mcptrio_fs.patterns import GlobPattern
from mcptrio_fs.reading import read_bytes, read_text
from mcptrio_fs.sandbox import Folder, Sandbox
from mcptrio_fs.writing import write

from mcptrio.errors import ToolError

SECRET = "the secret outside"


def read(sandbox: Sandbox, path: str | Path) -> str:
    return read_text(sandbox, str(path), offset=0, limit=10_000, checkpoint=go_on).text


def go_on() -> None:
    """Continue: the call is not cancelled."""


def deny(*patterns: str) -> tuple[GlobPattern, ...]:
    return tuple(GlobPattern.parse(text, ignore_case=True) for text in patterns)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_file_inside_is_read(sandbox: Sandbox, inside: Path) -> None:
    (inside / "a.txt").write_text("hello")

    assert read(sandbox, inside / "a.txt") == "hello"
    assert read(sandbox, "a.txt") == "hello"
    assert read(sandbox, f"{inside}/./x/../a.txt") == "hello"
    assert read(sandbox, f"/{inside}//a.txt") == "hello"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "{inside}/../outside/secret.txt",
        "{outside}/secret.txt",
        "{inside}-evil/secret.txt",
        "/etc/passwd",
        "/",
        "//etc/passwd",
        "~/.bashrc",
        "",
        "a\0b",
        "{inside}/a\0/../../outside/secret.txt",
        "C:\\Windows\\system32",
        "C:/Windows",
        "c:",
        "\ud800",
        "x" * 5000,
        "a/../../outside/secret.txt",
    ],
)
def test_path_outside_is_refused(sandbox: Sandbox, inside: Path, outside: Path, tmp_path: Path, path: str) -> None:
    evil = tmp_path / "inside-evil"
    evil.mkdir()
    (evil / "secret.txt").write_text(SECRET)

    with pytest.raises(AccessDenied, match="access denied"):
        read(sandbox, path.format(inside=inside, outside=outside))


@pytest.mark.parametrize("target", ["absolute", "relative", "chain", "directory", "parent"])
def test_symbolic_link_to_the_outside_is_refused(sandbox: Sandbox, inside: Path, outside: Path, target: str) -> None:
    link = inside / "link"
    path = str(link)
    match target:
        case "absolute":
            link.symlink_to(outside / "secret.txt")
        case "relative":
            link.symlink_to("../outside/secret.txt")
        case "chain":
            (inside / "one").symlink_to("../outside/secret.txt")
            link.symlink_to("one")
        case "directory":
            link.symlink_to(outside)
            path += "/secret.txt"
        case "parent":
            link.symlink_to("..")
            path += "/outside/secret.txt"

    with pytest.raises(AccessDenied, match="symbolic link"):
        read(sandbox, path)
    with pytest.raises(AccessDenied):
        write(sandbox, path, b"x", create_only=False, checkpoint=go_on)
    with pytest.raises(AccessDenied):
        sandbox.status(path)
    assert (outside / "secret.txt").read_text() == SECRET


def test_dangling_link_to_the_outside_is_not_created_through(sandbox: Sandbox, inside: Path, outside: Path) -> None:
    (inside / "link").symlink_to(outside / "new.txt")

    with pytest.raises(AccessDenied):
        write(sandbox, str(inside / "link"), b"x", create_only=False, checkpoint=go_on)
    with pytest.raises(AccessDenied):
        sandbox.make_directories(str(inside / "link"))
    assert not (outside / "new.txt").exists()


def test_symbolic_link_inside_is_followed(sandbox: Sandbox, inside: Path) -> None:
    (inside / "real").mkdir()
    (inside / "real/a.txt").write_text("hello")
    (inside / "link").symlink_to("real")
    (inside / "absolute").symlink_to(inside / "real/a.txt")

    assert read(sandbox, inside / "link/a.txt") == "hello"
    assert read(sandbox, inside / "absolute") == "hello"


def test_loop_of_links_is_an_error(sandbox: Sandbox, inside: Path) -> None:
    (inside / "a").symlink_to("b")
    (inside / "b").symlink_to("a")

    with pytest.raises(ToolError):
        read(sandbox, inside / "a")


def test_folder_that_is_a_link_is_allowed_as_typed_and_as_real(inside: Path, tmp_path: Path) -> None:
    (inside / "a.txt").write_text("hello")
    typed = tmp_path / "typed"
    typed.symlink_to(inside)
    sandbox = Sandbox((Folder(str(typed)),))

    assert read(sandbox, typed / "a.txt") == "hello"
    assert read(sandbox, inside / "a.txt") == "hello"
    assert sandbox.absolute("a.txt") == str(typed / "a.txt")


def test_link_between_allowed_folders_is_followed(inside: Path, outside: Path) -> None:
    (inside / "link").symlink_to(outside)
    sandbox = Sandbox((Folder(str(inside)), Folder(str(outside))))

    assert read(sandbox, inside / "link/secret.txt") == SECRET


def test_home_directory_is_expanded(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(inside))
    (inside / "a.txt").write_text("hello")
    (inside / "~").mkdir()

    assert read(Sandbox((Folder(str(inside)),)), "~/a.txt") == "hello"
    assert Sandbox((Folder(str(inside)),)).locate("~").is_folder


def test_nothing_is_allowed_without_folders() -> None:
    with pytest.raises(AccessDenied, match="no folder is allowed"):
        read(Sandbox(()), "/etc/passwd")


@pytest.mark.parametrize(("on_disk", "asked"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_name_is_found_in_the_other_unicode_form(sandbox: Sandbox, inside: Path, on_disk: str, asked: str) -> None:
    directory = inside / unicodedata.normalize(on_disk, "Über")
    directory.mkdir()
    (directory / unicodedata.normalize(on_disk, "café.txt")).write_text("hello")

    assert read(sandbox, f"{inside}/{unicodedata.normalize(asked, 'Über/café.txt')}") == "hello"


def test_unicode_twins_are_ambiguous_unless_named_exactly(sandbox: Sandbox, inside: Path) -> None:
    # U+212B and the two spellings of Å are all the same under NFC.
    (inside / "A\u030a").write_text("decomposed")
    (inside / "\u212b").write_text("sign")

    with pytest.raises(AccessDenied, match="ambiguous"):
        read(sandbox, inside / "\u00c5")
    assert read(sandbox, inside / "\u212b") == "sign"


def test_unicode_twin_that_leads_outside_is_refused(sandbox: Sandbox, inside: Path, outside: Path) -> None:
    (inside / "e\u0301").symlink_to(outside)

    with pytest.raises(AccessDenied):
        read(sandbox, inside / "\u00e9/secret.txt")


def test_missing_file_is_not_found(sandbox: Sandbox, inside: Path) -> None:
    with pytest.raises(PathNotFound, match="not found: no/such"):
        read(sandbox, "no/such")


def test_pipes_devices_and_directories_are_refused(inside: Path) -> None:
    os.mkfifo(inside / "pipe")

    with pytest.raises(ToolError, match="a device, pipe or socket"):
        read(Sandbox((Folder(str(inside)),)), "pipe")
    with pytest.raises(ToolError, match="a device, pipe or socket"):
        read(Sandbox((Folder("/dev"),)), "/dev/zero")
    with pytest.raises(ToolError, match="got a directory"):
        read(Sandbox((Folder("/"),)), str(inside))


@pytest.mark.parametrize("name", [".env", ".ENV", ".env.local", ".git/config", "sub/.git/hooks/x"])
def test_denied_names_are_refused_at_any_depth(inside: Path, name: str) -> None:
    (inside / name).parent.mkdir(parents=True, exist_ok=True)
    (inside / name).write_text("x")
    sandbox = Sandbox((Folder(str(inside)),), denied=deny(".env*", ".git"))

    with pytest.raises(AccessDenied, match="deny pattern"):
        read(sandbox, inside / name)


def test_denied_file_is_not_reached_through_a_link_or_as_a_link(inside: Path) -> None:
    (inside / ".env").write_text("x")
    (inside / "alias").symlink_to(".env")
    (inside / ".env.alias").symlink_to("open")
    (inside / "open").write_text("y")
    sandbox = Sandbox((Folder(str(inside)),), denied=deny(".env*"))

    for name in ("alias", ".env.alias"):
        with pytest.raises(AccessDenied, match="deny pattern"):
            read(sandbox, inside / name)


def test_allowed_folder_is_not_denied_by_its_own_name(tmp_path: Path) -> None:
    folder = tmp_path / ".git"
    folder.mkdir()
    (folder / "config").write_text("x")

    assert read(Sandbox((Folder(str(folder)),), denied=deny(".git", "*.", "?")), "config") == "x"


class TestNarrowing:
    def test_narrowed_sandbox_allows_the_intersection(self, inside: Path, outside: Path) -> None:
        (inside / "project").mkdir()
        (inside / "project/a.txt").write_text("hello")
        (inside / "b.txt").write_text("no")
        sandbox = Sandbox((Folder(str(inside)), Folder(str(outside)))).narrow((str(inside / "project"), "/etc"))

        assert read(sandbox, inside / "project/a.txt") == "hello"
        assert read(sandbox, "a.txt") == "hello"
        for path in (inside / "b.txt", outside / "secret.txt", Path("/etc/passwd")):
            with pytest.raises(AccessDenied):
                read(sandbox, path)

    def test_wider_root_adds_nothing(self, inside: Path) -> None:
        sandbox = Sandbox((Folder(str(inside)),))

        assert sandbox.narrow(("/",)) == sandbox
        assert sandbox.narrow((f"{inside}-evil",)).folders == ()

    def test_root_that_is_a_link_to_the_outside_adds_nothing(self, inside: Path, outside: Path) -> None:
        (inside / "link").symlink_to(outside)

        assert Sandbox((Folder(str(inside)),)).narrow((str(inside / "link"),)).folders == ()

    def test_root_that_becomes_a_link_to_the_outside_is_refused(self, inside: Path, outside: Path) -> None:
        (inside / "root").mkdir()
        narrowed = Sandbox((Folder(str(inside)),)).narrow((str(inside / "root"),))
        (inside / "root").rmdir()
        (inside / "root").symlink_to(outside)

        with pytest.raises(AccessDenied):
            read(narrowed, inside / "root/secret.txt")

    def test_root_below_a_denied_name_stays_denied(self, inside: Path) -> None:
        (inside / ".git").mkdir()
        (inside / ".git/config").write_text("x")
        sandbox = Sandbox((Folder(str(inside)),), denied=deny(".git")).narrow((str(inside / ".git"),))

        with pytest.raises(AccessDenied, match="deny pattern"):
            read(sandbox, inside / ".git/config")


class TestRaces:
    """A thread repeatedly swaps a directory for a link to the outside; no operation ever escapes."""

    ROUNDS = 1500

    @contextmanager
    def swapping(self, swap: Callable[[], None]) -> Iterator[None]:
        stop = threading.Event()

        def run() -> None:
            while not stop.is_set():
                swap()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def rounds(self, is_enough: Callable[[], object], least: int = ROUNDS) -> Iterator[int]:
        """Yield more rounds if the other thread did not run, or was suspended while the path did not exist."""
        deadline = time.monotonic() + 30
        for number in count():
            if (number >= least and is_enough()) or time.monotonic() > deadline:
                return
            yield number

    def exchange(self, inside: Path, outside: Path) -> Callable[[], None]:
        (inside / "dir").mkdir()
        (inside / "dir/secret.txt").write_text("harmless")

        def swap() -> None:
            os.rename(inside / "dir", inside / "aside")
            os.symlink(outside, inside / "dir")
            os.unlink(inside / "dir")
            os.rename(inside / "aside", inside / "dir")
            time.sleep(0.0002)  # or the other thread would hardly ever find it in place

        return swap

    def test_reading_never_escapes(self, sandbox: Sandbox, inside: Path, outside: Path) -> None:
        seen: set[str] = set()
        before = open_descriptors()
        with self.swapping(self.exchange(inside, outside)):
            for _ in self.rounds(lambda: "harmless" in seen):
                try:
                    seen.add(read(sandbox, inside / "dir/secret.txt"))
                except ToolError as error:
                    seen.add(type(error).__name__)

        assert "harmless" in seen
        assert seen <= {"harmless", "AccessDenied", "PathNotFound"}
        assert open_descriptors() == before

    def test_reading_a_file_swapped_for_a_link_never_escapes(
        self, sandbox: Sandbox, inside: Path, outside: Path
    ) -> None:
        (inside / "harmless").write_text("harmless")

        def swap() -> None:
            for source in (outside / "secret.txt", inside / "harmless"):
                with suppress(FileNotFoundError):
                    os.unlink(inside / "new")
                if source.parent == inside:
                    os.link(source, inside / "new")
                else:
                    os.symlink(source, inside / "new")
                os.rename(inside / "new", inside / "file")

        swap()
        seen: set[bytes] = set()
        with self.swapping(swap):
            for _ in self.rounds(lambda: b"harmless" in seen):
                try:
                    seen.add(read_bytes(sandbox, str(inside / "file"), limit=1000, checkpoint=go_on).data)
                except AccessDenied:
                    seen.add(b"denied")

        assert seen <= {b"harmless", b"denied"}
        assert b"harmless" in seen

    def test_writing_never_escapes(self, sandbox: Sandbox, inside: Path, outside: Path) -> None:
        written: list[int] = []
        with self.swapping(self.exchange(inside, outside)):
            for number in self.rounds(lambda: written, least=300):
                with suppress(ToolError):
                    write(sandbox, str(inside / "dir/new.txt"), b"x", create_only=False, checkpoint=go_on)
                    written.append(number)

        assert written
        assert [path.name for path in outside.iterdir()] == ["secret.txt"]
        assert sorted(path.name for path in (inside / "dir").iterdir()) == ["new.txt", "secret.txt"]

    def test_making_directories_never_escapes(self, sandbox: Sandbox, inside: Path, outside: Path) -> None:
        (inside / "dir").mkdir()
        numbers = count()

        def swap() -> None:
            # The other thread may make the directory while it is away, so every step may find its work done.
            with suppress(OSError):
                os.rename(inside / "dir", inside / f"aside{next(numbers)}")
            with suppress(FileExistsError):
                os.symlink(outside, inside / "dir")
            if (inside / "dir").is_symlink():
                os.unlink(inside / "dir")
            with suppress(FileExistsError):
                os.mkdir(inside / "dir")

        made: list[int] = []
        with self.swapping(swap):
            for number in self.rounds(lambda: made, least=300):
                with suppress(ToolError):
                    sandbox.make_directories(str(inside / f"dir/{number}/deeper"))
                    made.append(number)

        assert made
        assert [path.name for path in outside.iterdir()] == ["secret.txt"]
