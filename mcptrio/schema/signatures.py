"""Makes input schemas and argument converters from signatures, and output schemas from return annotations.

Tools, resources and prompts use this: a signature is analysed once, when the function is registered.

Source: MCP 2026-07-28, server/tools, "Tool" and "Structured Content"; basic/index, "JSON Schema Usage".
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

import msgspec
from attrs import field, frozen

from mcptrio.errors import InvalidParams
from mcptrio.schema.anchors import anchor_patterns
from mcptrio.schema.annotations import Description, add_default, convert, describe, restore
from mcptrio.schema.docstrings import parse_docstring
from mcptrio.schema.encoding import encode_value
from mcptrio.schema.exact_values import ExactValues
from mcptrio.schema.inlining import inline_definitions
from mcptrio.schema.structs import StructMapper

__all__ = ["Arguments", "OutputSchema", "bound_keywords", "encode_value", "schema_of"]

_STREAMS = frozenset(
    {
        collections.abc.AsyncGenerator,
        collections.abc.AsyncIterable,
        collections.abc.AsyncIterator,
        collections.abc.Generator,
        collections.abc.Iterable,
        collections.abc.Iterator,
    }
)
_TEXTUAL = (str, bytes, bytearray, type(None), object, list, tuple)


def schema_of(annotation: Any) -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of an annotation as a complete document.

    Raises:
        TypeError: The annotation has no JSON form.
    """
    return describe([annotation]).to_document()


@frozen(kw_only=True, eq=False)
class Arguments:
    """The arguments of a function: their schema, and the conversion of a JSON object to keyword arguments."""

    schema: dict[str, Any]
    """A schema of an object without additional properties."""
    names: tuple[str, ...]
    """The parameters, in the order of the signature."""
    hints: Mapping[str, Any]
    """The resolved annotations, including ``Annotated``."""
    required: frozenset[str]
    _struct: type[msgspec.Struct] = field(alias="struct")
    _mapper: StructMapper = field(alias="mapper")
    _exact: ExactValues | None = field(alias="exact")

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip: frozenset[str] = frozenset()) -> Arguments:
        """Read a signature.

        Args:
            function: A function, method, partial or callable object.
            skip: Parameters that the client does not set, such as the Context.

        Raises:
            TypeError: A parameter cannot be passed by name, or its annotation has no JSON form or cannot be resolved;
                the message names the function and the parameter.
        """
        called = _name(function)
        skip |= bound_keywords(function)
        annotations: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name in skip:
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(
                    f"{called}: parameter `{parameter}` is {parameter.kind.description}; "
                    f"expected one that can be passed by name, because clients name their arguments"
                )
            annotations[parameter.name] = _resolve(
                function, parameter.annotation, f"{called}: parameter `{parameter.name}`"
            )
            if parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
        description = _describe_each(annotations, called)
        documented = parse_docstring(inspect.getdoc(_innermost_function(function))).parameters
        properties: dict[str, Any] = {}
        schemas, definitions = inline_definitions(description.schemas, description.definitions)
        for name, schema in zip(annotations, schemas, strict=True):
            # The title is the name of a class, which adds nothing to the name of the property.
            schema.pop("title", None)
            if name in documented:
                schema.setdefault("description", documented[name])
            if name in defaults:
                add_default(schema, defaults[name])
            properties[name] = schema
        required = [name for name in annotations if name not in defaults]
        msgspec_hints = {
            name: anchor_patterns(msgspec_type)
            for name, msgspec_type in zip(annotations, description.msgspec_types, strict=True)
        }
        schema = {
            "type": "object",
            **({"properties": properties} if properties else {}),
            **({"required": required} if required else {}),
            # Otherwise a misspelt argument would be ignored, and the model would not learn of its mistake.
            "additionalProperties": False,
            **({"$defs": definitions} if definitions else {}),
        }
        return cls(
            schema=schema,
            names=tuple(annotations),
            hints=annotations,
            required=frozenset(required),
            struct=msgspec.defstruct(
                "Arguments",
                # The placeholder None is never used, because convert() reads only the arguments that were sent.
                [(name, hint, None) if name in defaults else (name, hint) for name, hint in msgspec_hints.items()],
                forbid_unknown_fields=True,
                kw_only=True,
            ),
            mapper=description.mapper,
            exact=ExactValues.of(schema),
        )

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a JSON object to keyword arguments. An absent argument is omitted, so that its default applies.

        Raises:
            InvalidParams: An argument is missing, unknown or of the wrong type; the message names the first problem.
        """
        try:
            # Without options, because an option takes 0.5 µs more, twice the time of a small conversion.
            values = msgspec.convert(arguments, self._struct)
        except (msgspec.ValidationError, TypeError, RecursionError):
            # convert() handles 1.0 for an integer, dict[int, ...] and pydantic models, and makes the error.
            values = convert(arguments, self._struct, self.schema)
        if self._exact is not None:
            self._exact.check(arguments)
        # If all arguments were sent, no value is a placeholder.
        if len(arguments) == len(self.names):
            converted = msgspec.structs.asdict(values)
        else:
            converted = {name: getattr(values, name) for name in arguments}
        if self._mapper.generated:
            restored: dict[str, Any] = restore(self._mapper, converted, arguments, self.schema)
            return restored
        return converted


@frozen(kw_only=True, eq=False)
class OutputSchema:
    """The schema of a function's result, and the conversion of a result to JSON."""

    schema: dict[str, Any] | None
    """``None`` if the result is not structured: text, content blocks, a stream, ``None``, or no annotation."""
    _msgspec_type: Any = field(alias="msgspec_type")
    _is_checked: bool = field(alias="is_checked")
    _exact: ExactValues | None = field(alias="exact", default=None)
    _plain: type | None = field(alias="plain", default=None)
    """The type whose instances are sent unchanged; instances of its subclasses are converted."""

    @classmethod
    def of(cls, annotation: Any, *, content: tuple[type, ...] = ()) -> OutputSchema:
        """Read a return annotation.

        Args:
            annotation: The resolved annotation; ``inspect.Signature.empty`` if there is none.
            content: The classes of content, whose instances are not structured.

        Raises:
            TypeError: The annotation has no JSON form.
        """
        if _is_unstructured(annotation, content):
            return cls(schema=None, msgspec_type=None, is_checked=False)
        description = describe([annotation], output=True)
        (msgspec_type,) = description.msgspec_types
        schema = description.to_document()
        schema.pop("title", None)
        # A pydantic model is not checked: it has already been validated, and may have other names when it is sent.
        return cls(
            schema=schema,
            msgspec_type=msgspec_type,
            is_checked=not description.has_models,
            exact=ExactValues.of(schema),
            plain=next((kind for kind in (str, int, bool) if annotation is kind), None),
        )

    @classmethod
    def of_function(cls, function: Callable[..., Any], *, content: tuple[type, ...] = ()) -> OutputSchema:
        """Read the return annotation of a function.

        Raises:
            TypeError: The annotation cannot be resolved or has no JSON form; the message names the function.
        """
        where = f"{_name(function)}: return annotation"
        annotation = inspect.signature(function).return_annotation
        if annotation is not inspect.Signature.empty:
            annotation = _resolve(function, annotation, where)
        try:
            return cls.of(annotation, content=content)
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from error

    @property
    def is_structured(self) -> bool:
        return self.schema is not None

    @property
    def is_object(self) -> bool:
        """True if the schema accepts only objects, as revisions before 2026-07-28 require."""
        return self.schema is not None and self.schema.get("type") == "object"

    def encode(self, value: Any) -> Any:
        """Convert a function's result to a JSON value.

        Raises:
            TypeError: The result does not match the annotation.
        """
        # A string, integer or boolean of exactly the annotated type needs neither conversion nor check.
        if type(value) is self._plain:
            return value
        encoded = encode_value(value)
        if self._is_checked:
            assert self.schema is not None  # only structured results are checked
            try:
                # Only a check: the encoded value is sent, not the result of this conversion.
                convert(encoded, self._msgspec_type, self.schema)
                if self._exact is not None:
                    self._exact.check(encoded)
            except InvalidParams as error:
                raise TypeError(f"the return value does not fit its annotation: {error.message}") from None
        return encoded


def bound_keywords(function: Callable[..., Any]) -> frozenset[str]:
    """Return the parameters that ``functools.partial`` has bound by keyword, which clients must not set."""
    bound: frozenset[str] = frozenset()
    while isinstance(function, functools.partial):
        bound |= function.keywords.keys()
        function = function.func
    return bound


def _name(function: Callable[..., Any]) -> str:
    return getattr(_innermost_function(function), "__qualname__", repr(function))


def _innermost_function(function: Any) -> Any:
    """Return the function with the annotations, which decorators, partials, methods and callable objects wrap."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
        elif isinstance(function, (types.FunctionType, type)) or not callable(function):
            return function
        elif (called := _call_method(type(function))) is not None:
            function = called
        else:
            return function


def _call_method(cls: type) -> types.FunctionType | None:
    """Return the ``__call__`` function of a class; ``None`` for a class written in C."""
    called = next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)
    return called if isinstance(called, types.FunctionType) else None


def _resolve(function: Callable[..., Any], annotation: Any, where: str) -> Any:
    """Resolve one annotation. The others are not resolved, because a skipped parameter's may have unknown names."""
    if annotation is inspect.Parameter.empty:
        return Any
    code = _innermost_function(function)
    scope = dict(getattr(code, "__globals__", {}))
    # A class that is defined inside of a function is found through the closure.
    if getattr(code, "__closure__", None):
        for name, cell in zip(code.__code__.co_freevars, code.__closure__, strict=True):
            try:
                scope[name] = cell.cell_contents
            except ValueError:  # not assigned yet, such as the name of the function itself
                continue
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, scope, include_extras=True)["it"]
    except NameError as error:
        raise TypeError(f"{where}: the annotation names {error.name!r}, which cannot be found") from error
    except SyntaxError as error:
        raise TypeError(f"{where}: the annotation {annotation!r} is not an expression") from error


def _describe_each(annotations: Mapping[str, Any], called: str) -> Description:
    try:
        return describe(list(annotations.values()))
    except TypeError as error:
        # Described together because they share definitions. Described one by one now, to find the parameter.
        whole = error
    for name, annotation in annotations.items():
        try:
            describe([annotation])
        except TypeError as error:
            raise TypeError(f"{called}: parameter `{name}`: {error}") from error
    raise TypeError(f"{called}: {whole}") from whole


def _is_unstructured(annotation: Any, content: tuple[type, ...]) -> bool:
    if annotation is inspect.Signature.empty or annotation is Any or annotation is None:
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated or hasattr(annotation, "__supertype__"):
        return _is_unstructured(arguments[0] if arguments else annotation.__supertype__, content)
    if origin in _STREAMS or annotation in _STREAMS or annotation in (typing.NoReturn, typing.Never):
        return True
    if origin in (typing.Union, types.UnionType):
        # A union of text and content is not structured; a union with an author's class is.
        members = [member for member in arguments if member is not type(None)]
        return all(_is_unstructured(member, content) for member in members) or _mentions(annotation, content)
    if origin in (list, tuple) and set(arguments) <= {Any, object, ...}:
        return True  # the list may have content in it
    return annotation in _TEXTUAL or _mentions(annotation, content)


def _mentions(annotation: Any, content: tuple[type, ...]) -> bool:
    if isinstance(annotation, type) and not get_args(annotation):
        return issubclass(annotation, content)
    return any(_mentions(argument, content) for argument in get_args(annotation))
