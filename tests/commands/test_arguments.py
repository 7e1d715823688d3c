"""``key=value`` arguments: their values by the schema, and the errors of invalid ones."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import pytest

from mcptrio.cli.client.arguments import check_arguments, read_arguments
from mcptrio.cli.client.schema_words import describe, signature
from mcptrio.errors import ConfigError

__all__: list[str] = []

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1},
        "whole": {"type": "integer", "minimum": 0, "maximum": 10},
        "share": {"type": "number", "exclusiveMinimum": 0},
        "flag": {"type": "boolean"},
        "nothing": {"type": "null"},
        "kind": {"enum": ["a", "b", 3, None, True]},
        "fixed": {"const": "only"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"$ref": "#/$defs/Count"}},
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "place": {"$ref": "#/$defs/Place"},
        "optional_place": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
        "anything": {},
        "dotted.name": {"type": "integer"},
        "data": {"type": "string", "contentEncoding": "base64"},
        "loop": {"$ref": "#/properties/loop"},
        "endless": {"type": "array", "items": {"$ref": "#/properties/endless"}},
    },
    "required": ["text"],
    "$defs": {
        "Count": {"type": "integer"},
        "Place": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "floor": {"type": "integer"},
                "inner": {"$ref": "#/$defs/Place"},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ([], {}),
        (["text=a b"], {"text": "a b"}),
        (["text="], {"text": ""}),
        (["text=5"], {"text": "5"}),
        (["text=null"], {"text": "null"}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=@@home"], {"text": "@home"}),
        (["text:=5"], {"text": 5}),
        (["whole=7"], {"whole": 7}),
        (["whole=7.0"], {"whole": 7}),
        (["whole=-3"], {"whole": -3}),
        (["share=1"], {"share": 1}),
        (["share=1e-3"], {"share": 0.001}),
        (["flag=true"], {"flag": True}),
        (["flag=No"], {"flag": False}),
        (["nothing=null"], {"nothing": None}),
        (["kind=a"], {"kind": "a"}),
        (["kind=3"], {"kind": 3}),
        (["kind=null"], {"kind": None}),
        (["kind=yes"], {"kind": True}),
        (["fixed=only"], {"fixed": "only"}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=5"], {"tags": ["a", "5"]}),
        (['tags=["a","b"]', "tags=c"], {"tags": ["a", "b", "c"]}),
        (["tags.0=a", "tags.1=b"], {"tags": ["a", "b"]}),
        (["numbers=1", "numbers=2"], {"numbers": [1, 2]}),
        (["matrix=[[1],[2]]"], {"matrix": [[1], [2]]}),
        (["maybe=null"], {"maybe": None}),
        (["maybe=5"], {"maybe": 5}),
        (["either=5"], {"either": "5"}),
        (['place={"city":"Bonn"}'], {"place": {"city": "Bonn"}}),
        (["place.city=5", "place.floor=5"], {"place": {"city": "5", "floor": 5}}),
        (["place.inner.inner.city=x"], {"place": {"inner": {"inner": {"city": "x"}}}}),
        (["optional_place.floor=1"], {"optional_place": {"floor": 1}}),
        (["optional_place=null"], {"optional_place": None}),
        (
            ["places.0.city=a", "places.0.floor=1", "places.1.city=b"],
            {"places": [{"city": "a", "floor": 1}, {"city": "b"}]},
        ),
        (["labels.a=1", "labels.b=2"], {"labels": {"a": 1, "b": 2}}),
        (["anything=5"], {"anything": 5}),
        (["anything=five"], {"anything": "five"}),
        (['anything={"a":[1]}'], {"anything": {"a": [1]}}),
        (["anything.a.b=1"], {"anything": {"a": {"b": 1}}}),
        (["dotted.name=1"], {"dotted.name": 1}),
        (['other:={"a":1}'], {"other": {"a": 1}}),
        (["other.a:=1"], {"other": {"a": 1}}),
        (["loop=x"], {"loop": "x"}),
        (["endless=[[[]]]"], {"endless": [[[]]]}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_key_value_words_become_typed_arguments(words: list[str], arguments: dict[str, Any]) -> None:
    assert read_arguments(words, SCHEMA) == arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["text"], "argument `text`: expected KEY=VALUE or KEY:=JSON; pass a JSON object with --args"),
        (["=x"], "argument `=x`: expected KEY=VALUE or KEY:=JSON; pass a JSON object with --args"),
        (["txt=x"], "argument `txt`: no such argument; did you mean `text`?"),
        (["whole=many"], 'argument `whole`: expected an integer (0 to 10), got "many"'),
        (["whole=1.5"], 'argument `whole`: expected an integer (0 to 10), got "1.5"'),
        (["whole="], 'argument `whole`: expected an integer (0 to 10), got ""'),
        (["share=NaN"], 'argument `share`: expected a number (above 0), got "NaN"'),
        (["flag=maybe"], 'argument `flag`: expected a boolean, got "maybe"'),
        (["kind=c"], 'argument `kind`: expected one of "a", "b", 3, null, true, got "c"'),
        (["numbers=x"], 'argument `numbers`: expected an integer, got "x"'),
        (["matrix=5"], 'argument `matrix`: expected an array of arrays, got "5"'),
        (["place=Bonn"], 'argument `place`: expected an object, got "Bonn"'),
        (["place.town=x"], "argument `place.town`: no such argument; expected one of `city`, `floor`, `inner`"),
        (["place.floor=x"], 'argument `place.floor`: expected an integer, got "x"'),
        (["text.a=x"], 'argument `text.a`: expected a string (at least 1 character), which has no members, got "a"'),
        (["labels.a=x"], 'argument `labels.a`: expected an integer, got "x"'),
        (["text=a", "text=b"], "argument `text`: given twice; expected a string (at least 1 character)"),
        (["tags.1=b"], 'argument `tags.1`: expected the next item, 0, or one before it, got "1"'),
        (["text=@missing.txt"], "argument `text`: missing.txt: cannot be read: No such file or directory"),
        (["text:=x"], 'argument `text`: expected JSON, got "x"'),
        (["text:=NaN"], 'argument `text`: expected JSON, got "NaN"'),
        (["te\x1bxt=x"], "argument `te\\x1bxt`: no such argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_word_is_refused_with_the_expected_form(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_arguments(words, SCHEMA)

    assert message in str(refused.value)


def test_argument_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("first\nsecond\n")
    (tmp_path / "number").write_text("7\n")
    (tmp_path / "place.json").write_text('{"city": "Bonn"}')
    (tmp_path / "bytes").write_bytes(b"\xff\x00")

    words = ["text=@text.txt", "whole=@number", "place:=@place.json", "data=@bytes"]
    assert read_arguments(words, SCHEMA) == {
        "text": "first\nsecond\n",
        "whole": 7,
        "place": {"city": "Bonn"},
        "data": base64.b64encode(b"\xff\x00").decode(),
    }
    with pytest.raises(ConfigError, match="argument `text`: expected UTF-8 in bytes, got other bytes"):
        read_arguments(["text=@bytes"], SCHEMA)


def test_words_override_a_base_of_arguments() -> None:
    base = {"text": "x", "place": {"city": "Bonn"}, "tags": ["a"]}

    assert read_arguments(["text=y", "place.floor=2"], SCHEMA, base=base) == {
        "text": "y",
        "place": {"city": "Bonn", "floor": 2},
        "tags": ["a"],
    }
    assert base["place"] == {"city": "Bonn"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "missing argument: `text` (a string (at least 1 character))"),
        ({"text": ""}, "arguments: expected a string of at least 1 character at `text`"),
        ({"text": "x", "whole": 11}, "arguments: expected a number <= 10 at `whole`, got 11"),
        ({"text": "x", "place": {}}, "arguments: missing required field `city` at `place`"),
    ],
)
def test_arguments_are_checked_against_the_schema(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_arguments(arguments, SCHEMA)

    assert message in str(refused.value)


def test_unusable_schema_accepts_any_arguments() -> None:
    check_arguments({"a": 1}, {"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}})


def test_open_schema_accepts_any_argument() -> None:
    assert read_arguments(["a=1", "b.c=x"], {"type": "object"}) == {"a": 1, "b": {"c": "x"}}


def test_all_of_schemas_are_combined() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"allOf": [{"$ref": "#/$defs/Count"}], "description": "x"}},
        "allOf": [{"properties": {"b": {"type": "integer"}}, "required": ["b"]}, {"$ref": "#"}],
        "$defs": {"Count": {"type": "integer"}},
    }

    assert read_arguments(["a=1", "b=2"], schema) == {"a": 1, "b": 2}
    assert signature("do", schema) == "do [a=integer] b=integer"


@pytest.mark.parametrize(
    "more", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}, {"additionalProperties": {}}]
)
def test_additional_properties_are_accepted(more: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, **more}

    assert read_arguments(["a=1", "x1=1"], schema) == {"a": "1", "x1": 1}


def test_hostile_schema_takes_little_time() -> None:
    inner: dict[str, Any] = {"$ref": "#"}
    for keyword in ("allOf", "anyOf", "oneOf", "allOf", "anyOf"):
        inner = {keyword: [inner] * 40}
    begin = time.thread_time()  # Processor time, because other processes may use the machine.
    signature("do", {"type": "object", "properties": {"a": inner}, "allOf": [inner] * 40})

    assert time.thread_time() - begin < 5


def test_signature_of_a_tool_lists_its_arguments() -> None:
    assert signature("do", SCHEMA).split() == [
        "do",
        "text=string",
        "[whole=integer]",
        "[share=number]",
        "[flag=boolean]",
        "[nothing=null]",
        "[kind=a|b|3|null|true]",
        "[fixed=only]",
        "[tags=string…]",
        "[numbers=integer…]",
        "[matrix=array…]",
        "[maybe=integer|null]",
        "[either=string|integer]",
        "[place=object]",
        "[optional_place=object|null]",
        "[places=object…]",
        "[labels=object]",
        "[anything=value]",
        "[dotted.name=integer]",
        "[data=string]",
        "[loop=value]",
        "[endless=array…]",
    ]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1}, "an integer (at least 1)"),
        (
            {"type": "string", "pattern": "^a\x1b$", "maxLength": 3},
            "a string (at most 3 characters, matching ^a\\x1b$)",
        ),
        ({"enum": list(range(20))}, "one of 0, 1, 2, 3, 4, 5, 6, 7, …"),
        ({"type": ["string", "null"]}, "a string or null"),
        ({"type": "array", "items": {"type": "string"}}, "an array of strings"),
        ({}, "any value"),
        (True, "any value"),
    ],
)
def test_schema_is_described_in_words(schema: Any, words: str) -> None:
    assert describe(schema, {}) == words
