"""The process that parses one file with tree-sitter: reads an order and the text, writes the definitions.

``SourceParser`` starts it by its path, so it imports nothing of this package. tree-sitter is C code that holds the
interpreter's lock while it parses, and some texts take it minutes; the system ends this process if it takes too long or
too much memory.

Source: setrlimit(2).
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any, Final

# The module does not exist on Windows.
if sys.platform != "win32":
    import resource

__all__: list[str] = []

_MAX_DEPTH: Final = 16
"""Definitions inside so many others are left out."""
_MAX_NAME_CHARS: Final = 100
_MAX_DECLARATORS: Final = 64


def main() -> None:
    """Write ``{"symbols": …}`` or ``{"error": …}`` to standard output."""
    sys.path[:] = sys.argv[1:]
    order = json.loads(sys.stdin.buffer.readline())
    _limit(order["memory"], order["seconds"])
    try:
        result: dict[str, object] = {"symbols": _definitions(order, sys.stdin.buffer.read())}
    except MemoryError:
        result = {"error": "parsing the file takes too much memory"}
    except Exception as error:
        # The process has no other task, and its output says what happened.
        result = {"error": f"tree-sitter: {type(error).__name__}: {str(error)[:200]}"}
    json.dump(result, sys.stdout)


def _limit(memory: int, seconds: int) -> None:
    """Limit this process; hard limits, so that nothing in it can raise them."""
    if sys.platform == "win32":
        return
    limits = (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, most in limits:
        resource.setrlimit(kind, (most, most))


def _definitions(order: dict[str, Any], text: bytes) -> list[tuple[str, str, int, int, int, int]]:
    """Return kind, name, first line, last line, line of the name, and depth of each definition, in order."""
    import tree_sitter

    language = tree_sitter.Language(getattr(importlib.import_module(order["package"]), order["function"])())
    tree = tree_sitter.Parser(language).parse(text)
    matches = tree_sitter.QueryCursor(tree_sitter.Query(language, order["query"])).matches(tree.root_node)
    found: dict[int, tuple[int, Any, Any, str]] = {}
    for pattern, captures in matches:
        [name] = captures.pop("name")
        [(kind, [node])] = captures.items()
        name, kind = _innermost(name, kind)
        known = found.get(name.start_byte)
        if known is None or pattern < known[0]:
            found[name.start_byte] = (pattern, node, name, kind)
    if len(found) > order["max_symbols"]:
        raise ValueError(f"expected at most {order['max_symbols']} definitions in the file, got {len(found)}")
    definitions: list[tuple[str, str, int, int, int, int]] = []
    outer: list[tuple[int, int]] = []
    for _, node, name, kind in sorted(found.values(), key=lambda each: (each[1].start_byte, -each[1].end_byte)):
        span = (node.start_byte, node.end_byte)
        # One declaration can define several names.
        while outer and (outer[-1][1] <= span[0] or outer[-1] == span):
            outer.pop()
        if len(outer) < _MAX_DEPTH:
            shown = " ".join(name.text.decode(errors="replace").split())[:_MAX_NAME_CHARS]
            # A node that ends with a line ends at the beginning of the next one.
            last = node.end_point.row - (node.end_point.column == 0)
            first = node.start_point.row
            definitions.append((kind, shown, first, max(first, last), name.start_point.row, len(outer)))
            outer.append(span)
    return definitions


def _innermost(name: Any, kind: str) -> tuple[Any, str]:
    """Return the name in a declarator of C, such as ``*name[3]`` or ``name(int)``, and the kind of what it declares."""
    declared = kind
    for _ in range(_MAX_DECLARATORS):
        inner = name.child_by_field_name("declarator")
        if inner is None and name.type in ("parenthesized_declarator", "reference_declarator"):
            inner = name.named_children[-1] if name.named_children else None
        if inner is None:
            break
        if name.type == "function_declarator" and kind in ("variable", "field"):
            # With parentheses around the name, it is a pointer to a function.
            is_pointer = inner.type == "parenthesized_declarator"
            declared = kind if is_pointer else "function" if kind == "variable" else "method"
        name = inner
    return name, declared


if __name__ == "__main__":
    main()
