"""Client and server agree on forms: the client accepts the server's forms, and both accept the same answers."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Annotated, Any, Literal

import msgspec
import orjson
import pydantic
import pytest
from attrs import frozen
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mcp.server.elicitation import render_elicitation_schema

from mcptrio.client.forms import Form, read_form
from mcptrio.errors import InvalidParams
from mcptrio.protocol.model.elicitation import ElicitFormParams
from mcptrio.protocol.model.fields import ABSENT
from mcptrio.schema.elicitation_forms import ElicitationForm as Asked

__all__: list[str] = []


class Color(enum.Enum):
    DARK_RED = "red"
    BLUE = "blue"
    NONE = "none, really"


class Letter(enum.Enum):
    a = "a"
    b = "b"


def formatted(format: str) -> Any:
    return Annotated[str, msgspec.Meta(extra_json_schema={"format": format})]


@frozen
class Sort:
    """A type of field, and valid values."""

    annotation: Any
    good: st.SearchStrategy[tuple[Any, Any]]
    """Pairs of the JSON value and the server's value."""
    bad: st.SearchStrategy[Any]


def same(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return strategy.map(lambda value: (value, value))


def members(kind: type[enum.Enum]) -> st.SearchStrategy[tuple[Any, Any]]:
    return st.sampled_from(kind).map(lambda member: (member.value, member))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(timezones=OFFSETS | st.just(UTC))
WORDS = st.text("abcdefgh0123456789-", min_size=1, max_size=8).filter(
    lambda word: word.strip("-") == word and word[2:4] != "--"  # such hyphens are Punycode
)
EMAILS = st.builds("{}@{}.example".format, WORDS, WORDS)
URIS = st.builds("{}://{}/{}?{}#x".format, st.sampled_from(["http", "x-y"]), WORDS, WORDS, WORDS)
OTHERS = st.sampled_from([None, {}, {"a": 1}, [[]], [None]])
NO_TEXT = OTHERS | st.booleans() | st.integers(-9, 9) | st.just([])
NO_NUMBER = OTHERS | st.booleans() | TEXTS
WORDLESS = NO_TEXT | st.just("not one of them")

SORTS = [
    Sort(str, same(TEXTS), NO_TEXT),
    Sort(
        Annotated[str, msgspec.Meta(min_length=2, max_length=4)],
        same(st.text(st.characters(codec="utf-8"), min_size=2, max_size=4)),
        NO_TEXT | st.sampled_from(["", "x", "xxxxx", "\N{PILE OF POO}"]),
    ),
    Sort(bool, same(st.booleans()), OTHERS | st.sampled_from([0, 1, "true"])),
    Sort(int, same(st.integers(-(2**63), 2**63 - 1)), NO_NUMBER | st.just(0.5)),
    Sort(
        Annotated[int, msgspec.Meta(gt=-3, le=10)],
        same(st.integers(-2, 10)) | st.integers(-2, 10).map(lambda value: (float(value), value)),
        NO_NUMBER | st.sampled_from([-3, 11, 1.5, 10.000001]),
    ),
    Sort(float, same(st.floats(allow_nan=False, allow_infinity=False)), NO_NUMBER),
    Sort(Annotated[float, msgspec.Meta(ge=0.5, le=2)], same(st.floats(0.5, 2)), NO_NUMBER | st.sampled_from([0.49, 3])),
    Sort(date, st.dates().map(lambda day: (day.isoformat(), day)), WORDLESS | st.just("2026-02-30")),
    Sort(datetime, TIMES.map(lambda time: (time.isoformat(), time)), WORDLESS | st.just("2026-01-02T03:04:05")),
    Sort(formatted("email"), same(EMAILS), WORDLESS | st.just("@")),
    Sort(formatted("uri"), same(URIS), WORDLESS | st.just("/relative")),
    Sort(Literal["x", "y"], same(st.sampled_from(["x", "y"])), WORDLESS),
    Sort(Color, members(Color), WORDLESS | st.just("Dark red")),
    Sort(Letter, members(Letter), WORDLESS),
    Sort(
        list[Color],
        st.lists(members(Color), unique=True).map(lambda pairs: ([p[0] for p in pairs], [p[1] for p in pairs])),
        OTHERS | st.sampled_from(["red", ["red", "green"], [1]]),
    ),
    Sort(
        Annotated[list[Literal["x", "y", "z"]], msgspec.Meta(min_length=1, max_length=2)],
        same(st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=2, unique=True)),
        OTHERS | st.sampled_from([[], ["x", "y", "z"], ["w"]]),
    ),
]


@frozen
class Case:
    """A class for a form, with values.

    A field's values are (Sort, default or ABSENT, given or ABSENT), both as pairs.
    """

    cls: Any
    fields: list[tuple[Sort, Any, Any]]

    @property
    def given(self) -> dict[str, Any]:
        return {f"f{n}": value[0] for n, (_, _, value) in enumerate(self.fields) if value is not ABSENT}

    def expected(self) -> Any:
        pairs = [given if given is not ABSENT else default for _, default, given in self.fields]
        return self.cls(**{f"f{n}": pair[1] if pair is not ABSENT else None for n, pair in enumerate(pairs)})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    fields: list[tuple[Sort, Any, Any]] = []
    definitions: list[Any] = []
    for n, sort in enumerate(draw(st.lists(st.sampled_from(SORTS), min_size=1, max_size=4))):
        kind = draw(st.sampled_from(["required", "default", "optional"]))
        given = draw(sort.good) if kind == "required" or draw(st.booleans()) else ABSENT
        default: Any = ABSENT
        if kind == "required":
            definitions.append((f"f{n}", sort.annotation))
        elif kind == "optional":
            definitions.append((f"f{n}", sort.annotation | None, None))
        else:
            default = draw(sort.good)
            definitions.append((f"f{n}", sort.annotation, own_default(default[1])))
        fields.append((sort, default, given))
    return Case(msgspec.defstruct("Asked", definitions, kw_only=True), fields)


def own_default(value: Any) -> Any:
    """Return a copy of a list; each class needs its own default."""
    return msgspec.field(default_factory=lambda: value) if isinstance(value, list) else value


def over_the_wire(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def read(asked: Asked) -> Form:
    return read_form(ElicitFormParams(message="m", requested_schema=over_the_wire(asked.schema)), server="s")


quick = settings(max_examples=100, deadline=None)


@quick
@given(cases())
def test_answer_converts_to_the_given_values(case: Case) -> None:
    asked = Asked.of(case.cls)
    result = read(asked).accept(case.given)

    assert asked.convert(over_the_wire(result.content)) == case.expected()


@pytest.mark.parametrize("sort", SORTS, ids=lambda sort: str(sort.annotation)[:60])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_invalid_value_is_refused_by_client_and_server(sort: Sort, data: st.DataObject) -> None:
    values = {"value": over_the_wire(data.draw(sort.bad))}
    asked = Asked.of(sort.annotation)

    with pytest.raises(ValueError, match="field `value`: expected"):
        read(asked).accept(values)
    with pytest.raises(InvalidParams, match=r"at `value[\[`]"):
        asked.convert(values)


@quick
@given(cases())
def test_missing_required_field_is_refused_by_client_and_server(case: Case) -> None:
    asked = Asked.of(case.cls)
    form = read(asked)
    required = [field.name for field in form.fields if field.required]
    assume(required)
    values = {name: value for name, value in case.given.items() if name != required[0]}

    with pytest.raises(ValueError, match=f"field `{required[0]}`: expected .*, got nothing"):
        form.accept(values)
    with pytest.raises(InvalidParams, match=f"missing required field `{required[0]}`"):
        asked.convert(values)


STRINGS = st.text(st.characters(codec="utf-8", max_codepoint=0x2FF), max_size=12)
ODD = st.lists(st.sampled_from(list("ab1.-_~:/?#[]@!$&'()*+,;=%20TZ \"\\<é")), max_size=14).map("".join)
NEARLY_URIS = st.builds(
    "{}{}{}{}".format, st.sampled_from(["http://", "a:", "//"]), ODD, st.sampled_from("@:[]/?#"), ODD
)
NEARLY = st.builds(lambda text, at, piece: text[:at] + piece + text[at + 1 :], TIMES.map(str), st.integers(0, 30), ODD)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["email", "uri", "date", "date-time"]), STRINGS | ODD | NEARLY | NEARLY_URIS | EMAILS | URIS)
def test_value_accepted_by_the_client_is_accepted_by_the_server(format: str, text: str) -> None:
    asked = Asked.of(formatted(format))
    try:
        content = read(asked).accept({"value": text}).content
    except ValueError:
        return
    assert asked.convert(content) == text


@pytest.mark.parametrize(
    "choices",
    [["a", "b"], {"a": "The A", "b": "The B"}, Color, Letter, list[Color], list[Letter], Literal["only"]],
    ids=str,
)
def test_choices_of_the_form_are_accepted_by_the_server(choices: Any) -> None:
    asked = Asked.of(choices)
    (field,) = read(asked).fields

    for choice in field.choices:
        value = [choice.value] if field.kind == "choices" else choice.value
        assert asked.convert(read(asked).accept({"value": value}).content) is not None
    assert [choice.value for choice in field.choices]


class Settings(pydantic.BaseModel):
    """A form of the Python SDK."""

    name: str = pydantic.Field(min_length=2, title="Your name")
    age: int | None = pydantic.Field(default=None, ge=0)
    color: Literal["red", "blue"] = "red"
    note: str | None
    ratio: float = 0.5
    sure: bool = False


@pytest.mark.parametrize(
    "schema", [render_elicitation_schema(Settings), Settings.model_json_schema()], ids=["2.3", "as pydantic has it"]
)
def test_form_of_the_python_sdk_is_read(schema: dict[str, Any]) -> None:
    form = read_form(ElicitFormParams(message="m", requested_schema=schema), server="s")
    result = form.accept({"name": "Ann", "note": "n"})

    assert [field.kind for field in form.fields] == ["string", "integer", "choice", "string", "number", "boolean"]
    assert Settings.model_validate(result.content) == Settings(name="Ann", note="n")
