from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from mcptrio_fs.errors import AccessDenied, PathNotFound
from mcptrio_fs.sandbox import Folder, Sandbox
from mcptrio_fs.writing import append, move, replace, write

from mcptrio.errors import ToolError


class CheckpointCancelled(Exception):
    """The exception of a cancelled checkpoint."""


def go_on() -> None:
    """Continue: the call is not cancelled."""


def put(sandbox: Sandbox, path: str | Path, data: bytes = b"new", *, create_only: bool = False) -> None:
    write(sandbox, str(path), data, create_only=create_only, checkpoint=go_on)


def shift(sandbox: Sandbox, source: str, destination: str) -> None:
    move(sandbox, source, destination, checkpoint=go_on)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_new_file_has_the_usual_mode(sandbox: Sandbox, inside: Path) -> None:
    put(sandbox, "a.txt", "höllo".encode())
    (inside / "reference").touch()

    assert (inside / "a.txt").read_text() == "höllo"
    assert (inside / "a.txt").stat().st_mode == (inside / "reference").stat().st_mode
    assert names(inside) == ["a.txt", "reference"]


def test_replaced_file_keeps_its_mode(sandbox: Sandbox, inside: Path) -> None:
    (inside / "run.sh").write_text("old")
    (inside / "run.sh").chmod(0o750)

    put(sandbox, "run.sh")

    assert (inside / "run.sh").read_bytes() == b"new"
    assert stat.S_IMODE((inside / "run.sh").stat().st_mode) == 0o750


def test_reader_of_the_old_file_keeps_its_content(sandbox: Sandbox, inside: Path) -> None:
    (inside / "a.txt").write_text("old")
    with (inside / "a.txt").open() as reader:
        put(sandbox, "a.txt")

        assert reader.read() == "old"


def test_link_inside_is_written_through(sandbox: Sandbox, inside: Path) -> None:
    (inside / "real.txt").write_text("old")
    (inside / "link").symlink_to("real.txt")

    put(sandbox, "link")

    assert (inside / "link").is_symlink()
    assert (inside / "real.txt").read_bytes() == b"new"


def test_hard_link_to_the_outside_is_not_written_through(sandbox: Sandbox, inside: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", inside / "a.txt")

    put(sandbox, "a.txt")

    assert (outside / "secret.txt").read_text() == "the secret outside"


def test_create_only_fails_if_the_path_exists(sandbox: Sandbox, inside: Path) -> None:
    put(sandbox, "a.txt", create_only=True)
    with pytest.raises(ToolError, match=r"already exists: a\.txt"):
        put(sandbox, "a.txt", b"newer", create_only=True)

    assert (inside / "a.txt").read_bytes() == b"new"
    assert names(inside) == ["a.txt"]


def test_write_to_a_path_that_is_not_a_regular_file_is_refused(sandbox: Sandbox, inside: Path) -> None:
    (inside / "d").mkdir()
    os.mkfifo(inside / "pipe")

    with pytest.raises(ToolError, match="got a directory"):
        put(sandbox, "d")
    with pytest.raises(ToolError, match="pipe"):
        put(sandbox, "pipe")
    with pytest.raises(AccessDenied, match="allowed directory itself"):
        put(sandbox, inside)
    with pytest.raises(PathNotFound):
        put(sandbox, "no/such/directory.txt")
    (inside / "file").touch()
    with pytest.raises(ToolError, match="expected a directory"):
        put(sandbox, "file/x")


if os.geteuid() != 0:  # root may write everything

    def test_read_only_file_is_unchanged(sandbox: Sandbox, inside: Path) -> None:
        (inside / "a.txt").write_text("old")
        (inside / "a.txt").chmod(0o444)

        with pytest.raises(ToolError, match="read-only"):
            put(sandbox, "a.txt")


def test_cancelled_write_leaves_no_file(sandbox: Sandbox, inside: Path) -> None:
    (inside / "a.txt").write_text("old")
    calls = 0

    def stop() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise CheckpointCancelled

    with pytest.raises(CheckpointCancelled):
        write(sandbox, "a.txt", b"x" * 3_000_000, create_only=False, checkpoint=stop)

    assert (inside / "a.txt").read_text() == "old"
    assert names(inside) == ["a.txt"]


def test_file_changed_during_the_edit_is_not_replaced(sandbox: Sandbox, inside: Path) -> None:
    (inside / "a.txt").write_text("old")
    read = (inside / "a.txt").stat()
    (inside / "a.txt").write_text("somebody else")

    with pytest.raises(ToolError, match="changed on disk during the edit"):
        replace(sandbox, "a.txt", b"new", read, checkpoint=go_on)
    assert (inside / "a.txt").read_text() == "somebody else"

    replace(sandbox, "a.txt", b"new", (inside / "a.txt").stat(), checkpoint=go_on)
    assert (inside / "a.txt").read_bytes() == b"new"


class TestAppending:
    def test_missing_file_is_created_and_an_existing_one_grows(self, sandbox: Sandbox, inside: Path) -> None:
        append(sandbox, "a", b"one", limit=10, checkpoint=go_on)
        append(sandbox, "a", b"two", limit=10, durable=True, checkpoint=go_on)

        assert (inside / "a").read_bytes() == b"onetwo"

    def test_file_does_not_grow_over_the_limit(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "a").write_bytes(b"12345")

        with pytest.raises(ToolError, match="at most 6 bytes after appending, got 7"):
            append(sandbox, "a", b"67", limit=6, checkpoint=go_on)
        assert (inside / "a").read_bytes() == b"12345"

    def test_hard_link_to_the_outside_is_refused(self, sandbox: Sandbox, inside: Path, outside: Path) -> None:
        os.link(outside / "secret.txt", inside / "a")

        with pytest.raises(ToolError, match="without other hard links to append to, got 2 links"):
            append(sandbox, "a", b"x", limit=1000, checkpoint=go_on)
        assert (outside / "secret.txt").read_text() == "the secret outside"

    def test_link_to_the_outside_and_pipes_are_refused(self, sandbox: Sandbox, inside: Path, outside: Path) -> None:
        (inside / "link").symlink_to(outside / "secret.txt")
        os.mkfifo(inside / "pipe")

        with pytest.raises(AccessDenied):
            append(sandbox, "link", b"x", limit=1000, checkpoint=go_on)
        with pytest.raises(ToolError, match="got a device, pipe or socket"):
            append(sandbox, "pipe", b"x", limit=1000, checkpoint=go_on)


class TestMakingDirectories:
    def test_missing_and_existing_directories_are_made(self, sandbox: Sandbox, inside: Path) -> None:
        sandbox.make_directories("a/b/c")
        sandbox.make_directories("a/b/c")
        sandbox.make_directories(str(inside))

        assert (inside / "a/b/c").is_dir()

    def test_file_in_place_of_a_directory_is_an_error(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "file").touch()

        for path in ("file", "file/x"):
            with pytest.raises(ToolError, match="expected a directory"):
                sandbox.make_directories(path)

    def test_missing_allowed_folder_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(PathNotFound):
            Sandbox((Folder(str(tmp_path / "later")),)).make_directories("x")
        assert names(tmp_path) == []


class TestMoving:
    def test_file_is_moved(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "a").write_text("hello")
        (inside / "d").mkdir()

        shift(sandbox, "a", "d/b")

        assert names(inside) == ["d"]
        assert (inside / "d/b").read_text() == "hello"

    def test_move_of_a_directory_moves_its_contents(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "a/b").mkdir(parents=True)
        (inside / "a/b/f").touch()

        shift(sandbox, "a", "c")

        assert names(inside) == ["c"]
        assert (inside / "c/b/f").exists()

    @pytest.mark.parametrize("kind", ["file", "directory", "empty directory", "link", "dangling link"])
    @pytest.mark.parametrize("source", ["file", "directory"])
    def test_move_never_replaces_anything(self, sandbox: Sandbox, inside: Path, source: str, kind: str) -> None:
        if source == "file":
            (inside / "a").write_text("source")
        else:
            (inside / "a").mkdir()
        match kind:
            case "file":
                (inside / "b").write_text("destination")
            case "directory":
                (inside / "b").mkdir()
                (inside / "b/f").touch()
            case "empty directory":
                (inside / "b").mkdir()
            case "link":
                (inside / "b").symlink_to("a")
            case "dangling link":
                (inside / "b").symlink_to("nowhere")
        before = (inside / "b").lstat()

        with pytest.raises(ToolError, match="destination already exists: b"):
            shift(sandbox, "a", "b")

        assert (inside / "b").lstat().st_ino == before.st_ino
        assert names(inside) == ["a", "b"]

    def test_move_of_a_file_onto_itself_is_refused(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "a").write_text("hello")

        with pytest.raises(ToolError, match="destination already exists"):
            shift(sandbox, "a", "./a")
        assert (inside / "a").read_text() == "hello"

    def test_move_of_a_directory_into_itself_is_refused(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "a").mkdir()

        with pytest.raises(ToolError, match="inside it"):
            shift(sandbox, "a", "a/b")
        assert names(inside / "a") == []

    def test_move_of_a_link_moves_the_link(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "real").write_text("hello")
        (inside / "link").symlink_to("real")

        shift(sandbox, "link", "moved")

        assert names(inside) == ["moved", "real"]
        assert os.readlink(inside / "moved") == "real"

    def test_move_of_a_link_across_the_sandbox_boundary_is_refused(
        self, sandbox: Sandbox, inside: Path, outside: Path
    ) -> None:
        (inside / "link").symlink_to(outside)
        (inside / "a").touch()

        for source, destination in (
            ("link", "moved"),
            (str(outside / "secret.txt"), "b"),
            ("a", str(outside / "a")),
            ("a", "link/a"),
        ):
            with pytest.raises(AccessDenied):
                shift(sandbox, source, destination)
        assert names(outside) == ["secret.txt"]
        assert names(inside) == ["a", "link"]

    def test_move_of_an_allowed_folder_is_refused(self, sandbox: Sandbox, inside: Path) -> None:
        with pytest.raises(AccessDenied, match="allowed directory itself"):
            shift(sandbox, str(inside), str(inside / "x"))

        nested = Sandbox((Folder(str(inside)), Folder(str(inside / "d"))))
        (inside / "d").mkdir()
        with pytest.raises(AccessDenied, match="allowed directory itself"):
            shift(nested, "d", "e")

    def test_move_error_names_the_missing_path(self, sandbox: Sandbox, inside: Path) -> None:
        with pytest.raises(PathNotFound, match="not found: a"):
            shift(sandbox, "a", "b")

        (inside / "a").touch()
        with pytest.raises(PathNotFound, match="not found: no/b"):
            shift(sandbox, "a", "no/b")

    @pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a second file system")
    def test_move_to_another_file_system_is_possible_for_files_only(
        self, sandbox: Sandbox, inside: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        import tempfile

        with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
            both = Sandbox((Folder(str(inside)), Folder(other)))
            if os.stat(other).st_dev == os.stat(inside).st_dev:
                pytest.skip("needs a second file system")
            (inside / "a").write_text("hello")
            (inside / "a").chmod(0o640)
            (inside / "d").mkdir()

            shift(both, "a", f"{other}/b")

            assert names(inside) == ["d"]
            assert Path(other, "b").read_text() == "hello"
            assert stat.S_IMODE(Path(other, "b").stat().st_mode) == 0o640
            with pytest.raises(ToolError, match="same file system"):
                shift(both, "d", f"{other}/d")
            assert names(Path(other)) == ["b"]
