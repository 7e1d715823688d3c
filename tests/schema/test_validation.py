"""Values are validated against foreign schemas, within bounds."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from mcptrio.errors import InvalidParams
from mcptrio.schema.validation import Validator

DRAFT_07 = "http://json-schema.org/draft-07/schema#"


def refuse(schema: dict[str, Any], instance: Any, **options: Any) -> str:
    with pytest.raises(InvalidParams) as caught:
        Validator(schema, **options).validate(instance)
    return caught.value.message


def nest(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"x": value}
    return value


def doubling(levels: int) -> dict[str, Any]:
    """A schema whose definitions each refer twice to the next: 2 ** levels evaluations in a few hundred bytes."""
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "string"}}}


BRANCHING = {
    "anyOf": [
        {"properties": {"x": {"$ref": "#"}}, "required": ["y"]},
        {"properties": {"x": {"$ref": "#"}}, "required": ["z"]},
    ]
}


@pytest.mark.parametrize(
    ("schema", "instance", "message"),
    [
        ({"type": "integer"}, "x", 'expected an integer, got "x"'),
        ({"type": ["string", "null"]}, 1, "expected null or a string, got 1"),
        ({"required": ["a"]}, {}, "missing required field `a`"),
        (
            {"properties": {"a": {"items": {"type": "boolean"}}}},
            {"a": [True, 1]},
            "expected a boolean at `a[1]`, got 1",
        ),
        ({"properties": {"a b": {"type": "string"}}}, {"a b": 1}, 'expected a string at `["a b"]`, got 1'),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "unknown field `b`"),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 1}, "unknown field `b`"),
        ({"enum": ["a", 1, None]}, "b", 'expected one of "a", 1, null, got "b"'),
        ({"const": "a"}, "b", 'expected "a", got "b"'),
        ({"minimum": 3}, 2, "expected a number >= 3, got 2"),
        ({"exclusiveMaximum": 3}, 3, "expected a number < 3, got 3"),
        ({"multipleOf": 2}, 3, "expected a multiple of 2, got 3"),
        ({"minLength": 3}, "ab", 'expected a string of at least 3 characters, got "ab"'),
        ({"maxItems": 1}, [1, 2], "expected an array of at most 1 item, got an array"),
        ({"pattern": "^a+$"}, "b", "expected a string that matches '^a+$', got \"b\""),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "expected a string or null, got 1"),
        ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "c", 'expected one of "a", "b", got "c"'),
        ({"anyOf": [{"minimum": 3}, {"type": "string"}]}, 1,
         "expected a value that fits one of the alternatives, got 1"),
        ({"uniqueItems": True}, [1, 1], "the value has non-unique elements, got an array"),
        ({"additionalProperties": {"type": "integer"}}, {"a": "x"}, 'expected an integer at `a`, got "x"'),
    ],
)  # fmt: skip
def test_validation_error_names_expected_path_and_got(schema: dict[str, Any], instance: Any, message: str) -> None:
    assert refuse(schema, instance) == message


def test_valid_instance_passes() -> None:
    validator = Validator({"type": "object", "properties": {"n": {"type": "integer"}}})

    validator.validate({"n": 1.0, "other": [None]})
    validator.validate({})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "string"}}},
        {"$id": "http://e/a.json", "$ref": "b.json", "$defs": {"x": {"$id": "b.json", "type": "string"}}},
        {"$id": "http://e/a.json", "$ref": "http://e/a.json#/$defs/x", "$defs": {"x": {"type": "string"}}},
        {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "string"}}},
        {"$ref": "#/allOf/0", "allOf": [{"type": "string"}]},
        {"$dynamicRef": "#n", "$defs": {"x": {"$dynamicAnchor": "n", "type": "string"}}},
        {"$schema": DRAFT_07, "$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}},
        {"$schema": DRAFT_07, "allOf": [{"$ref": "#a"}], "definitions": {"x": {"$id": "#a", "type": "string"}}},
    ],
)
def test_references_within_the_schema_are_resolved(schema: dict[str, Any]) -> None:
    Validator(schema).validate("x")

    assert refuse(schema, 1) == "expected a string, got 1"


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/x.json", "https://json-schema.org/draft/2020-12/schema", "file:///etc/passwd", "other.json",
        "#/$defs/none", "#none", "//host/x", "#/enum/7",
    ],
)  # fmt: skip
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_reference_outside_the_schema_is_refused(keyword: str, reference: str) -> None:
    schema = {"properties": {"a": {"items": {keyword: reference}}}, "enum": [{}]}

    with pytest.raises(ValueError, match="leads out of the schema; nothing is ever fetched"):
        Validator(schema)


def test_keywords_inside_data_are_ignored() -> None:
    Validator({"const": {"$ref": "http://nowhere/"}, "default": {"$ref": "x"}}).validate({"$ref": "http://nowhere/"})


def test_dialect_of_a_schema_is_applied() -> None:
    tuples = {"items": [{"type": "integer"}]}

    assert refuse({"$schema": DRAFT_07, **tuples}, ["x"]) == 'expected an integer at `[0]`, got "x"'
    Validator({"$schema": "https://json-schema.org/draft/2020-12/schema"}).validate(1)
    with pytest.raises(ValueError, match=r"schema: .*.items"):
        Validator(tuples)
    with pytest.raises(ValueError, match=r"draft-04.* is not supported; supported are .*2020-12/schema and .*draft-07"):
        Validator({"$schema": "http://json-schema.org/draft-04/schema#"})
    with pytest.raises(ValueError, match="expected the dialect of the whole schema"):
        Validator({"$defs": {"a": {"$schema": DRAFT_07}}})
    with pytest.raises(ValueError, match="not supported"):
        Validator({"$schema": 7})


def test_keywords_next_to_a_draft_07_reference_are_ignored() -> None:
    schema = {"$schema": DRAFT_07, "properties": {"a": {"$ref": "#/definitions/s", "$id": "http://x/", "minLength": 9}}}

    Validator({**schema, "definitions": {"s": {"type": "string"}}}).validate({"a": "short"})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "expected an object, got an array"),
        (True, "expected an object, got true"),
        ({"type": "nope"}, "at `type`"),
        ({"properties": {"a": {"minLength": -1}}}, r"at `properties\.a\.minLength`"),
        ({"pattern": "("}, "the pattern '\\(' is invalid"),
        ({"pattern": "(?=a)b"}, "needs look-around"),
        ({"pattern": r"(a)\1"}, "back-references"),
        ({"pattern": "((a{99}){99}){99}"}, "too large"),
        ({"const": object()}, "expected JSON"),
        ({"const": "\ud800"}, "expected JSON"),
        ({1: 2}, "expected JSON"),
        ({"const": "x" * 300_000}, "at most 262144 bytes"),
        ({"allOf": [{"minimum": n} for n in range(2_100)]}, "at most 2000 subschemas"),
        (doubling(200), "more than 256 references and combinators"),
    ],
)
def test_invalid_or_too_large_schema_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Validator(schema)


def test_schema_nested_too_deeply_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"properties": {"a": deep}}
    circular: dict[str, Any] = {}
    circular["not"] = circular
    bushy: dict[str, Any] = {}
    bushy["allOf"] = [bushy, bushy, bushy, bushy]

    for schema in (deep, circular, bushy):
        with pytest.raises(ValueError, match=r"levels of nesting|bytes"):
            Validator(schema)
    shallow: dict[str, Any] = {}
    for _ in range(30):
        shallow = {"properties": {"a": shallow}}
    Validator(shallow)


def test_instance_nested_too_deeply_is_refused() -> None:
    assert refuse({}, nest(500)) == "expected at most 128 levels of nesting, got more"
    Validator({}).validate(nest(128))
    itself: list[Any] = []
    itself.append(itself)
    assert "levels of nesting" in refuse({}, itself)


@pytest.mark.parametrize("instance", [object(), {1: 2}, "\ud800", {"a": {1, 2}}])
def test_instance_that_is_not_json_is_refused(instance: Any) -> None:
    assert refuse({"type": "string"}, instance).startswith("expected a JSON value")


def test_exponential_references_are_refused_without_evaluation() -> None:
    started = time.process_time()

    assert refuse(doubling(10), 1).startswith("expected a value that fits the schema")
    assert "takes too long to check" in refuse(doubling(40), 1)
    assert "takes too long to check" in refuse(doubling(120), 1)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("levels", [2, 8, 16, 18])
def test_branching_recursion_is_refused_quickly(levels: int) -> None:
    """An explanation of why 16 levels do not match takes 14 s, so the error contains none."""
    started = time.process_time()

    assert "expected a value that fits" in refuse(BRANCHING, nest(levels))
    assert time.process_time() - started < 5


def test_branching_recursion_over_the_depth_limit_is_refused() -> None:
    assert "takes too long to check" in refuse(BRANCHING, nest(60))


def test_deep_linear_recursion_is_accepted() -> None:
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "x": {"$ref": "#"}, "value": {"type": "integer"}},
    }
    value: Any = {"value": 1}
    for _ in range(100):
        value = {"x": value, "left": {"value": 2}}

    Validator(tree).validate(value)

    json_value = {
        "anyOf": [
            {"type": ["string", "integer"]},
            {"type": "array", "items": {"$ref": "#"}},
            {"type": "object", "additionalProperties": {"$ref": "#"}},
        ]
    }
    Validator(json_value).validate(nest(100))
    Validator(json_value).validate([[["a"] * 1_000] * 10] * 10)


def test_large_flat_instance_is_accepted() -> None:
    Validator({"items": {"type": "integer", "minimum": 0}}).validate(list(range(200_000)))


def test_catastrophic_pattern_takes_linear_time() -> None:
    started = time.process_time()

    refuse({"pattern": "^(a+)+$"}, "a" * 100_000 + "b")
    refuse({"patternProperties": {"^(a|aa)+$": False}, "additionalProperties": False}, {"a" * 50_000 + "b": 1})
    assert time.process_time() - started < 2


def test_error_message_length_is_bounded() -> None:
    large = "x" * 100_000

    for schema in (
        {"type": "integer"},
        {"const": large},
        {"enum": [large]},
        {"pattern": f"^{large[:1000]}y$"},
        {"not": {}},
    ):
        assert len(refuse(schema, f"{large}!")) < 1_000
    assert len(refuse({"properties": {}, "additionalProperties": False}, {large: 1})) < 1_000
    assert len(refuse({"additionalProperties": {"type": "null"}}, {large: 1})) < 1_000
    assert len(refuse({"required": [large]}, {})) < 1_000


def test_formats_are_checked_if_enabled() -> None:
    for name, bad in [("email", "x"), ("date", "2026-13-01"), ("date-time", "2026-01-01"), ("uri", "no scheme")]:
        Validator({"format": name}).validate(bad)
        assert refuse({"format": name}, bad, formats=True).startswith(f"expected a string in the format {name}")


def test_validator_is_imported_with_the_first_schema() -> None:
    """The import takes 22 ms, which a server of annotated functions never spends."""
    program = (
        "import sys; import mcptrio.schema.elicitation_forms, mcptrio.schema.validation as v;"
        "assert 'jsonschema_rs' not in sys.modules; v.Validator({}); assert 'jsonschema_rs' in sys.modules;"
        "assert 'pydantic' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
