from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mcptrio_fs.errors import AccessDenied, PathNotFound
from mcptrio_fs.listing import DirectoryPage, format_size, list_entries
from mcptrio_fs.path_completion import MAX_COMPLETIONS, complete_path
from mcptrio_fs.patterns import GlobPattern
from mcptrio_fs.sandbox import Folder, Sandbox
from mcptrio_fs.search import Search
from mcptrio_fs.tree import Tree

from mcptrio.errors import ToolError


class CheckpointCancelled(Exception):
    """The exception of a cancelled checkpoint."""


def go_on() -> None:
    """Continue: the call is not cancelled."""


def stop() -> None:
    raise CheckpointCancelled


def patterns(*texts: str) -> tuple[GlobPattern, ...]:
    return tuple(GlobPattern.parse(text) for text in texts)


def page(sandbox: Sandbox, path: str, offset: int = 0, limit: int = 100, *, by_size: bool = False) -> DirectoryPage:
    return list_entries(sandbox, path, offset=offset, limit=limit, sizes=True, largest_first=by_size, checkpoint=go_on)


def search(
    sandbox: Sandbox,
    pattern: str,
    *,
    excluded: tuple[str, ...] = (),
    limit: int = 1000,
    max_visited: int = 100_000,
    after: str = "",
) -> Search:
    walk = Search(
        sandbox=sandbox,
        start=sandbox.folders[0].path,
        patterns=[GlobPattern.parse(pattern)],
        excluded=patterns(*excluded),
        limit=limit,
        max_visited=max_visited,
        after=tuple(after.split("/")) if after else (),
    )
    while walk.advance(0, go_on):
        pass
    return walk


def found(sandbox: Sandbox, pattern: str, *, excluded: tuple[str, ...] = ()) -> list[str]:
    start = sandbox.folders[0].path + "/"
    return [path.removeprefix(start) for path in search(sandbox, pattern, excluded=excluded).found]


def tree(sandbox: Sandbox, *, excluded: tuple[str, ...] = (), limit: int = 1000, max_depth: int = 100) -> Tree:
    grown = Tree(
        sandbox=sandbox,
        start=sandbox.folders[0].path,
        excluded=patterns(*excluded),
        limit=limit,
        max_depth=max_depth,
        max_visited=100_000,
    )
    while grown.advance(0, go_on):
        pass
    return grown


def flat(nodes: list[dict[str, Any]], above: str = "") -> list[str]:
    paths: list[str] = []
    for node in nodes:
        paths.append(above + node["name"] + ("/" if node["type"] == "directory" else ""))
        paths.extend(flat(node.get("children", []), paths[-1]))
    return paths


@pytest.fixture
def project(inside: Path) -> Path:
    names = "src/app.py src/lib/util.py src/lib/data.json README.md .git/config node_modules/x/i.js"
    for name in names.split():
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_text(name)
    return inside


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with 20,000 files, which is created once and never changed."""
    folder = tmp_path_factory.mktemp("crowded")
    (folder / "crowd").mkdir()
    descriptor = os.open(folder / "crowd", os.O_RDONLY)
    try:
        for number in range(20_000):
            os.close(os.open(f"{number:05}.txt", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    finally:
        os.close(descriptor)
    return folder


@pytest.fixture
def crowded(crowd: Path) -> Sandbox:
    return Sandbox((Folder(str(crowd)),))


class TestListing:
    def test_entries_are_sorted_by_name_with_totals(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "b").write_text("12345")
        (inside / "a").mkdir()
        (inside / "c").write_text("123")
        (inside / "l").symlink_to("b")

        listing = page(sandbox, ".")

        assert [(entry.name, entry.is_directory, entry.size) for entry in listing.entries] == [
            ("a", True, 0),
            ("b", False, 5),
            ("c", False, 3),
            ("l", False, 0),
        ]
        assert (listing.total, listing.size) == (4, 8)

    def test_entries_are_sorted_by_size_if_requested(self, sandbox: Sandbox, inside: Path) -> None:
        for name, size in (("a", 1), ("b", 3), ("c", 3), ("d", 2)):
            (inside / name).write_text("x" * size)

        assert [entry.name for entry in page(sandbox, ".", by_size=True).entries] == ["b", "c", "d", "a"]

    def test_denied_names_are_not_listed(self, project: Path) -> None:
        sandbox = Sandbox((Folder(str(project)),), denied=patterns(".git"))

        assert [entry.name for entry in page(sandbox, ".").entries] == ["README.md", "node_modules", "src"]
        assert "config" not in " ".join(found(sandbox, "**"))
        assert not any(".git" in path for path in flat(tree(sandbox).nodes))

    def test_huge_directory_is_paginated(self, crowded: Sandbox, crowd: Path) -> None:
        first, last = page(crowded, "crowd", limit=3), page(crowded, "crowd", 19_999, 3)

        assert [entry.name for entry in first.entries] == ["00000.txt", "00001.txt", "00002.txt"]
        assert [entry.name for entry in last.entries] == ["19999.txt"]
        assert first.total == 20_000

    def test_directory_over_the_limit_is_refused(
        self, sandbox: Sandbox, inside: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("mcptrio_fs.listing.MAX_DIRECTORY_ENTRIES", 2)
        (inside / "d").mkdir()
        for name in ("a", "b", "c"):
            (inside / "d" / name).touch()

        with pytest.raises(ToolError, match="at most 2 entries"):
            page(sandbox, "d")
        walk = search(sandbox, "**")
        assert (walk.found, walk.skipped) == ([str(inside / "d")], 1)

    def test_cancelled_listing_stops_early(self, crowded: Sandbox, crowd: Path) -> None:
        with pytest.raises(CheckpointCancelled):
            list_entries(crowded, "crowd", offset=0, limit=1, sizes=False, largest_first=False, checkpoint=stop)

    def test_listing_a_path_that_is_not_a_directory_is_an_error(
        self, sandbox: Sandbox, inside: Path, outside: Path
    ) -> None:
        (inside / "f").touch()

        with pytest.raises(ToolError, match="expected a directory"):
            page(sandbox, "f")
        with pytest.raises(PathNotFound):
            page(sandbox, "none")
        with pytest.raises(AccessDenied):
            page(sandbox, str(outside))

    @pytest.mark.parametrize(
        ("size", "shown"),
        [(0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.00 KB"), (1536, "1.50 KB"), (2**50, "1024.00 TB")],
    )
    def test_sizes_are_human_readable(self, size: int, shown: str) -> None:
        assert format_size(size) == shown


class TestSearch:
    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("*.md", ["README.md"]),
            ("**/*.py", ["src/app.py", "src/lib/util.py"]),
            ("src/*", ["src/app.py", "src/lib"]),
            ("**/lib", ["src/lib"]),
            ("**/{data,config}*", [".git/config", "src/lib/data.json"]),
            ("nothing", []),
        ],
    )
    def test_pattern_matches_relative_paths(
        self, sandbox: Sandbox, project: Path, pattern: str, expected: list[str]
    ) -> None:
        assert found(sandbox, pattern) == expected

    def test_excluded_directories_are_not_searched(self, sandbox: Sandbox, project: Path) -> None:
        assert found(sandbox, "**/*", excluded=("node_modules", ".git", "**/lib")) == [
            "README.md",
            "src",
            "src/app.py",
        ]

    def test_links_inside_are_found_and_not_followed(self, sandbox: Sandbox, project: Path, outside: Path) -> None:
        (project / "loop").symlink_to(project)
        (project / "out").symlink_to(outside)

        assert found(sandbox, "*o*") == ["loop", "node_modules"]
        assert found(sandbox, "**/secret.txt") == []

    def test_pages_of_a_search_contain_every_match_once(self, sandbox: Sandbox, project: Path) -> None:
        whole = search(sandbox, "**").found
        for limit in (1, 2, 3, 100):
            for max_visited in (1, 4, 1000):
                paths: list[str] = []
                after = ""
                while True:
                    walk = search(sandbox, "**", limit=limit, max_visited=max_visited, after=after)
                    paths += walk.found
                    if walk.resume_after is None:
                        break
                    assert len(walk.found) <= limit
                    after = walk.resume_after

                assert paths == whole

    def test_search_continues_after_a_removed_file(self, sandbox: Sandbox, project: Path) -> None:
        walk = search(sandbox, "**/*.py", limit=1)
        (project / "src/app.py").unlink()

        assert walk.resume_after is not None
        assert search(sandbox, "**/*.py", after=walk.resume_after).found == [str(project / "src/lib/util.py")]

    def test_folders_before_the_cursor_are_skipped(self, sandbox: Sandbox, project: Path) -> None:
        assert search(sandbox, "**/*.py", after="src/app.py").visited < search(sandbox, "**/*.py").visited

    def test_huge_directory_is_searched_in_pages(self, crowded: Sandbox, crowd: Path) -> None:
        walk = search(crowded, "**/*9.txt", limit=10)

        assert len(walk.found) == 10
        assert search(crowded, "**/*9.txt", limit=5000, after=walk.resume_after or "").found[0].endswith("00109.txt")

    def test_cancelled_search_stops_early(self, crowded: Sandbox, crowd: Path) -> None:
        walk = Search(crowded, str(crowd), [GlobPattern.parse("**")], (), 10, 100_000)

        with pytest.raises(CheckpointCancelled):
            walk.advance(10, stop)

    def test_no_descriptor_is_open_between_slices(self, sandbox: Sandbox, project: Path) -> None:
        before = len(os.listdir("/proc/self/fd"))
        walk = Search(sandbox, str(project), [GlobPattern.parse("**")], (), 1000, 100_000)

        assert walk.advance(0, go_on)
        assert len(os.listdir("/proc/self/fd")) == before

    def test_directory_swapped_for_a_link_is_skipped(self, sandbox: Sandbox, project: Path, outside: Path) -> None:
        walk = Search(sandbox, str(project), [GlobPattern.parse("**/*.txt")], (), 1000, 100_000)
        walk.advance(0, go_on)
        os.rename(project / "src", project.parent / "away")
        (project / "src").symlink_to(outside)
        while walk.advance(0, go_on):
            pass

        assert walk.found == []
        assert walk.skipped == 1

    def test_depth_of_a_search_is_limited(self, sandbox: Sandbox, inside: Path) -> None:
        (inside / "/".join(["d"] * 300)).mkdir(parents=True)

        assert 200 <= len(search(sandbox, "**").found) < 300


class TestTree:
    def test_tree_shows_everything_in_order(self, sandbox: Sandbox, project: Path) -> None:
        grown = tree(sandbox, excluded=(".git",))

        assert flat(grown.nodes) == [
            "README.md",
            "node_modules/",
            "node_modules/x/",
            "node_modules/x/i.js",
            "src/",
            "src/app.py",
            "src/lib/",
            "src/lib/data.json",
            "src/lib/util.py",
        ]
        assert grown.nodes[0] == {"name": "README.md", "type": "file"}
        assert grown.unfinished == 0

    @pytest.mark.parametrize("pattern", ["lib", "src/lib", "**/lib", "l*b", "src/l*"])
    def test_names_are_excluded_anywhere_and_patterns_where_they_match(
        self, sandbox: Sandbox, project: Path, pattern: str
    ) -> None:
        assert ("src/lib/" in flat(tree(sandbox, excluded=(pattern,)).nodes)) is (pattern == "l*b")

    def test_limit_cuts_the_deepest_entries_first_and_marks_the_places(self, sandbox: Sandbox, project: Path) -> None:
        grown = tree(sandbox, limit=5)

        assert flat(grown.nodes) == [".git/", ".git/config", "README.md", "node_modules/", "src/"]
        assert grown.nodes[-1] == {"name": "src", "type": "directory", "children": [], "truncated": True}

    def test_depth_may_be_requested(self, sandbox: Sandbox, project: Path) -> None:
        assert flat(tree(sandbox, max_depth=1).nodes) == [".git/", "README.md", "node_modules/", "src/"]

    def test_huge_directory_is_truncated(self, crowded: Sandbox, crowd: Path) -> None:
        grown = tree(crowded, limit=100)

        assert (grown.count, grown.unfinished) == (100, 1)

    def test_links_are_shown_as_files_and_not_followed(self, sandbox: Sandbox, inside: Path, outside: Path) -> None:
        (inside / "loop").symlink_to(".")
        (inside / "out").symlink_to(outside)

        assert flat(tree(sandbox).nodes) == ["loop", "out"]

    def test_names_that_are_not_text_are_escaped(self, sandbox: Sandbox, inside: Path) -> None:
        Path(os.fsdecode(os.fsencode(inside) + b"/a\xff\n")).touch()

        assert flat(tree(sandbox).nodes) == ["a\\xff\\x0a"]


class TestCompletion:
    def test_completion_proposes_accessible_paths_only(self, project: Path, outside: Path) -> None:
        sandbox = Sandbox((Folder(str(project)),), denied=patterns(".git"))

        assert complete_path(sandbox, f"{project}/s", checkpoint=go_on) == [f"{project}/src/"]
        assert complete_path(sandbox, f"{project}/"[1:], checkpoint=go_on) == [
            f"{project}/{name}"[1:] for name in ("README.md", "node_modules/", "src/")
        ]
        assert complete_path(sandbox, str(project)[:-3], checkpoint=go_on) == [f"{project}/"]
        assert complete_path(sandbox, "", checkpoint=go_on) == [f"{project}/"[1:]]
        assert complete_path(sandbox, f"{outside}/", checkpoint=go_on) == []
        assert complete_path(sandbox, f"{project}/none/x", checkpoint=go_on) == []

    def test_completion_proposals_are_limited(self, crowded: Sandbox, crowd: Path) -> None:
        values = complete_path(crowded, f"{crowd}/crowd/0", checkpoint=go_on)

        assert (len(values), values[0]) == (MAX_COMPLETIONS, f"{crowd}/crowd/00000.txt")
