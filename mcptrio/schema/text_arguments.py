"""Converts arguments that arrive as text: those of prompts, and the variables of resource templates.

An argument is used as text if its annotation accepts the text. Otherwise the text is parsed as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from mcptrio.errors import InvalidParams
from mcptrio.schema.annotations import convert
from mcptrio.schema.signatures import Arguments

__all__ = ["convert_text"]


def convert_text(arguments: Arguments, texts: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments that arrive as text to the types of their parameters.

    Raises:
        InvalidParams: An argument is missing or unknown, or its text does not match its type.
    """
    return arguments.convert({name: _read(text, name, arguments) for name, text in texts.items()})


def _read(text: Any, name: str, arguments: Arguments) -> Any:
    if not isinstance(text, str) or name not in arguments.hints or arguments.hints[name] is str:
        return text
    try:
        # Text takes precedence: for `str | int`, "3" stays a text.
        convert(text, arguments.hints[name], arguments.schema)
        return text
    except InvalidParams:
        pass
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # The conversion of all arguments will report the text, with the name of the argument.
        return text
