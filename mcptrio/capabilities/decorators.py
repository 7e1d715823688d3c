"""The decorators of plugin authors. They mark a function and return it unchanged, so a test can call it directly.

The plugin manager reads the marks of a module or object, and registers the marked functions. A mark contains only the
options of the decorator; the signature is analysed when the function is registered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import getattr_static, getdoc, isclass, ismodule
from math import inf
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_args, overload

from attrs import evolve, field, fields, frozen
from attrs.validators import and_, gt, in_, instance_of, lt, optional

from mcptrio.ground.expected import expect, kind_of
from mcptrio.ground.suggestions import suggest
from mcptrio.protocol.model.base import CacheScope
from mcptrio.protocol.model.content import Annotations
from mcptrio.protocol.model.icons import Icon
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool
from mcptrio.schema.docstrings import parse_docstring

__all__ = [
    "CompletionMark",
    "Header",
    "Mark",
    "MethodMark",
    "PromptMark",
    "PromptOptions",
    "ResourceMark",
    "ResourceOptions",
    "ToolMark",
    "ToolOptions",
    "completion",
    "make_mark",
    "mark_of",
    "marks_of",
    "method",
    "notification",
    "prompt",
    "resource",
    "tool",
]

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", "ToolMark", "ResourceMark", "PromptMark")

_MARKS = "__mcptrio_marks__"
# RFC 6749 section 3.3, scope-token; the limit on the length is mcptrio's.
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")


# attrs' optional(tuple) would take 5 ms of each start, because attrs makes Python tokenize the signature of tuple.
def _icons(icons: Iterable[Icon] | None) -> tuple[Icon, ...] | None:
    return None if icons is None else tuple(icons)


def _scopes(scopes: Iterable[str]) -> frozenset[str]:
    # frozenset() would make a scope of each letter of a string.
    if isinstance(scopes, str):
        raise TypeError(f"scopes: expected a list of strings, got the string {scopes!r}")
    made = frozenset(scopes)
    for each in made:
        if not _SCOPE.fullmatch(each):
            raise ValueError(f"scopes: expected printable ASCII without blanks, quotes, backslashes, got {each!r}")
    return made


@frozen
class Header:
    """Marks a parameter, in ``Annotated``, that clients repeat in the HTTP header ``Mcp-Param-<name>`` (2026-07-28).

    Do not use it for secrets. Source: MCP 2026-07-28, basic/transports/streamable-http, "Custom headers".
    """

    name: str


_SECONDS: Final = optional(and_(instance_of(int | float), gt(0)))
"""Validates seconds; ``math.inf`` is allowed."""
_FINITE_SECONDS: Final = and_(instance_of(int | float), gt(0), lt(inf))
TaskSupport: TypeAlias = Literal["never", "optional", "required"]
"""Whether calls of a tool may outlive their requests."""


@frozen(kw_only=True)
class _EntryMark:
    name: str | None = None
    title: str | None = None
    description: str | None = None
    icons: tuple[Icon, ...] | None = field(default=None, converter=_icons)
    meta: Mapping[str, Any] | None = None
    timeout: float | None = field(default=None, validator=_SECONDS)
    scopes: frozenset[str] = field(default=frozenset(), converter=_scopes)

    def display_members(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Return the members of the listed entry that describe it to users and models."""
        return {
            "title": self.title,
            "description": self.description or parse_docstring(getdoc(function)).description or None,
            "icons": self.icons,
            "meta": dict(self.meta) if self.meta is not None else None,
        }


@frozen(kw_only=True)
class ToolMark(_EntryMark):
    kind: ClassVar = "tools"
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    concurrency: int | None = None
    task: TaskSupport = field(default="never", validator=in_(get_args(TaskSupport)))
    ttl: float | None = field(default=None, validator=optional(_FINITE_SECONDS))
    poll_interval: float = field(default=2.0, validator=_FINITE_SECONDS)
    resumable: bool = False
    fallback_tools: bool = False
    text: Callable[[Any], str] | None = None
    examples: Sequence[Mapping[str, Any]] | Callable[[Any], Iterable[Mapping[str, Any]]] = ()
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    listed: Tool | None = None
    """The tool as another server lists it; only the name is changed. The function takes ``arguments``, a dict. Neither
    the arguments nor the result are validated, because the other server validates them."""

    def __attrs_post_init__(self) -> None:
        # `mcptrio plugins doctor` makes these calls, which must not change anything.
        if self.examples and self.read_only is not True:
            raise ValueError(f"examples: expected read_only=True with them, got {self.read_only!r}")


@frozen(kw_only=True)
class ResourceMark(_EntryMark):
    kind: ClassVar = "resources"
    uri: str = ""
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    ttl_ms: int = 0
    cache_scope: CacheScope = "private"
    listed: Resource | ResourceTemplate | None = None
    """The resource as another server lists it, with the same URI. The function takes ``uri``."""


@frozen(kw_only=True)
class PromptMark(_EntryMark):
    kind: ClassVar = "prompts"
    listed: Prompt | None = None
    """The prompt as another server lists it; only the name is changed. The function takes ``arguments``, a dict of
    texts."""


@frozen(kw_only=True)
class CompletionMark:
    kind: ClassVar = "completions"
    of: Literal["prompt", "resource"] = field(validator=in_(("prompt", "resource")))
    name: str
    argument: str


@frozen(kw_only=True)
class MethodMark:
    kind: ClassVar = "methods"
    name: str
    notification: bool
    capability: str | None = None


Mark: TypeAlias = ToolMark | ResourceMark | PromptMark | CompletionMark | MethodMark


class _EntryOptions(TypedDict, total=False):
    name: str | None
    title: str | None
    description: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, Any] | None
    timeout: float | None
    scopes: Iterable[str]


class ToolOptions(_EntryOptions, total=False):
    """The options of a tool, of ``@tool`` and of ``add_tool``: see :func:`tool`."""

    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    concurrency: int | None
    task: TaskSupport
    ttl: float | None
    poll_interval: float
    resumable: bool
    fallback_tools: bool
    text: Callable[[Any], str] | None
    examples: Sequence[Mapping[str, Any]] | Callable[[Any], Iterable[Mapping[str, Any]]]
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    listed: Tool | None


class ResourceOptions(_EntryOptions, total=False):
    """The options of a resource, of ``@resource`` and of ``add_resource``: see :func:`resource`."""

    mime_type: str | None
    size: int | None
    annotations: Annotations | None
    ttl_ms: int
    cache_scope: CacheScope
    listed: Resource | ResourceTemplate | None


class PromptOptions(_EntryOptions, total=False):
    """The options of a prompt, of ``@prompt`` and of ``add_prompt``: see :func:`prompt`."""

    listed: Prompt | None


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
    """Mark a function as a tool, which a model can call.

    Args:
        name: 1 to 128 characters of ``A-Za-z0-9_.-``; by default the function's name.
        title: The name that users see.
        description: The text for the model; by default the docstring without its parameters.
        read_only, destructive, idempotent, open_world: Hints; ``None`` sends none.
        timeout: Seconds from the start of the call, with or without progress; ``math.inf`` for no limit.
        concurrency: Calls that may run at the same time; further calls wait. A call counts until its code has ended.
        task: Whether a call may outlive its request as a task, for clients that support tasks. ``optional``: it becomes
            a task if it has not ended after ``timeouts.task_after``, or if a client of 2025-11-25 asks for one.
            ``required``: always, and other clients get an error.
        ttl: Seconds for which a task may run and is kept; by default ``timeouts.request``.
        poll_interval: Seconds that clients should wait between two polls of a task.
        resumable: Whether the function may run again from the start, in another process, if its process ends. Answers
            of the user and results of ``ctx.once`` are kept.
        text: Makes the text for the model from the value that the function returns; by default its JSON. The structured
            content is for programs.
        examples: Arguments of calls that ``mcptrio plugins doctor`` makes to measure the answers; clients do not see
            them. If they depend on settings, a function of the method's object that returns them, before the lifespan.
            Only with ``read_only=True``.
        fallback_tools: Whether a tool with ``task="required"`` is offered to clients without tasks as two tools:
            ``start_NAME`` starts a task, and ``NAME_status`` shows or cancels it.
        scopes: Scopes that the caller's token must have (RFC 6749 section 3.3). Without them the tool is not listed,
            and over HTTP the response to a call names them. They do not apply to servers without authorization.
        input_schema: Replaces the schema of the signature; the function then takes one ``dict`` or keyword arguments.
        output_schema: Replaces the schema of the return annotation.
        icons: Icons that users see.
        meta: The tool's ``_meta``.
        listed: The tool as another server lists it: offered unchanged except for the name. The function takes
            ``arguments``, a dict that is not validated, and its result is not validated.

    Raises:
        TypeError: There is no such option, or it has another type.
        ValueError: An option is out of range.

    Source: MCP 2026-07-28, server/tools.
    """
    mark = make_mark(ToolMark, options)
    return _attach(mark) if function is None else _attach(mark)(function)


def resource(uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
    """Mark a function as a resource, or as a resource template if the URI contains variables (RFC 6570).

    Args:
        uri: ``scheme:…``; ``{variables}`` become the function's arguments.
        name: The name of the resource; by default, the function's name.
        mime_type: The type of the contents; by default ``text/plain`` for text and ``application/octet-stream`` for
            bytes.
        size: The size in bytes, if known in advance.
        timeout: Seconds for one read.
        scopes: Scopes required to read it and to subscribe to it, as for a tool.
        ttl_ms: Milliseconds for which a client may cache the contents (2026-07-28).
        cache_scope: ``public`` only if the contents are the same for all users.
        listed: The resource or template as another server lists it, with the same URI. The function takes ``uri``.

    Raises:
        TypeError: There is no such option, or it has another type.
        ValueError: An option is out of range.

    Source: MCP 2026-07-28, server/resources and server/utilities/caching.
    """
    if callable(uri):
        raise TypeError(f'@resource: uri: expected str, got {kind_of(uri)}; write @resource("URI")')
    expect(uri, str, "@resource: uri")
    return _attach(make_mark(ResourceMark, {"uri": uri, **options}))


@overload
def prompt(function: F, /) -> F: ...
@overload
def prompt(**options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
def prompt(function: F | None = None, /, **options: Unpack[PromptOptions]) -> F | Callable[[F], F]:
    """Mark a function as a prompt, which a user can select.

    The parameters are the prompt's arguments. The wire has only strings, so a parameter of another type is read from
    its text form (``3``, ``true``, ``[1, 2]``).

    Args:
        timeout: Seconds for one call.
        scopes: Scopes required to get it, as for a tool.
        listed: The prompt as another server lists it, except for the name. The function takes ``arguments``, a dict of
            strings.

    Raises:
        TypeError: There is no such option, or it has another type.
        ValueError: An option is out of range.

    Source: MCP 2026-07-28, server/prompts.
    """
    mark = make_mark(PromptMark, options)
    return _attach(mark) if function is None else _attach(mark)(function)


def completion(of: Literal["prompt", "resource"], name: str, argument: str, /) -> Callable[[F], F]:
    """Mark a function as the completion of an argument.

    The function may take ``value`` (the text typed so far), ``arguments`` (those already chosen) and a Context, and
    returns strings in any order: they are ranked and cut to 100.

    Args:
        of: ``prompt`` or ``resource``.
        name: The prompt's name, or the URI template.
        argument: The prompt's argument, or the template's variable.

    Raises:
        ValueError: ``of`` is neither ``prompt`` nor ``resource``.

    Source: MCP 2026-07-28, server/utilities/completion.
    """
    return _attach(CompletionMark(of=of, name=name, argument=argument))


def method(name: str, /, *, capability: str | None = None) -> Callable[[F], F]:
    """Mark a function as the handler of a request outside the specification.

    The function takes a Context and the params (a dict in wire form), either or both, and returns a dict.

    Args:
        capability: An extension's identifier; the method exists only while the extension is advertised.
    """
    return _attach(MethodMark(name=name, notification=False, capability=capability))


def notification(name: str, /) -> Callable[[F], F]:
    """Mark a function as the handler of a notification: your own, or one of the specification."""
    return _attach(MethodMark(name=name, notification=True))


def make_mark(kind: type[M], options: Mapping[str, Any], marked: M | None = None) -> M:
    """Return a mark with these options.

    Args:
        marked: The mark that the function already has. Its other options are kept.

    Raises:
        TypeError: There is no such option, or it has another type.
        ValueError: An option is out of range.
    """
    names = [each.name for each in fields(kind)]
    for option in options:
        if option not in names:
            # Python's own message would name the attrs class instead of the decorator.
            raise TypeError(f"there is no option `{option}`{suggest(option, names)}")
    return evolve(marked, **options) if marked is not None else kind(**options)


def mark_of(function: Callable[..., Any], kind: type[M], options: Mapping[str, Any]) -> M:
    """Return the mark for a function that is added with options, which replace those of its decorator."""
    marks = [mark for mark in getattr(function, _MARKS, ()) if isinstance(mark, kind)]
    return make_mark(kind, options, marks[0] if marks else None)


def marks_of(plugin: object) -> Iterator[tuple[Callable[..., Any], Mark]]:
    """Yield the decorated functions of a module, class or object with their marks, in order of definition."""
    seen: set[str] = set()
    # Overriding attributes come before the overridden ones, which are then skipped.
    scopes = [plugin] if ismodule(plugin) else plugin.__mro__ if isclass(plugin) else [plugin, *type(plugin).__mro__]
    for scope in scopes:
        # A copy, because a thread may change the module at the same time.
        for name in list(getattr(scope, "__dict__", ())):
            if name in seen:
                continue
            seen.add(name)
            # getattr_static() does not run properties, which may have side effects or raise.
            static = getattr_static(plugin, name, None)
            # The mark of a classmethod or staticmethod is on its inner function.
            inner = getattr(static, "__func__", static)
            # The type is checked, because an object may have a value for any attribute name.
            marks = getattr_static(inner, _MARKS, ()) if inner is not None else ()
            if isinstance(marks, tuple) and marks:
                function = getattr(plugin, name)
                for mark in marks:
                    yield function, mark


def _attach(mark: Mark) -> Callable[[F], F]:
    def attach(function: F) -> F:
        if not callable(function):
            hint = f"; pass options by name, such as name={function!r}" if isinstance(function, str) else ""
            raise TypeError(f"expected a function below the decorator, got {type(function).__name__}{hint}")
        # The mark of the outermost decorator is first.
        setattr(function, _MARKS, (mark, *getattr(function, _MARKS, ())))
        return function

    return attach


def completion_key(of: str, name: str, argument: str) -> str:
    """Return the name of a completion in its registry."""
    return f"{of} {name} {argument}"
