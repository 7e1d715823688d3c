"""The body of a request: its media type, the tool's argument, and the encoded bytes.

The body is read with the operation and encoded with each request. If there are several media types, the first one in
the order JSON, form, multipart, text, bytes is used, so that a model need not choose.

Source: OpenAPI 3.0.4 and 3.1.1, "Request Body Object", "Media Type Object", "Encoding Object"; WHATWG URL, 5.2;
RFC 7578.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import quote_plus

import orjson
from attrs import field, frozen

from mcptrio.errors import ToolError

from .documents import Document, mapping
from .problems import DocumentError, join, name_kind
from .schemas import Schemas
from .styles import Style, plain_text, query_pairs

__all__ = ["Body", "Part", "encode_form", "encode_parts", "encode_whole", "read_body"]

Kind: TypeAlias = Literal["json", "form", "multipart", "text", "bytes"]
Part: TypeAlias = tuple[str, tuple[str | None, bytes, str | None]]
"""A part of multipart: its name, and its file name, bytes and media type."""

_ORDER: tuple[Kind, ...] = ("json", "form", "multipart", "text", "bytes")
_TEXTUAL = ("xml", "yaml", "csv", "javascript", "graphql", "ndjson", "jsonl", "sql", "toml", "edn", "sparql-query")
_FILE = {
    "type": "object",
    "description": "A file.",
    "properties": {
        "data": {"type": "string", "contentEncoding": "base64", "description": "The bytes, as Base64."},
        "filename": {"type": "string"},
        "media_type": {"type": "string"},
    },
    "required": ["data"],
    "additionalProperties": False,
}


@frozen(kw_only=True)
class Encoding:
    """The encoding of one field of a form."""

    media_type: str | None = None
    style: Style | None = None
    explode: bool = True
    reserved: bool = False
    is_file: bool = False


@frozen(kw_only=True)
class Body:
    """The body of an operation's requests."""

    media_type: str
    kind: Kind
    required: bool
    argument: str = "body"
    """The name of the tool's argument."""
    encodings: Mapping[str, Encoding] = field(factory=dict)
    schema: Mapping[str, Any] = field(factory=dict, eq=False)


def read_body(document: Document, operation: Mapping[str, Any], pointer: str, schemas: Schemas) -> Body | None:
    """Return the body of an operation's requests; ``None`` if it has none.

    Raises:
        DocumentError: A part of the request body is invalid.
    """
    if "requestBody" not in operation:
        return None
    value, where = document.follow(operation["requestBody"], join(pointer, "requestBody"))
    media_type_object = mapping(value, where)
    content = mapping(media_type_object.get("content"), join(where, "content"))
    kinds: dict[str, Kind] = {}
    for name in content:
        if (kind := _kind_of(name)) is not None:
            kinds[name] = kind
    if not kinds:
        raise DocumentError(join(where, "content"), "expected a media type that can be sent, got none")
    media_type = min(kinds, key=lambda name: _ORDER.index(kinds[name]))
    inner = join(where, "content", media_type)
    media = mapping(content[media_type], inner)
    required = media_type_object.get("required", False)
    if not isinstance(required, bool):
        raise DocumentError(join(where, "required"), f"expected true or false, got {name_kind(required)}")
    kind = kinds[media_type]
    encodings: dict[str, Encoding] = {}
    if kind == "json":
        schema = schemas.convert(media.get("schema", {}), join(inner, "schema"))
    elif kind in ("form", "multipart"):
        schema, encodings = _fields(document, media, inner, schemas, is_multipart=kind == "multipart")
    else:
        schema = {"type": "string"} if kind == "text" else {"type": "string", "contentEncoding": "base64"}
    if "description" in media_type_object and "description" not in schema:
        schema = {**schema, **schemas.convert({"description": media_type_object["description"]}, where)}
    if "*" in media_type:
        media_type = {"json": "application/json", "text": "text/plain"}.get(kind, "application/octet-stream")
    return Body(media_type=media_type, kind=kind, required=required, encodings=encodings, schema=schema)


def encode_whole(body: Body, value: Any) -> bytes:
    """Encode a body of JSON, text or bytes.

    Raises:
        ToolError: The value has the wrong type.
    """
    where = body.argument
    if body.kind == "json":
        return orjson.dumps(value)
    if not isinstance(value, str):
        raise ToolError(f"expected a string, got {type(value).__name__} at `{where}`")
    return value.encode() if body.kind == "text" else _decode_base64(value, where)


def encode_form(body: Body, value: Any) -> bytes:
    """Encode a body as ``application/x-www-form-urlencoded``.

    Raises:
        ToolError: The value is not an object, or nested too deeply for its style.
    """
    pairs: list[str] = []
    for name, item in _items(body, value):
        encoding = body.encodings.get(name, _DEFAULT)
        if encoding.style is not None:
            pairs += [
                # In a form a space is a plus.
                pair.replace("%20", "+") if encoding.style != "spaceDelimited" else pair
                for pair in query_pairs(
                    name, item, encoding.style, explode=encoding.explode, reserved=encoding.reserved
                )
            ]
            continue
        for each in item if isinstance(item, list) else [item]:
            if each is not None:
                pairs.append(f"{quote_plus(name)}={quote_plus(plain_text(each))}")
    return "&".join(pairs).encode()


def encode_parts(body: Body, value: Any) -> list[Part]:
    """Return the parts of ``multipart/form-data``, in the order of the value's fields.

    Raises:
        ToolError: The value is not an object, or a file is not Base64.
    """
    parts: list[Part] = []
    for name, item in _items(body, value):
        encoding = body.encodings.get(name, _DEFAULT)
        for at, each in enumerate(item if isinstance(item, list) else [item]):
            if each is None:
                continue
            where = f"{body.argument}.{name}" + (f"[{at}]" if isinstance(item, list) else "")
            parts.append((name, _part(encoding, name, each, where)))
    return parts


_DEFAULT = Encoding()


def _part(encoding: Encoding, name: str, value: Any, where: str) -> tuple[str | None, bytes, str | None]:
    if encoding.is_file:
        if not isinstance(value, Mapping) or not isinstance(value.get("data"), str):
            raise ToolError(f"expected an object with the text `data`, got {type(value).__name__} at `{where}`")
        filename, media_type = value.get("filename", name), value.get("media_type", encoding.media_type)
        for text, key in ((filename, "filename"), (media_type, "media_type")):
            if isinstance(text, str) and any(ord(character) < 32 or ord(character) == 127 for character in text):
                raise ToolError(f"expected a string without control characters, got one with them at `{where}.{key}`")
        return filename, _decode_base64(value["data"], f"{where}.data"), media_type or "application/octet-stream"
    if isinstance(value, Mapping | list):
        return None, orjson.dumps(value), encoding.media_type or "application/json"
    return None, plain_text(value).encode(), encoding.media_type


def _items(body: Body, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise ToolError(f"expected an object, got {type(value).__name__} at `{body.argument}`")
    return list(value.items())


def _decode_base64(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"expected Base64 at `{where}`: {error}") from error


def _kind_of(media_type: str) -> Kind | None:
    kind = media_type.partition(";")[0].strip().lower()
    if any(ord(character) < 32 or ord(character) > 126 for character in media_type) or "/" not in kind:
        return None
    if kind in ("application/json", "*/*", "application/*") or kind.endswith("+json"):
        return "json"
    if kind == "application/x-www-form-urlencoded":
        return "form"
    if kind == "multipart/form-data":
        return "multipart"
    if kind.startswith("multipart/"):
        return None
    subtype = kind.partition("/")[2]
    if kind.startswith("text/") or any(word in subtype.replace("x-", "").split("+") for word in _TEXTUAL):
        return "text"
    return "bytes"


def _fields(
    document: Document, media: Mapping[str, Any], pointer: str, schemas: Schemas, *, is_multipart: bool
) -> tuple[dict[str, Any], dict[str, Encoding]]:
    """Return the schema of a form, in which files are objects, and the encoding of each field."""
    media_schema, where = document.follow(media.get("schema", {}), join(pointer, "schema"))
    declared = media_schema.get("properties", {}) if isinstance(media_schema, Mapping) else {}
    properties = mapping(declared, join(where, "properties"))
    by_name = mapping(media.get("encoding", {}), join(pointer, "encoding"))
    schema = schemas.convert(media_schema, where)
    changed = dict(schema.get("properties", {}))
    encodings: dict[str, Encoding] = {}
    for name, raw in properties.items():
        location = join(pointer, "encoding", name)
        encoding_object = mapping(by_name.get(name, {}), location)
        media_type = encoding_object.get("contentType")
        if media_type is not None and (not isinstance(media_type, str) or not media_type.isprintable()):
            raise DocumentError(join(location, "contentType"), f"expected a media type, got {name_kind(media_type)}")
        # The first type of a list is used. A wildcard is no type, so the value decides.
        first = media_type.partition(",")[0].strip() if media_type and "*" not in media_type else None
        target, _ = document.follow(raw, join(where, "properties", name))
        items = target.get("items", {}) if isinstance(target, Mapping) else {}
        inner, _ = document.follow(items, join(where, "properties", name, "items"))
        is_list = isinstance(target, Mapping) and target.get("type") == "array"
        is_file = is_multipart and _is_file(inner if is_list else target, media_type)
        if is_file and name in changed:
            notes = {key: value for key, value in changed[name].items() if key == "description"}
            changed[name] = {"type": "array", "items": _FILE, **notes} if is_list else {**_FILE, **notes}
        encodings[name] = Encoding(
            media_type=first,
            style=None if is_multipart else _style(encoding_object, location),
            explode=encoding_object.get("explode", encoding_object.get("style", "form") == "form") is True,
            reserved=encoding_object.get("allowReserved") is True,
            is_file=is_file,
        )
    return {**schema, "type": "object", "properties": changed}, encodings


def _style(encoding_object: Mapping[str, Any], pointer: str) -> Style | None:
    """Return the style of a field; ``None`` if the document gives none. Arrays are then repeated; objects are JSON."""
    if not {"style", "explode", "allowReserved"} & set(encoding_object):
        return None
    style = encoding_object.get("style", "form")
    if style not in ("form", "spaceDelimited", "pipeDelimited", "deepObject"):
        raise DocumentError(join(pointer, "style"), f"expected the style of a query, got {name_kind(style)}")
    return style  # type: ignore[no-any-return]


def _is_file(schema: Any, media_type: str | None) -> bool:
    if not isinstance(schema, Mapping):
        return False
    if schema.get("format") == "binary" or "contentMediaType" in schema:
        return True
    if schema.get("type") == "string" or "type" not in schema:
        # OpenAPI 3.1 describes bytes with an empty schema and a media type.
        textual = ("application/json", "text/", "application/xml")
        return media_type is not None and not media_type.startswith(textual) and "enum" not in schema
    return False
