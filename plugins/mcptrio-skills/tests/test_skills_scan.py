"""The scan of folders: served and refused skills."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from mcptrio_skills.catalogue import Catalogue
from mcptrio_skills.config import Config
from mcptrio_skills.scan import FolderScan
from mcptrio_skills.skills import Skills
from mcptrio_skills.uris import uri_of

from .conftest import write_skill


def look(*folders: Path, before: Catalogue | None = None, **settings: Any) -> Catalogue:
    return FolderScan(Config(folders=folders, **settings), before or Catalogue(), lambda: None).run()


def test_skill_contains_all_its_files(skills_folder: Path) -> None:
    catalogue = look(skills_folder)

    assert list(catalogue.skills) == [
        "skill://acme/pdf/SKILL.md",
        "skill://acme/pdf/nested/SKILL.md",
        "skill://git-workflow/SKILL.md",
    ]
    entry = catalogue.skills["skill://acme/pdf/SKILL.md"].entry()
    assert entry["frontmatter"] == {
        "name": "pdf",
        "description": "What it is for.",
        "license": "MIT",
        "metadata": {"version": "2.1.0", "since": "2026-01-02"},
    }
    assert [row["uri"].removeprefix("skill://acme/pdf/") for row in entry["resources"]] == [
        "SKILL.md",
        "nested/SKILL.md",
        "references/FORMS.md",
        "references/deep/a%20b%25.png",
    ]
    data = (skills_folder / "acme/pdf/references/FORMS.md").read_bytes()
    assert entry["resources"][2]["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert entry["resources"][2]["size"] == len(data)
    assert not catalogue.problems
    assert [file.mime_type for file in catalogue.files.values()][:4] == ["text/markdown"] * 3 + ["image/png"]


def test_folders_list_only_paths_to_skills(skills_folder: Path) -> None:
    (skills_folder / "acme" / "README.md").write_text("not of a skill")
    folders = look(skills_folder).folders

    assert folders["acme"] == ("acme/pdf",)
    assert folders["acme/pdf"] == ("acme/pdf/SKILL.md", "acme/pdf/nested", "acme/pdf/references")
    assert folders["acme/pdf/references"] == ("acme/pdf/references/FORMS.md", "acme/pdf/references/deep")


def test_allowed_folder_can_be_a_skill(skills_folder: Path) -> None:
    assert list(look(skills_folder / "git-workflow").skills) == ["skill://git-workflow/SKILL.md"]


def test_skill_uri_is_percent_encoded() -> None:
    assert uri_of("a b:c@d/e:f@g?#%é") == "skill://a%20b%3Ac%40d/e:f@g%3F%23%25%C3%A9"


def test_excluded_file_names_are_not_served(skills_folder: Path) -> None:
    skill = skills_folder / "git-workflow"
    for name in (".env", "x.pyc", "x~", "__pycache__/x", ".git/config"):
        (skill / name).parent.mkdir(exist_ok=True)
        (skill / name).write_text("secret")
    write_skill(skills_folder / ".hidden" / "other")
    os.mkdir(os.fsencode(skills_folder) + b"/git-workflow/\xff")

    assert len(look(skills_folder).skills["skill://git-workflow/SKILL.md"].files) == 1
    assert len(look(skills_folder).skills) == 3
    assert len(look(skills_folder, ignore=()).skills["skill://git-workflow/SKILL.md"].files) == 6


def test_links_are_allowed_by_their_resolved_target(skills_folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    (skills_folder / "git-workflow" / "inside.md").symlink_to(skills_folder / "acme/pdf/references/FORMS.md")
    (skills_folder / "linked").symlink_to(skills_folder / "acme" / "pdf" / "nested")
    good = look(skills_folder)
    assert good.files["git-workflow/inside.md"].size == len("# Forms\r\n")
    assert good.problems == ("linked: name: expected that of the folder, 'linked', got 'nested'",)

    for target in (secret, tmp_path / "none", Path("/etc/passwd")):
        (skills_folder / "git-workflow" / "out.md").symlink_to(target)
        bad = look(skills_folder)
        assert "skill://git-workflow/SKILL.md" not in bad.skills
        assert "git-workflow: git-workflow/out.md: expected a file in the allowed folders, got something else" in (
            bad.problems
        )
        (skills_folder / "git-workflow" / "out.md").unlink()
    (skills_folder / "git-workflow" / "around").symlink_to(skills_folder)
    assert any("leads back to a folder around it" in problem for problem in look(skills_folder).problems)
    (skills_folder / "out").symlink_to(tmp_path)
    assert not any(path.startswith("out/") for path in look(skills_folder).files)


def test_named_pipe_does_not_block_the_scan(skills_folder: Path) -> None:
    os.mkfifo(skills_folder / "git-workflow" / "pipe")

    catalogue = look(skills_folder)

    assert len(catalogue.skills) == 2
    assert "not a regular file" in catalogue.problems[0]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"max_files": 3}, "acme/pdf: expected at most 3 files, got 4"),
        ({"max_bytes": 150}, "acme/pdf: expected at most 150 bytes, got 203"),
        ({"max_bytes": 30}, "git-workflow: expected at most 30 bytes, got 71"),
        ({"max_skills": 1}, "there are already 1 skills"),
        ({"max_depth": 2}, "it is more than 2 folders deep"),
        ({"max_visited": 3}, "more than 3 files and folders"),
    ],
)
def test_skill_over_a_limit_is_refused(skills_folder: Path, settings: dict[str, Any], problem: str) -> None:
    catalogue = look(skills_folder, **settings)

    assert any(problem in each for each in catalogue.problems), catalogue.problems
    for skill in catalogue.skills.values():
        assert len(skill.files) <= settings.get("max_files", 512)


@pytest.mark.parametrize("settings", [{"max_files": 513}, {"folders": (Path("x"),)}, {"ignore": ("a/b",)}, {"ttl": -1}])
def test_setting_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Config(**settings)


def test_refused_skill_does_not_affect_others(skills_folder: Path) -> None:
    (skills_folder / "git-workflow" / "SKILL.md").write_text("no front matter")
    write_skill(skills_folder / "Bad_Name")
    write_skill(skills_folder / "other", name="different")

    catalogue = look(skills_folder)

    assert len(catalogue.skills) == 2
    assert [problem.partition(":")[0] for problem in catalogue.problems] == ["Bad_Name", "git-workflow", "other"]
    assert tuple(Skills(Config(folders=(skills_folder,))).doctor()) == catalogue.problems


def test_duplicate_path_belongs_to_the_first_folder(skills_folder: Path, tmp_path: Path) -> None:
    """This holds also for a path within another one: their files would be mixed."""
    second = tmp_path / "second"
    for path in ("git-workflow", "acme", "acme/pdf/more", "fresh"):
        write_skill(second / path)

    catalogue = look(skills_folder, second, tmp_path / "none")

    assert [uri for uri in catalogue.skills if uri not in look(skills_folder).skills] == ["skill://fresh/SKILL.md"]
    assert sorted(problem.partition(":")[0] for problem in catalogue.problems) == [
        str(tmp_path / "none"),
        "acme",
        "acme/pdf/more",
        "git-workflow",
    ]


def test_unchanged_file_is_not_read_again(skills_folder: Path) -> None:
    file = skills_folder / "git-workflow" / "SKILL.md"
    first = look(skills_folder)
    assert not first.files["git-workflow/SKILL.md"].is_settled

    for path in skills_folder.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    # Its change time is recent and cannot be set, so a change in the same tick could go unnoticed.
    second = look(skills_folder, before=first)
    assert not second.files["git-workflow/SKILL.md"].is_settled
    file.write_bytes(file.read_bytes().replace(b"it is", b"it\xc2\xb4s"))
    third = look(skills_folder, before=second)
    assert third.skills["skill://git-workflow/SKILL.md"].frontmatter["description"] == "What it´s for."
    assert third.files["acme/pdf/SKILL.md"] == second.files["acme/pdf/SKILL.md"]


def test_settled_file_is_not_read_again(skills_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcptrio_skills import scan

    monkeypatch.setattr(scan, "_SETTLE_SECONDS", -1.0)
    first = look(skills_folder)
    opened: list[str] = []
    real = scan.read_all
    monkeypatch.setattr(scan, "read_all", lambda path, *rest: (opened.append(path), real(path, *rest))[1])

    second = look(skills_folder, before=first)
    (skills_folder / "git-workflow" / "new.md").write_text("new")
    third = look(skills_folder, before=second)

    assert second == first
    assert opened == [str(skills_folder / "git-workflow" / "new.md")]
    assert len(third.files) == len(first.files) + 1
