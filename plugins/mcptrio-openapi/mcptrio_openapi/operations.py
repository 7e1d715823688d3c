"""The operations of a document, prepared as tools.

Called when the plugin registers (files) or starts (URLs). An invalid operation is dropped and reported with its place.

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
from .names import Names
from .parameters import Parameter, read_parameters
from .places import OperationLocation, is_chosen, read_places
from .problems import DocumentError, DocumentProblem, join, name_kind, shorten
from .responses import accept_of, headers_of, output_schema_of, read_answers
from .schemas import Schemas
from .security import Scheme, schemes_of
from .servers import base_url_of, own_base_url

__all__ = ["ARGUMENT", "DocumentReading", "Operation", "read_operation", "read_operations"]

ARGUMENT = "the_arguments"
"""The only parameter of the tool's function; no argument can have this name."""

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_MAX_PROBLEMS = 1000
_MAX_SEARCHED = 20_000
"""Operations of one document that can be searched. The largest published documents have about 17,000."""


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
        """The operation in messages. Contains no values of a call, which may be long or secret."""
        return f"{self.method} {shorten(self.path, 200)} of {self.api}"

    @property
    def is_safe(self) -> bool:
        """Whether the method changes nothing (RFC 9110, 9.2.1)."""
        return self.method in SAFE_METHODS

    @property
    def is_idempotent(self) -> bool:
        """Whether the method has the same effect when it is sent twice (RFC 9110, 9.2.2)."""
        return self.is_safe or self.method in ("PUT", "DELETE")


@frozen(kw_only=True)
class DocumentReading:
    """The operations and problems of one document."""

    operations: tuple[Operation, ...] = ()
    searched: tuple[OperationLocation, ...] = ()
    """Operations without tools; :func:`read_operation` reads each when it is needed."""
    base_url: str = ""
    problems: tuple[DocumentProblem, ...] = ()


def read_operations(document: Document, name: str, config: Config) -> DocumentReading:
    """The operations of a document that the operator has chosen, and every problem with them.

    Args:
        name: of the API in the configuration.
    """
    api = config.apis[name]
    problems: list[DocumentProblem] = []
    try:
        base_url = base_url_of(document, api)
        places = [place for place in read_places(document, name, problems) if is_chosen(place, api)]
    except DocumentError as misfit:
        return DocumentReading(problems=(DocumentProblem(pointer=misfit.pointer, text=misfit.text, lost="everything"),))
    operations: list[Operation] = []
    searched: list[OperationLocation] = []
    used: set[str] = set()
    is_searched = api.mode == "search" or len(places) > api.max_tools
    if len(places) > _MAX_SEARCHED:
        text = f"expected at most {_MAX_SEARCHED} operations, got {len(places)}; choose with tags, operations or paths"
        lost = f"{places[_MAX_SEARCHED].label} and what follows"
        problems.append(DocumentProblem(pointer=places[_MAX_SEARCHED].pointer, text=text, lost=lost))
    for place in places[:_MAX_SEARCHED]:
        try:
            if is_searched:
                schemes = schemes_of(document, api, base_url, place.operation, place.pointer)
                searched.append(place)
            else:
                operation = read_operation(document, name, config, base_url, place, problems)
                schemes = operation.schemes
                operations.append(operation)
        except DocumentError as misfit:
            problems.append(DocumentProblem(pointer=misfit.pointer, text=misfit.text, lost=place.label))
        else:
            used.update(scheme.key for scheme in schemes)
    for key in api.auth:
        if key not in used:
            text = f"expected a security scheme called {key!r} that a chosen operation uses, got none"
            problems.append(DocumentProblem(pointer="#/components/securitySchemes", text=text))
    return DocumentReading(
        operations=tuple(operations),
        searched=tuple(searched),
        base_url=base_url,
        problems=tuple(problems[:_MAX_PROBLEMS]),
    )


def read_operation(
    document: Document,
    name: str,
    config: Config,
    base_url: str,
    place: OperationLocation,
    problems: list[DocumentProblem],
) -> Operation:
    """Read one operation with its schemas.

    Args:
        name: of the API in the configuration.
        base_url: of the API.
        problems: gets the omitted parts.

    Raises:
        Misfit: It cannot be called.
    """
    api = config.apis[name]
    schemas = Schemas(document, sending=True, most_text=config.max_description // 3, problems=problems)
    schemes = schemes_of(document, api, base_url, place.operation, place.pointer)
    parameters = _sent_otherwise(read_parameters(document, place.holders, schemas, problems), schemes, api)
    parameters = _checked_path(place, parameters, problems)
    body = read_body(document, place.operation, place.pointer, schemas)
    if body is not None and place.method in ("GET", "HEAD"):
        text = "expected no body in a GET or HEAD; it is not sent"
        problems.append(DocumentProblem(pointer=join(place.pointer, "requestBody"), text=text, lost="the body"))
        body = None
    parameters, body = _named(parameters, body)
    input_schema = _input_schema(parameters, body, schemas)
    input_validator = _validator(input_schema, place.pointer, config)
    output_schema = output_validator = None
    answers = read_answers(document, place)
    try:
        output_schema = output_schema_of(document, answers, config, problems)
        if output_schema is not None:
            output_validator = _validator(output_schema, join(place.pointer, "responses"), config)
    except DocumentError as misfit:
        output_schema = None
        lost = f"the output schema of {place.label}"
        problems.append(DocumentProblem(pointer=misfit.pointer, text=misfit.text, lost=lost))
    summary = place.operation.get("summary")
    return Operation(
        tool=place.tool,
        api=name,
        method=place.method,
        path=place.path,
        pointer=place.pointer,
        base_url=own_base_url(document, api, base_url, place.holders),
        title=shorten(summary, 100) or None if isinstance(summary, str) else None,
        description=_description(place, config.max_description),
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


def _sent_otherwise(parameters: list[Parameter], schemes: tuple[Scheme, ...], api: Api) -> list[Parameter]:
    """The parameters without those that the configuration answers already."""
    own = {(scheme.kind, _wire_name(scheme.kind, scheme.name)) for scheme in schemes}
    own |= {("header", name.lower()) for name in api.headers}
    return [each for each in parameters if (each.place, _wire_name(each.place, each.name)) not in own]


def _wire_name(place: str, name: str) -> str:
    return name.lower() if place == "header" else name


def _checked_path(
    place: OperationLocation, parameters: list[Parameter], problems: list[DocumentProblem]
) -> list[Parameter]:
    """The parameters, of which those in the path are the variables of the template, each once.

    Raises:
        Misfit: a variable has no parameter.
    """
    variables = _VARIABLE.findall(place.path)
    known = {each.name for each in parameters if each.place == "path"}
    for variable in variables:
        if variable not in known:
            text = f"expected a path parameter {name_kind(variable)}, got none"
            raise DocumentError(join(place.pointer, "parameters"), text)
    rest = _VARIABLE.sub("", place.path)
    if any(character in "{}?#\\" or not character.isprintable() for character in rest):
        text = f"expected a path template without '?', '#' and single braces, got {shorten(place.path, 60)!r}"
        raise DocumentError(place.item_pointer, text)
    if any(segment in (".", "..") for segment in place.path.split("/")):
        raise DocumentError(
            place.item_pointer, f"expected a path without '.' and '..', got {shorten(place.path, 60)!r}"
        )
    for name in sorted(known - set(variables)):
        text = f"the path has no {{{shorten(name, 60)}}}"
        problems.append(DocumentProblem(pointer=join(place.pointer, "parameters"), text=text, lost="the parameter"))
    return [each for each in parameters if each.place != "path" or each.name in variables]


def _named(parameters: list[Parameter], body: Body | None) -> tuple[list[Parameter], Body | None]:
    names = Names(dots=True, taken=frozenset({ARGUMENT}))
    parameters = [evolve(each, argument=names.give(each.name, each.place)[0]) for each in parameters]
    if body is not None:
        body = evolve(body, argument=names.give("body", "of_request")[0])
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


def _description(place: OperationLocation, most: int) -> str:
    end = f"{place.method} {shorten(place.path, 200)}"
    if place.operation.get("deprecated") is True:
        end += " (deprecated)"
    texts: list[str] = []
    for key in ("summary", "description"):
        text = place.operation.get(key)
        if isinstance(text, str) and text.strip():
            # Line ends stay: descriptions are Markdown.
            clean = "".join(each for each in text if each.isprintable() or each == "\n").strip()
            if clean not in texts:
                texts.append(clean)
    room = max(most - len(end) - 2, 0)
    whole = "\n\n".join(texts)
    if len(whole) > room:
        whole = whole[: max(room - 1, 0)].rstrip() + "…"
    return f"{whole}\n\n{end}" if whole else end
