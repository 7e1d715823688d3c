from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcptrio_fs.patterns import MAX_ALTERNATIVES, MAX_PATTERN, GlobPattern

from mcptrio.errors import ToolError


def _combined(inner: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[str, str]]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda each: ("".join(glob for glob, _ in each), "".join(text for _, text in each)), several),
        st.builds(
            lambda kind, each: (
                f"{kind}({'|'.join(glob for glob, _ in each)})",
                f"(?:{'|'.join(text for _, text in each)}){kind.strip('@')}",
            ),
            st.sampled_from("@?*+"),
            several,
        ),
    )


_GLOBS = st.recursive(st.sampled_from([("a", "a"), ("b", "b")]), _combined, max_leaves=6)
"""Pairs of a glob and the regular expression that means the same."""
_NAMES = st.lists(st.text("ab.", min_size=1), min_size=1)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("*.py", ".a.py", True),
        ("*", ".hidden", True),
        ("**/*.py", "a.py", True),
        ("**/*.py", "d/e/a.py", True),
        ("d/**", "d", False),
        ("d/**", "d/e", True),
        ("d/**", "d/e/f", True),
        ("**", "a/b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/x/y/c", False),
        ("**/a/**/b/**/c", "a/a/b/b/a/c", True),
        ("**/a/**/b/**/c", "a/a/c/b/a/x", False),
        ("**/x/**", "x", False),
        ("**/x/**", "y/x/z", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a?c", "a/c", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[]]x", "]x", True),
        ("[", "[", True),
        ("[a", "[a", True),
        ("[z-a]", "m", False),
        ("*.{js,ts}", "a.ts", True),
        ("*.{js,ts}", "a.py", False),
        ("{a,b{1,2}}.t", "b2.t", True),
        ("{a,d/e}/x", "d/e/x", True),
        ("x{1..3}", "x2", True),
        ("x{3..1}", "x3", True),
        ("x{1..3}", "x4", False),
        ("{a}", "{a}", True),
        ("{a,b", "{a,b", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("!*.py", "a.py", False),
        ("!*.py", "a.md", True),
        ("foo(1).txt", "foo(1).txt", True),
        ("*.@(ts|tsx)", "a.tsx", True),
        ("*.@(ts|tsx)", "a.ts.x", False),
        ("d/+(a|b)/x", "d/abba/x", True),
        ("+(a|b)", "abc", False),
        ("x*(ab)y", "xy", True),
        ("x*(ab)y", "xababy", True),
        ("colo?(u)r", "color", True),
        ("colo?(u)r", "colouur", False),
        ("!(*.test).ts", "a.ts", True),
        ("!(*.test).ts", "a.test.ts", False),
        ("a!(b)c", "abbc", True),
        ("a!(b)c", "abc", False),
        ("+([0-9])-*.md", "12-x.md", True),
        ("+(@(a|b)c)", "acbc", True),
        ("@(a|[)]).t", ").t", True),
        ("@(a\\|b|c)", "a|b", True),
        ("+(a", "+(a", True),
        ("\\@(a)", "@(a)", True),
        ("{x,@(a|b)}", "b", True),
        ("a.c", "abc", False),
        ("./a", "a", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("a\nb", "a\nb", True),
    ],
)
def test_pattern_matches_as_in_minimatch(pattern: str, path: str, expected: bool) -> None:
    assert GlobPattern.parse(pattern).matches(path.split("/")) is expected


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*a" * 100 + "b", ["a" * 255]),
        ("*?" * 100 + "b", ["a" * 255]),
        ("**/a/" * 60 + "b", ["a"] * 200),
        ("*[ab]" * 60 + "c", ["ab" * 120]),
        ("*(*(a|aa|aaa)c|a|aa)b", ["a" * 255]),
        ("*(!(" + "a*" * 40 + ")c|a)b", ["a" * 255]),
    ],
)
def test_pattern_takes_limited_time(pattern: str, names: list[str]) -> None:
    started = time.thread_time()  # Processor time, because the machine may be busy.

    assert not GlobPattern.parse(pattern).matches(names)
    assert time.thread_time() - started < 1


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a\0",
        "x" * (MAX_PATTERN + 1),
        "{a,b}" * 8,
        "{1..999999}",
        "{,}" * 300,
        "{a," * 300 + "}" * 300,
        "@(a" * 3 + ")" * 3,
        f"@({'a' * 100})",
    ],
)
def test_unbounded_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="expected"):
        GlobPattern.parse(pattern)


def test_braces_up_to_the_limit_are_expanded() -> None:
    assert GlobPattern.parse(f"{{1..{MAX_ALTERNATIVES}}}").matches(["128"])


def test_case_may_be_ignored() -> None:
    assert GlobPattern.parse(".env*", ignore_case=True).matches([".ENV.local"])
    assert not GlobPattern.parse(".env*").matches([".ENV.local"])


@given(_GLOBS, st.text("ab", max_size=8))
def test_extended_glob_matches_like_the_regular_expression(both: tuple[str, str], name: str) -> None:
    glob, expression = both
    try:
        pattern = GlobPattern.parse(f"x{glob}")
    except ToolError:
        return
    assert pattern.matches([f"x{name}"]) is bool(re.fullmatch(expression, name))


@given(st.text(alphabet="ab*?[]{},!\\./-1@+(|)", min_size=1, max_size=40), _NAMES)
def test_any_pattern_compiles_and_matches(text: str, names: list[str]) -> None:
    try:
        pattern = GlobPattern.parse(text)
    except ToolError:
        return
    assert pattern.matches(names) in (True, False)


@given(st.text(st.characters(exclude_characters="*?[]{}\\!/\0(", codec="utf-8"), min_size=1, max_size=30))
def test_name_without_special_characters_matches_itself(name: str) -> None:
    if name != ".":
        assert GlobPattern.parse(name).matches([name])
