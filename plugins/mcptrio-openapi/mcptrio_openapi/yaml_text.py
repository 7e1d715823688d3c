"""Reads YAML as JSON values.

It reads documents that are not JSON. The length of the text bounds time and memory: levels and values are counted while
they are read, including merged ones; an alias shares its target; only JSON values are constructed. PyYAML's loaders are
not used, because they read YAML 1.1 (``on`` is true, ``12:30`` is 750, dates are objects), and the C loader crashes the
process on a hundred thousand brackets. Its parser, which only yields events, has neither problem.

Source: OpenAPI 3.1, 4.3 "Format" (YAML 1.2, JSON schema ruleset, string keys); YAML 1.2.2, 10.2.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from importlib import import_module
from math import isfinite
from typing import Any

from attrs import define, field

__all__ = ["YAMLError", "read_yaml"]

_MAX_DEPTH = 200
_MAX_VALUES = 5_000_000
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?")
_CONSTANTS: dict[str, Any] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_COLLECTIONS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MISSING = object()


class YAMLError(ValueError):
    """The text is not YAML, or cannot be represented in JSON. The message has the line and column."""


@define
class _OpenCollection:
    """A collection that is being read."""

    value: Any
    key: Any = _MISSING
    merged: list[dict[str, Any]] = field(factory=list)
    """The mappings that merge keys name. Their members count as values."""


def read_yaml(text: str) -> Any:
    """Return the only document in a text as JSON values.

    Raises:
        YAMLError: The text is invalid, or contains several documents.
    """
    yaml = import_module("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _build(yaml, yaml.parse(text, Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "somewhere"
        raise YAMLError(
            f"expected YAML, got {getattr(error, 'problem', None) or 'something else'} at {where}"
        ) from error


def _build(yaml: Any, events: Any) -> Any:
    stack: list[_OpenCollection] = []
    anchors: dict[str, Any] = {}
    root: Any = _MISSING
    count = 0
    for event in events:
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            _merge(stack.pop())
            continue
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise _error_at(event, f"expected a known anchor, got *{event.anchor[:60]}")
            value = anchors[event.anchor]
            if any(each.value is value for each in stack):
                raise _error_at(event, f"*{event.anchor[:60]} contains itself")
        elif isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if event.tag not in _COLLECTIONS:
                raise _error_at(event, f"expected no tag that JSON does not know, got {event.tag[:60]}")
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
        elif isinstance(event, yaml.DocumentStartEvent) and root is not _MISSING:
            raise _error_at(event, "expected one document, got another one")
        else:
            continue
        count += 1 if not stack else 1 + _add_value(stack[-1], value, event)
        if count > _MAX_VALUES:
            raise _error_at(event, f"expected at most {_MAX_VALUES} values, got more")
        if getattr(event, "anchor", None) is not None and not isinstance(event, yaml.AliasEvent):
            anchors[event.anchor] = value
        if not stack:
            root = value
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if len(stack) >= _MAX_DEPTH:
                raise _error_at(event, f"expected at most {_MAX_DEPTH} levels of nesting, got more")
            stack.append(_OpenCollection(value))
    return None if root is _MISSING else root


def _add_value(holder: _OpenCollection, value: Any, event: Any) -> int:
    """Add a value to a collection, and return how many further values a merge key copies."""
    if isinstance(holder.value, list):
        holder.value.append(value)
    elif holder.key is _MISSING:
        if not isinstance(value, Hashable):
            raise _error_at(event, "expected a key that is a text, got a collection")
        # Keys in JSON are texts. The original text is used, because a key such as 200 must not change its spelling.
        holder.key = event.value if hasattr(event, "value") else str(value)
    else:
        key, holder.key = holder.key, _MISSING
        if key == "<<" and isinstance(value, (dict, list)):
            named = value if isinstance(value, list) else [value]
            merged = [each for each in named if isinstance(each, dict)]
            holder.merged += merged
            return len(named) + sum(map(len, merged))
        else:
            holder.value[key] = value
    return 0


def _merge(closed: _OpenCollection) -> None:
    """Apply the merge key of YAML 1.1, which many documents use. Existing members stay."""
    for other in closed.merged:
        for key, value in other.items():
            closed.value.setdefault(key, value)


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag is not None and event.tag != "!":
        kind = event.tag.removeprefix("tag:yaml.org,2002:")
        if kind in ("str", "binary"):
            return text
        if kind not in ("int", "float", "bool", "null"):
            raise _error_at(event, f"expected no tag that JSON does not know, got {event.tag[:60]}")
    elif event.style or not event.implicit[0]:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if len(text) < 300 and _NUMBER.fullmatch(text) and isfinite(number := float(text)):
        return number
    return text


def _error_at(event: Any, text: str) -> YAMLError:
    return YAMLError(f"{text} at line {event.start_mark.line + 1}, column {event.start_mark.column + 1}")
