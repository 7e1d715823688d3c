"""The styles, by the tables of the specification."""

from __future__ import annotations

from typing import Any

import pytest
from mcptrio_openapi.styles import cookie_pairs, header_text, path_text, query_pairs

from mcptrio import ToolError

ARRAY = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}


# OpenAPI 3.1.1, 4.8.12.6 "Style Examples"; RFC 6570, 3.2 for the cases that it leaves open.
@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, ARRAY, ";color=blue,black,brown"),
        ("matrix", False, OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, "blue", ";color=blue"),
        ("matrix", True, ARRAY, ";color=blue;color=black;color=brown"),
        ("matrix", True, OBJECT, ";R=100;G=200;B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, ARRAY, ".blue,black,brown"),
        ("label", False, OBJECT, ".R,100,G,200,B,150"),
        ("label", True, "blue", ".blue"),
        ("label", True, ARRAY, ".blue.black.brown"),
        ("label", True, OBJECT, ".R=100.G=200.B=150"),
        ("simple", False, "blue", "blue"),
        ("simple", False, ARRAY, "blue,black,brown"),
        ("simple", False, OBJECT, "R,100,G,200,B,150"),
        ("simple", True, ARRAY, "blue,black,brown"),
        ("simple", True, OBJECT, "R=100,G=200,B=150"),
        ("simple", False, "a/b?c#d%e f", "a%2Fb%3Fc%23d%25e%20f"),
        ("simple", False, ["a,b", "c"], "a%2Cb,c"),
        ("simple", False, True, "true"),
        ("simple", False, 1.0, "1"),
        ("simple", False, 1.5, "1.5"),
        ("simple", False, "é", "%C3%A9"),
    ],
)
def test_path_parameter_is_serialized_by_its_style(style: Any, explode: bool, value: Any, expected: str) -> None:
    assert path_text("color", value, style, explode=explode) == expected


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("form", False, "", "color="),
        ("form", False, "blue", "color=blue"),
        ("form", False, ARRAY, "color=blue,black,brown"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, "blue", "color=blue"),
        ("form", True, ARRAY, "color=blue&color=black&color=brown"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        ("spaceDelimited", False, ARRAY, "color=blue%20black%20brown"),
        ("spaceDelimited", False, OBJECT, "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, ARRAY, "color=blue%7Cblack%7Cbrown"),
        ("pipeDelimited", False, OBJECT, "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("pipeDelimited", True, ARRAY, "color=blue&color=black&color=brown"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        (
            "deepObject",
            False,
            {"a": {"b": [1, {"c": 2}]}},
            "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D%5Bc%5D=2",
        ),
        ("form", True, "a&admin=1#x+y", "color=a%26admin%3D1%23x%2By"),
        ("form", True, {"a&b": "c=d"}, "a%26b=c%3Dd"),
        ("form", False, ["a,b", "c"], "color=a%2Cb,c"),
        ("form", True, [], ""),
        ("form", True, None, ""),
        ("form", True, ["a", None], "color=a"),
    ],
)
def test_query_parameter_is_serialized_by_its_style(style: Any, explode: bool, value: Any, expected: str) -> None:
    assert "&".join(query_pairs("color", value, style, explode=explode)) == expected


def test_reserved_characters_are_kept_except_query_delimiters() -> None:
    """OpenAPI 3.1.1, 4.8.12.2: ``[ ] #`` are not allowed in a query, ``& +`` mean something in a form."""
    value = ":/?#[]@!$&'()*+,;= %"

    assert query_pairs("q", value, "form", explode=True, reserved=True) == ["q=:/?%23%5B%5D@!$%26'()*%2B,;=%20%25"]


def test_header_and_cookie_parameters_are_serialized_by_their_style() -> None:
    assert header_text("X", ARRAY, explode=False) == "blue,black,brown"
    assert header_text("X", OBJECT, explode=True) == "R=100,G=200,B=150"
    assert header_text("X", OBJECT, explode=False) == "R,100,G,200,B,150"
    assert header_text("X", "a b/c", explode=False) == "a b/c"
    assert cookie_pairs("c", "a; b=1", explode=True) == ["c=a%3B%20b%3D1"]


@pytest.mark.parametrize("value", ["", ".", "..", None, [], {}, [None], {"a": None}])
@pytest.mark.parametrize("style", ["simple", "label"])
def test_path_value_cannot_change_the_path(value: Any, style: Any) -> None:
    if style == "label" and value == "..":
        assert path_text("id", value, style, explode=False) == "..."
        return
    with pytest.raises(ToolError, match="id"):
        path_text("id", value, style, explode=False)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0"])
def test_header_value_cannot_add_a_header(value: str) -> None:
    with pytest.raises(ToolError, match="control characters"):
        header_text("X", value, explode=False)


def test_nested_parameter_value_is_refused() -> None:
    with pytest.raises(ToolError, match=r"`color\.a`"):
        query_pairs("color", {"a": {"b": 1}}, "form", explode=True)
    with pytest.raises(ToolError, match=r"`color\[1\]`"):
        query_pairs("color", [1, [2]], "form", explode=True)
