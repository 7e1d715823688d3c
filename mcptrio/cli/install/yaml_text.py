"""Adds, replaces or removes one entry of a YAML file, in its text.

Only whole lines of a mapping in block style are changed, or the text between the braces of one in flow style. A file
with several documents is refused. :mod:`mcptrio.cli.install.documents` compares the values before and after, and
refuses an edit that would change the value of an alias.

Source: YAML 1.2.2; PyYAML's marks, which are characters of the text; libyaml, "scanner.c".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]
from yaml.composer import ComposerError  # type: ignore[import-untyped, unused-ignore]
from yaml.reader import ReaderError  # type: ignore[import-untyped, unused-ignore]

from mcptrio.cli.install.edits import Keys, Splice, Uneditable, Unreadable, apply_splices, newline_of

__all__ = ["parse", "put", "remove"]

# Words that YAML 1.1 reads as booleans or null are quoted. PyYAML reads y and n as text, but other parsers do not.
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)\Z)[A-Za-z_][A-Za-z0-9_-]*", re.IGNORECASE)
# Characters that YAML does not allow unescaped, its line separators and the byte order mark (YAML 1.2.2, 5.1 to 5.4).
_ESCAPED = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_STEP = 2
"""Spaces of indentation of new lines."""
_MAX_NODES = 1_000_000
"""Values of a file, where each alias counts as all the values that it stands for."""


def _skip_space(loader: Any) -> None:
    """Skip spaces, comments and tabs up to the next token."""
    yaml.SafeLoader.scan_to_next_token(loader)
    # Tabs where libyaml allows them (scanner.c); PyYAML refuses them.
    while loader.peek() == "\t" and (loader.flow_level or not loader.allow_simple_key):
        loader.forward()
        yaml.SafeLoader.scan_to_next_token(loader)


_Loader: Any = type("_Loader", (yaml.SafeLoader,), {"scan_to_next_token": _skip_space})


def parse(text: str) -> Any:
    """Return the value; an empty document is an empty mapping.

    Raises:
        Unreadable: Not YAML, a duplicate key, an alias inside its own anchor, or aliases for more than a million
            values.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
        if root is None:
            return {}
        # PyYAML accepts a key twice. A few nested aliases can stand for billions of values, which the comparison would
        # visit.
        _count_values(root, {})
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise Unreadable(f"expected YAML: {error.problem or error.context}", line, column) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise Unreadable("expected YAML: a character that YAML does not allow", line, column) from None
    except RecursionError:
        raise Unreadable("expected YAML: nested too deeply", 1, 1) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # such as the date 2024-99-99
        raise Unreadable(f"expected YAML: {error}", 1, 1) from None


def put(text: str, keys: Keys, entry: Mapping[str, Any]) -> str:
    """Return the text with the entry under these two keys, new or in place of the existing one.

    Raises:
        Uneditable: A value on the way is not a mapping.
    """
    newline = newline_of(text)
    outer, name = keys
    root: Any = yaml.compose(text, Loader=_Loader)
    if root is None or _is_null(root):
        return _end_last_line(text, newline) + _format_block(keys, entry, 0, newline)
    member = _members(root, text).get(outer)
    if member is None:
        if root.flow_style:
            return apply_splices(text, [_insert_in_flow(root, outer, {name: entry})])
        # The mapping of a document may be indented as a whole.
        return _end_last_line(text, newline) + _format_block(keys, entry, root.start_mark.column, newline)
    key, mapping = member
    # A key without a value is null, and gets the entry as its mapping.
    if _is_null(mapping):
        margin: int = key.start_mark.column
        offset = _next_line(text, mapping.end_mark.index)
        return _insert_lines(text, offset, _format_block((name,), entry, margin + _STEP, newline), newline)
    members = _members(mapping, text)
    if mapping.flow_style:
        if name not in members:
            return apply_splices(text, [_insert_in_flow(mapping, name, entry)])
        value = members[name][1]
        return apply_splices(text, [Splice(value.start_mark.index, value.end_mark.index, _format_flow(entry))])
    margin = next(iter(members.values()))[0].start_mark.column
    block = _format_block((name,), entry, margin, newline)
    if name in members:
        start, end = _line_range(text, *members[name])
        # A file without a line break at its end stays so.
        if end and text[end - 1] != "\n":
            block = block.removesuffix(newline)
        return apply_splices(text, [Splice(start, end, block)])
    # PyYAML ends a mapping at the next token, after the comments of that one. So the new entry becomes the first.
    return _insert_lines(text, _next_line(text, key.end_mark.index), block, newline)


def remove(text: str, keys: Keys) -> str:
    """Return the text without the entry under these two keys, which exists.

    Raises:
        Uneditable: The entry comes from a mapping that ``<<`` merges in.
    """
    root: Any = yaml.compose(text, Loader=_Loader)
    key, mapping = _members(root, text).get(keys[0], (None, None))
    members = _members(mapping, text) if key is not None else {}
    if keys[1] not in members:
        raise Uneditable(f"expected {'.'.join(keys)} to be written out, got one that << merges in from an anchor")
    if mapping.flow_style:
        return apply_splices(text, [_remove_from_flow(text, mapping, keys[1])])
    splices = [Splice(*_line_range(text, *members[keys[1]]), "")]
    # Without members the value would be null, so it becomes {}.
    if key is not None and len(members) == 1:
        colon = text.index(":", key.end_mark.index) + 1
        splices.insert(0, Splice(colon, colon, " {}"))
    return apply_splices(text, splices)


def _count_values(node: Any, counts: dict[int, int | None]) -> int:
    """Return the number of values in a node.

    Args:
        counts: The numbers of visited nodes, by identity; ``None`` for those that contain this one.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in counts:
        if (known := counts[id(node)]) is None:
            raise ComposerError(
                None, None, "expected no alias inside the value that it stands for, got one", node.start_mark
            )
        return known
    counts[id(node)] = None
    keys: set[tuple[str, str]] = set()
    number = 1
    for each in node.value:
        parts = each if isinstance(node, yaml.MappingNode) else (each,)
        if isinstance(node, yaml.MappingNode) and isinstance(each[0], yaml.ScalarNode):
            key = (each[0].tag, each[0].value)
            if key in keys:
                raise ComposerError(None, None, "expected each key once, got one twice", each[0].start_mark)
            keys.add(key)
        number += sum(_count_values(part, counts) for part in parts)
    if number > _MAX_NODES:
        problem = f"expected aliases that stand for at most {_MAX_NODES} values, got more"
        raise ComposerError(None, None, problem, node.start_mark)
    counts[id(node)] = number
    return number


def _is_null(node: Any) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _members(node: Any, text: str) -> dict[str, tuple[Any, Any]]:
    if not isinstance(node, yaml.MappingNode):
        line = text.count("\n", 0, node.start_mark.index) + 1
        got = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise Uneditable(f"line {line}: expected a mapping, got {got}")
    return {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _next_line(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    return len(text) if end < 0 else end + 1


def _end_last_line(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline


def _insert_lines(text: str, offset: int, lines: str, newline: str) -> str:
    if offset == len(text) and not text.endswith("\n"):
        return text + newline + lines
    return apply_splices(text, [Splice(offset, offset, lines)])


def _line_range(text: str, key: Any, value: Any) -> tuple[int, int]:
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    if text[start : key.start_mark.index].strip(" "):
        raise Uneditable(
            f"line {key.start_mark.line + 1}: expected an entry on its own lines, got one after other text"
        )
    end = max(key.end_mark.index, _end_of_last_value(value))
    # PyYAML counts the blank lines after a block scalar as part of it.
    return start, _next_line(text, len(text[:end].rstrip()))


def _end_of_last_value(node: Any) -> int:
    """Return the end of the last value in a node."""
    # PyYAML ends a mapping in block style only where the next token begins.
    while not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    end: int = node.end_mark.index
    return end


def _insert_in_flow(mapping: Any, name: str, value: Any) -> Splice:
    offset = mapping.start_mark.index + 1
    return Splice(offset, offset, f"{_format_flow(name)}: {_format_flow(value)}{', ' if mapping.value else ''}")


def _remove_from_flow(text: str, mapping: Any, name: str) -> Splice:
    nodes = [(key, value) for key, value in mapping.value]
    number = next(number for number, (key, _) in enumerate(nodes) if key.value == name)
    key, value = nodes[number]
    if number + 1 < len(nodes):
        return Splice(key.start_mark.index, nodes[number + 1][0].start_mark.index, "")
    start = nodes[number - 1][1].end_mark.index if number else key.start_mark.index
    return Splice(start, value.end_mark.index, "")


def _format_block(keys: Keys, entry: Mapping[str, Any], margin: int, newline: str) -> str:
    """Return an entry below these keys in block style, with its values in flow style."""
    lines = [f"{' ' * (margin + _STEP * number)}{_format_name(key)}:" for number, key in enumerate(keys)]
    inner = " " * (margin + _STEP * len(keys))
    lines += [f"{inner}{_format_name(name)}: {_format_flow(value)}" for name, value in entry.items()]
    return "".join(f"{line}{newline}" for line in lines)


def _format_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _format_flow(name)


def _format_flow(value: Any) -> str:
    # YAML 1.2 contains JSON, except for the characters of _ESCAPED.
    return _ESCAPED.sub(_escape, json.dumps(value, ensure_ascii=False, default=str))


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
