"""Folders with skills."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["skills_folder", "write_skill"]


def write_skill(folder: Path, name: str | None = None, text: str = "# Instructions\n", **fields: str) -> Path:
    """Write a SKILL.md, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = {"name": name or folder.name, "description": "What it is for.", **fields}
    matter = "".join(f"{key}: {value}\n" for key, value in lines.items())
    (folder / "SKILL.md").write_text(f"---\n{matter}---\n{text}")
    return folder


@pytest.fixture
def skills_folder(tmp_path: Path) -> Path:
    """Return a folder with a skill, a skill with folders, and a skill within a skill."""
    folder = tmp_path / "skills_folder"
    write_skill(folder / "git-workflow")
    pdf = write_skill(folder / "acme" / "pdf", license="MIT", metadata='{version: "2.1.0", since: 2026-01-02}')
    (pdf / "references" / "deep").mkdir(parents=True)
    (pdf / "references" / "FORMS.md").write_text("# Forms\r\n")
    (pdf / "references" / "deep" / "a b%.png").write_bytes(b"\x89PNG\0\xff")
    write_skill(pdf / "nested")
    return folder
