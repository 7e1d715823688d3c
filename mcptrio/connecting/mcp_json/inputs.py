"""What a file wants to have asked of the user: the ``inputs`` of VS Code.

Read with the file; asked when an entry that is read mentions one.
The one rule: each is asked once for a file, and only if it is needed.

Source: VS Code, "MCP configuration reference", input variables; "Variables reference", input variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import field, frozen

from mcptrio.connecting.mcp_json.locations import SourceLocation, kind_of
from mcptrio.ground.quoting import printable

__all__ = ["AskInput", "DeclaredInputs", "Input"]

_MAX_DESCRIPTION_CHARS = 200
"""Characters of a description in an error."""


@frozen(kw_only=True)
class Input:
    """One value the user is asked for.

    Args:
        id: ``token`` for ``${input:token}``.
        description: what to say to the user.
        is_secret: whether it is not to be seen while it is typed.
        default: what to suggest.
        options: the values to choose from; none where any text will do.
    """

    id: str
    description: str = ""
    is_secret: bool = False
    default: str | None = field(default=None, repr=False)
    options: tuple[str, ...] = ()


AskInput: TypeAlias = Callable[[Input], str | None]
"""Asks the user; ``None`` where there is no answer."""


class DeclaredInputs:
    """
    Args:
        declared: the file's ``inputs``, as they came.
        ask: asks the user.
    """

    def __init__(self, declared: Any, place: SourceLocation, ask: AskInput | None) -> None:
        self._declared = _read(declared, place)
        self._ask = ask
        self._answers: dict[str, str] = {}

    @property
    def declared(self) -> tuple[Input, ...]:
        return tuple(self._declared.values())

    def answer(self, id: str, place: SourceLocation) -> str:
        """The user's answer.

        Raises:
            ConfigError: there is no such input, nobody to ask, or no answer that fits.
        """
        if id not in self._answers:
            input = self._declared.get(id)
            said = f"${{input:{printable(id[:_MAX_DESCRIPTION_CHARS])}}}"
            if input is None:
                raise place.error(f"{said}: expected an input of that id in the file, got none")
            if self._ask is None:
                what = f" ({printable(input.description[:_MAX_DESCRIPTION_CHARS])})" if input.description else ""
                raise place.error(f"{said}: expected an answer of the user{what}, but nobody can be asked here")
            answer = self._ask(input)
            if answer is None:
                raise place.error(f"{said}: expected an answer of the user, got none")
            if input.options and answer not in input.options:
                raise place.error(f"{said}: expected one of its {len(input.options)} options, got something else")
            self._answers[id] = answer
        return self._answers[id]


def _read(declared: Any, place: SourceLocation) -> dict[str, Input]:
    if declared is None:
        return {}
    if not isinstance(declared, list):
        raise place.error(f"expected a list, got {kind_of(declared)}")
    inputs: dict[str, Input] = {}
    for number, each in enumerate(declared):
        input = _read_one(each, place.at(number))
        if input.id in inputs:
            raise place.at(number, "id").error("expected another id, got one of an input before it")
        inputs[input.id] = input
    return inputs


def _read_one(each: Any, place: SourceLocation) -> Input:
    if not isinstance(each, Mapping):
        raise place.error(f"expected an object, got {kind_of(each)}")
    id = each.get("id")
    if not isinstance(id, str) or not id:
        raise place.at("id").error(f"expected a text that is not empty, got {kind_of(id)}")
    description, default = each.get("description"), each.get("default")
    options = each.get("options", [])
    if not isinstance(options, list):
        raise place.at("options").error(f"expected a list, got {kind_of(options)}")
    values: list[str] = []
    for number, option in enumerate(options):
        value = option.get("value") if isinstance(option, Mapping) else option
        if not isinstance(value, str):
            raise place.at("options", number).error(f"expected a text, got {kind_of(value)}")
        values.append(value)
    return Input(
        id=id,
        description=description if isinstance(description, str) else "",
        is_secret=each.get("password") is True,
        default=default if isinstance(default, str) else None,
        options=tuple(values),
    )
