"""An OpenAPI document, in which references can be followed.

Documents in files are read when the plugin is registered; documents at URLs are fetched when the server starts. A
reference must lead to a part of the same document, in a limited number of steps.

Source: OpenAPI 3.0.4 and 3.1.1, "Reference Object"; RFC 6901.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import orjson
from attrs import frozen

from .problems import DocumentError, join, name_kind
from .yaml_text import YAMLError, read_yaml

__all__ = ["Document", "mapping", "read_document"]

_MAX_REFERENCES = 32
"""Maximum number of references that lead to each other."""
_VERSION = re.compile(r"(3)\.([0-9]{1,2})(?:\.[0-9A-Za-z.-]{1,40})?")
_NEWEST = 2


@frozen(eq=False)
class Document:
    """A parsed document."""

    root: Mapping[str, Any]
    minor: int
    """The minor version: 0 for OpenAPI 3.0, which has its own dialect of schemas; 1 and 2 use JSON Schema 2020-12."""
    url: str | None = None
    """The URL from which the document was fetched; ``None`` for a file."""

    @property
    def title(self) -> str:
        info = self.root.get("info")
        title = info.get("title") if isinstance(info, Mapping) else None
        return title if isinstance(title, str) else ""

    def at(self, reference: Any, pointer: str) -> tuple[Any, str]:
        """Return the target of a reference, and its pointer.

        Args:
            pointer: The pointer of the reference, for the error.

        Raises:
            DocumentError: The target is outside the document, or does not exist.
        """
        if not isinstance(reference, str):
            raise DocumentError(join(pointer, "$ref"), f"expected a string, got {name_kind(reference)}")
        if not reference.startswith("#/"):
            raise DocumentError(
                join(pointer, "$ref"),
                f"expected a reference into this document ('#/…'; no other is fetched), got {name_kind(reference)}",
            )
        steps = [
            unquote(step).replace("~1", "/").replace("~0", "~") for step in reference.removeprefix("#/").split("/")
        ]
        value: Any = self.root
        for step in steps:
            if isinstance(value, Mapping) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step[:9]) < len(value):
                value = value[int(step[:9])]
            else:
                raise DocumentError(join(pointer, "$ref"), f"there is nothing at {name_kind(reference)}")
        return value, join("#", *steps)

    def follow(self, value: Any, pointer: str) -> tuple[Any, str]:
        """Return a value, or its target if it is a reference.

        Raises:
            DocumentError: As for ``at``; or there are too many references, possibly in a circle.
        """
        start = pointer
        for _ in range(_MAX_REFERENCES):
            if not (isinstance(value, Mapping) and "$ref" in value):
                return value, pointer
            value, pointer = self.at(value["$ref"], pointer)
        raise DocumentError(
            join(start, "$ref"), f"expected at most {_MAX_REFERENCES} references that lead to each other, got more"
        )


def read_document(data: bytes, *, url: str | None = None) -> Document:
    """Parse a document in JSON or YAML. The content decides which of them it is.

    Raises:
        DocumentError: The data is neither JSON nor YAML, or not an OpenAPI document of version 3.0 to 3.2.
    """
    root = _parse(data)
    if not isinstance(root, Mapping):
        raise DocumentError("#", f"expected an object, got {name_kind(root)}")
    if "openapi" not in root and "swagger" in root:
        raise DocumentError(
            "#/swagger", "expected OpenAPI 3.0, 3.1 or 3.2, got Swagger 2.0; convert the document first"
        )
    version = root.get("openapi")
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None or int(match[2]) > _NEWEST:
        got = "nothing" if version is None else name_kind(version)
        raise DocumentError("#/openapi", f"expected the version 3.0, 3.1 or 3.2, got {got}")
    mapping(root.get("paths", {}), "#/paths")
    return Document(root, int(match[2]), url)


def mapping(value: Any, pointer: str) -> Mapping[str, Any]:
    """Return a value that must be an object.

    Raises:
        DocumentError: The value is not an object.
    """
    if not isinstance(value, Mapping):
        raise DocumentError(pointer, f"expected an object, got {name_kind(value)}")
    return value


def _parse(data: bytes) -> Any:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError("#", f"expected UTF-8, got something else at byte {error.start}") from error
    stripped = text.lstrip()
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if stripped.startswith("{") and '"' in stripped[:200]:
            # The text is most likely meant as JSON, so this error helps more than that of YAML. But it may be YAML in
            # flow style.
            problem = f"expected JSON, got something else: {error.msg} at line {error.lineno}, column {error.colno}"
        else:
            problem = None
    try:
        return read_yaml(text)
    except YAMLError as error:
        raise DocumentError("#", problem or str(error)) from error
