"""Finds the operations of a document, names their tools, and selects those that the operator wants.

It is the first step of reading operations. All operations are named in the order of the document before any is dropped,
so that a selection cannot change a name.

Source: OpenAPI 3.1.1, 4.8.8 "Paths Object", 4.8.9 "Path Item Object".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from attrs import frozen

from .config import METHODS, Api
from .documents import Document, mapping
from .names import MAX_NAME_CHARS, Names
from .problems import DocumentError, DocumentProblem, join, name_kind, shorten

__all__ = ["OperationLocation", "find_operations", "is_chosen"]


@frozen
class OperationLocation:
    """An operation, its location in the document, and the name of its tool."""

    method: str
    path: str
    item: Mapping[str, Any]
    item_pointer: str
    operation: Mapping[str, Any]
    pointer: str
    tool: str

    @property
    def holders(self) -> list[tuple[Mapping[str, Any], str]]:
        return [(self.item, self.item_pointer), (self.operation, self.pointer)]

    @property
    def label(self) -> str:
        return f"{self.method} {shorten(self.path, 200)}"


def find_operations(document: Document, name: str, problems: list[DocumentProblem]) -> Iterator[OperationLocation]:
    prefix = f"{name}_"
    names = Names(MAX_NAME_CHARS - len(prefix))
    for path, raw in mapping(document.root.get("paths", {}), "#/paths").items():
        pointer = join("#", "paths", path)
        if path.startswith("x-"):
            continue
        try:
            if not path.startswith("/"):
                raise DocumentError(pointer, f"expected a path that begins with a slash, got {shorten(path, 60)!r}")
            value, item_pointer = document.follow(raw, pointer)
            item = mapping(value, item_pointer)
        except DocumentError as error:
            problems.append(
                DocumentProblem(pointer=error.pointer, text=error.text, lost=f"everything at {shorten(path, 200)}")
            )
            continue
        for method in METHODS:
            if method.lower() not in item:
                continue
            where = join(item_pointer, method.lower())
            operation = item[method.lower()]
            if not isinstance(operation, Mapping):
                text = f"expected an operation, got {name_kind(operation)}"
                problems.append(DocumentProblem(pointer=where, text=text, lost=f"{method} {shorten(path, 200)}"))
                continue
            identifier = operation.get("operationId")
            if identifier is not None and not isinstance(identifier, str):
                text = f"expected a string, got {name_kind(identifier)}; the tool is named after its path"
                problems.append(DocumentProblem(pointer=join(where, "operationId"), text=text))
                identifier = None
            operation_name, is_other = names.assign(identifier or f"{method.lower()}{path.rstrip('/') or '_root'}")
            if is_other:
                text = f"an earlier operation has this name; the name of the tool is {prefix}{operation_name}"
                problems.append(DocumentProblem(pointer=join(where, "operationId"), text=text))
            yield OperationLocation(method, path, item, item_pointer, operation, where, f"{prefix}{operation_name}")


def is_chosen(location: OperationLocation, api: Api) -> bool:
    identifier = location.operation.get("operationId")
    texts = [location.path, *([identifier] if isinstance(identifier, str) else [])]
    tags = location.operation.get("tags")
    return (
        location.method in {method.upper() for method in api.methods}
        and (not api.tags or (isinstance(tags, list) and any(tag in api.tags for tag in tags)))
        and (not api.operations or any(fnmatchcase(text, glob) for text in texts[1:] for glob in api.operations))
        and (not api.paths or any(fnmatchcase(location.path, glob) for glob in api.paths))
        and not any(fnmatchcase(text, glob) for text in texts for glob in api.exclude)
    )
