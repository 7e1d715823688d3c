"""JSON Schemas of pydantic models, and the conversion of their values. This module does not import pydantic.

A class can be a pydantic model only if the program has already imported pydantic.

Source: pydantic 2, ``BaseModel.model_json_schema``, ``model_validate_json``, ``model_dump``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import orjson

__all__ = ["dump_model", "is_model", "make_model", "model_definitions", "name_models", "no_json_form"]


def is_model(cls: Any) -> bool:
    """Return whether a class is a pydantic model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def name_models(models: Sequence[type]) -> dict[type, str]:
    """Return a unique name for each model, for ``$defs``."""
    names: dict[type, str] = {}
    for cls in models:
        used_names = set(names.values())
        name = cls.__name__ if cls.__name__ not in used_names else f"{cls.__module__}.{cls.__qualname__}"
        names[cls] = name
    return names


def model_definitions(cls: Any, name: str, *, output: bool) -> dict[str, Any]:
    """Return the schemas of a model and of the models that it refers to. All names begin with ``name``."""
    template = f"#/$defs/{name}.{{model}}"
    mode = "serialization" if output else "validation"
    schema = _without_titles(cls.model_json_schema(mode=mode, ref_template=template))
    inner = schema.pop("$defs", {})
    return {name: schema, **{f"{name}.{key}": value for key, value in inner.items()}}


def no_json_form(cls: Any) -> TypeError:
    """Return the error for a class in an annotation that cannot be converted."""
    name = getattr(cls, "__qualname__", cls)
    return TypeError(f"{name} has no JSON form; use a dataclass, or another class with declared fields")


def make_model(cls: type, value: Any) -> Any:
    """Convert a JSON value to a class that msgspec does not support. A pydantic model is validated strictly.

    Raises:
        TypeError: The class is no pydantic model.
        ValueError: The value does not match the model.
    """
    if not is_model(cls):
        raise no_json_form(cls)
    pydantic = sys.modules["pydantic"]
    validate: Callable[..., Any] = cls.model_validate_json  # type: ignore[attr-defined]
    try:
        # As JSON text, because strict validation of Python values refuses strings for dates and enums.
        return validate(orjson.dumps(value), strict=True)
    except pydantic.ValidationError as error:
        # The error omits the value, which may be secret: the message is sent to the peer.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        raise ValueError(f"{first['msg']}{f' (in {place})' if place else ''}") from None
    except orjson.JSONEncodeError as error:
        raise ValueError("expected a JSON value that is not nested this deeply") from error


def dump_model(value: Any) -> Any:
    """Convert a value that msgspec does not support to plain types."""
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__qualname__} has no JSON form")


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic makes from names. A property named ``title`` is kept."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    members: dict[str, Any] = {}
    for key, value in schema.items():
        # The keys of these objects are names, not keywords.
        if key in ("properties", "$defs", "patternProperties"):
            members[key] = {name: _without_titles(inner) for name, inner in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            members[key] = value
        elif key != "title":
            members[key] = _without_titles(value)
    return members
