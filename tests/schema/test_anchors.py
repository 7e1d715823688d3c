"""A pattern matches no final line end, in Python as in other languages, and is shown unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import pytest

from mcptrio.errors import InvalidParams
from mcptrio.schema.anchors import anchor_patterns
from mcptrio.schema.signatures import Arguments

__all__: list[str] = []

Name = Annotated[str, msgspec.Meta(pattern="^[a-z]{1,8}$", min_length=2, description="A name.")]


def takes(annotation: Any) -> Arguments:
    def function(value):  # type: ignore[no-untyped-def]
        return value

    function.__annotations__["value"] = annotation
    return Arguments.of(function)


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Name, "abc", "abc\n"),
        (Name | None, "abc", "abc\n"),
        (list[Name], ["abc"], ["abc", "abc\n"]),
        (tuple[Name, ...], ["abc"], ["abc\n"]),
        (Mapping[str, Name], {"a": "abc"}, {"a": "abc\n"}),
        (dict[str, list[Name | int]], {"a": [1, "abc"]}, {"a": ["abc\n"]}),
        (Annotated[str, msgspec.Meta(pattern="^a$|^b$")], "b", "a\n"),
        (Annotated[str, msgspec.Meta(pattern=r"^[$]\$[^]$]$")], "$$a", "$$a\n"),
        (Annotated[str, msgspec.Meta(pattern=r"^[$]\$[^]$]$")], "$$a", "$$$"),
        (Annotated[str, msgspec.Meta(pattern="^[a$\\]]$")], "]", "b"),
        (Annotated[str, msgspec.Meta(pattern="^[,;\\t|]$")], "\t", ",\n"),
    ],
)
def test_pattern_does_not_match_a_final_line_end(annotation: Any, good: Any, bad: Any) -> None:
    arguments = takes(annotation)
    arguments.convert({"value": good})
    with pytest.raises(InvalidParams, match="value"):
        arguments.convert({"value": bad})


def test_pattern_is_listed_unchanged() -> None:
    shown = takes(Name).schema["properties"]["value"]
    assert shown == {"type": "string", "pattern": "^[a-z]{1,8}$", "minLength": 2, "description": "A name."}
    with pytest.raises(InvalidParams) as refused:
        takes(Name).convert({"value": "abc\n"})
    assert "^[a-z]{1,8}$" in refused.value.message
    with pytest.raises(InvalidParams):
        takes(Name).convert({"value": "a"})


@pytest.mark.parametrize("annotation", [int, str | None, list[int], Annotated[str, "said"], dict[str, Any]])
def test_schemas_without_a_pattern_are_unchanged(annotation: Any) -> None:
    assert anchor_patterns(annotation) is annotation
