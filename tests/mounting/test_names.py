"""Names of mounted tools: stable, and accepted by every host application."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.mounting.names import mounted_name

__all__: list[str] = []


@pytest.mark.parametrize(
    ("prefix", "name", "mounted"),
    [
        ("fs", "read_file", "fs_read_file"),
        ("fs", "fs_read", "fs_read"),
        ("fs", "fs", "fs"),
        ("", "read_file", "read_file"),
        ("fs", "files.read", "fs_files_read_b1e3fe36"),
        ("fs", "x" * 61, "fs_" + "x" * 61),
        ("fs", "x" * 62, "fs_" + "x" * 52 + "_dbd3ed81"),
        ("my notes", "read", "my_notes_read_3773d5d4"),
    ],
    ids=["plain", "begins-so", "same", "none", "dots", "64", "65", "prefix"],
)
def test_mounted_name_has_prefix_and_allowed_characters(prefix: str, name: str, mounted: str) -> None:
    assert mounted_name(prefix, name) == mounted


@given(st.sampled_from(["", "fs", "my notes"]), st.text(min_size=1), st.text(min_size=1))
def test_mounted_name_is_valid_and_unique(prefix: str, name: str, other: str) -> None:
    found = mounted_name(prefix, name)

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", found)
    assert found == mounted_name(prefix, name)
    begins = {name, f"{prefix}_{name}"} & {other, f"{prefix}_{other}"}
    assert begins or found != mounted_name(prefix, other)
