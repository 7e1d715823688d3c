"""The fields of a class that callers see, set and receive are the same."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import attrs
import jsonschema_rs
import msgspec
import pytest

from mcptrio import Blob, Server, connect, tool
from mcptrio.errors import InvalidParams
from mcptrio.schema.signatures import Arguments, OutputSchema, encode_value

if TYPE_CHECKING:
    from collections import ChainMap as Absent

T = TypeVar("T")


def doubled(value: int) -> int:
    return value * 2


@dataclass
class Account:
    name: str
    _role: str = "user"
    admin: bool = field(default=False, init=False)


@attrs.define
class Member:
    name: str
    _role: str = "user"
    admin: bool = attrs.field(default=False, init=False)
    size: int = attrs.field(default=1, converter=doubled)


@dataclass
class Box(Generic[T]):
    item: T
    _seen: bool = False


@dataclass
class Unknown:
    """A class whose annotation only type checkers can resolve."""

    item: Absent


Owner = NewType("Owner", Account)
A = TypeVar("A", bound=Account)


@dataclass
class Bounded(Generic[A]):
    item: A


class IntBox(Box[int]):
    pass


class Holder(msgspec.Struct, rename="camel"):
    the_account: Account
    others: list[Member] = []


class Typed(TypedDict, total=False):
    account: Account


class Pair(NamedTuple):
    account: Account
    member: Member | None = None


class Tree(msgspec.Struct):
    account: Account
    children: list[Tree] = []


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not this"


class Word(enum.StrEnum):
    A = "a"


class Count(int):
    pass


def takes(annotation: Any) -> Arguments:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    return Arguments.of(function)


def taken(annotation: Any, value: Any) -> Any:
    arguments = takes(annotation)
    assert jsonschema_rs.Draft202012Validator(arguments.schema).is_valid({"value": value})
    return arguments.convert({"value": value})["value"]


ATTACK = {"name": "n", "_role": "root", "role": "root", "admin": True}


@pytest.mark.parametrize("cls", [Account, Member])
def test_caller_cannot_set_private_fields(cls: type[Any]) -> None:
    made = taken(cls, ATTACK)

    assert (made, made._role, made.admin) == (cls("n"), "user", False)
    assert not {"_role", "role", "admin"} & set(str(takes(cls).schema).split("'"))


@pytest.mark.parametrize(
    ("annotation", "value", "made"),
    [
        (list[Account], [ATTACK], [Account("n")]),
        (dict[str, Account], {"a": ATTACK}, {"a": Account("n")}),
        (tuple[int, Account], [1, ATTACK], (1, Account("n"))),
        (Account | None, ATTACK, Account("n")),
        (Owner, ATTACK, Account("n")),
        (Bounded, {"item": ATTACK}, Bounded(Account("n"))),
        (Account | list[Account] | int, [ATTACK], [Account("n")]),
        (Box[Account], {"item": ATTACK, "_seen": True}, Box(Account("n"))),
        (IntBox, {"item": 1, "_seen": True}, IntBox(1)),
        (Holder, {"theAccount": ATTACK, "others": [ATTACK]}, Holder(Account("n"), [Member("n")])),
        (Typed, {"account": ATTACK}, {"account": Account("n")}),
        (Pair, [ATTACK, ATTACK], Pair(Account("n"), Member("n"))),
        (Pair, [ATTACK], Pair(Account("n"))),
        (
            Tree,
            {"account": ATTACK, "children": [{"account": ATTACK}]},
            Tree(Account("n"), [Tree(Account("n"))]),
        ),
    ],
)
def test_class_inside_another_type_is_created_by_its_init(annotation: Any, value: Any, made: Any) -> None:
    assert taken(annotation, value) == made


def test_attrs_converters_run() -> None:
    assert taken(Member, {"name": "n", "size": 3}).size == 6


def test_error_of_a_class_names_its_path() -> None:
    @dataclass
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("expected an even number")

    with pytest.raises(InvalidParams) as caught:
        takes(dict[str, list[Even]]).convert({"value": {"a": [{"number": 2}, {"number": 1}]}})

    assert caught.value.message == "expected an even number at `value.a[1]`, got an object"


def test_class_that_cannot_be_created_from_its_fields_is_refused() -> None:
    @dataclass
    class Needs:
        a: int
        seed: InitVar[int]

    @attrs.define
    class Hidden:
        _a: int

    with pytest.raises(TypeError, match="Needs: its __init__ needs `seed`, which is not one of its fields"):
        takes(Needs)
    with pytest.raises(TypeError, match="the field `_a` is private and has no default"):
        takes(Hidden)


def test_returned_class_sends_the_fields_that_its_schema_shows() -> None:
    class Service:
        @tool
        def own(self) -> Account: ...

    schema = OutputSchema.of(Account)
    made = Account("n")
    made.admin = True

    assert schema.encode(made) == {"name": "n", "admin": True}
    assert schema.schema is not None
    assert set(schema.schema["properties"]) == {"name", "admin"}
    assert encode_value({"a": [made], "b": Pair(made)}) == {
        "a": [{"name": "n", "admin": True}],
        "b": [{"name": "n", "admin": True}, None],
    }
    assert encode_value(Unknown(1)) == {"item": 1}
    assert encode_value(Holder(made)) == {"theAccount": {"name": "n", "admin": True}, "others": []}


@pytest.mark.parametrize(
    ("annotation", "value", "sent"),
    [
        (str, Text("x"), "x"),
        (str, Word.A, "a"),
        (int, Count(3), 3),
        (Sequence[int], range(3), [0, 1, 2]),
        (list[int], deque([1]), [1]),
        (Mapping[str, int], MappingProxyType({"a": 1}), {"a": 1}),
        (dict[str, Any], {Text("k"): Text("v")}, {"k": "v"}),
        (list[int], {1: 2}.values(), [2]),
    ],
)
def test_subclasses_and_other_collections_are_serialized(annotation: Any, value: Any, sent: Any) -> None:
    assert OutputSchema.of(dict[str, annotation]).encode({"value": value}) == {"value": sent}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_non_finite_float_is_refused_as_a_result(value: Any) -> None:
    schema = OutputSchema.of(list[float] if isinstance(value, list) else float)

    with pytest.raises(TypeError, match=r"expected a number.*, got null"):
        schema.encode(value)


@pytest.mark.parametrize("value", [123456789012345678901234567890.0, -1e30, 2.0**53 + 2])
def test_integer_rounded_by_float_parsing_is_refused(value: float) -> None:
    with pytest.raises(InvalidParams, match=r"expected an integer at .*beyond 2\*\*53"):
        takes(int).convert({"value": value})
    assert takes(int).convert({"value": 2.0**53}) == {"value": 2**53}


class Fruit(enum.Enum):
    """Out of alphabetical order."""

    PEAR = "pear"
    APPLE = "apple"


class Right(enum.IntFlag):
    READ = 1
    WRITE = 2


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Literal["tea", "coffee"], {"type": "string", "enum": ["tea", "coffee"]}),
        (Literal[3, 1], {"type": "integer", "enum": [3, 1]}),
        (Literal["b", 1], {"type": ["string", "integer"], "enum": ["b", 1]}),
        (list[Literal["z", "a"]], {"type": "array", "items": {"type": "string", "enum": ["z", "a"]}}),
        (
            Annotated[Fruit, "which"],
            {"description": "which", "type": "string", "enum": ["pear", "apple"]},
        ),
        (Right, {"type": "integer", "enum": [0, 1, 2, 3]}),
    ],
)
def test_choices_have_a_type_and_keep_their_order(annotation: Any, schema: dict[str, Any]) -> None:
    assert takes(annotation).schema["properties"]["value"] == {**schema, **_described(annotation, schema)}


def _described(annotation: Any, schema: dict[str, Any]) -> dict[str, Any]:
    doc = getattr(annotation, "__doc__", None) if isinstance(annotation, type) else None
    return {} if doc is None or "enum" not in schema or annotation is Right else {"description": doc}


async def test_private_fields_are_not_sent() -> None:
    @tool
    async def whole() -> Account:
        """Whole."""
        return Account("n", "root")

    @tool
    async def listed() -> list[Any]:
        """Listed."""
        return [Account("n", "root"), Blob(b"", "image/png")]

    server = Server()
    server.add_tool(whole)
    server.add_tool(listed)
    async with server.open(), connect(server) as client:
        for name in ("whole", "listed"):
            result = await client.call_tool(name)
            assert "root" not in str(result)
            assert not result.is_error
