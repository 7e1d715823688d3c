"""Docstrings of three styles are parsed into descriptions for a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.schema.docstrings import parse_docstring

GOOGLE = """Wait, then return the text.

    More about it: with a colon.

    Args:
        after (float): seconds to wait,
            on two lines.
        text: what to return
        *rest: the rest: all of it

    Returns:
        The text.

    Raises:
        ValueError: never.
    """

NUMPY = """Wait, then return the text.

    More about it: with a colon.

    Parameters
    ----------
    after : float, optional
        seconds to wait,
        on two lines.
    text
        what to return
    rest : str
        the rest: all of it

    Returns
    -------
    str
        The text.
    """

REST = """Wait, then return the text.

    More about it: with a colon.

    :param float after: seconds to wait,
        on two lines.
    :param text: what to return
    :type text: str
    :keyword rest: the rest: all of it
    :returns: the text
    :raises ValueError: never
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_three_docstring_styles_give_equal_descriptions(text: str) -> None:
    parsed = parse_docstring(text)

    assert parsed.description == "Wait, then return the text.\n\nMore about it: with a colon."
    assert parsed.parameters == {
        "after": "seconds to wait, on two lines.",
        "text": "what to return",
        "rest": "the rest: all of it",
    }


def test_text_after_the_sections_is_kept() -> None:
    parsed = parse_docstring("First.\n\nArgs:\n    a: the a\n\nLast, at the margin.")

    assert parsed.description == "First.\n\nLast, at the margin."
    assert parsed.parameters == {"a": "the a"}


@pytest.mark.parametrize(
    "text",
    [
        "Args: none of note, this is a sentence.",
        "Returns:\nnothing is indented here, so this is prose",
        "First.\n\nExample:\n    Args are shown here: as prose",
        "Look at http://example.com: it works",
        "Parameters\n\nThere is no rule below that word.",
    ],
)
def test_text_resembling_a_section_is_kept_as_description(text: str) -> None:
    assert parse_docstring(text).description == text
    assert parse_docstring(text).parameters == {}


def test_two_numpy_names_share_a_description() -> None:
    parsed = parse_docstring(
        "S.\n\nParameters\n----------\nx, y : int\n    a coordinate\n\nNotes\n-----\nKept out of it."
    )

    assert parsed.parameters == {"x": "a coordinate", "y": "a coordinate"}
    assert "Kept out of it." in parsed.description


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_empty_docstring_gives_no_description(text: str | None) -> None:
    assert parse_docstring(text).description == ""
    assert parse_docstring(text).parameters == {}


@given(
    st.lists(
        st.sampled_from(["Args:", "Parameters", "-----", "    x: y", ":param x: y", "", "text", "    ", ":", "x :"])
        | st.text()
    )
)
def test_any_docstring_is_parsed(lines: list[str]) -> None:
    parsed = parse_docstring("\n".join(lines))

    assert all(sentence and "\n" not in sentence for sentence in parsed.parameters.values())
