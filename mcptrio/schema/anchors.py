"""Converts JSON Schema patterns for a validator that reads them as Python regular expressions.

Applied to the annotations of a function's parameters before msgspec reads them; the schema shows the original. In
ECMA-262, ``$`` matches only at the end of the text. In Python it also matches before a final newline, so
``^[a-z]+$`` would accept one.

msgspec itself reads the fields of classes, so their patterns are Python's; write ``$(?!\\n)`` for both.

Source: JSON Schema Validation 2020-12, section 6.3.3; ECMA-262, "Assertion"; Python, re.
"""

from __future__ import annotations

import functools
import operator
import re
import types
import typing
from typing import Annotated, Any, get_args, get_origin

import msgspec

__all__ = ["anchored", "as_written"]

_NO_LINE_END = r"(?!\n)"

# msgspec.Meta has no copy method, so each of its fields is passed on by name.
_FIELDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "tz", "title", "description", "examples")
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$|[^\\\[$]+|.", re.DOTALL)
"""An escape, a class, the anchor, or other text."""


def as_written(text: str) -> str:
    """Return the pattern in a message without the added parts."""
    return text.replace(repr(_NO_LINE_END)[1:-1], "")


def anchored(annotation: Any) -> Any:
    """Return the annotation with its patterns anchored; the same object if it has none."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    # The values of a Literal are data and may contain a dollar sign.
    if origin is None or origin is typing.Literal or not arguments:
        return annotation
    if origin is Annotated:
        base, *metadata = arguments
        inner, metas = anchored(base), [_meta(each) for each in metadata]
        if inner is base and all(new is old for new, old in zip(metas, metadata, strict=True)):
            return annotation
        for meta in metas:
            # One layer per annotation: Annotated cannot be called with a list of metadata before Python 3.11.
            inner = Annotated[inner, meta]
        return inner
    made = tuple(anchored(argument) for argument in arguments)
    if all(new is old for new, old in zip(made, arguments, strict=True)):
        return annotation
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, made)
    return origin[made]


# Private


def _meta(item: Any) -> Any:
    # Most patterns have no anchor; their objects stay the same, so that nothing has to be rebuilt.
    if not isinstance(item, msgspec.Meta) or item.pattern is None or "$" not in item.pattern:
        return item
    kept: dict[str, Any] = {name: getattr(item, name) for name in _FIELDS}
    pattern = "".join(f"${_NO_LINE_END}" if part == "$" else part for part in _PART.findall(item.pattern))
    return msgspec.Meta(pattern=pattern, extra_json_schema=item.extra_json_schema, extra=item.extra, **kept)
