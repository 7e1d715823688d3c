"""Converts JSON Schema patterns for msgspec, which reads them as Python regular expressions.

In ECMA-262, ``$`` matches only at the end of the text. In Python it also matches before a final newline, so that
``^[a-z]+$`` would accept one. The annotations of a function's parameters are converted before msgspec reads them; the
schema contains the original patterns.

The patterns of classes' fields are not converted, because msgspec reads the classes itself. Authors can write
``$(?!\\n)``, which means the same for both.

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

__all__ = ["anchor_patterns", "remove_anchors"]

_NO_LINE_END = r"(?!\n)"

# The attributes of msgspec.Meta, which has no copy method.
_FIELDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "tz", "title", "description", "examples")
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$|[^\\\[$]+|.", re.DOTALL)
"""An escape, a character class, the anchor, or other text."""


def remove_anchors(text: str) -> str:
    """Return a message of msgspec with the original pattern."""
    return text.replace(repr(_NO_LINE_END)[1:-1], "")


def anchor_patterns(annotation: Any) -> Any:
    """Return the annotation with converted patterns; the same object if no pattern changes."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    # The values of a Literal are data and may contain a dollar sign.
    if origin is None or origin is typing.Literal or not arguments:
        return annotation
    if origin is Annotated:
        base, *metadata = arguments
        inner, metas = anchor_patterns(base), [_meta(each) for each in metadata]
        if inner is base and all(new is old for new, old in zip(metas, metadata, strict=True)):
            return annotation
        for meta in metas:
            inner = Annotated[inner, meta]
        return inner
    anchored = tuple(anchor_patterns(argument) for argument in arguments)
    if all(new is old for new, old in zip(anchored, arguments, strict=True)):
        return annotation
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, anchored)
    return origin[anchored]


# Private


def _meta(item: Any) -> Any:
    # If the object stays the same, the annotation need not be rebuilt.
    if not isinstance(item, msgspec.Meta) or item.pattern is None or "$" not in item.pattern:
        return item
    other_fields: dict[str, Any] = {name: getattr(item, name) for name in _FIELDS}
    pattern = "".join(f"${_NO_LINE_END}" if part == "$" else part for part in _PART.findall(item.pattern))
    return msgspec.Meta(pattern=pattern, extra_json_schema=item.extra_json_schema, extra=item.extra, **other_fields)
