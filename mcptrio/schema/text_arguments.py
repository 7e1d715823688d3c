"""Arguments that arrive as text: those of prompts, and the variables of resource templates.

Each parameter is converted independently: as text if its annotation accepts the text, otherwise as JSON.
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
        InvalidParams: An argument is missing or unknown, or its text does not fit its type.
    """
    return arguments.convert({name: _read(text, name, arguments) for name, text in texts.items()})


def _read(text: Any, name: str, arguments: Arguments) -> Any:
    if not isinstance(text, str) or name not in arguments.hints or arguments.hints[name] is str:
        return text
    try:
        # As text first: for `str | int`, "3" stays a text.
        convert(text, arguments.hints[name], arguments.schema)
        return text
    except InvalidParams:
        pass
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # Not JSON either: the conversion of all arguments reports it with its name.
        return text
