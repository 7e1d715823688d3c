from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_fs.access import FileAccess, uri_of
from mcptrio_fs.changes import FileChanges
from mcptrio_fs.config import Config
from mcptrio_fs.files import Files
from mcptrio_fs.listing import ENTRIES_PER_CHECK
from mcptrio_fs.resources import FileResources
from mcptrio_fs.results import (
    Details,
    DirectoryListing,
    Found,
    SizedListing,
    details_text,
    found_text,
    listing_text,
    sizes_text,
)
from mcptrio_fs.search import Search
from mcptrio_fs.sizes import MAX_TEXT_BYTES

from mcptrio import ResourceNotFound, Server, ToolError, connect


class Call:
    """The part of a call's context that the tools use, of a client without roots."""

    def __init__(self) -> None:
        self.progress: list[tuple[float, str | None]] = []

    def supports(self, capability: str) -> bool:
        return False

    def tool_name(self, name: str) -> str:
        return name

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        await trio.lowlevel.checkpoint()
        self.progress.append((progress, message))


def objects(folder: Path, **settings: Any) -> tuple[Files, FileChanges, FileResources]:
    access = FileAccess(Config(folders=(folder,), **settings))
    return Files(access), FileChanges(access), FileResources(access)


@pytest.fixture
def call() -> Call:
    return Call()


@pytest.fixture
def files(inside: Path) -> Files:
    return objects(inside)[0]


@pytest.fixture
def changes(inside: Path) -> FileChanges:
    return objects(inside)[1]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 40 directories of 400 files, more than one slice of a search; created once and never changed."""
    folder = tmp_path_factory.mktemp("wide")
    for number in range(40):
        (folder / f"{number:02}").mkdir()
        for other in range(400):
            os.close(os.open(folder / f"{number:02}/{other:03}", os.O_CREAT))
    return folder


def text(result: str | DirectoryListing | SizedListing | Found | Details) -> str:
    """Return the text of a result."""
    match result:
        case DirectoryListing():
            return listing_text(result)
        case SizedListing():
            return sizes_text(result)
        case Found():
            return found_text(result)
        case Details():
            return details_text(result)
        case _:
            return result


class TestReading:
    async def test_text_is_read_whole_and_by_lines(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "a").write_text("1\n2\n3\n")

        assert await files.read_text_file(call, "a") == "1\n2\n3\n"
        assert await files.read_text_file(call, "a", end_line=2) == "1\n2"
        assert await files.read_text_file(call, "a", start_line=2, end_line=2) == "2"
        assert await files.read_text_file(call, "a", start_line=3) == "3\n"
        assert await files.read_text_file(call, "a", start_line=-2) == "2\n3"
        assert await files.read_text_file(call, "a", start_line=0) == "1\n2\n3\n"
        assert await files.read_text_file(call, "a", offset=2) == "2\n3\n"
        with pytest.raises(ToolError, match="got 5; the file has 3 line ends"):
            await files.read_text_file(call, "a", start_line=5)

    async def test_contradictory_read_arguments_are_refused(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "a").touch()

        with pytest.raises(ToolError, match="end_line only with a start_line from 1"):
            await files.read_text_file(call, "a", start_line=-1, end_line=1)
        with pytest.raises(ToolError, match="an end_line >= start_line, got start_line=3 and end_line=2"):
            await files.read_text_file(call, "a", start_line=3, end_line=2)
        with pytest.raises(ToolError, match="offset or lines"):
            await files.read_text_file(call, "a", start_line=-1, offset=1)

    async def test_truncated_text_says_how_to_continue(self, call: Call, inside: Path) -> None:
        files, _, _ = objects(inside, max_read_bytes=4)
        (inside / "a").write_text("123456789")

        assert await files.read_text_file(call, "a", limit=1000) == "1234\n[bytes 0 to 4 of 9; continue with offset=4]"
        assert await files.read_text_file(call, "a", offset=4) == "5678\n[bytes 4 to 8 of 9; continue with offset=8]"
        assert await files.read_text_file(call, "a", offset=8) == "9"
        assert await files.read_text_file(call, "a", start_line=-1) == "6789\n[bytes 5 to 9 of 9]"

    async def test_large_log_gives_its_first_page_in_whole_lines(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "a.log").write_text("A line of a log.\n" * 1_000_000)

        *lines, note = (await files.read_text_file(call, "a.log")).split("\n")

        assert set(lines) == {"A line of a log."}
        assert 30_000 < len("\n".join(lines)) < MAX_TEXT_BYTES
        offset = len("\n".join(lines)) + 1
        assert note == f"[bytes 0 to {offset} of 17000000; continue with offset={offset}]"

    @pytest.mark.parametrize(
        ("name", "data", "kind"),
        [
            ("a.db", b"SQLite format 3\0" + b"\1" * 100, "application/vnd.sqlite3"),
            ("a.txt", b"text\0text", "application/octet-stream"),
            ("a.pdf", b"%PDF-1.7\n", "application/pdf"),
            ("a", b"\x80\x81\x82\x83" * 10, "application/octet-stream"),
        ],
    )
    async def test_binary_file_is_refused_with_its_type_and_size(
        self, files: Files, call: Call, inside: Path, name: str, data: bytes, kind: str
    ) -> None:
        (inside / name).write_bytes(data)

        for lines in ({}, {"start_line": 2}, {"start_line": -1}):
            with pytest.raises(ToolError, match=f"expected a text file, got {kind} of {len(data)} bytes: {name}"):
                await files.read_text_file(call, name, **lines)

    async def test_media_is_recognized_by_its_type(self, files: Files, call: Call, inside: Path) -> None:
        for name, data in (("a.png", b"\x89PNG"), ("b.mp3", b"ID3"), ("c.bin", b"\0\1")):
            (inside / name).write_bytes(data)
        blocks = [(await files.read_media_file(call, name)).content[0] for name in ("a.png", "b.mp3", "c.bin")]

        assert [block.type for block in blocks] == ["image", "audio", "resource"]
        assert (blocks[0].data, blocks[0].mime_type) == (base64.b64encode(b"\x89PNG").decode(), "image/png")
        assert blocks[2].resource.uri == uri_of(str(inside / "c.bin"))
        assert (blocks[2].resource.mime_type, blocks[2].resource.blob) == ("application/octet-stream", "AAE=")

    async def test_failing_file_does_not_affect_the_others(
        self, files: Files, call: Call, inside: Path, outside: Path
    ) -> None:
        (inside / "a").write_text("1")
        (inside / "b").write_text("2")
        secret = str(outside / "secret.txt")

        answer = text(await files.read_multiple_files(call, ["a", "none", secret, "b"]))

        first, second, third, fourth = answer.split("==> ")[1:]
        assert (first, second, fourth) == ("a\n1\n", "none\nerror: not found: none\n", "b\n2")
        assert third.startswith(f"{secret}\nerror: access denied")
        assert [progress for progress, _ in call.progress] == [1, 2, 3, 4]

    async def test_many_files_share_one_limit(self, call: Call, inside: Path) -> None:
        files, _, _ = objects(inside, max_read_bytes=6)
        for name in "abc":
            (inside / name).write_text("1234")

        assert await files.read_multiple_files(call, ["a", "b", "c"]) == (
            "==> a\n1234\n==> b\n12\n==> c\nnot read\n[files cut: 2, the first is b; read_text_file reads them]"
        )


class TestListing:
    async def test_pages_of_a_listing_are_continuous(self, call: Call, inside: Path) -> None:
        files, _, _ = objects(inside, max_entries=2)
        (inside / "b").mkdir()
        for name in ("a", "c"):
            (inside / name).touch()

        first = await files.list_directory(call, ".", limit=50)
        second = await files.list_directory(call, ".", offset=first.next_offset)

        assert text(first) == "a\nb/\n[entries 0 to 2 of 3; continue with offset=2]"
        assert text(second) == "c"

    async def test_sizes_are_aligned_before_the_names(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "small").write_text("x")
        (inside / "large").write_text("x" * 2048)
        (inside / "d").mkdir()

        assert text(await files.list_directory_with_sizes(call, ".", sort_by="size")) == (
            "  2.00 KB large\n      1 B small\n          d/\n  2.00 KB in 3 entries"
        )

    async def test_name_with_line_breaks_stays_one_entry(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "a\n[DIR] b").touch()

        assert text(await files.list_directory(call, ".")) == "a\\x0a[DIR] b"

    async def test_tree_is_indented(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "d/e").mkdir(parents=True)
        (inside / "d/f").touch()
        (inside / "g").touch()

        assert await files.directory_tree(call, ".") == "d/\n  e/\n  f\ng"
        assert await files.directory_tree(call, ".", max_depth=1) == (
            "d/ ...\ng\n[directories not expanded: 1; ask for one of them, or exclude others]"
        )
        assert await files.directory_tree(call, "d/e") == "empty"

    async def test_info_has_a_line_for_each_value(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "a").write_text("123")
        (inside / "a").chmod(0o640)
        os.utime(inside / "a", (0, 1.5))
        before = datetime.now(UTC)

        lines = dict(line.split(": ", 1) for line in text(await files.get_file_info(call, "a")).split("\n"))

        assert list(lines) == ["type", "size", "created", "modified", "accessed", "permissions"]
        assert (lines["size"], lines["modified"]) == ("3", "1970-01-01T00:00:01Z")
        assert (lines["type"], lines["permissions"]) == ("file", "640")
        # A file system that keeps no time of creation gives none.
        created = before if lines["created"] == "unknown" else datetime.fromisoformat(lines["created"])
        assert before - timedelta(minutes=5) < created <= before

    async def test_allowed_directories_are_listed_as_typed_and_as_real(
        self, call: Call, inside: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "typed").symlink_to(inside)
        files, _, _ = objects(tmp_path / "typed")

        assert text(await files.list_allowed_directories(call)) == (f"{tmp_path / 'typed'}\n{inside}")


class TestSearching:
    async def test_search_returns_paths_or_reports_no_matches(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "d").mkdir()
        (inside / "d/a.py").touch()

        assert text(await files.search_files(call, ".", "**/*.py")) == "d/a.py"
        assert text(await files.search_files(call, str(inside), "**/*.py")) == f"{inside}/d/a.py"
        assert text(await files.search_files(call, "d", "**/*.md")) == "[no matches]"

    async def test_search_without_a_match_suggests_all_levels(self, files: Files, call: Call, inside: Path) -> None:
        (inside / "d").mkdir()
        (inside / "d/a.py").touch()

        assert text(await files.search_files(call, ".", "*.py")) == (
            "[no matches; to search all levels below ., use the pattern **/*.py]"
        )

    async def test_cursor_continues_the_search_to_its_end(self, call: Call, inside: Path) -> None:
        files, _, _ = objects(inside, max_entries=2)
        names = ["a b", "c/%41", "c/d", "ü"]
        (inside / "c").mkdir()
        for name in names:
            (inside / name).touch()
        found: list[str] = []
        cursor = ""
        while True:
            result = await files.search_files(call, ".", "{*,c/*}", cursor=cursor)
            found += result.paths
            if not result.next_cursor:
                break
            cursor = result.next_cursor

        assert found == ["a b", "c", "c/%41", "c/d", "ü"]

    async def test_search_reports_progress(self, call: Call, wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # A fast disk reads all of the folder within a slice of the usual length.
        monkeypatch.setattr("mcptrio_fs.files.SLICE_SECONDS", 0.001)
        files, _, _ = objects(wide)
        result = await files.search_files(call, ".", "**/none")

        assert text(result) == "[no matches]"
        numbers = [progress for progress, _ in call.progress]
        assert numbers
        assert numbers == sorted(numbers)

    async def test_cancelled_search_stops(self, wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files, _, _ = objects(wide)
        visited: list[int] = []
        over, token = trio.Event(), trio.lowlevel.current_trio_token()

        def look(search: Search, seconds: float, checkpoint: Callable[[], None]) -> bool:
            trio.from_thread.run_sync(scope.cancel)
            try:
                return advance(search, 60, checkpoint)
            finally:
                visited.append(search.visited)
                token.run_sync_soon(over.set)

        advance = Search.advance
        monkeypatch.setattr(Search, "advance", look)
        with trio.CancelScope() as scope:
            await files.search_files(Call(), ".", "**/none")
        with trio.fail_after(30):
            await over.wait()  # the call does not wait for the thread

        assert scope.cancelled_caught
        assert len(visited) == 1
        assert visited[0] <= ENTRIES_PER_CHECK

    async def test_invalid_pattern_or_start_is_an_error(self, files: Files, call: Call, outside: Path) -> None:
        with pytest.raises(ToolError, match="expected a glob"):
            await files.search_files(call, ".", "")
        with pytest.raises(ToolError, match="access denied"):
            await files.search_files(call, str(outside), "**")
        with pytest.raises(ToolError, match="not found"):
            await files.search_files(call, "none", "**")


class TestChanging:
    async def test_files_are_written_edited_moved_and_created(
        self, changes: FileChanges, call: Call, inside: Path
    ) -> None:
        assert text(await changes.create_directory(call, "d/e")) == "created d/e"
        assert text(await changes.write_file(call, "a", "1\n2\n")) == "wrote 4 bytes to a"
        assert text(await changes.move_file(call, "a", "d/e/b")) == "moved a to d/e/b"
        diff = text(await changes.edit_file(call, "d/e/b", [{"old_text": "2", "new_text": "zwei"}]))

        assert diff.startswith("--- ")
        assert "-2\n+zwei\n" in diff
        assert (inside / "d/e/b").read_text() == "1\nzwei\n"

    async def test_dry_run_changes_nothing(self, changes: FileChanges, call: Call, inside: Path) -> None:
        (inside / "a").write_text("1\n")
        before = (inside / "a").stat()

        assert "+2" in text(await changes.edit_file(call, "a", [{"old_text": "1", "new_text": "2"}], dry_run=True))
        assert (inside / "a").stat().st_mtime_ns == before.st_mtime_ns

    async def test_concurrent_edits_are_all_applied(self, changes: FileChanges, call: Call, inside: Path) -> None:
        (inside / "a").write_text("end\n")
        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(changes.edit_file, call, "a", [{"old_text": "end", "new_text": f"{number}\nend"}])

        assert sorted((inside / "a").read_text().split()) == sorted([*map(str, range(30)), "end"])

    async def test_invalid_utf8_survives_an_edit(self, changes: FileChanges, call: Call, inside: Path) -> None:
        (inside / "a").write_bytes(b"caf\xe9\r\nx\r\n")
        (inside / "a").chmod(0o600)

        diff = text(await changes.edit_file(call, "a", [{"old_text": "x", "new_text": "y"}]))

        assert (inside / "a").read_bytes() == b"caf\xe9\r\ny\r\n"
        assert stat.S_IMODE((inside / "a").stat().st_mode) == 0o600
        assert " caf\ufffd\n" in diff

    async def test_write_over_the_size_limit_is_refused(self, call: Call, inside: Path) -> None:
        _, changes, _ = objects(inside, max_write_bytes=4)
        (inside / "a").write_text("1234")

        with pytest.raises(ToolError, match="at most 4 bytes, got 5"):
            await changes.write_file(call, "b", "12345")
        with pytest.raises(ToolError, match="at most 4 bytes, got 5"):
            await changes.edit_file(call, "a", [{"old_text": "4", "new_text": "45"}])
        assert os.listdir(inside) == ["a"]

    async def test_create_only_keeps_an_existing_file(self, changes: FileChanges, call: Call, inside: Path) -> None:
        (inside / "a").write_text("old")

        with pytest.raises(ToolError, match="already exists"):
            await changes.write_file(call, "a", "new", mode="create")
        assert (inside / "a").read_text() == "old"

    async def test_appended_text_follows_the_old_text(self, changes: FileChanges, call: Call, inside: Path) -> None:
        assert await changes.write_file(call, "a", "one\n", mode="append") == "appended 4 bytes to a"
        await changes.write_file(call, "a", "two\n", mode="append")

        assert (inside / "a").read_text() == "one\ntwo\n"

    async def test_durable_writes_have_the_same_result(self, call: Call, inside: Path) -> None:
        _, changes, _ = objects(inside, durable=True)
        await changes.write_file(call, "a", "one\n")
        await changes.write_file(call, "a", "two\n", mode="append")
        await changes.edit_file(call, "a", [{"old_text": "two", "new_text": "2"}])

        assert (inside / "a").read_text() == "one\n2\n"

    async def test_missing_path_suggests_close_names(
        self, files: Files, changes: FileChanges, call: Call, inside: Path
    ) -> None:
        (inside / "src").mkdir()
        (inside / "src/main.py").touch()
        (inside / "Readme.md").touch()

        with pytest.raises(ToolError, match=r"not found: src/mian\.py; did you mean src/main\.py\?$"):
            await files.read_text_file(call, "src/mian.py")
        with pytest.raises(ToolError, match=r"README\.md; did you mean Readme\.md\?$"):
            await files.get_file_info(call, "README.md")
        with pytest.raises(ToolError, match=r"; the directory scr does not exist; did you mean src\?$"):
            await changes.write_file(call, "scr/new.py", "")
        with pytest.raises(ToolError, match=r"not found: nothing/at/all; the directory nothing does not exist$"):
            await files.list_directory(call, "nothing/at/all")
        with pytest.raises(ToolError, match=r"not found: src/sub/b; the directory src/sub does not exist$"):
            await changes.move_file(call, "src/main.py", "src/sub/b")

    async def test_denied_names_are_not_suggested(self, call: Call, inside: Path) -> None:
        (inside / "secret").touch()
        files, _, _ = objects(inside, deny=["secret"])

        with pytest.raises(ToolError, match=r"not found: secrets$"):
            await files.read_text_file(call, "secrets")

    async def test_files_outside_are_not_changed(
        self, files: Files, changes: FileChanges, call: Call, inside: Path, outside: Path
    ) -> None:
        (inside / "link").symlink_to(outside)
        edits = [{"old_text": "secret", "new_text": "x"}]
        for path in (str(outside / "secret.txt"), "link/secret.txt", "../outside/secret.txt"):
            for attempt in (
                lambda path=path: changes.write_file(call, path, "x"),
                lambda path=path: changes.edit_file(call, path, edits),
                lambda path=path: changes.create_directory(call, path + "/x"),
                lambda path=path: changes.move_file(call, path, "mine"),
                lambda path=path: files.read_text_file(call, path),
                lambda path=path: files.read_media_file(call, path),
                lambda path=path: files.get_file_info(call, path),
                lambda path=path: files.list_directory(call, os.path.dirname(path)),
                lambda path=path: files.list_directory_with_sizes(call, os.path.dirname(path)),
                lambda path=path: files.directory_tree(call, os.path.dirname(path)),
                lambda path=path: files.search_files(call, os.path.dirname(path), "**"),
            ):
                with pytest.raises(ToolError, match="access denied"):
                    await attempt()

        assert (outside / "secret.txt").read_text() == "the secret outside"
        assert os.listdir(outside) == ["secret.txt"]


class TestResources:
    async def test_text_bytes_and_directories_are_read_as_resources(self, call: Call, inside: Path) -> None:
        _, _, resources = objects(inside)
        (inside / "a b.md").write_text("# hello")
        (inside / "c.bin").write_bytes(b"\0\1")

        text_read = await resources.file(call, str(inside / "a b.md")[1:])
        bytes_read = await resources.file(call, str(inside / "c.bin"))
        listed = await resources.file(call, str(inside))

        assert (text_read.uri, text_read.mime_type, text_read.text) == (
            uri_of(str(inside / "a b.md")),
            "text/markdown",
            "# hello",
        )
        assert (bytes_read.mime_type, bytes_read.blob) == ("application/octet-stream", "AAE=")
        assert listed.mime_type == "inode/directory"
        assert listed.text.split("\n") == [uri_of(str(inside / "a b.md")), uri_of(str(inside / "c.bin"))]

    async def test_outside_or_missing_resource_is_not_found(self, call: Call, inside: Path, outside: Path) -> None:
        _, _, resources = objects(inside, max_read_bytes=4)
        (inside / "large").write_text("12345")

        for path in (outside / "secret.txt", inside / "none", inside / "../outside/secret.txt"):
            with pytest.raises(ResourceNotFound):
                await resources.file(call, str(path))
        with pytest.raises(ToolError, match="at most 4 bytes"):
            await resources.file(call, str(inside / "large"))

    async def test_folders_are_listed_and_paths_completed(self, call: Call, inside: Path) -> None:
        _, _, resources = objects(inside)
        (inside / "abc").touch()

        async with connect(Server(plugins=[resources])) as client:
            [listed] = await client.resources().all()
            read = await client.read_resource(listed.uri)

        assert (listed.uri, listed.mime_type) == (uri_of(str(inside)), "inode/directory")
        assert [each.text for each in read.contents] == [uri_of(str(inside / "abc"))]
        assert await resources.complete(call, str(inside / "a")[1:]) == [str(inside / "abc")[1:]]
