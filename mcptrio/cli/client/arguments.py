"""Converts ``key=value`` words to arguments, by the schema of the tool.

``call`` and the shell use it before they send a request. If the schema accepts a string, the text is the string;
otherwise it is read as JSON. ``key:=JSON`` is always JSON.

- ``key=value``; ``key=@FILE`` is the contents of a file, ``key=@@x`` a text that begins with ``@``
- ``key:=JSON`` and ``key:=@FILE``: unchanged, also for keys that the schema does not have
- ``a.b=value`` is within the object ``a``; ``a.0=value`` within the array ``a``
- the same key again: one more item of an array
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from mcptrio.cli.client.schema_words import (
    alternatives,
    choices,
    describe,
    items_of,
    kind_of,
    kinds,
    properties,
    required,
)
from mcptrio.errors import ConfigError, InvalidParams
from mcptrio.ground.bounded_file import read_bytes
from mcptrio.ground.quoting import quote, quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.schema.validation import Validator

__all__ = ["MAX_FILE_BYTES", "check_arguments", "read_arguments", "read_file", "read_json", "split_word"]

MAX_FILE_BYTES = 32 * 1024 * 1024
"""Bytes of a file that is passed as an argument."""
_YES, _NO = frozenset({"true", "yes"}), frozenset({"false", "no"})


@frozen
class Word:
    """``key=value`` or ``key:=JSON``, split."""

    key: str
    value: str
    is_raw: bool


def split_word(word: str) -> Word:
    key, equals, value = word.partition("=")
    # `:=3` has an equals sign but no key: its colon belongs to the sign.
    if not equals or not key.rstrip(":"):
        argument = quote_name(word)
        raise ConfigError(f"argument {argument}: expected KEY=VALUE or KEY:=JSON; pass a JSON object with --args")
    return Word(key.removesuffix(":"), value, key.endswith(":"))


def read_arguments(
    words: Sequence[str], schema: Mapping[str, Any], *, base: Mapping[str, Any] | None = None, checked: bool = True
) -> dict[str, Any]:
    """Make arguments of words.

    Args:
        words: Words in the forms of the module docstring.
        schema: The tool's input schema.
        base: Arguments to which the words are added, or which they replace.
        checked: True if each word must fit the schema. Otherwise a word that does not fit is read without a schema.
    """
    # A deep copy, because the words change nested objects. The base comes from JSON, so nothing is lost on the way.
    arguments: dict[str, Any] = json.loads(json.dumps(base)) if base else {}
    seen: set[str] = set()
    for text in words:
        word = split_word(text)
        try:
            path, subschema, value = _read_word(word, schema, checked=checked)
            _put_value(arguments, path, value, subschema, schema, is_first=word.key not in seen)
        except ValueError as error:
            raise ConfigError(f"argument {quote_name(word.key)}: {error}") from error
        seen.add(word.key)
    return arguments


def _read_word(word: Word, schema: Mapping[str, Any], *, checked: bool) -> tuple[list[str], Any, Any]:
    """Return the path of a word's key, the schema at this path, and the word's value.

    Raises:
        ValueError: The word does not fit the schema, and ``checked`` is true.
    """
    try:
        path, subschema = _resolve_key(word.key, schema, schema, is_raw=word.is_raw)
        return path, subschema, _read_value(word, subschema, schema)
    except ValueError:
        if checked:
            raise
        path, subschema = _resolve_key(word.key, {}, {}, is_raw=word.is_raw)
        return path, subschema, _read_value(word, subschema, {})


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check arguments against the tool's schema. If the schema is invalid, all arguments pass."""
    known = properties(schema, schema)
    missing = [name for name in required(schema, schema) if name not in arguments]
    if missing:
        descriptions = ", ".join(f"{quote_name(name)} ({describe(known.get(name, {}), schema)})" for name in missing)
        raise ConfigError(f"missing argument{'s' if len(missing) > 1 else ''}: {descriptions}")
    try:
        validator = Validator(dict(schema))
    except ValueError:
        # The server may still accept the call, and its author must correct the schema.
        return
    try:
        validator.validate(dict(arguments))
    except InvalidParams as error:
        raise ConfigError(f"arguments: {error.message}") from error


def read_json(text: str, what: str, form: str = "JSON", advice: str = "") -> Any:
    """Parse JSON.

    Args:
        form: The expected form, for the error.
        advice: Advice for the end of the error.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        end = f"; {advice}" if advice else ""
        raise ConfigError(f"{what}: expected {form}, got {quote(text)}{_describe_json_error(error)}{end}") from error
    except RecursionError as error:
        raise ConfigError(f"{what}: expected JSON, got text that is nested too deeply") from error


def _describe_json_error(error: ValueError) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return f": {error}"
    problem = error.msg[:1].lower() + error.msg[1:]
    return f"; line {error.lineno}, column {error.colno}: {problem}"


def read_file(name: str, what: str) -> bytes:
    path = Path(name).expanduser()
    return read_bytes(path, MAX_FILE_BYTES, lambda problem: ConfigError(f"{what}: {name}: {problem}"))


# Keys


def _resolve_key(key: str, schema: Any, root: Mapping[str, Any], *, is_raw: bool) -> tuple[list[str], Any]:
    """Return the path of a key, and the schema at this path.

    A property with a dot in its name takes precedence over a path.
    """
    known = properties(schema, root)
    if key in known:
        return [key], known[key]
    parts = key.split(".")
    # The longest name first, because a property may have a dot in its name.
    for count in range(len(parts) - 1, 0, -1):
        first, rest = ".".join(parts[:count]), ".".join(parts[count:])
        if first in known:
            path, subschema = _resolve_key(rest, known[first], root, is_raw=is_raw)
            return [first, *path], subschema
    types = kinds(schema, root)
    if "array" in types and parts[0].isdecimal():
        return _resolve_parts(parts, items_of(schema, root), root, is_raw=is_raw)
    if types and "object" not in types:
        raise ValueError(f"expected {describe(schema, root)}, which has no members, got {quote('.'.join(parts))}")
    more = [each.get("additionalProperties") for each in alternatives(schema, root)]
    open_to = next((each for each in more if isinstance(each, Mapping)), None)
    if open_to is not None:
        return _resolve_parts(parts, open_to, root, is_raw=is_raw)
    is_open = True in more or any("patternProperties" in each for each in alternatives(schema, root))
    # In JSON Schema every object is open by default. Next to declared properties, though, an unknown name is more often
    # a typo; `:=` passes it anyway.
    if is_raw or is_open or (not known and False not in more):
        return _resolve_parts(parts, {}, root, is_raw=is_raw)
    raise ValueError(f"no such argument{suggest(parts[0], list(known))}")


def _resolve_parts(parts: list[str], schema: Any, root: Mapping[str, Any], *, is_raw: bool) -> tuple[list[str], Any]:
    if len(parts) == 1:
        return parts, schema
    path, subschema = _resolve_key(".".join(parts[1:]), schema, root, is_raw=is_raw)
    return [parts[0], *path], subschema


def _put_value(
    arguments: dict[str, Any],
    path: Sequence[str],
    value: Any,
    schema: Any,
    root: Mapping[str, Any],
    *,
    is_first: bool,
) -> None:
    container: Any = arguments
    for index, step in enumerate(path):
        is_last = index + 1 == len(path)
        # The next step decides the kind of a new container: a number is an index of an array.
        new_container: Any = [] if not is_last and path[index + 1].isdecimal() else {}
        if isinstance(container, list):
            item = int(step) if step.isdecimal() else -1
            if not 0 <= item <= len(container):
                raise ValueError(f"expected the next item, {len(container)}, or one before it, got {quote(step)}")
            if item == len(container):
                container.append(value if is_last else new_container)
            elif is_last:
                container[item] = value
            container = container[item]
        elif isinstance(container, dict):
            if is_last:
                _assign(container, step, value, schema, root, is_first=is_first)
            container = container.setdefault(step, new_container)
        else:
            raise ValueError(f"expected an object or an array for {quote(step)}, got {json.dumps(container)[:60]}")


def _assign(
    container: dict[str, Any], name: str, value: Any, schema: Any, root: Mapping[str, Any], *, is_first: bool
) -> None:
    if is_first:
        container[name] = value
    elif "array" in kinds(schema, root) and isinstance(value, list) and isinstance(container[name], list):
        container[name].extend(value)
    else:
        raise ValueError(f"given twice; expected {describe(schema, root)}")


# Values


def _read_value(word: Word, schema: Any, root: Mapping[str, Any]) -> Any:
    text = word.value
    if word.is_raw:
        text = read_file(text[1:], word.key).decode("utf-8", "replace") if text.startswith("@") else text
        return read_json(text, f"argument {quote_name(word.key)}")
    # Doubled, because a value may itself begin with @, such as a user name.
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        data = read_file(text[1:], f"argument {quote_name(word.key)}")
        # JSON has no bytes: a schema that expects them declares Base64.
        if _is_base64(schema, root):
            return base64.b64encode(data).decode("ascii")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"expected UTF-8 in {word.value[1:]}, got other bytes") from error
        # A file usually ends with a line break, which is not part of a number or a word.
        text = text if "string" in kinds(schema, root) else text.strip()
    return _convert(text, schema, root)


def _convert(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    values = choices(schema, root)
    if values is not None:
        return _match_choice(text, values, schema, root)
    types = kinds(schema, root)
    # Before JSON is tried: for a string parameter, 3 is the text "3".
    if "string" in types:
        return text
    parsed = _parse_json(text)
    if not types:
        return text if parsed is _NOTHING else parsed
    kind = "" if parsed is _NOTHING else kind_of(parsed)
    if kind in types or (kind == "integer" and "number" in types):
        return parsed
    # JSON Schema counts 2.0 as an integer (2020-12, Validation 6.1.1), but a strict server may not.
    if kind == "number" and "integer" in types and parsed.is_integer():
        return int(parsed)
    if "boolean" in types and text.strip().lower() in _YES | _NO:
        return text.strip().lower() in _YES
    # One value for an array of values, so that a single item needs no brackets.
    items = items_of(schema, root)
    if "array" in types and "array" not in kinds(items, root):
        return [_convert(text, items, root)]
    raise ValueError(f"expected {describe(schema, root)}, got {quote(text)}")


def _match_choice(text: str, values: list[Any], schema: Any, root: Mapping[str, Any]) -> Any:
    if text in [value for value in values if isinstance(value, str)]:
        return text
    parsed = _parse_json(text.strip())
    for value in values:
        # The types are compared too, because True equals 1 in Python.
        if not isinstance(value, str) and type(value) is type(parsed) and value == parsed:
            return value
    if any(isinstance(value, bool) for value in values) and text.strip().lower() in _YES | _NO:
        return text.strip().lower() in _YES
    raise ValueError(f"expected {describe(schema, root)}, got {quote(text)}")


_NOTHING: Any = object()


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NOTHING


def _refuse_constant(name: str) -> None:
    # Python's parser accepts NaN and Infinity, which RFC 8259 section 6 excludes.
    raise ValueError(f"{name} is not JSON")


def _is_base64(schema: Any, root: Mapping[str, Any]) -> bool:
    # contentEncoding is the keyword of JSON Schema, byte the format of OpenAPI 3.0. pydantic writes binary for bytes
    # and base64 for Base64Bytes.
    return any(
        each.get("contentEncoding") == "base64" or each.get("format") in ("byte", "base64", "binary")
        for each in alternatives(schema, root)
    )
