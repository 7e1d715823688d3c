"""Parameter headers: the value encoding, and what counts as a mismatch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.errors import HeaderMismatch
from mcptrio.http.headers import Headers
from mcptrio.http.param_headers import check_method, check_parameters, decode_value, encode_value
from mcptrio.protocol.messages import Request

PARAM_HEADERS = {"region": ("where", "region"), "count": ("count",), "flag": ("flag",)}


def headers(**values: str) -> Headers:
    return Headers.of([(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in values.items()])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", ""),
        ("a\tb", "=?base64?YQli?="),
        (42, "42"),
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_encoding_matches_the_examples_of_the_specification(value: Any, expected: str) -> None:
    assert encode_value(value) == expected


@given(st.text())
def test_any_text_is_decoded_unchanged(value: str) -> None:
    encoded = encode_value(value)

    assert all(" " <= c <= "~" for c in encoded)
    assert encoded == encoded.strip()
    assert decode_value("x", encoded) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?base64??=", ""),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),
    ],
)
def test_value_is_decoded_only_between_both_markers(value: str, expected: str) -> None:
    assert decode_value("x", value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVs!G8=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVsbG9=?=",
        "=?base64?SGVsbG8-_w==?=",
        "=?base64?/w==?=",
        "caf\xe9",
        "a\x00b",
        "a\x7f",
    ],
)
def test_malformed_value_is_refused(value: str) -> None:
    with pytest.raises(HeaderMismatch):
        decode_value("x", value)


@given(st.text(st.characters(max_codepoint=255)))
def test_decoding_raises_only_the_documented_error(value: str) -> None:
    for text in (value, f"=?base64?{value}?="):
        try:
            decode_value("x", text)
        except HeaderMismatch:
            pass


@pytest.mark.parametrize(
    ("method", "params", "sent"),
    [
        ("tools/call", {"name": "t"}, {"mcp_method": "tools/call", "mcp_name": "t"}),
        ("tools/call", {"name": "t"}, {"mcp_method": "tools/call", "mcp_name": "  t  "}),
        ("tools/call", {"name": "é"}, {"mcp_method": "tools/call", "mcp_name": "=?base64?w6k=?="}),
        ("resources/read", {"uri": "a://b"}, {"mcp_method": "resources/read", "mcp_name": "a://b"}),
        ("tasks/get", {"taskId": "1"}, {"mcp_method": "tasks/get", "mcp_name": "1"}),
        ("tools/list", {}, {"mcp_method": "tools/list", "mcp_name": "ignored"}),
        ("tools/call", {}, {"mcp_method": "tools/call"}),
        ("tools/call", {"name": 5}, {"mcp_method": "tools/call"}),
    ],
)
def test_headers_that_match_the_body_are_accepted(method: str, params: dict[str, Any], sent: dict[str, str]) -> None:
    check_method(headers(**sent), Request(1, method, params))


@pytest.mark.parametrize(
    ("method", "params", "sent"),
    [
        ("tools/call", {"name": "t"}, {}),
        ("tools/call", {"name": "t"}, {"mcp_method": "tools/call"}),
        ("tools/call", {"name": "t"}, {"mcp_name": "t"}),
        ("tools/call", {"name": "t"}, {"mcp_method": "Tools/Call", "mcp_name": "t"}),
        ("tools/call", {"name": "t"}, {"mcp_method": "tools/call", "mcp_name": "T"}),
        ("tools/call", {"name": "t"}, {"mcp_method": "tools/call", "mcp_name": "=?base64?dA?="}),
        ("tools/call", {}, {"mcp_method": "tools/call", "mcp_name": "t"}),
        ("prompts/get", {"name": "t"}, {"mcp_method": "prompts/get"}),
    ],
)
def test_headers_that_contradict_the_body_are_refused(
    method: str, params: dict[str, Any], sent: dict[str, str]
) -> None:
    with pytest.raises(HeaderMismatch):
        check_method(headers(**sent), Request(1, method, params))


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({}, {}),
        (None, {}),
        ({"where": {"region": None}}, {}),
        ({"where": {"region": "eu"}}, {"mcp_param_region": "eu"}),
        ({"where": {"region": "Hello"}}, {"mcp_param_region": "=?base64?SGVsbG8=?="}),
        ({"where": {"region": ""}}, {"mcp_param_region": ""}),
        ({"where": {"region": ""}}, {"mcp_param_region": "=?base64??="}),
        ({"count": 42}, {"mcp_param_count": "42"}),
        ({"count": 42}, {"mcp_param_count": "42.0"}),
        ({"count": 42.0}, {"mcp_param_count": "42"}),
        ({"count": 9007199254740993}, {"mcp_param_count": "9007199254740993"}),
        ({"flag": True}, {"mcp_param_flag": "true"}),
        ({"where": "not an object"}, {}),
        ({"count": [1]}, {"mcp_param_count": "1"}),
        ({}, {"mcp_param_region": "stray"}),
        ({}, {"mcp_param_unknown": "caf\xe9"}),
    ],
)
def test_parameter_headers_that_match_the_body_are_accepted(arguments: Any, sent: dict[str, str]) -> None:
    check_parameters(headers(**sent), arguments, PARAM_HEADERS)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"where": {"region": "eu"}}, {}),
        ({"where": {"region": ""}}, {}),
        ({"where": {"region": "eu"}}, {"mcp_param_region": "us"}),
        ({"where": {"region": "Hello"}}, {"mcp_param_region": "SGVsbG8="}),
        ({"where": {"region": "Hello"}}, {"mcp_param_region": "=?base64?SGVsbG8?="}),
        ({"count": 42}, {"mcp_param_count": "43"}),
        ({"count": 42}, {"mcp_param_count": "0x2a"}),
        ({"count": 42}, {"mcp_param_count": "4_2"}),
        ({"count": 42}, {"mcp_param_count": "9" * 10_000}),
        ({"count": 9007199254740993}, {"mcp_param_count": "9007199254740992"}),
        ({"count": 0}, {}),
        ({"flag": True}, {"mcp_param_flag": "True"}),
        ({"flag": True}, {"mcp_param_flag": "1"}),
        ({"flag": False}, {}),
        ({}, {"mcp_param_region": "caf\xe9"}),
    ],
)
def test_parameter_headers_that_contradict_the_body_are_refused(arguments: Any, sent: dict[str, str]) -> None:
    with pytest.raises(HeaderMismatch):
        check_parameters(headers(**sent), arguments, PARAM_HEADERS)


def test_repeated_parameter_header_is_refused() -> None:
    twice = Headers.of([(b"mcp-param-region", b"eu"), (b"Mcp-Param-Region", b"eu")])
    with pytest.raises(HeaderMismatch):
        check_parameters(twice, {"where": {"region": "eu"}}, PARAM_HEADERS)
