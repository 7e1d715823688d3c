"""The ``inputs`` of an ``mcp.json``, as in VS Code: values for which the user is asked.

A file declares its inputs. The user is asked for each once, when the first entry that uses it is read.

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
"""Characters of a description that an error quotes."""


@frozen(kw_only=True)
class Input:
    """A value for which the user is asked.

    Args:
        id: The name in ``${input:id}``.
        description: The question to the user.
        is_secret: True to hide the answer while the user types it.
        default: The suggested answer.
        options: The allowed answers; empty if any text is allowed.
    """

    id: str
    description: str = ""
    is_secret: bool = False
    default: str | None = field(default=None, repr=False)
    options: tuple[str, ...] = ()


AskInput: TypeAlias = Callable[[Input], str | None]
"""Asks the user for a value; returns ``None`` if there is no answer."""


class DeclaredInputs:
    """The inputs of one file, and the user's answers.

    Args:
        declared: The file's ``inputs`` member as read.
    """

    def __init__(self, declared: Any, place: SourceLocation, ask: AskInput | None) -> None:
        self._declared = _read(declared, place)
        self._ask = ask
        self._answers: dict[str, str] = {}

    def answer(self, id: str, place: SourceLocation) -> str:
        """Return the user's answer, asking once.

        Raises:
            ConfigError: The input is not declared, no user can be asked, or the answer is not one of the options.
        """
        if id not in self._answers:
            input = self._declared.get(id)
            reference = f"${{input:{printable(id[:_MAX_DESCRIPTION_CHARS])}}}"
            if input is None:
                raise place.error(f"{reference}: expected an input with that id in the file, got none")
            if self._ask is None:
                what = f" ({printable(input.description[:_MAX_DESCRIPTION_CHARS])})" if input.description else ""
                raise place.error(f"{reference}: expected an answer from the user{what}, but this program cannot ask")
            answer = self._ask(input)
            if answer is None:
                raise place.error(f"{reference}: expected an answer from the user, got none")
            if input.options and answer not in input.options:
                raise place.error(f"{reference}: expected one of its {len(input.options)} options, got something else")
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
            raise place.at(number, "id").error("expected a new id, got the id of an earlier input")
        inputs[input.id] = input
    return inputs


def _read_one(each: Any, place: SourceLocation) -> Input:
    if not isinstance(each, Mapping):
        raise place.error(f"expected an object, got {kind_of(each)}")
    id = each.get("id")
    if not isinstance(id, str) or not id:
        raise place.at("id").error(f"expected a non-empty string, got {kind_of(id)}")
    description, default = each.get("description"), each.get("default")
    options = each.get("options", [])
    if not isinstance(options, list):
        raise place.at("options").error(f"expected a list, got {kind_of(options)}")
    values: list[str] = []
    for number, option in enumerate(options):
        # VS Code accepts plain strings and objects with a label and a value.
        value = option.get("value") if isinstance(option, Mapping) else option
        if not isinstance(value, str):
            raise place.at("options", number).error(f"expected a string, got {kind_of(value)}")
        values.append(value)
    return Input(
        id=id,
        description=description if isinstance(description, str) else "",
        is_secret=each.get("password") is True,
        default=default if isinstance(default, str) else None,
        options=tuple(values),
    )
