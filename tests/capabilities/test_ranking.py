"""Completion candidates, best first."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from mcptrio.capabilities.ranking import rank


def test_closer_match_ranks_first() -> None:
    candidates = ["p_y_x", "happy", "the-py", "Python", "pyramid", "py", "none"]

    assert rank(candidates, "py").values == ("py", "pyramid", "Python", "the-py", "happy", "p_y_x")


def test_capital_inside_a_candidate_begins_a_word() -> None:
    assert rank(["unnamed", "fileName"], "name").values == ("fileName", "unnamed")


def test_equal_matches_keep_their_order() -> None:
    assert rank(["bb", "ba", "bc"], "b").values == ("bb", "ba", "bc")


def test_empty_input_returns_each_candidate_once() -> None:
    ranked = rank(["b", "a", "b"], "")

    assert ranked.values == ("b", "a")
    assert ranked.total == 2
    assert not ranked.has_more


def test_total_includes_candidates_over_the_limit() -> None:
    ranked = rank((f"item{number}" for number in range(250)), "item")

    assert len(ranked.values) == 100
    assert ranked.total == 250
    assert ranked.has_more


def test_endless_source_is_stopped_at_the_limit() -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield f"x{taken}"

    ranked = rank(endless(), "x1")

    assert taken == 10_001
    assert ranked.values[:3] == ("x1", "x10", "x11")
    assert ranked.has_more


def test_endless_source_of_one_value_is_stopped() -> None:
    ranked = rank(("same" for _ in range(20_000)), "s")

    assert ranked.values == ("same",)
    assert ranked.has_more


def test_limit_is_that_of_the_protocol() -> None:
    assert len(rank(map(str, range(500)), "").values) == 100


@given(st.lists(st.text(max_size=8), max_size=30), st.text(max_size=3))
def test_result_contains_exactly_the_matching_candidates(candidates: list[str], typed: str) -> None:
    ranked = rank(candidates, typed)

    assert len(set(ranked.values)) == len(ranked.values) <= ranked.total <= len(set(candidates))
    assert ranked.has_more == (ranked.total > len(ranked.values))
    for value in ranked.values:
        characters = iter(value.casefold())
        assert all(character in characters for character in typed.casefold())
    if typed in candidates:
        assert ranked.values[0] == typed or not typed
