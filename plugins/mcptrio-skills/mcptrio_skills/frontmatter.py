"""The front matter of a SKILL.md, as the JSON object that clients compare with the file.

The scan calls it. Hosts parse the same text with YAML 1.2 and compare field by field, so a scalar has the value that
the core schema of YAML 1.2 defines: ``yes`` and a date are strings, ``012`` is twelve. Values that JSON or another
parser would read differently are refused. Only PyYAML's parser and composer are used, with the resolvers of the core
schema instead of those of YAML 1.1, so no Python object is constructed from the file.

Source: YAML 1.2.2, 10.3 "Core Schema"; Agent Skills specification, "Frontmatter"; SEP-2640, "Frontmatter".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

__all__ = ["BadSkill", "check_name", "read_frontmatter"]

MAX_BYTES = 64 * 1024
MAX_NODES = 5000
MAX_DEPTH = 32
"""Limits of the front matter: bytes, values and levels of nesting."""

_BLOCK = re.compile(rb"\A(?:\xef\xbb\xbf)?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_NAME = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_MAX_SAFE_INTEGER = 2**53 - 1
_MAX_DESCRIPTION_CHARS = 1024
_MAX_COMPATIBILITY_CHARS = 500

_TAG = "tag:yaml.org,2002:"
_RESOLVERS: tuple[tuple[str, str, str], ...] = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
)
"""Tag, pattern and first characters of each resolver."""


class BadSkill(Exception):
    """A skill cannot be served; the message has the reason."""


def read_frontmatter(data: bytes) -> dict[str, Any]:
    """Parse the front matter of a SKILL.md.

    Raises:
        BadSkill: The front matter is missing, or violates the Agent Skills specification.
    """
    block = _BLOCK.match(data)
    if block is None:
        raise BadSkill(f"expected SKILL.md to begin with front matter between two lines of '---', got {data[:20]!r}")
    if len(block[1]) > MAX_BYTES:
        raise BadSkill(f"expected front matter of at most {MAX_BYTES} bytes, got {len(block[1])}")
    try:
        text = block[1].decode()
    except UnicodeDecodeError as error:
        raise BadSkill(f"expected SKILL.md in UTF-8, got byte {error.object[error.start]:#x}") from error
    value = _parse(text)
    if not isinstance(value, dict):
        raise BadSkill("expected front matter with fields, got something else")
    _check_text(value, "description", _MAX_DESCRIPTION_CHARS)
    _check_text(value, "name", 64)
    if "compatibility" in value:
        _check_text(value, "compatibility", _MAX_COMPATIBILITY_CHARS)
    return value


def check_name(frontmatter: dict[str, Any], folder: str) -> None:
    """Check the name of a skill.

    Raises:
        BadSkill: The name is invalid, or differs from that of the folder.
    """
    name = frontmatter["name"]
    if not _NAME.fullmatch(name):
        raise BadSkill(f"name: expected a-z, 0-9 and single hyphens inside, 1 to 64 characters, got {name[:80]!r}")
    if name != folder:
        raise BadSkill(f"name: expected that of the folder, {folder!r}, got {name!r}")


def _check_text(value: dict[str, Any], key: str, limit: int) -> None:
    text = value.get(key)
    if not isinstance(text, str) or not text.strip() or len(text) > limit:
        got = f"{len(text)} characters" if isinstance(text, str) else "none" if text is None else repr(text)[:80]
        raise BadSkill(f"{key}: expected a string of 1 to {limit} characters, got {got}")


def _parse(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML requires a class attribute

    for name, pattern, begins in _RESOLVERS:
        # PyYAML uses the empty string as the first character of an empty scalar.
        first = [*begins, ""] if name == "null" else list(begins)
        Loader.add_implicit_resolver(f"{_TAG}{name}", re.compile(rf"(?:{pattern})\Z"), first)
    try:
        _check_events(yaml.parse(text, Loader=Loader))
        node = yaml.compose(text, Loader=Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # Line 1 of the file is the opening "---".
        where = f" at line {mark.line + 2}" if mark is not None else ""
        raise BadSkill(f"expected YAML, got {getattr(error, 'problem', None) or 'something else'}{where}") from error
    return _read(node) if node is not None else None


def _check_events(events: Any) -> None:
    """Check the events before nodes are composed: their depth and number are limited, and aliases are refused.

    The composer and all later readers are recursive, and nested aliases can expand to gigabytes of JSON.
    """
    depth = 0
    for number, event in enumerate(events):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        # The start and end of the stream and the document are events, too.
        if depth > MAX_DEPTH + 2 or number > 2 * MAX_NODES:
            raise BadSkill(f"expected front matter of at most {MAX_NODES} values, {MAX_DEPTH} deep, got more")
        if kind == "AliasEvent":
            raise BadSkill(f"expected no aliases in front matter, got *{event.anchor} at line {_line(event)}")


def _read(node: Node) -> Any:
    """Convert nodes to JSON values."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, MappingNode) and kind == "map":
        return _mapping(node)
    if isinstance(node, SequenceNode) and kind == "seq":
        return [_read(item) for item in node.value]
    if isinstance(node, ScalarNode) and kind in _SCALARS:
        try:
            return _SCALARS[kind](node.value)
        except ValueError as error:
            raise BadSkill(f"{error} at line {_line(node)}") from error
    raise BadSkill(f"expected plain values in front matter, got the tag {node.tag!r} at line {_line(node)}")


def _mapping(node: MappingNode) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _read(key_node)
        if not isinstance(key, str):
            raise BadSkill(f"expected strings as keys, got {key!r}, which needs quotes at line {_line(key_node)}")
        if key in fields:
            raise BadSkill(f"expected each key once, got {key!r} again at line {_line(key_node)}")
        fields[key] = _read(value_node)
    return fields


def _integer(text: str) -> int:
    if text.startswith(("0o", "0x")):
        value = int(text[2:], 8 if text[1] == "o" else 16)
    else:
        value = int(text)
    if abs(value) > _MAX_SAFE_INTEGER:
        raise ValueError(f"expected an integer within 2^53 or a text in quotes, got {text[:40]}")
    return value


def _float(text: str) -> float:
    value = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number or a text in quotes, got {text[:40]}")
    return value


_SCALARS: dict[str, Callable[[str], Any]] = {
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": _integer,
    "float": _float,
    "str": str,
}


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 2
