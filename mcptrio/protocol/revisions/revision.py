"""One dated revision of the protocol: its traits, its methods and its converter.

Each is made once, in ``mcptrio.protocol.revisions.v<date>``, and found through the registry. A trait is a difference in
behaviour with a name. It selects an object at the edge of a layer, and no other code asks for the date.

Source: MCP, the changelog of each revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar, overload

from attrs import Factory, field, frozen

from mcptrio.protocol.model.fields import exists_in
from mcptrio.protocol.model.methods import METHODS, Method, Side
from mcptrio.protocol.revisions.converter import Converter, Lowering, Reader, Writer
from mcptrio.protocol.revisions.mismatch import Mismatch

__all__ = [
    "BadArguments",
    "ChangeDelivery",
    "HTTPTraits",
    "Inputs",
    "LogLevel",
    "NegotiationStyle",
    "Revision",
]

M = TypeVar("M")


class NegotiationStyle(Enum):
    """How a client says who it is and what it can do."""

    HANDSHAKE = "handshake"
    """``initialize`` once; the session remembers."""
    PER_REQUEST = "per-request"
    """In ``_meta`` of every request; nothing is remembered."""


class Inputs(Enum):
    """How a server asks its client."""

    BACK_CHANNEL = "back-channel"
    """With a request of its own."""
    ROUND_TRIPS = "round-trips"
    """With an InputRequiredResult; the client asks again and brings the answers."""


class LogLevel(Enum):
    """Where a client says which log messages it wants."""

    SESSION = "session"
    """``logging/setLevel``; unset, the server decides."""
    PER_REQUEST = "per-request"
    """``_meta`` of a request; absent, there are none."""


class ChangeDelivery(Enum):
    """How a server tells that lists and resources have changed."""

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


@frozen(kw_only=True)
class HTTPTraits:
    """How a revision uses Streamable HTTP."""

    sessions: bool
    """``Mcp-Session-Id``, and DELETE to end a session."""
    get_stream: bool
    """GET opens a stream for what no request has asked for."""
    resumable: bool
    """Events have ids, and ``Last-Event-ID`` brings back what was missed."""
    mirrored_headers: bool
    """``Mcp-Method``, ``Mcp-Name`` and ``Mcp-Param-*`` repeat the body."""
    version_header: bool
    """``MCP-Protocol-Version`` goes with every request after ``initialize``."""
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
    """JSON-RPC arrays are legal."""
    elicitation_modes: frozenset[str]
    """``form`` and ``url``; empty: the user cannot be asked."""
    url_elicitation_error: bool
    """A request may be refused with -32042 until the user has opened a page."""
    sampling_context: bool
    """A client declares ``sampling.context`` if its model can be given the context of servers; others are not asked."""
    bad_arguments: BadArguments
    http: HTTPTraits
    codes: Mapping[int, int] = MappingProxyType({})
    """The revision's numbers for error codes; other codes do not change."""
    lowerings: Mapping[type, Lowering] = field(default=MappingProxyType({}), repr=False)
    """Functions that change a model of the newest protocol before this revision writes it, by its class."""

    _methods: Mapping[tuple[str, Side], Method] = field(
        init=False, repr=False, eq=False, default=Factory(lambda self: _index(METHODS, self.version), takes_self=True)
    )
    _converter: Converter = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(lambda self: Converter(self.version, self.lowerings), takes_self=True),
    )
    _readers: dict[Any, Reader] = field(init=False, repr=False, eq=False, factory=dict)
    _writers: dict[type, Writer] = field(init=False, repr=False, eq=False, factory=dict)

    def __str__(self) -> str:
        return self.version

    def method(self, name: str, to: Side) -> Method | None:
        """The row of a request or notification that ``to`` receives; None: method not found."""
        return self._methods.get((name, to))

    @overload
    def structure(self, value: Any, cls: type[M]) -> M: ...
    @overload
    def structure(self, value: Any, cls: Any) -> Any: ...
    def structure(self, value: Any, cls: Any) -> Any:
        """Convert a JSON value of this revision to a model.

        Args:
            value: a decoded JSON value.
            cls: a class of ``mcptrio.protocol.model``, or a union of such classes.

        Raises:
            InvalidParams: The value is not a ``cls``; the message has the expected value, the actual one and the place.
        """
        try:
            read = self._readers[cls]
        except KeyError:
            read = self._readers[cls] = self._converter.reader(cls)
        try:
            return read(value, cls)
        except (Mismatch, KeyError):
            raise self._converter.refuse(value, cls) from None

    def unstructure(self, model: Any) -> dict[str, Any]:
        """The JSON object of a model, in the words of this revision.

        What the revision cannot say is left out, or said in another way where that is laid down (``lowerings``).
        Open objects (arguments, schemas, ``_meta``) are not copied: the caller must not change them afterwards.

        Raises:
            LocalProtocolError: the revision has no words for this, and leaving it out would change its meaning.
        """
        try:
            write = self._writers[model.__class__]
        except KeyError:
            write = self._writers[model.__class__] = self._converter.writer(model.__class__)
        written: dict[str, Any] = write(model)
        return written


def _index(rows: tuple[Method, ...], version: str) -> Mapping[tuple[str, Side], Method]:
    """The rows of a revision, by name and receiver."""
    return MappingProxyType(
        {
            (row.name, side): row
            for row in rows
            if exists_in(version, since=row.since, until=row.until)
            for side in (_BOTH if row.to is Side.BOTH else (row.to,))
        }
    )


_BOTH = (Side.SERVER, Side.CLIENT)
