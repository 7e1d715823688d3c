"""A client's link over Streamable HTTP: one POST per message, with the features of each revision.

The link keeps only the id of the server's session. Each request has its own connection, so an error in one does not
affect the others. Nothing is sent twice, except after a refusal that new credentials may change. When the link is
closed, it ends the GET stream and deletes the session on the server.

Source: MCP 2025-11-25, basic/transports, "Streamable HTTP"; MCP 2026-07-28, basic/transports/streamable-http.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Final

import trio
from attrs import define

from mcptrio.abc import ClientAuth
from mcptrio.abc.links import Receiver
from mcptrio.errors import AuthorizationError, Code, ConnectionClosed, RequestFailed, SessionLost
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.http.client.dialer import DEFAULT_DIALING, Dialing
from mcptrio.http.client.endpoint import HTTPEndpoint
from mcptrio.http.client.event_stream import StreamPosition
from mcptrio.http.client.get_stream import GETStream
from mcptrio.http.client.headers import INITIALIZE, ClientHeaders
from mcptrio.http.client.requests import CLIENT_DISCONNECTED, HTTPRequests
from mcptrio.http.client.responses import Answer, AnswerReader, finish, read_refusal
from mcptrio.http.client.resumption import resume
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.limits import CLIENT_DEFAULT, MessageLimits
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, RequestId, Response
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["HTTPLink", "open_http_link"]

_log = logging.getLogger("mcptrio.http.client")

CLOSE_TIMEOUT: Final = 2.0
"""Seconds for deleting the session when the link is closed."""
STREAM_OPEN_TIMEOUT: Final = 1.0
"""Seconds for which the first requests of a session wait for the response to its GET. Some servers send the head of
that response only with the first event."""

_SESSION_ID: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_NO_PARAM_HEADERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_FORGOTTEN: Final = "the server has forgotten the session"


@define
class _Session:
    id: str
    lost: bool = False
    """True if the server has answered that it does not know the session."""


class HTTPLink:
    """A client's link over Streamable HTTP, made by :func:`open_http_link`. See :class:`mcptrio.abc.links.Link`."""

    def __init__(
        self,
        name: str,
        requests: HTTPRequests,
        headers: ClientHeaders,
        receive: Receiver,
        *,
        limits: MessageLimits,
        nursery: trio.Nursery,
    ) -> None:
        self.name = name
        self._requests = requests
        self._headers = headers
        self._receive = receive
        self._limits = limits
        self._nursery = nursery
        self._session: _Session | None = None
        self._revision: Revision | None = None
        """The negotiated revision; ``None`` before the handshake and after its loss."""
        self._listening = trio.CancelScope()
        self._stream_ready = trio.Event()
        """Set when the server has answered the GET, or :data:`STREAM_OPEN_TIMEOUT` has passed."""
        self._stream_ready.set()
        self._closed = trio.Event()
        self._ended = trio.Event()
        """Set when the link is closed or a session is lost; replaced by :meth:`wait_closed` after a loss."""
        self._exchanges: dict[RequestId, trio.CancelScope] = {}

    @property
    def closed(self) -> bool:
        """See :class:`mcptrio.abc.links.Link`."""
        return self._closed.is_set()

    async def exchange(
        self, request: Request, revision: Revision, *, param_headers: Mapping[str, tuple[str, ...]] = _NO_PARAM_HEADERS
    ) -> Answer:
        """See :class:`mcptrio.abc.links.Link`.

        Raises:
            AuthorizationError: The server requires credentials, and there are none.
        """
        answer: Answer | None = None
        with trio.CancelScope() as scope:
            self._exchanges[request.id] = scope
            try:
                answer = await self._exchange(request, revision, param_headers)
            finally:
                self._exchanges.pop(request.id, None)
        if answer is None:
            raise trio.TooSlowError
        return answer

    def abandon(self, id: RequestId) -> None:
        """See :class:`mcptrio.abc.links.Link`."""
        scope = self._exchanges.get(id)
        if scope is not None:
            scope.cancel()

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        """See :class:`mcptrio.abc.links.Link`.

        Raises:
            AuthorizationError: The server requires credentials, and there are none.
        """
        session = self._session_for(revision)
        response = await self._post(message, revision, session, _NO_PARAM_HEADERS)
        if not 200 <= response.status < 300:
            raise await self._refusal(response, session, revision)
        self._finish_later(response)

    def cancels_by_closing(self, revision: Revision) -> bool:
        """See :class:`mcptrio.abc.links.Link`."""
        # With a session, a request outlives its connection and must be cancelled by a notification.
        return not revision.http.sessions

    def sends_param_headers(self, revision: Revision) -> bool:
        """See :class:`mcptrio.abc.links.Link`."""
        return revision.http.mirrored_headers

    def start_listening(self, revision: Revision) -> None:
        """See :class:`mcptrio.abc.links.Link`. Opens the GET stream if the revision has one."""
        self._revision = revision
        self._listening.cancel()
        if revision.http.get_stream and not self._closed.is_set():
            self._listening, self._stream_ready = trio.CancelScope(), trio.Event()
            self._nursery.start_soon(self._listen, self._listening, self._stream_ready, revision, self._session)

    def drop_revision(self, revision: Revision) -> bool:
        """See :class:`mcptrio.abc.links.Link`."""
        # Several requests may report this, and the last report may come after another revision was negotiated.
        if revision is self._revision:
            self._revision = None
            self._listening.cancel()
            if self._session is not None:
                self._session.lost = True
            self._ended.set()
        return True

    async def until_listening(self) -> None:
        """See :class:`mcptrio.abc.links.Link`."""
        # Many servers send their requests on the GET stream, and lose requests that they send before it is open.
        stream_ready = self._stream_ready
        with trio.move_on_after(STREAM_OPEN_TIMEOUT):
            await stream_ready.wait()
        stream_ready.set()

    async def wait_closed(self) -> str:
        """See :class:`mcptrio.abc.links.Link`. The link has no lasting connection, so only :meth:`aclose` closes it.

        Raises:
            SessionLost: The server has forgotten the session, or no longer supports its revision. Raised once for each
                loss.
        """
        await self._ended.wait()
        if self._closed.is_set():
            return CLIENT_DISCONNECTED
        self._ended = trio.Event()
        raise SessionLost(_FORGOTTEN)

    async def aclose(self) -> None:
        """Abort the requests, delete the session and close the connections, within :data:`CLOSE_TIMEOUT`."""
        # Set first, so that no task sends another request or opens another stream.
        self._closed.set()
        self._ended.set()
        self._listening.cancel()
        self._requests.stop()
        if self._session is not None:
            with trio.CancelScope(shield=True):
                # The call has its own deadline, CLOSE_TIMEOUT.
                await self._delete_session(self._session)
        self._requests.close()

    # One request

    async def _exchange(
        self, request: Request, revision: Revision, param_headers: Mapping[str, tuple[str, ...]]
    ) -> Answer:
        is_initialize = request.method == INITIALIZE
        if not is_initialize and not self._stream_ready.is_set():
            await self.until_listening()
        session = None if is_initialize else self._session_for(revision)
        response = await self._post(request, revision, session, param_headers)
        if response.status != 200:
            raise await self._refusal(response, session, revision)
        reader = AnswerReader(request=request, receive=self._receive, batches=revision.batches, limits=self._limits)
        if is_initialize:
            session = _session_of(response)
        answer = await self._read(reader, response)
        if isinstance(answer, str):
            if not revision.http.resumable:
                raise RequestFailed(f"{answer} before the answer")
            # Before the response to `initialize`, the revision of the session is not known.
            get = partial(self._get, None if is_initialize else revision, session)
            answer = await resume(reader, answer, get=get, read=partial(self._read, reader), closed=self._closed)
        if is_initialize and isinstance(answer, Response):
            self._replace_session(session)
        return answer

    async def _post(
        self,
        message: Request | Notification | Response | ErrorResponse,
        revision: Revision,
        session: _Session | None,
        param_headers: Mapping[str, tuple[str, ...]],
    ) -> HTTPResponse:
        id = session.id if session is not None else None
        headers = self._headers.of_post(message, revision, session=id, param_headers=param_headers)
        return await self._requests.request("POST", headers, encode(message))

    async def _read(self, reader: AnswerReader, response: HTTPResponse) -> Answer | str:
        read = False
        try:
            answer = await reader.read(response)
            read = True
        finally:
            if not read:
                # If this was the response to another request, the next response on the connection would be wrong too.
                response.close(reuse=False)
        self._finish_later(response)
        return answer

    async def _get(self, revision: Revision | None, session: _Session | None, position: StreamPosition) -> HTTPResponse:
        id = session.id if session is not None else None
        headers = self._headers.of_get(revision, session=id, last_event_id=position.last_event_id)
        return await self._requests.request("GET", headers)

    async def _refusal(self, response: HTTPResponse, session: _Session | None, revision: Revision) -> RequestFailed:
        refusal = await read_refusal(response)
        # Some servers answer an unknown method with 404, as the newest revision requires. The session still exists.
        unknown_method = refusal.reply is not None and refusal.reply.code == Code.METHOD_NOT_FOUND
        if session is not None and ((response.status == 404 and not unknown_method) or _is_unknown_session(refusal)):
            self._mark_lost(session)
            return SessionLost(_FORGOTTEN)
        if revision is self._revision and _refuses_revision(refusal, revision):
            # The revision was negotiated, so another version of the server must have replaced the one that agreed.
            self.drop_revision(revision)
            return SessionLost(f"the server no longer supports {revision.version}")
        return refusal

    def _finish_later(self, response: HTTPResponse) -> None:
        """Read and drop the rest of a response in the background, so that its connection can be reused."""
        if response.is_complete() or self._closed.is_set():
            response.close()
        else:
            self._nursery.start_soon(finish, response)

    # The session

    def _session_for(self, revision: Revision) -> _Session | None:
        if self._session is None or not revision.http.sessions:
            return None
        if self._session.lost:
            raise SessionLost(_FORGOTTEN)
        return self._session

    def _mark_lost(self, session: _Session) -> None:
        """Report the loss of a session, once."""
        # Several requests may notice the loss, and the last one may do so during the next handshake. A second report
        # would end the new session.
        if session is self._session and not session.lost:
            self._revision = None
            self._ended.set()
        session.lost = True

    def _replace_session(self, session: _Session | None) -> None:
        """Replace the session after a handshake, and delete the previous one on the server."""
        self._listening.cancel()
        previous, self._session = self._session, session
        if previous is not None and not self._closed.is_set():
            self._nursery.start_soon(self._delete_session, previous)

    async def _delete_session(self, session: _Session) -> None:
        if session.lost:
            return
        session.lost = True
        headers = self._headers.of_delete(self._revision, session=session.id)
        with trio.move_on_after(CLOSE_TIMEOUT):
            try:
                await self._requests.send_last("DELETE", headers)
            except (RequestFailed, ConnectionClosed, AuthorizationError) as error:
                _log.debug("%s: the session could not be ended: %s", self.name, error)

    async def _listen(
        self, scope: trio.CancelScope, stream_ready: trio.Event, revision: Revision, session: _Session | None
    ) -> None:
        async def get(position: StreamPosition) -> HTTPResponse:
            try:
                return await self._get(revision, session, position)
            finally:
                stream_ready.set()

        def lost() -> None:
            if session is not None:
                self._mark_lost(session)

        with scope:
            await GETStream(get, self._receive, self._limits, lost=lost).run()


@asynccontextmanager
async def open_http_link(
    url: str,
    receive: Receiver,
    *,
    headers: Mapping[str, str] = _NO_HEADERS,
    auth: ClientAuth | None = None,
    limits: MessageLimits = CLIENT_DEFAULT,
    dialing: Dialing = DEFAULT_DIALING,
) -> AsyncIterator[HTTPLink]:
    """Yield a link to a server. It connects when the first message is sent.

    At the end of the block, running requests get ConnectionClosed, and the session is deleted, within
    :data:`CLOSE_TIMEOUT` seconds.

    Args:
        url: ``http`` or ``https``. Credentials in it become Basic authorization, and are not logged.
        headers: Headers of every request, in addition to those of the protocol.
        auth: Returns the credentials of each request, and is asked once more after 401 or 403.
        limits: Limits of one response, and of one event of a stream.
        dialing: Proxies, certificates, and the timeout for connecting.

    Raises:
        ValueError: The URL or a header is invalid, or there are two sources of credentials.
        ConfigError: The environment names a proxy that cannot be used.
    """
    endpoint = HTTPEndpoint.parse(url)
    client_headers = ClientHeaders(endpoint, headers, authorized=auth is not None)
    requests = HTTPRequests(endpoint, dialing, auth)
    async with trio.open_nursery() as nursery:
        link = HTTPLink(endpoint.name, requests, client_headers, receive, limits=limits, nursery=nursery)
        try:
            yield link
        finally:
            await link.aclose()
            nursery.cancel_scope.cancel()


def _is_unknown_session(refusal: RequestFailed) -> bool:
    """Return whether a refusal with status 400 reports a lost session."""
    # The status should be 404, but servers that follow an early example of the TypeScript SDK send 400.
    reply = refusal.reply
    return refusal.status == 400 and reply is not None and reply.code == -32000 and "session" in reply.message.lower()


def _refuses_revision(refusal: RequestFailed, revision: Revision) -> bool:
    """Return whether the server reports that it does not support a revision."""
    reply = refusal.reply
    if reply is None or reply.code != Code.UNSUPPORTED_PROTOCOL_VERSION:
        return False
    supported = reply.data.get("supported") if isinstance(reply.data, dict) else None
    return not isinstance(supported, list) or revision.version not in supported


def _session_of(response: HTTPResponse) -> _Session | None:
    """Return the session that the response to ``initialize`` begins, if any.

    Raises:
        RequestFailed: The id cannot be sent in a header. The response is closed.
    """
    id = response.headers.get("mcp-session-id")
    if id is None:
        return None
    if _SESSION_ID.fullmatch(id) is None:
        response.close()
        raise RequestFailed("Mcp-Session-Id: expected 1 to 4096 visible ASCII characters, got others", status=200)
    return _Session(id)
