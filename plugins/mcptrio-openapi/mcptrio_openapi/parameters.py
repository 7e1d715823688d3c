"""The parameters of an operation: path, query, header, cookie.

They are read with the operation, and :mod:`mcptrio_openapi.requests` encodes their values. An argument of the tool has
a name that models accept; in the request, the parameter has its original name.

Source: OpenAPI 3.1.1, 4.8.12 "Parameter Object"; RFC 9110, 5.6.2 and 7.6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

from attrs import field, frozen

from .documents import Document, mapping
from .problems import DocumentError, DocumentProblem, join, name_kind
from .schemas import Schemas
from .styles import STYLES, Style

__all__ = ["Parameter", "read_parameters"]

_PLACES = ("path", "query", "header", "cookie")
_IGNORED = frozenset({"accept", "content-type", "authorization"})
"""Header parameters that the specification requires to be ignored."""
_CONNECTION_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "cookie",
        "user-agent",
        "accept-encoding",
        "proxy-authorization",
        "proxy-connection",
    }
)
"""Headers that the connection or this plugin sets. As parameters, some of them could split a request in two."""
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MAX_PARAMETERS = 200


@frozen(kw_only=True)
class Parameter:
    """One parameter."""

    name: str
    """The name in the request."""
    location: Literal["path", "query", "header", "cookie"]
    argument: str
    """The name of the tool's argument."""
    required: bool
    style: Style
    explode: bool
    reserved: bool = False
    is_json: bool = False
    """True if the value is sent as JSON."""
    schema: Mapping[str, Any] = field(factory=dict, eq=False)


def read_parameters(
    document: Document, holders: list[tuple[Mapping[str, Any], str]], schemas: Schemas, problems: list[DocumentProblem]
) -> list[Parameter]:
    """Return the parameters of a path item and an operation. Those of the operation override those of the path item.

    ``argument`` of each parameter is its original name.

    Args:
        holders: The path item and the operation, with their pointers.
        problems: A list to which problems with omitted parameters are appended.

    Raises:
        DocumentError: A parameter cannot be sent.
    """
    by_name: dict[tuple[str, str], tuple[Mapping[str, Any], str]] = {}
    for holder, pointer in holders:
        for parameter, where in _parameter_objects(document, holder, pointer):
            location, name = parameter.get("in"), parameter.get("name")
            if location not in _PLACES:
                raise DocumentError(
                    join(where, "in"), f"expected one of {', '.join(_PLACES)}, got {name_kind(location)}"
                )
            if not isinstance(name, str) or not name or len(name) > 500:
                raise DocumentError(join(where, "name"), f"expected a name, got {name_kind(name)}")
            by_name[cast(str, location), name.lower() if location == "header" else name] = (parameter, where)
    if len(by_name) > _MAX_PARAMETERS:
        raise DocumentError(holders[-1][1], f"expected at most {_MAX_PARAMETERS} parameters, got {len(by_name)}")
    parameters: list[Parameter] = []
    for parameter, where in by_name.values():
        if parameter["in"] == "header" and parameter["name"].lower() in _IGNORED:
            continue
        if parameter["in"] == "header" and parameter["name"].lower() in _CONNECTION_HEADERS:
            text = f"expected a header that the connection does not set itself, got {name_kind(parameter['name'])}"
            problems.append(DocumentProblem(pointer=join(where, "name"), text=text, lost="the parameter"))
            continue
        parameters.append(_parameter(document, parameter, where, schemas))
    return sorted(parameters, key=lambda each: _PLACES.index(each.location))


def _parameter_objects(
    document: Document, holder: Mapping[str, Any], pointer: str
) -> Iterator[tuple[Mapping[str, Any], str]]:
    listed = holder.get("parameters")
    if listed is None:
        return
    pointer = join(pointer, "parameters")
    if not isinstance(listed, list):
        raise DocumentError(pointer, f"expected an array, got {name_kind(listed)}")
    for index, parameter in enumerate(listed):
        value, where = document.follow(parameter, join(pointer, index))
        yield mapping(value, where), where


def _parameter(document: Document, parameter: Mapping[str, Any], where: str, schemas: Schemas) -> Parameter:
    location, name = parameter["in"], parameter["name"]
    if location == "header" and not _TOKEN.fullmatch(name):
        raise DocumentError(join(where, "name"), f"expected the name of a header, got {name_kind(name)}")
    required = _flag(parameter, "required", where, default=False)
    style = parameter.get("style", STYLES[location][0])
    if style not in STYLES[location]:
        raise DocumentError(
            join(where, "style"),
            f"expected one of {', '.join(STYLES[location])} in a {location}, got {name_kind(style)}",
        )
    is_json = False
    if "content" in parameter:
        content = mapping(parameter["content"], join(where, "content"))
        if len(content) != 1:
            raise DocumentError(join(where, "content"), f"expected one media type, got {len(content)}")
        media_type, media = next(iter(content.items()))
        inner = join(where, "content", media_type)
        kind = str(media_type).partition(";")[0].strip().lower()
        is_json = kind == "application/json" or kind.endswith("+json")
        if not is_json and not kind.startswith("text/"):
            raise DocumentError(inner, f"expected JSON or a text in a parameter, got {name_kind(media_type)}")
        schema = mapping(media, inner).get("schema", {} if is_json else {"type": "string"})
        converted = schemas.convert(schema, join(inner, "schema"))
    elif "schema" in parameter:
        converted = schemas.convert(parameter["schema"], join(where, "schema"))
    else:
        raise DocumentError(where, "expected schema or content, got neither")
    for note in ("description", "deprecated", "example"):
        if note in parameter and note not in converted:
            converted |= schemas.convert({note: parameter[note]}, where)
    return Parameter(
        name=name,
        location=location,
        argument=name,
        required=required or location == "path",
        style=style,
        explode=_flag(parameter, "explode", where, default=style == "form"),
        reserved=location == "query" and _flag(parameter, "allowReserved", where, default=False),
        is_json=is_json,
        schema=converted,
    )


def _flag(parameter: Mapping[str, Any], key: str, where: str, *, default: bool) -> bool:
    value = parameter.get(key, default)
    if not isinstance(value, bool):
        raise DocumentError(join(where, key), f"expected true or false, got {name_kind(value)}")
    return value
