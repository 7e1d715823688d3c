"""The program that parses one file with tree-sitter. It reads a request and the text, and writes the definitions.

``SourceParser`` starts it by its path, so it imports nothing from this package. tree-sitter holds the interpreter lock
while it parses, and some texts take minutes, so it runs in a separate process with limits on time and memory.

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
"""Definitions at a greater depth are omitted."""
_MAX_NAME_CHARS: Final = 100
_MAX_DECLARATORS: Final = 64


def main() -> None:
    """Write ``{"symbols": …}`` or ``{"error": …}`` to standard output."""
    sys.path[:] = sys.argv[1:]
    request = json.loads(sys.stdin.buffer.readline())
    _limit(request["memory"], request["seconds"])
    try:
        result: dict[str, object] = {"symbols": _definitions(request, sys.stdin.buffer.read())}
    except MemoryError:
        result = {"error": "parsing the file takes too much memory"}
    except Exception as error:
        # All errors are reported to the parent process.
        result = {"error": f"tree-sitter: {type(error).__name__}: {str(error)[:200]}"}
    json.dump(result, sys.stdout)


def _limit(memory: int, seconds: int) -> None:
    """Set hard limits for this process, which its code cannot raise again."""
    if sys.platform == "win32":
        return
    limits = (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, limit in limits:
        resource.setrlimit(kind, (limit, limit))


def _definitions(request: dict[str, Any], text: bytes) -> list[tuple[str, str, int, int, int, int]]:
    """Return the kind, name, first line, last line, line of the name, and depth of each definition, in order."""
    import tree_sitter

    language = tree_sitter.Language(getattr(importlib.import_module(request["package"]), request["function"])())
    tree = tree_sitter.Parser(language).parse(text)
    matches = tree_sitter.QueryCursor(tree_sitter.Query(language, request["query"])).matches(tree.root_node)
    by_start: dict[int, tuple[int, Any, Any, str]] = {}
    for pattern, captures in matches:
        [name] = captures.pop("name")
        [(kind, [node])] = captures.items()
        name, kind = _declared_name(name, kind)
        definition = by_start.get(name.start_byte)
        if definition is None or pattern < definition[0]:
            by_start[name.start_byte] = (pattern, node, name, kind)
    if len(by_start) > request["max_symbols"]:
        raise ValueError(f"expected at most {request['max_symbols']} definitions in the file, got {len(by_start)}")
    definitions: list[tuple[str, str, int, int, int, int]] = []
    outer: list[tuple[int, int]] = []
    for _, node, name, kind in sorted(by_start.values(), key=lambda each: (each[1].start_byte, -each[1].end_byte)):
        span = (node.start_byte, node.end_byte)
        # One declaration can define several names.
        while outer and (outer[-1][1] <= span[0] or outer[-1] == span):
            outer.pop()
        if len(outer) < _MAX_DEPTH:
            display_name = " ".join(name.text.decode(errors="replace").split())[:_MAX_NAME_CHARS]
            # A node that includes a line end has its end point at column 0 of the next line.
            last = node.end_point.row - (node.end_point.column == 0)
            first = node.start_point.row
            definitions.append((kind, display_name, first, max(first, last), name.start_point.row, len(outer)))
            outer.append(span)
    return definitions


def _declared_name(name: Any, kind: str) -> tuple[Any, str]:
    """Return the name in a C declarator, such as ``*name[3]`` or ``name(int)``, and the kind of the declaration."""
    declared = kind
    for _ in range(_MAX_DECLARATORS):
        inner = name.child_by_field_name("declarator")
        if inner is None and name.type in ("parenthesized_declarator", "reference_declarator"):
            inner = name.named_children[-1] if name.named_children else None
        if inner is None:
            break
        if name.type == "function_declarator" and kind in ("variable", "field"):
            # Parentheses around the name declare a pointer to a function.
            is_pointer = inner.type == "parenthesized_declarator"
            declared = kind if is_pointer else "function" if kind == "variable" else "method"
        name = inner
    return name, declared


if __name__ == "__main__":
    main()
