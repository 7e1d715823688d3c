"""A server's form is read into fields, and answers are filled in and checked."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.client.forms import Choice, ElicitationLimits, Form, FormField, read_form
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult
from mcptrio.protocol.model.fields import ABSENT

__all__: list[str] = []

RED, BLUE = Choice(value="#f00", title="Red"), Choice(value="#00f", title="Blue")
TITLED = [{"const": "#f00", "title": "Red"}, {"const": "#00f", "title": "Blue"}]


def read(properties: dict[str, Any], *required: str, limits: ElicitationLimits | None = None, **more: Any) -> Form:
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    params = ElicitFormParams(message="Please", requested_schema=schema)
    return read_form(params, server="notes", limits=limits or ElicitationLimits())


def read_one(definition: Any, *, required: bool = False) -> FormField:
    (field,) = read({"f": definition}, *(["f"] if required else [])).fields
    return field


# --- reading


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ({"type": "string"}, FormField(name="f", kind="string")),
        (
            {"type": "string", "title": "T", "description": "D", "minLength": 1, "maxLength": 3.0, "default": "x"},
            FormField(name="f", kind="string", title="T", description="D", min_length=1, max_length=3, default="x"),
        ),
        (
            {"type": "string", "format": "email", "pattern": "@", "default": "a@b.example"},
            FormField(name="f", kind="string", format="email", pattern="@", default="a@b.example"),
        ),
        ({"type": "string", "format": "ipv4"}, FormField(name="f", kind="string", format="ipv4")),
        (
            {"type": "number", "minimum": -0.5, "maximum": 2, "default": 1},
            FormField(name="f", kind="number", minimum=-0.5, maximum=2, default=1),
        ),
        ({"type": "integer", "default": 3.0}, FormField(name="f", kind="integer", default=3)),
        ({"type": "boolean", "default": False}, FormField(name="f", kind="boolean", default=False)),
        (
            {"type": "string", "enum": ["a", "b"], "default": "b"},
            FormField(name="f", kind="choice", choices=(Choice(value="a"), Choice(value="b")), default="b"),
        ),
        ({"enum": ["a"]}, FormField(name="f", kind="choice", choices=(Choice(value="a"),))),
        ({"type": "string", "const": "a"}, FormField(name="f", kind="choice", choices=(Choice(value="a"),))),
        (
            {"type": "string", "enum": ["a", "b"], "enumNames": ["A"]},
            FormField(name="f", kind="choice", choices=(Choice(value="a", title="A"), Choice(value="b"))),
        ),
        ({"type": "string", "oneOf": TITLED}, FormField(name="f", kind="choice", choices=(RED, BLUE))),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 0, "maxItems": 1, "default": []},
            FormField(name="f", kind="choices", choices=(Choice(value="a"),), min_items=0, max_items=1, default=()),
        ),
        (
            {"type": "array", "items": {"anyOf": TITLED}, "default": ["#00f"]},
            FormField(name="f", kind="choices", choices=(RED, BLUE), default=("#00f",)),
        ),
        # Libraries write an optional field in these two forms.
        (
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None, "title": "T"},
            FormField(name="f", kind="integer", minimum=1, title="T"),
        ),
        ({"type": ["string", "null"], "title": None}, FormField(name="f", kind="string")),
        # Unknown keywords, and those of other types, are ignored.
        ({"type": "boolean", "x-more": 1, "minimum": "?"}, FormField(name="f", kind="boolean")),
    ],
)  # fmt: skip
def test_field_schema_is_read(definition: dict[str, Any], field: FormField) -> None:
    assert read_one(definition) == field


def test_form_names_the_server_and_its_message() -> None:
    schema = {"$schema": "x", "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = read_form(ElicitFormParams(message="Who?", requested_schema=schema), server="notes")

    assert (form.server, form.message, form.schema) == ("notes", "Who?", schema)
    assert form.fields == (FormField(name="a", kind="string", required=True),)


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": {}, "required": None}])
def test_form_without_fields_asks_for_consent_only(schema: dict[str, Any]) -> None:
    form = read_form(ElicitFormParams(message="Sure?", requested_schema=schema), server="notes")

    assert form.fields == ()
    assert form.accept() == ElicitResult(action="accept", content={})


@pytest.mark.parametrize(
    ("definition", "default"),
    [
        ({"type": "string", "minLength": 1}, ""),
        ({"type": "string", "format": "email"}, ""),
        ({"type": "integer", "maximum": 3}, 4),
        ({"type": "integer"}, "3"),
        ({"type": "boolean"}, "true"),
        ({"type": "string", "enum": ["a"]}, "A"),
        ({"type": "array", "items": {"enum": ["a"]}}, "a"),
    ],
)
def test_invalid_default_is_ignored(definition: dict[str, Any], default: Any) -> None:
    assert read_one({**definition, "default": default}).default is ABSENT


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (1, "field `f`: expected a schema, got 1"),
        ({}, "field `f`: expected the type string, number, integer, boolean or array, got none"),
        ({"type": "object"}, 'field `f`: expected the type .*, got "object"'),
        ({"type": ["string", "integer"]}, "field `f`: expected the type .*, got an array"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "field `f`: expected a choice with `const`"),
        ({"$ref": "#/$defs/A"}, "field `f`: expected the type .*, got none"),
        ({"type": "string", "title": 1}, "field `f`: expected `title` to be a string, got 1"),
        ({"type": "string", "minLength": -1}, "`minLength` to be a whole number that is not negative, got -1"),
        ({"type": "string", "minLength": 1.5}, "`minLength` to be a whole number that is not negative, got 1.5"),
        ({"type": "string", "maxLength": True}, "field `f`: expected `maxLength` to be a number, got true"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "expected minLength to be at most maxLength, got 3 and 2"),
        ({"type": "number", "minimum": "1"}, 'field `f`: expected `minimum` to be a number, got "1"'),
        ({"type": "number", "minimum": math.nan}, "field `f`: expected `minimum` to be a number"),
        ({"type": "number", "minimum": 2, "maximum": 1}, "expected minimum to be at most maximum, got 2 and 1"),
        ({"type": "number", "enum": [1, 2]}, 'expected choices that are strings, got `enum` of the type "number"'),
        ({"type": "string", "enum": []}, "field `f`: expected `enum` to be an array of 1 to 1000 choices, got 0"),
        ({"type": "string", "enum": "ab"}, 'field `f`: expected `enum` to be an array of .*, got "ab"'),
        ({"type": "string", "enum": ["a", 1]}, "field `f`: expected choices that are strings, got 1"),
        ({"type": "string", "enum": ["a"], "enumNames": [1]}, "field `f`: expected choices that are strings, got 1"),
        ({"type": "string", "oneOf": [{"title": "A"}]}, "field `f`: expected a choice with `const`"),
        ({"type": "string", "oneOf": [{"const": "a", "title": 1}]}, "expected choices that are strings, got 1"),
        ({"type": "array"}, "field `f`: expected `items` to be a schema, got null"),
        ({"type": "array", "items": {"type": "string"}}, "field `f`: expected choices in `items`"),
        ({"type": "array", "items": {"type": "object"}}, "field `f`: expected choices in `items`"),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 2}, "minItems to be at most the choices, got 2 and 1"),
    ],
)
def test_unsupported_field_schema_is_refused_by_name(definition: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_one(definition)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "array"}, 'requestedSchema: expected the type "object", got "array"'),
        ({"type": "object", "properties": []}, "expected `properties` to be an object, got an array"),
        ({"type": "object", "required": "a"}, "expected `required` to be an array of strings"),
        ({"type": "object", "required": [1]}, "expected `required` to be an array of strings"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "`a` is required, but is not a field"),
    ],
)
def test_schema_that_is_not_a_flat_object_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_form(ElicitFormParams(message="m", requested_schema=schema), server="s")


def text(length: int) -> str:
    return "x" * length


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({f"f{n}": {"type": "string"} for n in range(4)}, "expected at most 3 fields, got 4"),
        ({"f": {"type": "string", "enum": list("abcde")}}, "array of 1 to 4 choices, got 5"),
        ({"f": {"type": "string", "oneOf": [{"const": c} for c in "abcde"]}}, "array of 1 to 4 choices, got 5"),
        ({"f": {"type": "array", "items": {"enum": list("abcde")}}}, "array of 1 to 4 choices, got 5"),
        ({text(11): {"type": "string"}}, "name: expected at most 10 characters, got 11"),
        ({"f": {"type": "string", "title": text(11)}}, "title: expected at most 10 characters, got 11"),
        ({"f": {"type": "string", "description": text(11)}}, "description: expected at most 10 characters, got 11"),
        ({"f": {"type": "string", "pattern": text(11)}}, "pattern: expected at most 10 characters, got 11"),
        ({"f": {"type": "string", "default": text(11)}}, "default: expected at most 10 characters, got 11"),
        ({"f": {"type": "string", "enum": [text(11)]}}, "a choice: expected at most 10 characters, got 11"),
        ({"f": {"oneOf": [{"const": "a", "title": text(11)}]}}, "a choice: expected at most 10 characters, got 11"),
    ],
)
def test_form_over_a_limit_is_refused(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(properties, limits=ElicitationLimits(fields=3, choices=4, text=10))


def test_message_over_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="message: expected at most 10000 characters, got 10001"):
        read_form(ElicitFormParams(message=text(10_001), requested_schema={"type": "object"}), server="s")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "type", "properties", "required", "enum", "oneOf", "anyOf", "const", "title", "items", "default",
                "minimum", "maxLength", "enumNames", "minItems", "format", "pattern",
            ]
        ),
        inner | st.sampled_from(["object", "string", "array", "integer", "number", "email"]),
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3), st.data())
def test_any_json_yields_a_form_or_a_value_error(properties: dict[str, Any], data: st.DataObject) -> None:
    try:
        form = read(properties)
        form.accept({name: data.draw(JSON) for name in properties})
    except ValueError:
        pass


# --- answers


def fill(properties: dict[str, Any], *required: str, **values: Any) -> dict[str, Any] | None:
    return read(properties, *required).accept(values).content


def test_answer_contains_the_defaults() -> None:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
        "colors": {"type": "array", "items": {"anyOf": TITLED}, "default": ["#f00"]},
        "note": {"type": "string"},
    }
    defaults = {
        "name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True, "colors": ["#f00"],
    }  # fmt: skip

    assert read(properties).defaults() == defaults
    assert read(properties).accept() == ElicitResult(action="accept", content=defaults)
    assert fill(properties, age=31, note="n") == {**defaults, "age": 31, "note": "n"}


def test_field_with_a_default_may_be_omitted_explicitly() -> None:
    properties = {"a": {"type": "string", "default": "x"}}

    assert fill(properties, a=ABSENT) == {}
    with pytest.raises(ValueError, match="field `a`: expected text, got nothing"):
        fill(properties, "a", a=ABSENT)


def test_check_does_not_fill_in_fields_marked_absent() -> None:
    form = read({"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}, "b")
    result = form.accept({"a": ABSENT, "b": 1.0})

    assert result.content == {"b": 1}
    assert form.check(result.content or {}) == {"b": 1}
    with pytest.raises(ValueError, match="field `b`: expected an integer, got nothing"):
        form.check({"a": "y"})
    with pytest.raises(ValueError, match="unknown field `c`"):
        form.check({"b": 1, "c": 2})


def test_answer_has_the_order_of_the_form() -> None:
    assert list(fill({"a": {"type": "string"}, "b": {"type": "string"}}, b="1", a="2") or ()) == ["a", "b"]


def test_missing_or_unknown_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"field `age`: expected an integer \(at least 0\), got nothing"):
        fill({"age": {"type": "integer", "minimum": 0}}, "age")
    with pytest.raises(ValueError, match=r"unknown field `agee`; did you mean `age`\?"):
        fill({"age": {"type": "integer"}}, agee=1)


def test_declined_or_cancelled_form_has_no_content() -> None:
    form = read({"a": {"type": "string", "default": "x"}})

    assert form.decline() == ElicitResult(action="decline")
    assert form.cancel() == ElicitResult(action="cancel")


@pytest.mark.parametrize(
    ("definition", "value", "sent"),
    [
        ({"type": "integer"}, 4.0, 4),
        ({"type": "integer"}, 2**64 - 1, 2**64 - 1),
        ({"type": "number"}, 4, 4),
        ({"type": "number", "minimum": 0.5}, 0.5, 0.5),
        ({"type": "string"}, "", ""),
        ({"type": "string", "maxLength": 1}, "\N{PILE OF POO}", "\N{PILE OF POO}"),
        ({"type": "string", "format": "whatever"}, "?", "?"),
        ({"type": "string", "pattern": "^[A-Z]+$"}, "AB", "AB"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ("b", "a"), ["b", "a"]),
    ],
)
def test_valid_value_is_sent(definition: dict[str, Any], value: Any, sent: Any) -> None:
    content = fill({"f": definition}, "f", f=value)

    assert content == {"f": sent}
    assert type((content or {})["f"]) is type(sent)


@pytest.mark.parametrize(
    ("definition", "value", "message"),
    [
        ({"type": "integer"}, True, "expected an integer, got true"),
        ({"type": "integer"}, 1.5, "expected an integer, got 1.5"),
        ({"type": "integer"}, "1", 'expected an integer, got "1"'),
        ({"type": "integer"}, None, "expected an integer, got null"),
        ({"type": "integer"}, math.inf, "expected an integer, got Infinity"),
        ({"type": "integer"}, 2**64, "expected an integer, got an integer of more than 64 bits"),
        ({"type": "number"}, 10**400, "expected a number, got an integer of more than 64 bits"),
        ({"type": "number"}, math.nan, "expected a number, got NaN"),
        ({"type": "number"}, False, "expected a number, got false"),
        ({"type": "number", "minimum": 1, "maximum": 2.5}, 3, "expected a number (1 to 2.5), got 3"),
        ({"type": "number", "maximum": 2.0}, 3, "expected a number (at most 2), got 3"),
        ({"type": "boolean"}, "yes", 'expected a boolean, got "yes"'),
        ({"type": "boolean"}, 1, "expected a boolean, got 1"),
        ({"type": "string"}, 1, "expected text, got 1"),
        ({"type": "string"}, {}, "expected text, got an object"),
        ({"type": "string"}, "\ud800", 'expected text, got a lone surrogate in "\\ud800"'),
        ({"type": "string", "minLength": 2}, "a", "expected text (at least 2 characters), got 1 character"),
        ({"type": "string", "maxLength": 2}, "abc", "expected text (at most 2 characters), got 3 characters"),
        ({"type": "string", "pattern": "^[A-Z]+$"}, "ab", 'expected text that matches ^[A-Z]+$, got "ab"'),
        ({"type": "string", "format": "date"}, "today", 'expected a date (YYYY-MM-DD), got "today"'),
        ({"type": "string", "format": "email"}, "\x1b[2J", 'expected an e-mail address, got "\\x1b[2J"'),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'expected one of "a", "b", got "c"'),
        ({"type": "string", "oneOf": TITLED}, "Red", 'expected one of "#f00" (Red), "#00f" (Blue), got "Red"'),
        ({"type": "array", "items": {"enum": ["a"]}}, "a", 'expected any of "a", got "a"'),
        ({"type": "array", "items": {"enum": ["a"]}}, ["b"], 'expected any of "a", got "b"'),
        ({"type": "array", "items": {"enum": ["a"]}}, [1], 'expected any of "a", got 1'),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "a"], 'expected any of "a", "b", got "a" twice'),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1}, [], 'expected at least 1 of "a", got 0'),
    ],
)  # fmt: skip
def test_invalid_value_is_refused(definition: dict[str, Any], value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared
        fill({"f": definition}, f=value)

    assert str(caught.value) == f"field `f`: {message}"


def test_error_message_is_limited_in_length() -> None:
    field = read_one({"type": "string", "enum": [f"{n}{text(9_000)}" for n in range(1_000)]})

    with pytest.raises(ValueError, match="expected one of") as caught:
        field.check(text(100_000))
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("pattern", ["(", "(?=x)y", r"(a)\1"])
def test_unsupported_pattern_is_left_to_the_server(pattern: str) -> None:
    assert read_one({"type": "string", "pattern": pattern}).check("anything") == "anything"


def test_pattern_takes_linear_time() -> None:
    field = read_one({"type": "string", "pattern": "^(a+)+$"})

    with pytest.raises(ValueError, match="that matches"):
        field.check(text(5_000) + "!")


FORMATS = {
    "email": (
        ["a@b", "first.last+tag@sub.example.org", "x" * 64 + "@a.example", "a@xn--80ak6aa92e.com",
         '"a b"@c.example', "a@[127.0.0.1]"],
        ["", "a", "a@", "@b", "a@b@c", "a b@c", "a..b@c", ".a@b", "a@-b", "a@b-", "a@b..c", "a@b.", "\xe9@b", "a@b\n",
         "x" * 65 + "@a.example", "a@" + "b" * 64, "a@ab--c", "a@xn--a", "a@xn--"],
    ),
    "uri": (
        ["https://example.org/a?b=c#d", "urn:a:b", "mailto:a@b", "http://[::1]:80/", "x:", "file:///a", "http://u:p@h:1/"],
        ["", "a", "/a", "//a", "1a:b", "http://a b", "http://a\n", "http://\xe9", "http://a/%zz", "http://[::1", "a:[",
         "http://[zz]/", "http://a:x", "http://a#b#c", "http://a/{x}", "http://u@v@w/", "http://a\\b", "a://[::]x"],
    ),
    "date": (
        ["2026-01-02", "2024-02-29"],
        ["", "20260102", "2026-W01-1", "2026-1-2", "2023-02-29", "2026-13-01", "2026-01-02 ",
         "2026-01-02T00:00:00Z", "\uff12026-01-02"],
    ),
    "date-time": (
        ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.123456789z", "2026-01-02T03:04:05-23:59"],
        ["", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04Z", "2026-01-02 03:04:05Z", "2026-01-02T24:00:00Z",
         "2026-01-02T03:04:05+0100", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+05:99",
         "2026-01-02T03:04:05,1Z", "2026-01-02T03:04:05Z\n"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("format", "value"), [(name, good) for name, (goods, _) in FORMATS.items() for good in goods])
def test_text_in_its_format_is_accepted(format: str, value: str) -> None:
    assert read_one({"type": "string", "format": format}).check(value) == value


@pytest.mark.parametrize(("format", "value"), [(name, bad) for name, (_, bads) in FORMATS.items() for bad in bads])
def test_text_in_another_format_is_refused(format: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a"):
        read_one({"type": "string", "format": format}).check(value)


# --- typed text

LETTERS = {"type": "array", "items": {"enum": ["a", "b", "c, d"]}}


@pytest.mark.parametrize(
    ("definition", "typed", "value"),
    [
        ({"type": "string"}, " as it is ", " as it is "),
        ({"type": "string", "format": "email"}, " a@b.example ", "a@b.example"),
        ({"type": "string", "format": "date-time"}, "2026-01-02 03:04:05Z", "2026-01-02T03:04:05Z"),
        ({"type": "integer"}, " +7 ", 7),
        ({"type": "integer"}, "-1e3", -1000),
        ({"type": "number"}, "7", 7),
        ({"type": "number"}, ".5", 0.5),
        ({"type": "number"}, "1" + "0" * 30, 1e30),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "y", True),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "N", False),
        ({"type": "string", "oneOf": TITLED}, "#00f", "#00f"),
        ({"type": "string", "oneOf": TITLED}, "blue", "#00f"),
        ({"type": "string", "oneOf": TITLED}, "2", "#00f"),
        ({"type": "string", "enum": ["a", "A"]}, "A", "A"),
        ({"type": "string", "enum": ["3", "2", "1"]}, "1", "1"),
        (LETTERS, "a, b", ["a", "b"]),
        (LETTERS, "c, d", ["c, d"]),
        (LETTERS, "3,1", ["c, d", "a"]),
        (LETTERS, "3 1", ["c, d", "a"]),
        (LETTERS, "b,", ["b"]),
        (LETTERS, "none", []),
        (LETTERS, "", []),
        ({"type": "array", "items": {"enum": ["none", "all"]}}, "None", ["none"]),
    ],
)
def test_typed_text_is_parsed_to_the_field_type(definition: dict[str, Any], typed: str, value: Any) -> None:
    parsed = read_one(definition).parse(typed)

    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("definition", "typed", "message"),
    [
        ({"type": "integer"}, "", 'expected an integer, got ""'),
        ({"type": "integer"}, "1.5", "expected an integer, got 1.5"),
        ({"type": "integer"}, "1_000", 'expected an integer, got "1_000"'),
        ({"type": "integer"}, "\u0663", 'expected an integer, got "\u0663"'),
        ({"type": "integer"}, "9" * 30, "expected an integer, got an integer of more than 64 bits"),
        ({"type": "integer"}, "9" * 5_000, f'expected an integer, got "{"9" * 60}…"'),
        ({"type": "number"}, "1e999", "expected a number, got Infinity"),
        ({"type": "number"}, "nan", 'expected a number, got "nan"'),
        ({"type": "boolean"}, "perhaps", 'expected yes or no, got "perhaps"'),
        ({"type": "string", "enum": ["a", "A"]}, "3", 'expected one of "a", "A", got "3"'),
        ({"type": "string", "enum": ["ab", "AB"]}, "Ab", 'expected one choice, got "Ab", which matches 2 of them'),
        ({"type": "string", "enum": ["3", "x"]}, "2", 'expected one of "3", "x", got "2"'),
        ({"type": "string", "enum": ["x"]}, "0", 'expected one of "x", got "0"'),
        (LETTERS, "a,z", 'expected any of "a", "b", "c, d", got "z"'),
        (LETTERS, "1,a", 'expected any of "a", "b", "c, d", got "a" twice'),
        ({**LETTERS, "minItems": 1}, "none", 'expected at least 1 of "a", "b", "c, d", got 0'),
    ],
)
def test_unparsable_text_error_names_the_expected_form(definition: dict[str, Any], typed: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared
        read_one(definition).parse(typed)

    assert str(caught.value) == message
