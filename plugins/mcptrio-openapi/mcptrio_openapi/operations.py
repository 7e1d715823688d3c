"""Reads the operations of a document, and prepares them as tools.

The plugin calls it for each document. An invalid operation is left out and reported with its pointer.

Source: OpenAPI 3.1.1, 4.8.10 "Operation Object".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson
from attrs import evolve, field, frozen

from mcptrio.schema import Validator

from .bodies import Body, read_body
from .config import SAFE_METHODS, Api, Config
from .documents import Document
from .locations import OperationLocation, find_operations, is_chosen
from .names import Names
from .parameters import Parameter, read_parameters
from .problems import DocumentError, DocumentProblem, join, name_kind, shorten
from .responses import accept_of, headers_of, output_schema_of, read_responses
from .schemas import Schemas
from .security import Scheme, schemes_of
from .servers import base_url_of, own_base_url

__all__ = ["ARGUMENT", "DocumentReading", "Operation", "read_operation", "read_operations"]

ARGUMENT = "the_arguments"
"""The only parameter of the function of a tool. No argument of an operation may have this name."""

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_MAX_PROBLEMS = 1000
_MAX_SEARCHED = 20_000
"""Maximum number of operations of one document. The largest published documents have about 17,000."""


@frozen(kw_only=True)
class Operation:
    """One operation that is a tool."""

    tool: str
    """The tool's name without the prefix."""
    api: str
    method: str
    path: str
    """The path template."""
    pointer: str
    """The JSON pointer of the operation in the document."""
    base_url: str
    title: str | None
    description: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    schemes: tuple[Scheme, ...]
    accept: str
    headers: tuple[str, ...]
    """The response headers that the document describes, in lower case."""
    input_schema: Mapping[str, Any] = field(eq=False)
    input_validator: Validator = field(eq=False)
    output_schema: Mapping[str, Any] | None = field(eq=False)
    output_validator: Validator | None = field(eq=False)

    @property
    def label(self) -> str:
        """The operation in messages, without values of a call, which may be long or secret."""
        return f"{self.method} {shorten(self.path, 200)} of {self.api}"

    @property
    def is_safe(self) -> bool:
        """True if the method changes nothing (RFC 9110, 9.2.1)."""
        return self.method in SAFE_METHODS

    @property
    def is_idempotent(self) -> bool:
        """True if sending the method twice has the same effect as sending it once (RFC 9110, 9.2.2)."""
        return self.is_safe or self.method in ("PUT", "DELETE")


@frozen(kw_only=True)
class DocumentReading:
    """The operations and problems of one document."""

    operations: tuple[Operation, ...] = ()
    searchable: tuple[OperationLocation, ...] = ()
    """Operations without tools; :func:`read_operation` reads each when it is needed."""
    base_url: str = ""
    problems: tuple[DocumentProblem, ...] = ()


def read_operations(document: Document, name: str, config: Config) -> DocumentReading:
    """Read the operations of a document that the operator has selected, and collect their problems.

    Args:
        name: The name of the API in the configuration.
    """
    api = config.apis[name]
    problems: list[DocumentProblem] = []
    try:
        base_url = base_url_of(document, api)
        locations = [location for location in find_operations(document, name, problems) if is_chosen(location, api)]
    except DocumentError as error:
        return DocumentReading(problems=(DocumentProblem(pointer=error.pointer, text=error.text, lost="everything"),))
    operations: list[Operation] = []
    searchable: list[OperationLocation] = []
    used: set[str] = set()
    is_searchable = api.mode == "search" or len(locations) > api.max_tools
    if len(locations) > _MAX_SEARCHED:
        text = (
            f"expected at most {_MAX_SEARCHED} operations, got {len(locations)}; choose with tags, operations or paths"
        )
        lost = f"{locations[_MAX_SEARCHED].label} and what follows"
        problems.append(DocumentProblem(pointer=locations[_MAX_SEARCHED].pointer, text=text, lost=lost))
    for location in locations[:_MAX_SEARCHED]:
        try:
            if is_searchable:
                schemes = schemes_of(document, api, base_url, location.operation, location.pointer)
                searchable.append(location)
            else:
                operation = read_operation(document, name, config, base_url, location, problems)
                schemes = operation.schemes
                operations.append(operation)
        except DocumentError as error:
            problems.append(DocumentProblem(pointer=error.pointer, text=error.text, lost=location.label))
        else:
            used.update(scheme.key for scheme in schemes)
    for key in api.auth:
        if key not in used:
            text = f"expected a security scheme called {key!r} that a chosen operation uses, got none"
            problems.append(DocumentProblem(pointer="#/components/securitySchemes", text=text))
    return DocumentReading(
        operations=tuple(operations),
        searchable=tuple(searchable),
        base_url=base_url,
        problems=tuple(problems[:_MAX_PROBLEMS]),
    )


def read_operation(
    document: Document,
    name: str,
    config: Config,
    base_url: str,
    location: OperationLocation,
    problems: list[DocumentProblem],
) -> Operation:
    """Read one operation with its schemas.

    Args:
        name: The name of the API in the configuration.
        base_url: The base URL of the API.
        problems: A list to which problems with omitted parts are appended.

    Raises:
        DocumentError: The operation cannot be called.
    """
    api = config.apis[name]
    schemas = Schemas(document, sending=True, max_description_chars=config.max_description // 3, problems=problems)
    schemes = schemes_of(document, api, base_url, location.operation, location.pointer)
    parameters = _without_configured(read_parameters(document, location.holders, schemas, problems), schemes, api)
    parameters = _with_valid_path(location, parameters, problems)
    body = read_body(document, location.operation, location.pointer, schemas)
    if body is not None and location.method in ("GET", "HEAD"):
        text = "expected no body in a GET or HEAD; it is not sent"
        problems.append(DocumentProblem(pointer=join(location.pointer, "requestBody"), text=text, lost="the body"))
        body = None
    parameters, body = _with_argument_names(parameters, body)
    input_schema = _input_schema(parameters, body, schemas)
    input_validator = _validator(input_schema, location.pointer, config)
    output_schema = output_validator = None
    answers = read_responses(document, location)
    try:
        output_schema = output_schema_of(document, answers, config, problems)
        if output_schema is not None:
            output_validator = _validator(output_schema, join(location.pointer, "responses"), config)
    except DocumentError as error:
        output_schema = None
        lost = f"the output schema of {location.label}"
        problems.append(DocumentProblem(pointer=error.pointer, text=error.text, lost=lost))
    summary = location.operation.get("summary")
    return Operation(
        tool=location.tool,
        api=name,
        method=location.method,
        path=location.path,
        pointer=location.pointer,
        base_url=own_base_url(document, api, base_url, location.holders),
        title=shorten(summary, 100) or None if isinstance(summary, str) else None,
        description=_description(location, config.max_description),
        parameters=tuple(parameters),
        body=body,
        schemes=schemes,
        accept=accept_of(answers),
        headers=tuple(sorted({key.lower() for _, answer, _ in answers for key in headers_of(answer)})),
        input_schema=input_schema,
        input_validator=input_validator,
        output_schema=output_schema,
        output_validator=output_validator,
    )


def _without_configured(parameters: list[Parameter], schemes: tuple[Scheme, ...], api: Api) -> list[Parameter]:
    """Return the parameters without those whose values are configured, such as API keys and headers."""
    configured_names = {(scheme.kind, _wire_name(scheme.kind, scheme.name)) for scheme in schemes}
    configured_names |= {("header", name.lower()) for name in api.headers}
    return [
        each for each in parameters if (each.location, _wire_name(each.location, each.name)) not in configured_names
    ]


def _wire_name(location: str, name: str) -> str:
    return name.lower() if location == "header" else name


def _with_valid_path(
    location: OperationLocation, parameters: list[Parameter], problems: list[DocumentProblem]
) -> list[Parameter]:
    """Check the path template, and drop path parameters that do not occur in it.

    Raises:
        DocumentError: The template is invalid, or a variable has no parameter.
    """
    variables = _VARIABLE.findall(location.path)
    path_names = {each.name for each in parameters if each.location == "path"}
    for variable in variables:
        if variable not in path_names:
            text = f"expected a path parameter {name_kind(variable)}, got none"
            raise DocumentError(join(location.pointer, "parameters"), text)
    rest = _VARIABLE.sub("", location.path)
    if any(character in "{}?#\\" or not character.isprintable() for character in rest):
        text = f"expected a path template without '?', '#' and single braces, got {shorten(location.path, 60)!r}"
        raise DocumentError(location.item_pointer, text)
    if any(segment in (".", "..") for segment in location.path.split("/")):
        raise DocumentError(
            location.item_pointer, f"expected a path without '.' and '..', got {shorten(location.path, 60)!r}"
        )
    for name in sorted(path_names - set(variables)):
        text = f"the path has no {{{shorten(name, 60)}}}"
        problems.append(DocumentProblem(pointer=join(location.pointer, "parameters"), text=text, lost="the parameter"))
    return [each for each in parameters if each.location != "path" or each.name in variables]


def _with_argument_names(parameters: list[Parameter], body: Body | None) -> tuple[list[Parameter], Body | None]:
    names = Names(dots=True, reserved=frozenset({ARGUMENT}))
    parameters = [evolve(each, argument=names.assign(each.name, each.location)[0]) for each in parameters]
    if body is not None:
        body = evolve(body, argument=names.assign("body", "of_request")[0])
    return parameters, body


def _input_schema(parameters: list[Parameter], body: Body | None, schemas: Schemas) -> dict[str, Any]:
    properties: dict[str, Any] = {each.argument: each.schema for each in parameters}
    required = [each.argument for each in parameters if each.required]
    if body is not None:
        properties[body.argument] = body.schema
        if body.required:
            required.append(body.argument)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return schemas.finish(schema)


def _validator(schema: Mapping[str, Any], pointer: str, config: Config) -> Validator:
    try:
        size = len(orjson.dumps(schema))
    except TypeError as error:
        raise DocumentError(pointer, f"expected a schema of JSON values: {error}") from error
    if size > config.max_schema_bytes:
        text = f"expected a schema of at most {config.max_schema_bytes} bytes (max_schema_bytes), got {size}"
        raise DocumentError(pointer, text)
    try:
        return Validator(schema)
    except ValueError as error:
        raise DocumentError(pointer, shorten(str(error), 400)) from error


def _description(location: OperationLocation, max_chars: int) -> str:
    end = f"{location.method} {shorten(location.path, 200)}"
    if location.operation.get("deprecated") is True:
        end += " (deprecated)"
    texts: list[str] = []
    for key in ("summary", "description"):
        text = location.operation.get(key)
        if isinstance(text, str) and text.strip():
            # Descriptions are Markdown, so line ends are kept.
            clean = "".join(each for each in text if each.isprintable() or each == "\n").strip()
            if clean not in texts:
                texts.append(clean)
    room = max(max_chars - len(end) - 2, 0)
    whole = "\n\n".join(texts)
    if len(whole) > room:
        whole = whole[: max(room - 1, 0)].rstrip() + "…"
    return f"{whole}\n\n{end}" if whole else end
