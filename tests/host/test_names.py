"""Names in the host: valid for every model provider, unique, and stable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.host.names import MAX_NAME_CHARS, hosted_name, hosted_names, server_of, server_prefix

__all__: list[str] = []

names = st.text(min_size=1, max_size=150)


def test_valid_names_are_unchanged() -> None:
    assert hosted_name(server_prefix("fs"), "read_file") == "fs_read_file"
    assert hosted_name(server_prefix("my-notes"), "search-all") == "my-notes_search-all"


def test_encoding_of_names_is_stable() -> None:
    """Models, logs and stored decisions contain these names, so a change would break them."""
    assert server_prefix("my_notes") == "my-notes-c23dc8"
    assert server_prefix("Größe & Maß") == "Gr--e---Ma--116e1f"
    assert server_prefix("a" * 30) == "aaaaaaaaaaaaaaaaa-3a54fc"
    assert hosted_name("fs", "files.read") == "fs_files_read_601e4eb6"
    assert hosted_name("fs", "x" * 80) == f"fs_{'x' * 52}_d929cdee"


@given(server=names, tool=names)
def test_every_name_is_valid(server: str, tool: str) -> None:
    name = hosted_name(server_prefix(server), tool)

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert server_of(name) == server_prefix(server)


@given(first=st.tuples(names, names), second=st.tuples(names, names))
def test_different_tools_have_different_names(first: tuple[str, str], second: tuple[str, str]) -> None:
    hosted = [hosted_name(server_prefix(server), tool) for server, tool in (first, second)]

    assert (hosted[0] == hosted[1]) == (first == second)


def test_server_name_ends_at_the_first_underscore() -> None:
    """``a`` with ``b_c`` differs from ``a_b`` with ``c``."""
    assert hosted_name(server_prefix("a"), "b_c") == "a_b_c"
    assert hosted_name(server_prefix("a_b"), "c") != "a_b_c"
    assert server_of("a_b_c") == "a"


def test_tool_that_imitates_an_encoded_name_keeps_only_its_own() -> None:
    imitated = hosted_name("fs", "files.read")
    own = imitated.removeprefix("fs_")

    assert hosted_names("fs", ["files.read", own]) == {imitated: own}
    assert hosted_names("fs", [own, "files.read"]) == {imitated: own}


def test_duplicate_tool_is_listed_once() -> None:
    assert hosted_names("fs", ["read", "read", "write"]) == {"fs_read": "read", "fs_write": "write"}


@pytest.mark.parametrize("name", ["", "fs", "_read"])
def test_name_without_a_server_yields_none(name: str) -> None:
    assert server_of(name) is None


def test_long_names_are_shortened_to_the_maximum() -> None:
    assert len(hosted_name(server_prefix("s" * 100), "t" * 100)) == MAX_NAME_CHARS
