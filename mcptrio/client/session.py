"""One session with one server over one link: requests, notifications and the server's own requests.

ClientSupervisor creates a ClientSession for each link, and negotiates again if the server forgets the session. Only the
end of the link ends a ClientSession. A message of the server never does.

Source: MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, basic/versioning and basic/index.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import trio

from mcptrio.abc.links import Link
from mcptrio.client.calls import Calls, OnProgress
from mcptrio.client.log_limit import LogLimit
from mcptrio.client.negotiator import Negotiator
from mcptrio.client.options import ClientOptions
from mcptrio.client.server_requests import ServerRequests
from mcptrio.errors import (
    ConnectionClosed,
    MCPError,
    MCPTrioError,
    MethodNotFound,
    Overloaded,
    RateLimited,
    RequestFailed,
    RequestTimeout,
    SessionLost,
)
from mcptrio.protocol.client_connection import ClientConnection, RemoteServer, RequestSent, log_level_meta
from mcptrio.protocol.events import CancelReceived, MessageRefused, NotificationReceived, RequestReceived, Unexpected
from mcptrio.protocol.messages import ErrorResponse, Notification, Request
from mcptrio.protocol.model.elicitation import ElicitationCompleteParams
from mcptrio.protocol.model.logging import LoggingLevel, LoggingMessageParams, SetLevelParams
from mcptrio.protocol.model.progress import ProgressParams
from mcptrio.protocol.remote_errors import server_error
from mcptrio.protocol.revisions.registry import LATEST_HANDSHAKE, REVISIONS
from mcptrio.protocol.revisions.revision import Inputs, LogLevel, Revision

__all__ = ["ClientSession"]

_log = logging.getLogger("mcptrio.client.session")

CANCELLATION_TIMEOUT = 1.0
"""Seconds to send the notification that cancels a request."""
_LONG_METHODS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
"""Methods that send a progress token and ask for log messages."""


class ClientSession:
    """The state of one session with one server.

    Args:
        log_level: The least severe log level to request, or ``None``.
        notified: Called with each notification that the session does not handle itself.
    """

    def __init__(
        self,
        options: ClientOptions,
        log_level: LoggingLevel | None,
        notified: Callable[[NotificationReceived | CancelReceived], None],
    ) -> None:
        self._options = options
        self._handlers = options.handlers
        self._timeouts = options.timeouts
        self.log_level: LoggingLevel | None = log_level
        self._on_notification = notified
        self._log_limit = LogLimit()
        self._connection = ClientConnection(info=options.info, capabilities=self._handlers.capabilities())
        self._calls = Calls(self._timeouts, self._start_cancelling)
        # None while there is no link, so that no answer could be sent.
        self._server_requests: ServerRequests | None = None
        # By elicitation id; set when the server reports that the user has finished on the page.
        self._url_events: dict[str, trio.Event] = {}
        self._last_received = trio.current_time()
        self.end_reason = ""
        """Why the client has ended the session; empty otherwise."""
        # Set when the server sends requests in a revision that does not allow them.
        self._violation = ""
        self._link: Link | None = None
        self._nursery: trio.Nursery | None = None
        self.server: RemoteServer | None = None
        """The negotiated revision and the server's description; ``None`` before the negotiation."""

    # Negotiation

    @contextmanager
    def attached(self, link: Link, nursery: trio.Nursery) -> Iterator[None]:
        """Use this link inside the context, and run the session's tasks in ``nursery``."""
        self._link, self._nursery = link, nursery
        self._server_requests = ServerRequests(
            link, nursery, self._connection, self.answer, send_timeout=self._timeouts.idle
        )
        nursery.start_soon(self._calls.watch)
        try:
            yield
        finally:
            self._nursery = self._server_requests = None

    async def negotiate(self, known: str | None) -> None:
        """Negotiate a revision with the server. Called again after the server has forgotten the session.

        Args:
            known: The version negotiated with this server before, or ``None``.

        Raises:
            RemoteProtocolError: No revision in common.
            MCPError: The server refused.
            RequestFailed, ConnectionClosed: The server is unreachable.
            SessionLost: The server forgot the session during the handshake.
        """
        server = await self._negotiator.negotiate(known)
        self.server = server
        self.link.start_listening(server.revision)
        # Before 2026-07-28, a session has one log level. Since then, each request has its own (see request()).
        by_session = server.revision.log_level is LogLevel.SESSION and server.capabilities.logging is not None
        if self.log_level is not None and by_session:
            try:
                await self.request("logging/setLevel", SetLevelParams(level=self.log_level))
            except (MCPError, RequestTimeout) as error:
                _log.warning("%s: log level not set: %s", self.link.name, error)

    def start_soon(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start a task that ends with the link. Does nothing while the link is closing."""
        if self._nursery is not None:
            self._nursery.start_soon(work, *args)

    # Requests

    @property
    def link(self) -> Link:
        assert self._link is not None
        return self._link

    @property
    def revision(self) -> Revision:
        if self.server is None:
            raise ConnectionClosed("not connected yet")
        return self.server.revision

    @property
    def display_name(self) -> str:
        """The name to show to the user: the server's own title, and the name that the user gave it if that differs."""
        info = self.server.info if self.server is not None else None
        name = (info.title or info.name) if info is not None else self._options.name
        return self._options.name if name == self._options.name else f"{name} ({self._options.name})"

    async def request(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        param_headers: Mapping[str, tuple[str, ...]] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and decode its result.

        Args:
            params: The params object of the method, or a mapping in wire form. A mapping is sent even if the server
                does not declare the capability.
            timeout: Seconds to wait since the request or its last progress report; by default ``timeouts.idle``.
            param_headers: Maps each header name to the path of the argument that the header repeats.

        Raises:
            MethodNotFound: The server does not declare the capability of the method. Nothing was sent.
            MCPError: The server answered with an error.
            RemoteProtocolError: The result is malformed.
            RequestTimeout, RequestFailed, SessionLost, ConnectionClosed: No answer was received.
        """
        revision = self.revision
        if not isinstance(params, dict):
            self._check_declared(method)
        members = dict(meta or {})
        # A token is sent even without a callback, because each report restarts the idle timeout.
        if method in _LONG_METHODS or on_progress is not None:
            members["progressToken"] = self._connection.progress_token()
            if self.log_level is not None and revision.log_level is LogLevel.PER_REQUEST:
                members.update(log_level_meta(self.log_level))
        sent = self._connection.request(method, params, revision=revision, meta=members)
        try:
            answer = await self._calls.exchange(
                self.link, sent, timeout=timeout, on_progress=on_progress, param_headers=param_headers or {}
            )
        except RequestFailed as failed:
            await self._raise_refusal(failed, sent, within=timeout)
        except ConnectionClosed as closed:
            # The link only reports that it was closed. The reason is that the server has not answered a ping.
            if self.end_reason:
                raise ConnectionClosed(self.end_reason) from closed
            raise
        except RequestTimeout as expired:
            # A server waiting for its own request in a revision without them is the likely cause of the timeout.
            if self._violation:
                raise RequestTimeout(f"{expired}; {self._violation}", seconds=expired.seconds) from expired
            raise
        self._last_received = trio.current_time()
        return self._connection.result(sent, answer)

    async def open_stream(self, method: str, params: Any, begun: Callable[[object], None]) -> Any:
        """Send a request that the server answers only when its stream ends.

        Args:
            begun: Called with the id of the request before the request is sent.
        """
        sent = self._connection.request(method, params, revision=self.revision)
        begun(sent.message.id)
        try:
            answer = await self.link.exchange(sent.message, sent.revision)
        except trio.Cancelled:
            # Over HTTP in 2026-07-28, closing the response cancels the request.
            if not self.link.cancels_by_closing(sent.revision):
                self._start_cancelling(self.link, sent)
            raise
        except RequestFailed as failed:
            await self._raise_refusal(failed, sent)
        return self._connection.result(sent, answer)

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> bool:
        """Send a notification. Return ``False`` if another revision has it, but not that of the session."""
        revision = self.revision
        message = self._connection.notification(method, params, revision=revision)
        is_ours = any(each.server_methods.get(method) is not None for each in REVISIONS.values())
        if message is None and revision.client_methods.get(method) is None and not is_ours:
            message = self._connection.custom_notification(method, params, revision=revision)
        if message is None:
            return False
        with trio.move_on_after(self._timeouts.idle):
            await self.link.send(message, revision)
            return True
        seconds = self._timeouts.idle
        raise RequestTimeout(f"{method}: {self.link.name} did not accept it within {seconds:g} s", seconds=seconds)

    async def answer(self, method: str, params: Any) -> Any:
        """Pass a question of the server to the handlers. No request of the client times out while a handler runs."""
        with self._calls.handler_running():
            return await self._handlers._answer(
                method, params, server=self.display_name, timeout=self._timeouts.input, revision=self.revision
            )

    def url_completion(self, elicitation_id: str) -> trio.Event:
        """Return the event that is set when the server reports that the user has finished on a page (2025-11-25)."""
        return self._url_events.setdefault(elicitation_id, trio.Event())

    def forget_url(self, elicitation_id: str) -> None:
        self._url_events.pop(elicitation_id, None)

    async def keep_alive(self, scope: trio.CancelScope) -> None:
        """Ping the server after ``ping_interval`` seconds without a message, if the revision has pings.

        Args:
            scope: Cancelled when the server does not answer a ping. :attr:`end_reason` then has the reason.
        """
        if self.revision.server_methods.get("ping") is None:
            return
        interval = self._options.ping_interval
        while True:
            await trio.sleep_until(self._last_received + interval)
            if trio.current_time() < self._last_received + interval:
                continue
            try:
                await self.request("ping", None, timeout=self._timeouts.ping)
            except RequestTimeout:
                self.end_reason = f"the server did not answer a ping within {self._timeouts.ping:g} s"
                scope.cancel()
                return
            except SessionLost:
                pass  # the link reports it to the supervisor, which renews the session
            except (MCPTrioError, OSError) as error:
                _log.warning("%s: ping failed: %s", self.link.name, error)
            self._last_received = trio.current_time()

    # Messages of the server

    def receive(self, message: Request | Notification) -> None:
        """Handle a request or notification of the server."""
        self._last_received = trio.current_time()
        # Servers of handshake revisions may log and ping before the handshake is complete.
        revision = self.server.revision if self.server is not None else LATEST_HANDSHAKE
        event = self._connection.receive(message, revision)
        if isinstance(event, NotificationReceived):
            self._receive_notification(event)
        elif isinstance(event, RequestReceived):
            if self._server_requests is not None:
                self._server_requests.start(event)
        elif isinstance(event, MessageRefused):
            if revision.inputs is not Inputs.BACK_CHANNEL:
                # "clients do not send JSON-RPC responses" (basic/transports).
                self._note_violation(message.method, revision)
            elif self._server_requests is not None:
                self._server_requests.send(event.reply, revision)
        elif isinstance(event, CancelReceived):
            # An id that is not a request of the server names a subscriptions/listen stream of the client.
            if self._server_requests is None or not self._server_requests.cancel(event.id):
                self._on_notification(event)
        elif isinstance(event, Unexpected):
            _log.debug("%s: ignored %s", self.link.name, event.what)

    # Private

    @property
    def _negotiator(self) -> Negotiator:
        return Negotiator(self.link, self._connection, self._options)

    def _note_violation(self, method: str, revision: Revision) -> None:
        if not self._violation:
            self._violation = (
                f"the server sent the request {method}, which {revision.version} does not allow: connect with "
                f"revision={LATEST_HANDSHAKE.version!r} or prefer='handshake'"
            )
            _log.warning("%s: %s", self.link.name, self._violation)

    async def _raise_refusal(self, failed: RequestFailed, sent: RequestSent, within: float | None = None) -> NoReturn:
        """Raise the error of a request that an HTTP server refused; SessionLost if its revision has changed."""
        await self._negotiator.check(sent.revision, failed, within=within)
        if failed.reply is None:
            raise failed
        error: MCPError = server_error(
            ErrorResponse.of(sent.message.id, failed.reply), sent.revision, sent.message.params
        )
        if failed.status in (429, 503) and not isinstance(error, Overloaded):
            # mcptrio servers send their own error code for this. Others send only the status and Retry-After.
            cls, wait = RateLimited if failed.status == 429 else Overloaded, failed.retry_after
            busy: MCPError = cls(failed.reply.message, retry_after=1.0 if wait is None else wait)
            busy.code, busy.data = failed.reply.code, failed.reply.data
            raise busy from failed
        raise error from failed

    def _check_declared(self, method: str) -> None:
        """Raise MethodNotFound if the server lacks the capability or the extension that the method needs."""
        row = self.revision.server_methods.get(method)
        if row is None or row.capability is None:
            return
        assert self.server is not None
        declared: Any = self.server.capabilities
        is_extension = row.capability in (self.server.capabilities.extensions or {})
        for name in () if is_extension else row.capability.split("."):
            declared = getattr(declared, name, None)
            if declared is None or declared is False:
                raise MethodNotFound(
                    f"{self.link.name} does not declare the capability `{row.capability}`, so {method} was not sent"
                )

    def _receive_notification(self, event: NotificationReceived) -> None:
        params = event.params
        if isinstance(params, ProgressParams):
            self._calls.progressed(params)
        elif isinstance(params, LoggingMessageParams):
            if self._log_limit.allows(self.link.name, is_connected=self.server is not None):
                self._handlers._handle_log(params)
        elif isinstance(params, ElicitationCompleteParams):
            done = self._url_events.get(params.elicitation_id)
            if done is not None:
                done.set()
            self._handlers._handle_url_completed(params.elicitation_id)
        else:
            self._on_notification(event)

    def _start_cancelling(self, link: Link, sent: RequestSent) -> None:
        self.start_soon(self._send_cancellation, link, sent)

    async def _send_cancellation(self, link: Link, sent: RequestSent) -> None:
        notice = self._connection.cancelled(sent.message.id, "no longer needed")
        with trio.move_on_after(CANCELLATION_TIMEOUT, shield=True):
            try:
                await link.send(notice, sent.revision)
            except MCPTrioError as error:
                _log.debug("%s: cancellation not sent: %s", link.name, error)
