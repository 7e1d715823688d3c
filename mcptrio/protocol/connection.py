"""The server's side of a connection, without I/O: turns messages into events, and results and errors into messages.

The session uses it. A connection is a stdio process, a handshake session, or one HTTP request of a per-request
revision. Each message is decoded in its own revision, which its envelope or the handshake determines.

Source: MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, basic/index and basic/versioning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import orjson
from attrs import evolve

from mcptrio.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MCPError,
    MethodNotFound,
    UnsupportedProtocolVersion,
)
from mcptrio.protocol.client_info_cache import ClientInfoCache
from mcptrio.protocol.envelope import (
    CLIENT_CAPABILITIES,
    ENVELOPE,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    Envelope,
)
from mcptrio.protocol.events import (
    CancelReceived,
    Event,
    MessageRefused,
    NotificationReceived,
    Peer,
    RequestReceived,
    ResponseReceived,
    Unexpected,
)
from mcptrio.protocol.jsonrpc import require_json
from mcptrio.protocol.messages import (
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
)
from mcptrio.protocol.model.lifecycle import InitializeParams
from mcptrio.protocol.model.logging import LEVELS
from mcptrio.protocol.model.methods import Method
from mcptrio.protocol.remote_errors import client_error
from mcptrio.protocol.revisions.registry import LATEST_HANDSHAKE, MODERN_VERSIONS, REVISIONS, negotiate
from mcptrio.protocol.revisions.revision import Inputs, NegotiationStyle, Revision
from mcptrio.protocol.state import Phase, may_receive, may_send

__all__ = ["Connection"]

_INITIALIZE = "initialize"
_INITIALIZED = "notifications/initialized"
_CANCELLED = "notifications/cancelled"
_MAX_CLIENT_INFO_BYTES = 64 * 1024
"""Bytes of a client's info and capabilities, which a session and its store keep until the session ends."""
_NO_METHODS: Mapping[str, Method] = MappingProxyType({})


class Connection:
    """The server's end of one connection.

    Args:
        serves: Returns whether a capability such as ``"tools"`` or ``"resources.subscribe"`` is advertised. For a
            client, methods that require another capability do not exist (-32601).
        server_info: The wire form of the server's info, added to results in per-request revisions.
        peer: The result of an earlier handshake, for a session that continues on this replica.
        initialized: Whether that handshake was complete.
        custom: Methods outside the specification, by name; their parameters and results stay in wire form.
        handshake: Whether ``initialize`` may open a session; ``False`` for an HTTP request of a per-request revision.
        id_prefix: Makes the ids of the server's requests unique in a session that several replicas serve.
        client_info_cache: The cache, which connections share; by default a new one.
    """

    # A server has one connection for each session, and ten thousand of them must stay small.
    __slots__ = (
        "_client_info_cache",
        "_custom",
        "_handshake",
        "_id_prefix",
        "_last_id",
        "_server_info_meta",
        "_serves",
        "in_flight",
        "peer",
        "pending",
        "phase",
    )

    def __init__(
        self,
        *,
        serves: Callable[[str], bool],
        server_info: dict[str, Any] | None = None,
        custom: Mapping[str, Method] = _NO_METHODS,
        peer: Peer | None = None,
        initialized: bool = False,
        handshake: bool = True,
        id_prefix: str = "",
        client_info_cache: ClientInfoCache | None = None,
    ) -> None:
        self._serves = serves
        # Made once, because it is part of every result of a per-request revision.
        self._server_info_meta = {SERVER_INFO: server_info} if server_info else None
        self._custom = custom
        self._handshake = handshake
        self._id_prefix = id_prefix
        self._client_info_cache = client_info_cache or ClientInfoCache()
        self._last_id = 0
        self.peer = peer
        self.phase = Phase.NEW if peer is None else Phase.READY if initialized else Phase.NEGOTIATED
        self.in_flight: dict[RequestId, RequestReceived] = {}
        """Requests of the client without a response."""
        self.pending: dict[RequestId, str] = {}
        """The methods of the server's requests without a response, by id."""

    # Receiving

    def receive(self, message: Message | Malformed) -> Event:
        """Return the event for one message. The caller splits batches, after :meth:`batch_refusal`."""
        # Comparing the exact type is faster than isinstance().
        kind = type(message)
        if kind is Request:
            return self._request(message)  # type: ignore[arg-type]
        if kind is Notification:
            return self._notification(message)  # type: ignore[arg-type]
        if kind is Response:
            return self._response(message)  # type: ignore[arg-type]
        if kind is ErrorResponse:
            return self._error(message)  # type: ignore[arg-type]
        assert isinstance(message, Malformed)
        return MessageRefused(message.reply)

    def batch_refusal(self, messages: tuple[Message | Malformed, ...]) -> ErrorResponse | None:
        """Return the refusal of a JSON-RPC batch, or ``None`` if the batch is allowed.

        Source: MCP 2025-03-26, basic/index, "Batching"; basic/lifecycle: ``initialize`` is never in a batch.
        """
        # Batches exist in 2025-03-26 only.
        if self.peer is None or not self.peer.revision.batches:
            why = "no revision is negotiated" if self.peer is None else f"{self.peer.revision.version} has no batches"
            text = f"expected one JSON-RPC message, got an array: {why}"
            return ErrorResponse.of(None, InvalidRequest(text))
        for message in messages:
            if isinstance(message, Request | Notification):
                if message.method == _INITIALIZE:
                    return ErrorResponse.of(None, InvalidRequest("initialize must not be part of a batch"))
                # The envelope's revision would contradict that of the session, in which a batch is read.
                if Envelope.is_present(message.params):
                    return ErrorResponse.of(
                        None, InvalidRequest("a request with its own envelope must not be part of a batch")
                    )
        return None

    def _request(self, message: Request) -> Event:
        try:
            # With two requests of the same id, a response or cancellation would be ambiguous.
            if message.id in self.in_flight:
                raise InvalidRequest(f"expected a new id, got {message.id!r}: a request with this id is in flight")
            params = message.params
            meta = params.get("_meta") if params is not None else None
            # The same test as in Envelope.is_present(), without the call: every request comes here.
            if type(meta) is dict and (PROTOCOL_VERSION in meta or CLIENT_CAPABILITIES in meta):
                event = self._modern_request(message, meta)
            else:
                event = self._handshake_request(message)
        except MCPError as error:
            return MessageRefused(self._error_response(message.id, error, self.peer.revision if self.peer else None))
        # The gate counts the memory of running requests by these two.
        event.weight, event.owner = message.weight, message.owner
        self.in_flight[message.id] = event
        return event

    def _modern_request(self, message: Request, meta: dict[str, Any]) -> RequestReceived:
        key = orjson.dumps({name: meta[name] for name in ENVELOPE if name in meta})
        peer = self._client_info_cache.peers.get(key)
        if peer is not None:
            method = self._method(message.method, peer.revision)
        else:
            envelope = Envelope.read(message.params)
            revision = REVISIONS.get(envelope.version)
            # A handshake revision is not valid in an envelope: the state of its handshake would be missing.
            if revision is None or envelope.version not in MODERN_VERSIONS:
                raise UnsupportedProtocolVersion(envelope.version, list(MODERN_VERSIONS))
            method = self._method(message.method, revision)
            if envelope.log_level is not None and envelope.log_level not in LEVELS:
                raise InvalidParams(f"expected one of {', '.join(LEVELS)} as log level, got {envelope.log_level!r}")
            peer = self._client_info_cache.add(key, envelope, revision)
        params = _params(message.params, method, peer.revision)
        return RequestReceived(message.id, method, params, peer, meta.get(LOG_LEVEL))

    def _handshake_request(self, message: Request) -> RequestReceived:
        if not self._handshake:
            # Raises InvalidParams, which names the missing member of the envelope.
            Envelope.read(message.params)
        if self.phase is not Phase.READY and not may_receive(self.phase, message.method):
            # The error names both ways to begin, because the revision of the client is unknown.
            raise InvalidRequest(
                f"expected initialize first, or a request with its own envelope in params._meta, got {message.method}"
                if self.peer is None
                else f"{message.method} is not allowed while initialize is being answered"
            )
        if message.method == _INITIALIZE:
            return self._initialize(message)
        # Before the handshake only ping is allowed, which is the same in all handshake revisions.
        peer = self.peer or Peer(revision=LATEST_HANDSHAKE)
        revision = peer.revision
        method = self._method(message.method, revision)
        return RequestReceived(message.id, method, _params(message.params, method, revision), peer)

    def _method(self, name: str, revision: Revision) -> Method:
        method = revision.server_methods.get(name) or self._custom.get(name)
        # Without its capability, a method does not exist for the client (-32601), even if it is registered.
        if (
            method is None
            or method.result is None
            or (method.capability is not None and not self._serves(method.capability))
        ):
            raise MethodNotFound(f"no such method: {name}")
        return method

    def _initialize(self, message: Request) -> RequestReceived:
        # A second handshake could change the revision while requests are running.
        if self.peer is not None:
            raise InvalidRequest(f"expected initialize once, this session has negotiated {self.peer.revision.version}")
        raw = message.params or {}
        requested = raw.get("protocolVersion")
        if not isinstance(requested, str):
            raise InvalidParams(f"expected a string, got {type(requested).__name__} at `protocolVersion`")
        revision = negotiate(requested)
        params: InitializeParams = revision.structure(raw, InitializeParams)
        # Measured after the conversion, which refuses values of other types.
        size = len(orjson.dumps([raw.get("clientInfo"), raw.get("capabilities")]))
        if size > _MAX_CLIENT_INFO_BYTES:
            raise InvalidParams(
                f"expected clientInfo and capabilities of at most {_MAX_CLIENT_INFO_BYTES} bytes, got {size}"
            )
        method = revision.server_methods.get(_INITIALIZE)
        assert method is not None
        peer = Peer(revision=revision, info=params.client_info, capabilities=params.capabilities)
        # This phase lasts until the response. A failed initialize may be repeated.
        self.phase = Phase.INITIALIZING
        return RequestReceived(message.id, method, params, peer)

    def _notification(self, message: Notification) -> Event:
        modern = Envelope.is_present(message.params)
        if message.method == _CANCELLED:
            params = message.params or {}
            id = params.get("requestId")
            reason = params.get("reason")
            # A bool is an int in Python, but not a valid id.
            if not isinstance(id, str | int) or isinstance(id, bool):
                return Unexpected("a cancellation without a usable requestId")
            return CancelReceived(id, reason if isinstance(reason, str) else None)
        if modern:
            version = (message.params or {})["_meta"].get(PROTOCOL_VERSION)
            # A notification with an unknown version is ignored, because it has no response for an error.
            peer = Peer(revision=REVISIONS[version]) if version in MODERN_VERSIONS else None
        else:
            peer = self.peer
        if peer is None or (not modern and not may_receive(self.phase, message.method)):
            return Unexpected(f"{message.method} before initialize")
        method = peer.revision.server_methods.get(message.method) or self._custom.get(message.method)
        if method is None or method.result is not None:
            return Unexpected(f"no such notification: {message.method}")
        try:
            params = _params(message.params, method, peer.revision)
        except MCPError as error:
            return Unexpected(f"{message.method}: {error.message}")
        # With several replicas, it may arrive here after another replica has reported it. It then changes nothing.
        if message.method == _INITIALIZED:
            self.mark_initialized()
        return NotificationReceived(method, params, peer)

    def mark_initialized(self) -> None:
        """Note that ``notifications/initialized`` has arrived, here or at another replica."""
        if self.phase is Phase.NEGOTIATED:
            self.phase = Phase.READY

    def _response(self, message: Response) -> Event:
        # A response with an unknown id is no error: the request may have timed out a moment ago.
        if self.pending.pop(message.id, None) is None:
            return Unexpected(f"a response to {message.id!r}, which the server did not request")
        return ResponseReceived(message.id, result=message.result)

    def _error(self, message: ErrorResponse) -> Event:
        if message.id is None or self.pending.pop(message.id, None) is None:
            return Unexpected(f"an error for {message.id!r}, which the server did not request: {message.message}")
        # Only handshake revisions have requests to a client, so the revision is that of the connection.
        revision = self.peer.revision if self.peer is not None else LATEST_HANDSHAKE
        return ResponseReceived(message.id, error=client_error(message, revision))

    # Sending

    def result(self, request: RequestReceived, result: Any) -> Response | ErrorResponse:
        """Make the response with a result.

        A result that the revision cannot express becomes an error response.

        Args:
            result: An instance of ``request.method.result`` or of InputRequiredResult; for a method outside the
                specification, an object in wire form, which is not changed.

        Raises:
            TypeError: The result of a method outside the specification is not an object.
        """
        self.in_flight.pop(request.id, None)
        revision = request.peer.revision
        try:
            value = dict(result) if type(result) is dict else revision.unstructure(result)
        except (MCPError, LocalProtocolError) as error:
            # The handler's mistake, but the client must still receive a response.
            failed = InternalError(str(error))
            return self._settle(request, self._error_response(request.id, failed, revision))
        if type(value) is not dict:
            raise TypeError(f"expected an object as the result of {request.method.name}, got {type(value).__name__}")
        if revision.lifecycle is NegotiationStyle.PER_REQUEST:
            # A result in wire form may already have another type.
            value.setdefault("resultType", "complete")
            if self._server_info_meta is not None:
                value["_meta"] = {**value.get("_meta", {}), **self._server_info_meta}
        return self._settle(request, Response(request.id, value))

    def error(self, request: RequestReceived, error: MCPError) -> ErrorResponse:
        """Return the response with ``error``. Its code is that of the request's revision."""
        self.in_flight.pop(request.id, None)
        response = self._error_response(request.id, error, request.peer.revision)
        self._settle(request, response)
        return response

    def drop_response(self, request: RequestReceived) -> None:
        """Forget a cancelled request, which gets no response. The client may use its id again."""
        self.in_flight.pop(request.id, None)
        if request.method.name == _INITIALIZE and self.phase is Phase.INITIALIZING:
            self.phase = Phase.NEW

    def request(self, method: str, params: Any, *, peer: Peer) -> Request:
        """Return a request to the client.

        Raises:
            MethodNotFound: The revision has no such request to a client.
            LocalProtocolError: The request is not allowed in this phase.
        """
        row = peer.revision.client_methods.get(method)
        if row is None or row.result is None:
            raise MethodNotFound(f"{peer.revision.version} has no request {method} from a server to a client")
        # While a request is in flight, requests that belong to it are allowed in every phase.
        if self.phase is not Phase.READY and not may_send(self.phase, method) and not self.in_flight:
            raise LocalProtocolError(f"{method} must not be sent before the client has sent notifications/initialized")
        return self.custom_request(method, peer.revision.unstructure(params) if params is not None else None, peer=peer)

    def custom_request(self, method: str, params: dict[str, Any] | None, *, peer: Peer) -> Request:
        """Return a request with parameters in wire form, for methods outside the specification.

        Raises:
            MethodNotFound: The revision has no requests from a server.
            LocalProtocolError: A parameter cannot be encoded as JSON without changing its value.

        Source: MCP 2026-07-28, basic/patterns: "Servers MUST NOT initiate JSON-RPC requests".
        """
        if peer.revision.inputs is not Inputs.BACK_CHANNEL:
            raise MethodNotFound(
                f"{peer.revision.version} has no requests from a server to a client:"
                f' connect with revision="{LATEST_HANDSHAKE.version}" to use this'
            )
        require_json(params or {}, method)
        self._last_id += 1
        id: RequestId = f"{self._id_prefix}{self._last_id}" if self._id_prefix else self._last_id
        self.pending[id] = method
        return Request(id, method, params or None)

    def abandon(self, id: RequestId) -> None:
        """Forget a request to the client whose response is no longer awaited."""
        self.pending.pop(id, None)

    def notification(self, method: str, params: Any, *, peer: Peer) -> Notification | None:
        """Return a notification to the client; ``None`` if the revision or the phase does not allow it."""
        row = peer.revision.client_methods.get(method)
        if row is None or row.result is not None:
            return None
        if (
            peer is self.peer
            and self.phase is not Phase.READY
            and not self.in_flight
            and not may_send(self.phase, method)
        ):
            return None
        value = peer.revision.unstructure(params) if params is not None else None
        return Notification(method, value or None)

    # Private

    def _settle(self, request: RequestReceived, response: Response | ErrorResponse) -> Response | ErrorResponse:
        if request.method.name == _INITIALIZE and self.phase is Phase.INITIALIZING:
            if isinstance(response, Response):
                self.phase = Phase.NEGOTIATED
                # A copy, because notification() recognizes the peer of the session by identity, and a request's peer
                # may be shared through the cache.
                self.peer = evolve(request.peer)
            else:
                self.phase = Phase.NEW
        return response

    @staticmethod
    def _error_response(id: RequestId | None, error: MCPError, revision: Revision | None) -> ErrorResponse:
        response = ErrorResponse.of(id, error)
        if revision is not None:
            response.code = revision.codes.get(response.code, response.code)
        return response


def _params(raw: dict[str, Any] | None, method: Method, revision: Revision) -> Any:
    if method.params is not None:
        return revision.structure(raw or {}, method.params)
    params = raw or {}
    if not isinstance(params.get("_meta", {}), dict):
        # The author's method checks its other parameters itself.
        raise InvalidParams(f"expected an object at `_meta`, got {type(params['_meta']).__name__}")
    return params
