"""Any WWW-Authenticate header can be parsed, and every client can parse ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.auth.challenges import Challenge, build_challenge, parse_challenges

__all__: list[str] = []

METADATA = "https://x.example/.well-known/oauth-protected-resource?a=b,c"


def challenge(scheme: str, token68: str = "", **parameters: str) -> Challenge:
    return Challenge(scheme=scheme, token68=token68, parameters=parameters)


@pytest.mark.parametrize(
    ("header", "challenges"),
    [
        ("", []),
        ("Bearer", [challenge("bearer")]),
        ('BEARER Scope="a b", ERROR=invalid_token', [challenge("bearer", scope="a b", error="invalid_token")]),
        (f'Bearer resource_metadata="{METADATA}"', [challenge("bearer", resource_metadata=METADATA)]),
        ('Bearer realm="a, Basic realm=b"', [challenge("bearer", realm="a, Basic realm=b")]),
        ('Bearer realm="say \\"a\\" \\\\ b"', [challenge("bearer", realm='say "a" \\ b')]),
        ('Bearer realm=""', [challenge("bearer", realm="")]),
        ('Bearer a = "1" ,b\t=2', [challenge("bearer", a="1", b="2")]),
        ('Bearer a="first", A="second"', [challenge("bearer", a="first")]),
        (
            'Basic realm="x", Bearer scope="y", DPoP algs="ES256 PS256"',
            [challenge("basic", realm="x"), challenge("bearer", scope="y"), challenge("dpop", algs="ES256 PS256")],
        ),
        ("Bearer, Basic realm=x", [challenge("bearer"), challenge("basic", realm="x")]),
        ("Negotiate dG9rZW4=, Bearer a=b", [challenge("negotiate", token68="dG9rZW4="), challenge("bearer", a="b")]),
        (", ,Bearer a=b ,, c=d,", [challenge("bearer", a="b", c="d")]),
        # Parsing ends at the first invalid part.
        ('Bearer a="1", b="not finished', [challenge("bearer", a="1")]),
        ('Basic realm="x", Be@rer a=b, Bearer c=d', [challenge("basic", realm="x")]),
        ('"quoted"', []),
        ('Bearer a="\x00\xff"', [challenge("bearer", a="\x00\xff")]),
    ],
)
def test_www_authenticate_header_is_parsed(header: str, challenges: list[Challenge]) -> None:
    assert list(parse_challenges(header)) == challenges


@pytest.mark.parametrize(
    ("header", "count"),
    [
        ("Bearer a=b, " * 100_000, 32),
        ("A B C D " * 100_000, 1),
        ("x=" * 100_000, 0),
        ('Bearer a="' + "\\" * 100_000, 1),
        ("," * 100_000, 0),
        (", ".join(f"Scheme{number}" for number in range(1000)), 32),
    ],
    ids=["many", "words", "equals", "escapes", "commas", "schemes"],
)
def test_number_of_parsed_challenges_is_limited(header: str, count: int) -> None:
    challenges = parse_challenges(header)

    assert len(challenges) == count


def test_number_of_parsed_parameters_is_limited() -> None:
    [found] = parse_challenges("Bearer " + ", ".join(f"p{number}=1" for number in range(200)))

    assert len(found.parameters) == 32


TOKENS = st.text("abcXYZ019-_", min_size=1, max_size=12)
PARAMETERS = st.dictionaries(
    TOKENS.map(str.lower), st.text(st.characters(min_codepoint=32, max_codepoint=126)), max_size=5
)


@settings(max_examples=200)
@given(st.lists(st.tuples(TOKENS, PARAMETERS), max_size=5))
def test_built_challenges_are_parsed_unchanged(written: list[tuple[str, Mapping[str, str]]]) -> None:
    header = ", ".join(build_challenge(scheme, parameters) for scheme, parameters in written)

    found = [(each.scheme, dict(each.parameters)) for each in parse_challenges(header)]

    assert found == [(scheme.lower(), dict(parameters)) for scheme, parameters in written]


@settings(max_examples=300)
@given(st.one_of(st.text(), st.text('aB=", \\\t~'), st.binary().map(lambda data: data.decode("latin-1"))))
def test_arbitrary_header_is_parsed_without_error(header: str) -> None:
    for found in parse_challenges(header):
        assert found.scheme == found.scheme.lower() != ""
        assert not (found.token68 and found.parameters)


@pytest.mark.parametrize(
    ("scheme", "parameters"),
    [
        ("Bea rer", {}),
        ("", {}),
        ("Bearer", {"a b": "c"}),
        ("Bearer", {"a": "b\r\nX: y"}),
        ("Bearer", {"a": "\u00fc"}),
    ],
)
def test_challenge_parameter_invalid_in_a_header_is_refused(scheme: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a"):
        build_challenge(scheme, parameters)
