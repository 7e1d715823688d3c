"""The responses that a document describes: the schema, media types and headers of a successful response.

They are read with the operation. If this part of the document is invalid, the operation is offered without it.

Source: OpenAPI 3.1.1, 4.8.16 "Responses Object", 4.8.17 "Response Object".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from .config import Config
from .documents import Document
from .locations import OperationLocation
from .problems import DocumentError, DocumentProblem, join
from .schemas import Schemas

__all__ = ["DocumentedResponse", "accept_of", "headers_of", "output_schema_of", "read_responses"]

DocumentedResponse: TypeAlias = tuple[str, Mapping[str, Any], str]
"""A documented response: its code (``200``, ``2XX``, ``DEFAULT``), its response object, and its pointer."""

_MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+*-]{1,100}/[A-Za-z0-9!#$&^_.+*-]{1,100}(?:; ?[A-Za-z0-9_-]+=[A-Za-z0-9_.-]+)?"
)
_JSON = ("application/json", "application/*", "*/*")
_MAX_DEPTH = 8


def read_responses(document: Document, location: OperationLocation) -> list[DocumentedResponse]:
    """Return the documented responses. Invalid ones are dropped."""
    responses = location.operation.get("responses")
    if not isinstance(responses, Mapping):
        return []
    result: list[DocumentedResponse] = []
    for code, raw in responses.items():
        try:
            value, where = document.follow(raw, join(location.pointer, "responses", code))
        except DocumentError:
            continue
        if isinstance(value, Mapping):
            result.append((str(code).upper(), value, where))
    return result


def output_schema_of(
    document: Document, answers: list[DocumentedResponse], config: Config, problems: list[DocumentProblem]
) -> dict[str, Any] | None:
    """Return the schema of a successful response that is a JSON object; ``None`` for other or several types."""
    candidates: list[tuple[Any, str]] = []
    for code, answer, where in answers:
        content = answer.get("content")
        if not (code.startswith("2") and isinstance(content, Mapping)):
            continue
        for media_type, media in content.items():
            kind = str(media_type).partition(";")[0].strip().lower()
            if not (kind in _JSON or kind.endswith("+json")) or not isinstance(media, Mapping):
                return None
            candidates.append(document.follow(media.get("schema", {}), join(where, "content", media_type, "schema")))
    if not candidates or any(where != candidates[0][1] and schema != candidates[0][0] for schema, where in candidates):
        return None
    if not _is_object(document, *candidates[0]):
        return None
    schemas = Schemas(document, sending=False, max_description_chars=config.max_description // 3, problems=problems)
    return schemas.finish({**schemas.convert(*candidates[0]), "type": "object"})


def _is_object(document: Document, schema: Any, pointer: str, depth: int = 0) -> bool:
    schema, pointer = document.follow(schema, pointer)
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return False
    types = schema.get("type", "object" if "properties" in schema else None)
    if types is not None:
        return types == "object" or (isinstance(types, list) and set(types) <= {"object", "null"})
    for keyword, enough in (("allOf", any), ("anyOf", all), ("oneOf", all)):
        parts = schema.get(keyword)
        if isinstance(parts, list) and parts:
            return enough(
                _is_object(document, part, join(pointer, keyword, at), depth + 1) for at, part in enumerate(parts[:50])
            )
    return False


def accept_of(answers: list[DocumentedResponse]) -> str:
    types: list[str] = []
    for code, answer, _ in answers:
        content = answer.get("content")
        if code.startswith("2") and isinstance(content, Mapping):
            types += [str(each) for each in content]
    valid = [each for each in dict.fromkeys(types) if _MEDIA_TYPE.fullmatch(each)]
    if not valid:
        return "application/json, */*;q=0.5"
    return ", ".join([*valid[:10], *(["*/*;q=0.1"] if "*/*" not in valid else [])])


def headers_of(answer: Mapping[str, Any]) -> list[str]:
    headers = answer.get("headers")
    return [str(key) for key in headers] if isinstance(headers, Mapping) else []
