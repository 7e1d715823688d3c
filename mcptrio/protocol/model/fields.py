"""Protocol classes: frozen attrs classes whose fields state in which revisions they exist.

All modules of this package use it, and ``mcptrio.protocol.revisions.converter`` reads these statements. A class
describes the newest revision; a field that not all revisions have states ``since`` or ``until``, so no other code
compares revisions. Names are snake_case here and camelCase on the wire; ``name=`` is for exceptions.

Source: MCP ``schema/<revision>/schema.ts`` of all five revisions, compared field by field.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, dataclass_transform, overload

import attrs

__all__ = [
    "ABSENT",
    "Absent",
    "ClassHistory",
    "FieldHistory",
    "Meta",
    "class_history",
    "evolve",
    "exists_in",
    "field",
    "field_history",
    "model",
]

C = TypeVar("C", bound=type)
T = TypeVar("T")

Meta: TypeAlias = dict[str, Any]
"""A ``_meta`` object, kept unchanged. The progress token and the envelope of 2026-07-28 are members of it."""


class Absent(Enum):
    """The type of :data:`ABSENT`."""

    ABSENT = "absent"

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""The value of an absent member, for fields in which JSON null is a valid value."""


@attrs.frozen(kw_only=True)
class FieldHistory:
    """The revisions that have a field, and its form on the wire. See :func:`field`."""

    since: str | None = None
    until: str | None = None
    name: str | None = None
    """The wire name, if it is not the camelCase form of the field's name."""
    always: bool = False
    """Whether the field is written even if it equals the default, because the schema requires it. When reading, its
    absence is accepted."""
    renamed: tuple[str, str] | None = None
    """The first revision with the present wire name, and the wire name before it."""

    def name_in(self, version: str) -> str | None:
        """Return the wire name in a revision; ``None`` for the camelCase form of the field's name."""
        if self.renamed is not None and exists_in(version, until=self.renamed[0]):
            return self.renamed[1]
        return self.name


@attrs.frozen(kw_only=True)
class ClassHistory:
    """The revisions that have a class, and the constant member (the tag) that names the class on the wire."""

    since: str | None = None
    tag: str | None = None
    """The class variable with the tag, such as ``type``; if its value is ``None``, no tag is written."""
    tag_since: str | None = None
    """The first revision that has the tag."""


@overload
def field(
    *,
    since: str | None = None,
    until: str | None = None,
    name: str | None = None,
) -> Any: ...
@overload
def field(
    *,
    default: T,
    since: str | None = None,
    until: str | None = None,
    name: str | None = None,
    always: bool = False,
    renamed: tuple[str, str] | None = None,
) -> T: ...
@overload
def field(
    *,
    factory: Callable[[], T],
    since: str | None = None,
    until: str | None = None,
    name: str | None = None,
    always: bool = False,
) -> T: ...
def field(
    *,
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    since: str | None = None,
    until: str | None = None,
    name: str | None = None,
    always: bool = False,
    renamed: tuple[str, str] | None = None,
) -> Any:
    """Declare a field. Without ``default`` and ``factory`` it is required.

    Args:
        since: The first revision that has the field.
        until: The first revision without it.
        name: The wire name, if it is not the camelCase form of the field's name.
        always: Write it even if it equals the default.
        renamed: The first revision with the present wire name, and the wire name before it.
    """
    history = FieldHistory(since=since, until=until, name=name, always=always, renamed=renamed)
    return attrs.field(default=default, factory=factory, metadata={FieldHistory: history})


@overload
def model(cls: C, /) -> C: ...
@overload
def model(*, tag: str | None = None, tag_since: str | None = None, since: str | None = None) -> Callable[[C], C]: ...
@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def model(
    cls: C | None = None, /, *, tag: str | None = None, tag_since: str | None = None, since: str | None = None
) -> C | Callable[[C], C]:
    """Make a class a protocol class: frozen, slotted, keyword-only.

    Args:
        tag: The class variable whose value names the class on the wire (``type``, ``method``, ``mode``).
        tag_since: The first revision that has the tag. Without them, a class inherits both from its base.
        since: The first revision that has the class.
    """

    def decorate(cls: C) -> C:
        inherited = class_history(cls)
        shared: dict[str, Any] = {
            "__eq__": _equal,
            "__hash__": _hash,
            "__repr__": _represent,
            "__history__": ClassHistory(
                since=since, tag=tag or inherited.tag, tag_since=tag_since or inherited.tag_since
            ),
        }
        for name, value in shared.items():
            setattr(cls, name, value)
        return attrs.frozen(cls, kw_only=True, slots=True, eq=False, repr=False)

    return decorate if cls is None else decorate(cls)


def class_history(cls: type) -> ClassHistory:
    """Return the history of a protocol class."""
    history: ClassHistory = getattr(cls, "__history__", _NO_CLASS_HISTORY)
    return history


def exists_in(version: str, *, since: str | None = None, until: str | None = None) -> bool:
    """Return whether a part of the protocol belongs to a revision.

    Args:
        since: The first revision that has the part; ``None`` for the oldest.
        until: The first later revision without it; ``None`` if there is none.
    """
    return (since is None or since <= version) and (until is None or version < until)


def evolve(instance: T, /, **changes: Any) -> T:
    """Return a copy of a protocol value with changed fields. This is ``attrs.evolve`` with types for these classes."""
    evolved: T = attrs.evolve(cast("Any", instance), **changes)
    return evolved


def field_history(attribute: attrs.Attribute[Any]) -> FieldHistory:
    """Return the history of a field of a protocol class."""
    history: FieldHistory = attribute.metadata.get(FieldHistory, _NO_FIELD_HISTORY)
    return history


# All classes share these three methods. attrs would compile them for each of a hundred classes, which takes more than
# half of the import time of this package.


def _equal(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash((self.__class__, *_values(self)))


def _represent(self: Any) -> str:
    members = ", ".join(
        f"{a.name}={getattr(self, a.name)!r}" for a in self.__attrs_attrs__ if _differs_from_default(self, a)
    )
    return f"{self.__class__.__name__}({members})"


def _differs_from_default(self: Any, attribute: attrs.Attribute[Any]) -> bool:
    default = attribute.default
    return default is attrs.NOTHING or bool(getattr(self, attribute.name) != default)


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, attribute.name) for attribute in self.__attrs_attrs__])


_NO_CLASS_HISTORY = ClassHistory()
_NO_FIELD_HISTORY = FieldHistory()
