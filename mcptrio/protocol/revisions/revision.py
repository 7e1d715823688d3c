"""One dated revision of the protocol: its features, its methods and its converter.

Each revision is made once, in ``mcptrio.protocol.revisions.v<date>``. A feature is a named difference in behaviour.
Other code depends on features and never on the date.

Source: MCP, the changelog of each revision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, overload

from attrs import Factory, field, frozen

from mcptrio.protocol.model.fields import exists_in
from mcptrio.protocol.model.methods import METHODS, Method, Side
from mcptrio.protocol.revisions.converter import Converter, FieldLowering, Lowering

__all__ = [
    "BadArguments",
    "ChangeDelivery",
    "HTTPFeatures",
    "Inputs",
    "LogLevel",
    "NegotiationStyle",
    "Revision",
    "TaskCreation",
]

M = TypeVar("M")


class Structure(Protocol):
    """The type of :attr:`Revision.structure`."""

    @overload
    def __call__(self, value: Any, cls: type[M]) -> M: ...
    @overload
    def __call__(self, value: Any, cls: Any) -> Any: ...


class NegotiationStyle(Enum):
    """How a client sends its info and capabilities."""

    HANDSHAKE = "handshake"
    """Once, in ``initialize``. The session keeps them."""
    PER_REQUEST = "per-request"
    """In ``_meta`` of every request. The server keeps nothing."""


class Inputs(Enum):
    """How a server sends requests to its client."""

    BACK_CHANNEL = "back-channel"
    """The server sends JSON-RPC requests."""
    ROUND_TRIPS = "round-trips"
    """The server sends an InputRequiredResult, and the client repeats its request with the responses."""


class LogLevel(Enum):
    """Where a client sets the log level."""

    SESSION = "session"
    """For the session, with ``logging/setLevel``. Without it, the server chooses the level."""
    PER_REQUEST = "per-request"
    """For one request, in ``_meta``. Without it, no log messages are sent."""


class ChangeDelivery(Enum):
    """How a server reports changes to lists and resources."""

    UNSOLICITED = "unsolicited"
    """Notifications on the session."""
    LISTEN_STREAM = "listen-stream"
    """Notifications on the stream of a ``subscriptions/listen`` request."""


class BadArguments(Enum):
    """The response to a tool call with invalid arguments."""

    PROTOCOL_ERROR = "protocol-error"
    """-32602."""
    TOOL_ERROR = "tool-error"
    """A result with ``isError``, so that the model can correct itself (SEP-1303)."""


class TaskCreation(Enum):
    """The side that decides that a tool call becomes a task."""

    NONE = "none"
    """The revision has no tasks."""
    BY_CLIENT = "by-client"
    """The client asks for a task in the call, and takes the result with ``tasks/result``."""
    BY_SERVER = "by-server"
    """The server decides if the client has declared the extension. ``tasks/get`` returns the result."""


@frozen(kw_only=True)
class HTTPFeatures:
    """How a revision uses Streamable HTTP. Each attribute is true if the revision has the feature."""

    sessions: bool
    """Sessions with ``Mcp-Session-Id``, which DELETE ends."""
    get_stream: bool
    """GET opens a stream for messages that belong to no request."""
    resumable: bool
    """Events have ids, and ``Last-Event-ID`` continues a broken stream."""
    mirrored_headers: bool
    """``Mcp-Method``, ``Mcp-Name`` and ``Mcp-Param-*`` repeat members of the body."""
    version_header: bool
    """Every request after ``initialize`` has ``MCP-Protocol-Version``."""
    priming: bool
    """A resumable stream begins with an event that has an id and no data."""


@frozen(kw_only=True)
class Revision:
    """A revision of the protocol."""

    version: str
    lifecycle: NegotiationStyle
    inputs: Inputs
    log_level: LogLevel
    changes: ChangeDelivery
    batches: bool
    """Whether JSON-RPC batches are allowed."""
    elicitation_modes: frozenset[str]
    """``form`` and ``url``; empty if the revision has no elicitation."""
    url_elicitation_error: bool
    """Whether a request may be refused with -32042 until the user has opened a URL."""
    sampling_context: bool
    """Whether a client must declare ``sampling.context`` to be asked for the context of servers."""
    bad_arguments: BadArguments
    tasks: TaskCreation
    http: HTTPFeatures
    codes: Mapping[int, int] = MappingProxyType({})
    """The numbers of error codes that differ in this revision."""
    lowerings: Mapping[type, Lowering | FieldLowering] = field(default=MappingProxyType({}), repr=False)
    """Functions by class, which change a model to the form of this revision before it is written."""

    server_methods: Mapping[str, Method] = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(lambda self: _index(self.version, Side.SERVER), takes_self=True),
    )
    """The requests and notifications that a server receives, by name."""
    client_methods: Mapping[str, Method] = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(lambda self: _index(self.version, Side.CLIENT), takes_self=True),
    )
    """The requests and notifications that a client receives, by name."""
    _converter: Converter = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(lambda self: Converter(self.version, self.lowerings), takes_self=True),
    )
    structure: Structure = field(
        init=False, repr=False, eq=False, default=Factory(lambda self: self._converter.structure, takes_self=True)
    )
    """Converts a JSON value of this revision to a model.

    Args:
        value: A decoded JSON value.
        cls: A class of ``mcptrio.protocol.model``, or a union of such classes.

    Raises:
        InvalidParams: The value is not a ``cls``; the message has the expected value, the actual one and the place.
    """
    unstructure: Callable[[Any], dict[str, Any]] = field(
        init=False, repr=False, eq=False, default=Factory(lambda self: self._converter.unstructure, takes_self=True)
    )
    """Returns the JSON object of a model in this revision.

    Fields that the revision does not have are omitted, or changed by ``lowerings``. Open objects (arguments, schemas,
    ``_meta``) are not copied; the caller must not change them afterwards.

    Raises:
        LocalProtocolError: The revision cannot express the model, and an omission would change its meaning.
    """

    def __str__(self) -> str:
        return self.version


def _index(version: str, side: Side) -> Mapping[str, Method]:
    """Return the rows of a revision for one receiver, by name."""
    return MappingProxyType(
        {
            row.name: row
            for row in METHODS
            if row.to in (side, Side.BOTH) and exists_in(version, since=row.since, until=row.until)
        }
    )
