"""The client's side of a connection, without I/O: encodes requests, decodes responses and the server's messages.

The client's session uses it. Each message is encoded and decoded in the revision of the connection. No other module of
the client reads or writes an envelope.

Source: MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, basic/index and basic/patterns/mrtr.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import field, frozen

from mcptrio.errors import (
    Code,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MCPError,
    MethodNotFound,
    RemoteProtocolError,
)
from mcptrio.protocol.envelope import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION
from mcptrio.protocol.events import (
    CancelReceived,
    Event,
    MessageRefused,
    NotificationReceived,
    Peer,
    RequestReceived,
    Unexpected,
)
from mcptrio.protocol.jsonrpc import require_json
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, RequestId, Response
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import InputRequiredResult
from mcptrio.protocol.model.lifecycle import (
    ClientCapabilities,
    Implementation,
    InitializeParams,
    ServerCapabilities,
)
from mcptrio.protocol.model.methods import Method, Side
from mcptrio.protocol.model.tasks import TASKS_EXTENSION, CreateTaskResult, NestedTaskResult
from mcptrio.protocol.remote_errors import server_error
from mcptrio.protocol.revisions.revision import Inputs, NegotiationStyle, Revision, TaskCreation

__all__ = ["ClientConnection", "RemoteServer", "RequestSent", "log_level_meta"]

_INITIALIZE: Final = "initialize"
_CANCELLED: Final = "notifications/cancelled"
_METHODS_WITH_QUESTIONS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose result may be an InputRequiredResult (basic/patterns/mrtr, "Supported Requests")."""
_COMPLETE: Final = "complete"
_INPUT_REQUIRED: Final = "input_required"
_TASK: Final = "task"


@frozen(kw_only=True)
class RemoteServer:
    """The server's own description."""

    revision: Revision
    info: Implementation | None = None
    """``None`` if the server did not send it, which 2026-07-28 allows."""
    capabilities: ServerCapabilities = field(factory=ServerCapabilities)
    instructions: str | None = None


@frozen(kw_only=True)
class RequestSent:
    """A sent request, and how to decode its response."""

    message: Request
    method: Method | None
    """``None`` for a method outside the specification, whose result is not converted."""
    revision: Revision


class ClientConnection:
    """Encodes and decodes the messages of one client connection, without I/O.

    Args:
        info: The client's name and version.
        capabilities: The client's capabilities, in the form of the newest revision.
    """

    def __init__(self, *, info: Implementation, capabilities: ClientCapabilities) -> None:
        self.info = info
        self.capabilities = capabilities
        self.in_flight: dict[RequestId, RequestReceived] = {}
        """The server's requests without a response yet."""
        self._last_id = 0
        # By revision; see `_envelope`.
        self._envelopes: dict[str, dict[str, Any]] = {}

    # The client's requests

    def initialize(self, revision: Revision) -> RequestSent:
        """Return the first request of a handshake, which proposes ``revision``."""
        capabilities = self.capabilities
        elicitation = capabilities.elicitation
        if elicitation is not None and elicitation.form is None and "url" not in revision.elicitation_modes:
            # In a revision without modes, the capability means forms, which this client does not have.
            capabilities = evolve(capabilities, elicitation=None)
        params = InitializeParams(protocol_version=revision.version, capabilities=capabilities, client_info=self.info)
        return self.request(_INITIALIZE, params, revision=revision)

    def request(
        self, method: str, params: Any, *, revision: Revision, meta: dict[str, Any] | None = None
    ) -> RequestSent:
        """Make a request.

        Args:
            params: An instance of the method's params; a dict in wire form; or ``None``.
            meta: Members for ``params._meta``, in addition to those of the revision.

        Raises:
            MethodNotFound: This revision has no such method.
            LocalProtocolError: A parameter cannot be encoded as JSON without changing its value.
        """
        row = revision.server_methods.get(method)
        if isinstance(params, dict):
            # A dict may belong to a method outside the specification, whose result is not converted.
            row = None if row is None or row.result is None else row
            wire = dict(params)
        elif row is None or row.result is None:
            raise MethodNotFound(f"{revision.version} has no request {method} to a server")
        else:
            # Members that the revision does not have are omitted.
            wire = revision.unstructure(params) if params is not None else {}
        self._add_meta(wire, revision, meta)
        # Checked before the id is used, so a refused request leaves no gap that a server could complain about.
        require_json(wire, method)
        self._last_id += 1
        id = self._last_id
        return RequestSent(message=Request(id, method, wire or None), method=row, revision=revision)

    def progress_token(self) -> int:
        """Return the progress token for the next request."""
        # The client may choose any unique token. The id of the request needs no table of tokens.
        return self._last_id + 1

    def result(self, sent: RequestSent, answer: Response | ErrorResponse) -> Any:
        """Decode a response.

        Returns:
            An instance of the method's result, an InputRequiredResult or a CreateTaskResult; for a method outside the
            specification, the object in wire form.

        Raises:
            MCPError: The server responded with an error.
            RemoteProtocolError: The result is invalid for this method in this revision.
        """
        if isinstance(answer, ErrorResponse):
            raise server_error(answer, sent.revision, sent.message.params)
        raw, method = answer.result, sent.method
        # In older revisions, `resultType` is an ordinary member of the result.
        kind = raw.get("resultType", _COMPLETE) if sent.revision.inputs is Inputs.ROUND_TRIPS else _COMPLETE
        if method is None and kind == _COMPLETE:
            return raw
        cls: Any
        if _asks_for_task(sent) and "task" in raw:
            cls = NestedTaskResult
        elif kind == _COMPLETE:
            assert method is not None
            cls = method.result
        elif kind == _INPUT_REQUIRED and sent.message.method in _METHODS_WITH_QUESTIONS:
            cls = InputRequiredResult
        elif kind == _TASK and sent.message.method == "tools/call" and self._has_tasks:
            cls = CreateTaskResult
        else:
            raise RemoteProtocolError(f"{sent.message.method}: unexpected result type {kind!r}")
        try:
            result = sent.revision.structure(raw, cls)
        except InvalidParams as error:
            raise RemoteProtocolError(f"the server's result of {sent.message.method}: {error.message}") from error
        return result.created if isinstance(result, NestedTaskResult) else result

    @property
    def _has_tasks(self) -> bool:
        return TASKS_EXTENSION in (self.capabilities.extensions or {})

    def cancelled(self, id: RequestId, reason: str) -> Notification:
        """Make the notification that cancels a request."""
        return Notification(_CANCELLED, {"requestId": id, "reason": reason})

    def notification(self, method: str, params: dict[str, Any] | None, *, revision: Revision) -> Notification | None:
        """Return a notification to the server; ``None`` if the revision does not have it."""
        row = revision.server_methods.get(method)
        # A row with a result is a request.
        if row is None or row.result is not None:
            return None
        return self.custom_notification(method, params, revision=revision)

    def custom_notification(self, method: str, params: dict[str, Any] | None, *, revision: Revision) -> Notification:
        """Return a notification to the server, which may be outside the specification."""
        wire = dict(params or {})
        self._add_meta(wire, revision, None)
        require_json(wire, method)
        return Notification(method, wire or None)

    # The server's messages

    def receive(self, message: Request | Notification, revision: Revision) -> Event:
        """Return the event for a request or notification of the server."""
        if isinstance(message, Notification):
            return self._notification(message, revision)
        try:
            event = self._request(message, revision)
        except MCPError as error:
            # The server waits for a response, so an error is sent instead of raised.
            return MessageRefused(_error_response(message.id, error, revision))
        self.in_flight[message.id] = event
        return event

    def answer(self, request: RequestReceived, result: Any) -> Response | ErrorResponse:
        """Return the response with ``result``, an instance of the method's result or an object in wire form."""
        self.in_flight.pop(request.id, None)
        revision = request.peer.revision
        try:
            return Response(request.id, dict(result) if type(result) is dict else revision.unstructure(result))
        except (MCPError, LocalProtocolError) as error:
            # The server waits for a response, so a result that cannot be encoded becomes an error response.
            return ErrorResponse(request.id, int(Code.INTERNAL_ERROR), str(error))

    def refuse(self, request: RequestReceived, error: MCPError) -> ErrorResponse:
        """Return the response with ``error``."""
        self.in_flight.pop(request.id, None)
        return _error_response(request.id, error, request.peer.revision)

    def drop_response(self, request: RequestReceived) -> None:
        """Forget a request that the server has cancelled."""
        self.in_flight.pop(request.id, None)

    # Private

    def _request(self, message: Request, revision: Revision) -> RequestReceived:
        if revision.inputs is not Inputs.BACK_CHANNEL:
            raise InvalidRequest(f"{revision.version} has no requests from a server to a client")
        # With two requests of the same id, a response or cancellation would be ambiguous.
        if message.id in self.in_flight:
            raise InvalidRequest(f"expected a new id, got {message.id!r}: a request with this id is in flight")
        row = revision.client_methods.get(message.method)
        if row is None or row.result is None:
            raise MethodNotFound(f"no such method: {message.method}")
        if not self._has_capability(row.capability):
            # MCP 2025-11-25, client/roots, "Error Handling".
            reason = f"Client does not have {row.capability} capability"
            raise MethodNotFound(f"no such method: {message.method}", data={"reason": reason})
        params = revision.structure(message.params or {}, row.params)
        return RequestReceived(message.id, row, params, Peer(revision=revision))

    def _notification(self, message: Notification, revision: Revision) -> Event:
        params = message.params or {}
        if message.method == _CANCELLED:
            id, reason = params.get("requestId"), params.get("reason")
            # A bool is an int in Python, but not a valid id.
            if not isinstance(id, str | int) or isinstance(id, bool):
                return Unexpected("a cancellation without a usable requestId")
            return CancelReceived(id, reason if isinstance(reason, str) else None)
        row = revision.client_methods.get(message.method)
        peer = Peer(revision=revision)
        if row is None or row.result is not None:
            # Custom notifications have no row; the application may have a listener for them.
            return NotificationReceived(Method(message.method, None, None, Side.CLIENT), params, peer)
        try:
            return NotificationReceived(row, revision.structure(params, row.params), peer)
        except InvalidParams as error:
            return Unexpected(f"{message.method}: {error.message}")

    def _has_capability(self, capability: str | None) -> bool:
        return capability is None or getattr(self.capabilities, capability, None) is not None

    def _add_meta(self, wire: dict[str, Any], revision: Revision, meta: dict[str, Any] | None) -> None:
        envelope = self._envelope(revision)
        if envelope or meta:
            # Members in the params, and then those of `meta`, replace members of the envelope with the same name.
            wire["_meta"] = {**envelope, **(wire.get("_meta") or {}), **(meta or {})}

    def _envelope(self, revision: Revision) -> dict[str, Any]:
        # Cached, because it is the same in every request, and encoding it takes longer than the rest of a small call.
        envelope = self._envelopes.get(revision.version)
        if envelope is None:
            envelope = {}
            if revision.lifecycle is NegotiationStyle.PER_REQUEST:
                envelope = {
                    PROTOCOL_VERSION: revision.version,
                    CLIENT_INFO: revision.unstructure(self.info),
                    CLIENT_CAPABILITIES: revision.unstructure(self.capabilities),
                }
            self._envelopes[revision.version] = envelope
        return envelope


def _asks_for_task(sent: RequestSent) -> bool:
    asks = sent.message.method == "tools/call" and "task" in (sent.message.params or {})
    return asks and sent.revision.tasks is TaskCreation.BY_CLIENT


def log_level_meta(level: str) -> dict[str, Any]:
    """Return the member of ``_meta`` that requests log messages for one request (2026-07-28)."""
    return {LOG_LEVEL: level}


def _error_response(id: RequestId, error: MCPError, revision: Revision) -> ErrorResponse:
    response = ErrorResponse.of(id, error)
    # A code may have another number in this revision.
    response.code = revision.codes.get(response.code, response.code)
    return response
