"""Arguments that arrive as text: those of prompts, and the variables of resource templates.

The one rule: a parameter that takes a string gets the text as it is; any other gets what the text says as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from mcptrio.capabilities.schemas import Arguments
from mcptrio.errors import InvalidParams

__all__ = ["convert_text"]


def convert_text(arguments: Arguments, texts: Mapping[str, Any]) -> dict[str, Any]:
    """
    Raises:
        InvalidParams: an argument is missing, unknown, or its text is not of the kind it takes.
    """
    try:
        return arguments.convert(texts)
    except InvalidParams:
        properties = arguments.schema.get("properties", {})
        values = {name: _read(text, properties.get(name, {})) for name, text in texts.items()}
        return arguments.convert(values)


def _read(text: Any, schema: Mapping[str, Any]) -> Any:
    if not isinstance(text, str) or schema.get("type") == "string" or "string" in str(schema.get("anyOf", "")):
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
