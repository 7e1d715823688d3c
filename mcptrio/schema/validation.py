"""Validates values against JSON Schemas of any origin, within limits of time and memory.

Used for tools with a schema that the author has written, for output schemas and for elicitation answers. Functions with
annotations do not need it. Nothing is fetched.

Regular expressions run in linear time, without look-around and back-references. A limit on backtracking would not
suffice: 10,000 steps over 100 kB take 3.5 s.

jsonschema-rs takes 22 ms to import, so it is imported with the first schema.

Source: MCP 2026-07-28, basic/index, "JSON Schema Usage"; basic/transports/streamable-http, "Schema Extension".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcptrio.errors import InvalidParams
from mcptrio.schema.schema_cost import SchemaCost, SchemaLimits
from mcptrio.schema.validation_messages import name_type, place_of, show_value

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["Validator", "check_header_annotations"]

_LIMITS = SchemaLimits()
_DIALECT_2020_12 = "json-schema.org/draft/2020-12/schema"
_DIALECT_07 = "json-schema.org/draft-07/schema"
_REGEX_BYTES = 1 << 20
"""Maximum bytes of a compiled pattern, and of its cache."""
_MAX_EXPLAINED = 2_000
"""Evaluations up to which an error has details. For details, the validator keeps every alternative that failed, and
their number grows faster than the evaluations: 16 levels of a recursive ``anyOf`` with two alternatives are refused in
30 µs, and explained in 14 s."""
_COMPARISONS = {
    "minimum": "a number >= {limit}",
    "maximum": "a number <= {limit}",
    "exclusiveMinimum": "a number > {limit}",
    "exclusiveMaximum": "a number < {limit}",
    "multipleOf": "a multiple of {multiple_of}",
    "minLength": "a string of at least {limit} characters",
    "maxLength": "a string of at most {limit} characters",
    "minItems": "an array of at least {limit} items",
    "maxItems": "an array of at most {limit} items",
    "minProperties": "an object of at least {limit} fields",
    "maxProperties": "an object of at most {limit} fields",
    "pattern": "a string that matches {pattern!r}",
    "format": "a string in the format {format}",
}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_DATA = frozenset({"default", "const", "enum", "examples"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_HEADER = "x-mcp-header"


class Validator:
    """A compiled schema.

    Args:
        schema: JSON Schema 2020-12, or draft-07 with this ``$schema``.
        formats: Whether ``format`` is checked. By the standard, it is only an annotation.

    Raises:
        ValueError: The schema is not an object, exceeds a limit, has an unsupported dialect, is invalid, or refers to
            another document.
    """

    def __init__(self, schema: Mapping[str, Any], *, formats: bool = False) -> None:
        if not isinstance(schema, dict):
            raise ValueError(f"schema: expected an object, got {show_value(schema)}")
        is_draft_07 = _dialect(schema) == _DIALECT_07
        self.schema = schema
        self._cost = SchemaCost(schema, _LIMITS, ref_overrides=is_draft_07)
        self._validator = _compile(schema, is_draft_07=is_draft_07, formats=formats)

    def validate(self, instance: Any) -> None:
        """Check a JSON value.

        Raises:
            InvalidParams: The value does not match; the message has the expected value, the actual one and the place.
        """
        evaluations = self._measure(instance)
        try:
            # is_valid() stops at the first failure and keeps no details, so the evaluations bound its time.
            if self._validator.is_valid(instance):
                return
            if evaluations <= _MAX_EXPLAINED:
                error = next(self._validator.iter_errors(instance), None)
                if error is not None:
                    raise _explain(error)
        except (ValueError, RecursionError) as error:
            # The value has no JSON form: a lone surrogate, a key that is not a string, or another object.
            raise InvalidParams(f"expected a JSON value, got something else: {str(error)[:200]}") from error
        raise InvalidParams("expected a value that fits the schema, got one that does not")

    def _measure(self, instance: Any) -> int:
        """Return the estimated evaluations for a value.

        Raises:
            InvalidParams: The value is nested too deeply, or needs too many evaluations.
        """
        evaluations, depth = 0, 0
        level = [instance]
        while level:
            if depth > _LIMITS.instance_depth:
                raise InvalidParams(f"expected at most {_LIMITS.instance_depth} levels of nesting, got more")
            # Each value of a level may cause as many evaluations as the schema allows at this depth.
            evaluations += len(level) * self._cost.at_depth(depth)
            if evaluations > _LIMITS.evaluations:
                raise InvalidParams("expected a smaller or less nested value; this one takes too long to check")
            following: list[Any] = []
            for item in level:
                if isinstance(item, dict):
                    following.extend(item.values())
                elif isinstance(item, (list, tuple)):
                    following.extend(item)
            level = following
            depth += 1
        return evaluations


def check_header_annotations(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the arguments that a client repeats in HTTP headers (``x-mcp-header``).

    Returns:
        The path of each property from the root, by the lower-cased name after ``Mcp-Param-``.

    Raises:
        ValueError: An annotation is invalid, and therefore the tool; the message has the rule and the place.
    """
    paths: dict[str, tuple[str, ...]] = {}
    # Each subschema with its place for messages, and with its path if that consists of properties only.
    queue: list[tuple[Any, tuple[str | int, ...], tuple[str, ...] | None]] = [(schema, (), ())]
    while queue:
        item, where, path = queue.pop(0)
        if isinstance(item, list):
            queue.extend((child, (*where, index), None) for index, child in enumerate(item))
            continue
        if not isinstance(item, Mapping):
            continue
        if _HEADER in item:
            name = _check_header(item, place_of(where), path)
            if name in paths:
                raise ValueError(f"{_HEADER} {name!r}{place_of(where)}: already used{place_of(paths[name])}")
            paths[name] = path or ()
        for keyword, value in item.items():
            # The values of these keywords are data, which may contain the same name.
            if keyword in _DATA or keyword == _HEADER:
                continue
            if keyword in _MAPS and isinstance(value, Mapping):
                for name, child in value.items():
                    chain = (*path, name) if path is not None and keyword == "properties" else None
                    queue.append((child, (*where, keyword, name), chain))
            else:
                queue.append((value, (*where, keyword), None))
    return paths


def _check_header(item: Mapping[str, Any], where: str, path: tuple[str, ...] | None) -> str:
    name = item[_HEADER]
    if not isinstance(name, str):
        raise ValueError(f"{_HEADER}{where}: expected a string, got {show_value(name)}")
    if not name:
        raise ValueError(f"{_HEADER}{where}: the name is empty")
    if not _TOKEN.match(name):
        raise ValueError(f"{_HEADER} {show_value(name)}{where}: not a token (RFC 9110, 5.6.2)")
    # The value of a header must have one fixed place in the arguments.
    if not path:
        raise ValueError(
            f"{_HEADER} {show_value(name)}{where}: only a property that is reached by properties alone can have one"
        )
    kind = item.get("type")
    if kind not in ("integer", "string", "boolean"):
        got = show_value(kind) if "type" in item else "none"
        raise ValueError(
            f'{_HEADER} {show_value(name)}{where}: expected the type "integer", "string" or "boolean", got {got}'
        )
    # Header names are case-insensitive (RFC 9110 section 5.1).
    return name.lower()


def _dialect(schema: Mapping[str, Any]) -> str:
    named = schema.get("$schema", f"https://{_DIALECT_2020_12}")
    dialect = re.sub(r"\Ahttps?://", "", named).removesuffix("#") if isinstance(named, str) else ""
    if dialect not in (_DIALECT_2020_12, _DIALECT_07):
        raise ValueError(
            f"schema: the dialect {show_value(named)} is not supported; "
            f"supported are https://{_DIALECT_2020_12} and http://{_DIALECT_07}#"
        )
    return dialect


def _compile(schema: dict[str, Any], *, is_draft_07: bool, formats: bool) -> jsonschema_rs.Validator:
    import jsonschema_rs

    dialect = jsonschema_rs.Draft7Validator if is_draft_07 else jsonschema_rs.Draft202012Validator
    try:
        return dialect(
            schema,
            validate_formats=formats,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES),
            # The messages of the library omit values, which may be large.
            mask="the value",
            # The library must not fetch a remote `$ref`.
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        reason = error.message[:300]
        if isinstance(error.instance, str) and error.kind.name in ("pattern", "format"):
            reason = (
                f"the pattern {error.instance[:200]!r} is invalid, too large, or needs look-around or back-references"
            )
        raise ValueError(f"schema: {reason}{place_of(error.instance_path)}") from error
    except ValueError as error:
        raise ValueError(f"schema: {str(error)[:300]}") from error


def _explain(error: jsonschema_rs.ValidationError) -> InvalidParams:
    kind, where = error.kind, place_of(error.instance_path)
    details = kind.as_dict()
    got = f"got {show_value(error.instance)}"
    if kind.name == "required":
        return InvalidParams(f"missing required field `{str(details['property'])[:200]}`{where}")
    if kind.name in ("additionalProperties", "unevaluatedProperties") and details.get("unexpected"):
        return InvalidParams(f"unknown field `{str(details['unexpected'][0])[:200]}`{where}")
    if (expected := _expectation(error)) is not None:
        return InvalidParams(f"expected {expected}{where}, {got}")
    return InvalidParams(f"{error.message[:300]}{where}, {got}")


def _expectation(error: jsonschema_rs.ValidationError) -> str | None:
    name, details = error.kind.name, error.kind.as_dict()
    if name == "type":
        return name_type(" | ".join(details["types"]))
    if name == "enum":
        return f"one of {_choices(details['options'])}"
    if name == "const":
        return _choices([details["expected_value"]])
    if name == "falseSchema":
        return "nothing"
    if name in _COMPARISONS:
        text = _COMPARISONS[name].format(**details)
        # "at most 1 item", in the singular. The other comparisons end in a number.
        return (text.removesuffix("s") if details.get("limit") == 1 else text)[:300]
    if name in ("anyOf", "oneOf"):
        # Alternatives are listed if they differ in type or are constants; others would make the message too long.
        firsts = [alternative[0] for alternative in details["context"] if alternative]
        if firsts and all(first.kind.name == "type" and first.instance_path == error.instance_path for first in firsts):
            return name_type(" | ".join(kind for first in firsts for kind in first.kind.as_dict()["types"]))
        if firsts and all(first.kind.name == "const" for first in firsts):
            return f"one of {_choices([first.kind.as_dict()['expected_value'] for first in firsts])}"
        return "a value that fits one of the alternatives"
    return None


def _choices(values: Sequence[Any]) -> str:
    choices = ", ".join(show_value(value) for value in values[:20])
    return f"{choices}, …" if len(values) > 20 else choices
