"""Makes msgspec structs for authors' classes, with only the fields that a peer may see or set.

:mod:`mcptrio.schema.annotations` uses this. msgspec could convert JSON to an author's class itself, but it would not
call ``__init__``: a peer could set private fields and fields with ``init=False``, and converters would not run.
Instead, msgspec converts the JSON value to a struct with the fields of the class, and this module calls the class with
the values of the struct. Schema and conversion use the same struct, so they agree about the fields.

Source: msgspec, "Structs", ``defstruct``.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import msgspec

from mcptrio.schema.exact_values import DECIMAL
from mcptrio.schema.pydantic_models import is_model

__all__ = ["CHOICES", "ConstructionError", "Field", "GeneratedStruct", "StructMapper", "fields_of", "sent_names"]

CHOICES = "x-choices"
"""A temporary keyword with the choices of a ``Literal`` in their order, because msgspec sorts them."""
ATOMS = frozenset({str, int, float, bool, type(None)})

_DATE_TIME = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
_DECIMAL = Annotated[Decimal, msgspec.Meta(extra_json_schema={"pattern": DECIMAL})]
_QUALIFIERS = (typing.Required, typing.NotRequired, typing.Final)
_MISSING: Any = object()


class ConstructionError(ValueError):
    """A class raised an error when it was called with the values of its fields.

    Attributes:
        path: The steps of the path to the value, from the innermost to the outermost.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str | int] = []


@attrs.frozen(kw_only=True)
class Field:
    """A field of a class."""

    name: str
    key: str
    """The name in JSON."""
    argument: str
    """The name of the parameter of the class."""
    hint: Any
    default: Callable[[], Any] | None = None
    is_required: bool = True
    is_factory: bool = False
    """Whether ``default`` makes a new value each time."""
    is_init: bool = True
    """Whether the class accepts the field as an argument."""


@attrs.frozen(kw_only=True, eq=False)
class GeneratedStruct:
    """A struct that was made from the fields of a class."""

    cls: Any
    fields: tuple[Field, ...]
    steps: tuple[tuple[str, str, str], ...]
    """The names of each field: the attribute of the struct, the parameter of the class, the member in JSON."""
    make: Callable[..., Any]


class StructMapper:
    """Makes types for msgspec from annotations, and converts values of these types to values of the annotations.

    Args:
        output: Use the fields that are sent instead of those that are accepted.
    """

    def __init__(self, *, output: bool = False) -> None:
        self._output = output
        self._structs: dict[Any, type] = {}
        self.generated: dict[type, GeneratedStruct] = {}
        """The generated structs, by the struct itself."""
        self.enums: dict[type[Enum], None] = {}
        self.models: dict[type, None] = {}

    def to_msgspec(self, annotation: Any) -> Any:
        """Return the type for msgspec; the annotation itself if nothing has to change."""
        if annotation is datetime:
            return _DATE_TIME
        if annotation is Decimal:
            return _DECIMAL
        if annotation is object:  # strict type checkers require dict[str, object] instead of Any
            return Any
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Literal:
            return Annotated[annotation, msgspec.Meta(extra_json_schema={CHOICES: list(arguments)})]
        if origin is None or not arguments:
            return self._convert_plain(annotation)
        if origin is Annotated:
            return self._convert_annotated(arguments[0], arguments[1:], annotation)
        if isinstance(origin, type) and _has_fields(origin):
            return self._struct(annotation)
        if hasattr(origin, "__value__"):  # type Alias[T] = ...
            bound = dict(zip(origin.__parameters__, arguments, strict=False))
            return self.to_msgspec(_substitute(origin.__value__, bound))
        if any(isinstance(argument, list) for argument in arguments):  # Callable[[int], str]; msgspec refuses it
            return annotation
        replaced = tuple(self.to_msgspec(argument) for argument in arguments)
        if all(new is old for new, old in zip(replaced, arguments, strict=True)):
            return annotation
        if origin in (Union, types.UnionType):
            self._check_union(replaced)
            return Union[replaced]  # noqa: UP007 - a union of as many members as there are
        generic: Any = origin
        return generic[replaced]

    def restore(self, value: Any) -> Any:
        """Replace the structs in a converted value by instances of the author's classes.

        Raises:
            ConstructionError: A class refused its fields.
        """
        kind = type(value)
        if kind in ATOMS:
            return value
        generated = self.generated.get(kind)
        if generated is not None:
            return self._instance(generated, value)
        if kind is dict:
            return {key: item if type(item) in ATOMS else self._restore_at(key, item) for key, item in value.items()}
        if kind in (list, tuple, set, frozenset):
            return kind(
                item if type(item) in ATOMS else self._restore_at(number, item) for number, item in enumerate(value)
            )
        return value

    # Private

    def _convert_plain(self, annotation: Any) -> Any:
        if hasattr(annotation, "__supertype__"):
            return self.to_msgspec(annotation.__supertype__)
        if hasattr(annotation, "__value__"):  # type Alias = ...
            return self.to_msgspec(annotation.__value__)
        if isinstance(annotation, TypeVar) and annotation.__bound__ is not None:
            return self.to_msgspec(annotation.__bound__)
        if not isinstance(annotation, type):
            return annotation
        if issubclass(annotation, Enum):
            self.enums[annotation] = None
        elif is_model(annotation):
            self.models[annotation] = None
        elif _has_fields(annotation):
            return self._struct(annotation)
        return annotation

    def _convert_annotated(self, base: Any, metadata: Sequence[Any], annotation: Any) -> Any:
        rewritten = self.to_msgspec(base)
        metas = [_as_meta(item) for item in metadata]
        if rewritten is base and all(new is old for new, old in zip(metas, metadata, strict=True)):
            return annotation
        for meta in metas:
            if isinstance(meta, msgspec.Meta):
                rewritten = Annotated[rewritten, meta]
        return rewritten

    def _check_union(self, members: Sequence[Any]) -> None:
        untagged = [
            self.generated[member].cls.__qualname__
            for member in members
            if isinstance(member, type) and member in self.generated and not _is_distinct(member)
        ]
        if len(untagged) > 1:
            raise TypeError(f"expected at most one class with fields in a union, got {', '.join(untagged)}")

    def _struct(self, annotation: Any) -> type:
        known = self._structs.get(annotation)
        if known is not None:
            return known
        cls = get_origin(annotation) or annotation
        fields = tuple(field for field in fields_of(annotation) or () if _is_shown(cls, field, output=self._output))
        if not self._output:
            _check_init(cls, fields)
        config = getattr(cls, "__struct_config__", None)
        arguments = "".join(f", {getattr(each, '__name__', each)}" for each in get_args(annotation))
        struct = msgspec.defstruct(
            f"{cls.__name__}[{arguments[2:]}]" if arguments else cls.__name__,
            # Numbered names, because a field may have the name of a method of msgspec.Struct.
            [
                (f"f{number}", Any) if field.is_required else (f"f{number}", Any, _OMITTED)
                for number, field in enumerate(fields)
            ],
            rename={f"f{number}": field.key for number, field in enumerate(fields)},
            module=cls.__module__,
            namespace={"__doc__": _doc(cls), "__qualname__": cls.__qualname__},
            frozen=True,
            kw_only=True,
            array_like=config.array_like if config is not None else issubclass(cls, tuple),
            # A tuple class refuses additional items, as its constructor does.
            forbid_unknown_fields=config.forbid_unknown_fields if config is not None else issubclass(cls, tuple),
            tag=config.tag if config is not None else None,
            tag_field=config.tag_field if config is not None else None,
        )
        # Registered before its fields are resolved, because they may refer to the class itself.
        self._structs[annotation] = struct
        self.generated[struct] = GeneratedStruct(
            cls=cls,
            fields=fields,
            steps=tuple((f"f{number}", field.argument, field.key) for number, field in enumerate(fields)),
            make=dict if typing.is_typeddict(cls) else cls,
        )
        # msgspec reads the annotations when the struct is first used, so they can be set after it was created.
        hints = {f"f{number}": self.to_msgspec(field.hint) for number, field in enumerate(fields)}
        struct.__annotations__.update(hints)
        return struct

    def _instance(self, generated: GeneratedStruct, value: Any) -> Any:
        arguments: dict[str, Any] = {}
        for attribute, argument, key in generated.steps:
            item = getattr(value, attribute)
            # An absent field is not passed, so that the default of the class applies.
            if item is not msgspec.UNSET:
                arguments[argument] = item if type(item) in ATOMS else self._restore_at(key, item)
        try:
            return generated.make(**arguments)
        except (TypeError, ValueError) as error:
            raise ConstructionError(str(error)) from error

    def _restore_at(self, step: str | int, value: Any) -> Any:
        try:
            return self.restore(value)
        except ConstructionError as error:
            error.path.append(step)
            raise


def _is_distinct(struct: Any) -> bool:
    """Return whether the JSON value itself identifies a struct: by a tag, or as an array."""
    return struct.__struct_config__.tag is not None or struct.__struct_config__.array_like


def sent_names(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of an attrs class or dataclass that are sent."""
    return tuple(field.name for field in _fields(cls) if _is_shown(cls, field, output=True))


def _is_shown(cls: type, field: Field, *, output: bool) -> bool:
    """Return whether a peer can see a field. Private fields of attrs classes and dataclasses are hidden."""
    if attrs.has(cls) or dataclasses.is_dataclass(cls):
        return not field.name.startswith("_") and (output or field.is_init)
    return True


def fields_of(annotation: Any) -> list[Field] | None:
    """Return the fields of a class, or of a generic class with its arguments; ``None`` for a type without fields.

    Raises:
        TypeError: The annotation of a field has a name that cannot be found.
    """
    cls = get_origin(annotation) or annotation
    if not isinstance(cls, type) or not (_has_fields(cls) or is_model(cls)):
        return None
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise TypeError(f"{cls.__qualname__}: the annotation names {error.name!r}, which cannot be found") from error
    bound = _bindings(annotation)
    return [_resolve_field(field, hints.get(field.name, Any), bound) for field in _fields(cls)]


def _resolve_field(field: Field, hint: Any, bound: Mapping[Any, Any]) -> Field:
    """Return the field with its annotation, without qualifiers such as ``Required[...]``."""
    is_required = field.is_required
    while (qualifier := get_origin(hint)) in _QUALIFIERS:
        # TypedDict does not see the qualifier in an annotation that is a string.
        is_required = is_required if qualifier is typing.Final else qualifier is typing.Required
        (hint,) = get_args(hint)
    return attrs.evolve(field, hint=_substitute(hint, bound), is_required=is_required)


_OMITTED: Any = msgspec.field(default_factory=lambda: msgspec.UNSET)


def _has_fields(cls: type) -> bool:
    return (
        attrs.has(cls)
        or dataclasses.is_dataclass(cls)
        or (issubclass(cls, msgspec.Struct) and cls is not msgspec.Struct)
        or typing.is_typeddict(cls)
        or (issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple))
    )


def _fields(cls: Any) -> Iterator[Field]:
    if attrs.has(cls):
        for each in attrs.fields(cls):
            yield _attrs_field(each)
    elif is_model(cls):
        for name, info in cls.model_fields.items():
            key = info.validation_alias or info.alias or name
            yield Field(name=name, key=key, argument=name, hint=Any, is_required=info.is_required())
    elif dataclasses.is_dataclass(cls):
        for item in dataclasses.fields(cls):
            yield _field(item.name, item.name, item.default, item.default_factory, dataclasses.MISSING, item.init)
    elif issubclass(cls, msgspec.Struct):
        for member in msgspec.structs.fields(cls):
            none = msgspec.NODEFAULT
            yield _field(member.name, member.encode_name, member.default, member.default_factory, none)
    elif typing.is_typeddict(cls):
        for name in cls.__annotations__:
            yield Field(name=name, key=name, argument=name, hint=Any, is_required=name in cls.__required_keys__)
    else:
        for name in cls._fields:
            yield _field(name, name, cls._field_defaults.get(name, _MISSING), _MISSING, _MISSING)


def _attrs_field(field: Any) -> Field:
    default: Any = field.default
    factory: Any = attrs.NOTHING
    if hasattr(default, "takes_self"):
        # The factory needs an instance, so the schema has no default.
        factory = default.factory if not default.takes_self else _no_default
        default = attrs.NOTHING
    generic_field = _field(field.name, field.name, default, factory, attrs.NOTHING, field.init)
    return attrs.evolve(generic_field, argument=field.alias)


def _no_default() -> Any:
    return msgspec.UNSET


def _identity(value: Any) -> Any:
    return value


def _field(name: str, key: str, default: Any, factory: Any, missing: Any, is_init: bool = True) -> Field:
    make_default: Callable[[], Any] | None = None
    if factory is not missing:
        make_default = factory
    elif default is not missing:
        make_default = functools.partial(_identity, default)
    return Field(
        name=name,
        key=key,
        argument=name,
        hint=Any,
        default=make_default,
        is_required=make_default is None,
        is_factory=factory is not missing,
        is_init=is_init,
    )


def _check_init(cls: type, accepted_fields: Sequence[Field]) -> None:
    if not attrs.has(cls) and not dataclasses.is_dataclass(cls):
        return
    for field in _fields(cls):
        if field.is_init and field.is_required and field.name.startswith("_"):
            raise TypeError(
                f"{cls.__qualname__}: the field `{field.name}` is private and has no default, so it cannot be sent"
            )
    parameters = inspect.signature(cls).parameters
    # A class with **kwargs accepts every field.
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    names = {field.argument for field in accepted_fields}
    for name, parameter in parameters.items():
        is_needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        if is_needed and name not in names:
            raise TypeError(f"{cls.__qualname__}: its __init__ needs `{name}`, which is not one of its fields")
    if missing := names - set(parameters):
        raise TypeError(f"{cls.__qualname__}: its __init__ does not take the field `{min(missing)}`")


def _doc(cls: type) -> str | None:
    doc = cls.__doc__
    # The generated docstring of a dataclass or namedtuple, which is its signature, is not a description.
    return None if doc is None or (doc.startswith(f"{cls.__name__}(") and doc.endswith(")")) else doc


def _bindings(annotation: Any) -> Mapping[Any, Any]:
    """Return the types for the type variables of a generic class and of its bases."""
    origin = get_origin(annotation)
    bound = dict(zip(getattr(origin, "__parameters__", ()), get_args(annotation), strict=False))
    queue = [origin or annotation]
    while queue:
        for base in getattr(queue.pop(), "__orig_bases__", ()):
            parent = get_origin(base)
            if parent is None or parent is typing.Generic:
                continue
            for variable, argument in zip(getattr(parent, "__parameters__", ()), get_args(base), strict=False):
                bound_type = _substitute(argument, bound)
                if bound.setdefault(variable, bound_type) != bound_type:
                    raise TypeError(
                        f"{annotation!r}: the type variable {variable} has two different types in its bases"
                    )
            queue.append(parent)
    return bound


def _substitute(hint: Any, bound: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type):
        return hint
    return hint[tuple(bound.get(each, each) for each in parameters)]


def _as_meta(item: Any) -> Any:
    if isinstance(item, str):
        return msgspec.Meta(description=item)
    if type(item).__module__.partition(".")[0] == "pydantic":
        # Not ignored, because the author relies on the limit.
        raise TypeError(f"{type(item).__name__} of pydantic in Annotated is not understood; use msgspec.Meta(...)")
    return item
