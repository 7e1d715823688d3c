"""A real folder for the tests, and a real folder outside it that must never be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcptrio_fs.sandbox import Folder, Sandbox

SECRET = "the secret outside"


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def sandbox(inside: Path) -> Sandbox:
    return Sandbox((Folder(str(inside)),))
