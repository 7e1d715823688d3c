"""Input schemas and converters from signatures, and output schemas from return annotations.

Used when tools and prompts are registered, and for each call. A signature is analysed once, at registration.

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
from mcptrio.schema.anchors import anchored
from mcptrio.schema.annotations import Description, convert, describe, restore, show_default
from mcptrio.schema.docstrings import parse_docstring
from mcptrio.schema.encoding import encode_value
from mcptrio.schema.exact_values import ExactValues
from mcptrio.schema.inlining import inlined
from mcptrio.schema.shapes import Shapes

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
    """An object schema that admits no other property."""
    names: tuple[str, ...]
    """The parameters, in the order of the signature."""
    hints: Mapping[str, Any]
    """The resolved annotations, with the contents of ``Annotated``."""
    required: frozenset[str]
    _struct: type[msgspec.Struct] = field(alias="struct")
    _shapes: Shapes = field(alias="shapes")
    _exact: ExactValues | None = field(alias="exact")

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip: frozenset[str] = frozenset()) -> Arguments:
        """Read a signature.

        Args:
            function: A function, method, partial or callable object.
            skip: Parameters that the caller supplies, such as the context.

        Raises:
            TypeError: A parameter cannot be passed by name, or its annotation has no JSON form or cannot be resolved;
                the message names function and parameter.
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
                    f"only parameters that can be given by name can be called from outside"
                )
            annotations[parameter.name] = _resolve(
                function, parameter.annotation, f"{called}: parameter `{parameter.name}`"
            )
            if parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
        description = _describe_each(annotations, called)
        documented = parse_docstring(inspect.getdoc(_code(function))).parameters
        properties: dict[str, Any] = {}
        schemas, definitions = inlined(description.schemas, description.definitions)
        for name, schema in zip(annotations, schemas, strict=True):
            # The title repeats the name of the class; the property has the name of the parameter.
            schema.pop("title", None)
            if name in documented:
                schema.setdefault("description", documented[name])
            if name in defaults:
                show_default(schema, defaults[name])
            properties[name] = schema
        required = [name for name in annotations if name not in defaults]
        taken = {name: anchored(wire) for name, wire in zip(annotations, description.wires, strict=True)}
        schema = {
            "type": "object",
            **({"properties": properties} if properties else {}),
            **({"required": required} if required else {}),
            # A misspelt argument would otherwise be dropped silently, and the model would never learn of it.
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
                # The placeholder None is never read: convert() reads only what was given.
                [(name, hint, None) if name in defaults else (name, hint) for name, hint in taken.items()],
                forbid_unknown_fields=True,
                kw_only=True,
            ),
            shapes=description.shapes,
            exact=ExactValues.of(schema),
        )

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a JSON object to keyword arguments. Missing ones stay missing, so the function's defaults apply.

        Raises:
            InvalidParams: An argument is missing, unknown or of the wrong type; the message names the first problem.
        """
        try:
            # No options: passing one doubles the time of a small call (0.26 -> 0.76 us).
            values = msgspec.convert(arguments, self._struct)
        except (msgspec.ValidationError, TypeError, RecursionError):
            # The slow path handles 1.0 for an integer, dict[int, ...], pydantic models, and the error message.
            values = convert(arguments, self._struct, self.schema)
        if self._exact is not None:
            self._exact.check(arguments)
        # All were given, so the struct has no placeholder and can be taken whole.
        if len(arguments) == len(self.names):
            given = msgspec.structs.asdict(values)
        else:
            given = {name: getattr(values, name) for name in arguments}
        if self._shapes.generated:
            restored: dict[str, Any] = restore(self._shapes, given, arguments, self.schema)
            return restored
        return given


@frozen(kw_only=True, eq=False)
class OutputSchema:
    """The result of a function: whether it is structured content, its schema, and the check before it is sent."""

    schema: dict[str, Any] | None
    """``None`` where the result is not structured: text, content blocks, streams, nothing, or no annotation."""
    _wire: Any = field(alias="wire")
    _is_checked: bool = field(alias="is_checked")
    _exact: ExactValues | None = field(alias="exact", default=None)
    _plain: type | None = field(alias="plain", default=None)
    """A type whose instances, but not those of subclasses, are sent unchanged."""

    @classmethod
    def of(cls, annotation: Any, *, content: tuple[type, ...] = ()) -> OutputSchema:
        """Read a return annotation (``inspect.Signature.empty`` if there is none).

        Args:
            annotation: Resolved, not a string; see :meth:`of_function`.
            content: The classes whose instances are content already.

        Raises:
            TypeError: The annotation has no JSON form.
        """
        if _is_unstructured(annotation, content):
            return cls(schema=None, wire=None, is_checked=False)
        description = describe([annotation], output=True)
        (wire,) = description.wires
        schema = description.to_document()
        schema.pop("title", None)
        # A pydantic model has been validated when it was made, and may be sent under other names than it takes.
        return cls(
            schema=schema,
            wire=wire,
            is_checked=not description.has_models,
            exact=ExactValues.of(schema),
            plain=next((kind for kind in (str, int, bool) if annotation is kind), None),
        )

    @classmethod
    def of_function(cls, function: Callable[..., Any], *, content: tuple[type, ...] = ()) -> OutputSchema:
        """Read the return annotation of a function.

        Raises:
            TypeError: It cannot be found or has no JSON form; the message names the function.
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
        """Whether the schema accepts only objects, which revisions before 2026-07-28 require at the root."""
        return self.schema is not None and self.schema.get("type") == "object"

    def encode(self, value: Any) -> Any:
        """Convert a function's result to a JSON value.

        Raises:
            TypeError: The result does not fit the annotation, which is the function's fault.
        """
        # A plain string or number needs neither conversion nor check.
        if type(value) is self._plain:
            return value
        encoded = encode_value(value)
        if self._is_checked:
            assert self.schema is not None  # only structured results are checked
            try:
                # The result of the conversion is not used: the encoded value itself is sent.
                convert(encoded, self._wire, self.schema)
                if self._exact is not None:
                    self._exact.check(encoded)
            except InvalidParams as error:
                raise TypeError(f"the return value does not fit its annotation: {error.message}") from None
        return encoded


def bound_keywords(function: Callable[..., Any]) -> frozenset[str]:
    """Return the parameters that ``functools.partial`` has bound by keyword, which callers may not set."""
    bound: frozenset[str] = frozenset()
    while isinstance(function, functools.partial):
        bound |= function.keywords.keys()
        function = function.func
    return bound


def _name(function: Callable[..., Any]) -> str:
    return getattr(_code(function), "__qualname__", repr(function))


def _code(function: Any) -> Any:
    """Return the plain function below decorators, partials, methods and callable objects, which has the annotations."""
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
    """Return the function that runs when an instance is called; ``None`` for a class written in C."""
    called = next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)
    return called if isinstance(called, types.FunctionType) else None


def _resolve(function: Callable[..., Any], annotation: Any, where: str) -> Any:
    """Resolve one annotation. One at a time, because that of a skipped parameter may not be resolvable."""
    if annotation is inspect.Parameter.empty:
        return Any
    code = _code(function)
    scope = dict(getattr(code, "__globals__", {}))
    # A class that is defined inside a function is visible to annotations only through the closure.
    if getattr(code, "__closure__", None):
        for name, cell in zip(code.__code__.co_freevars, code.__closure__, strict=True):
            try:
                scope[name] = cell.cell_contents
            except ValueError:  # assigned only later, as a function's own name is
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
        # All at once first, since shared definitions are only found together; then one by one, to name the parameter.
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
        # A union of text and content is content; one with a class of the author's is structured.
        members = [member for member in arguments if member is not type(None)]
        return all(_is_unstructured(member, content) for member in members) or _mentions(annotation, content)
    if origin in (list, tuple) and set(arguments) <= {Any, object, ...}:
        return True  # may hold content, which only the value can tell
    return annotation in _TEXTUAL or _mentions(annotation, content)


def _mentions(annotation: Any, content: tuple[type, ...]) -> bool:
    if isinstance(annotation, type) and not get_args(annotation):
        return issubclass(annotation, content)
    return any(_mentions(argument, content) for argument in get_args(annotation))
