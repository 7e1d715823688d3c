"""A link that records each message of a client and passes the message on to the client's own link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from mcptrio.abc.links import Link, LinkOpener, Receiver
from mcptrio.errors import RequestFailed
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response
from mcptrio.protocol.revisions.revision import Revision
from mcptrio.recording.recorder import Recorder, SessionRecorder

__all__ = ["recorded_opener"]

_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def recorded_opener(opener: LinkOpener, recorder: Recorder, via: str) -> LinkOpener:
    """Return an opener whose links are recorded, each as a session."""

    @asynccontextmanager
    async def open_link(receive: Receiver) -> AsyncIterator[Link]:
        session = recorder.session(via)

        def record(message: Request | Notification) -> None:
            session.received(message)
            receive(message)

        async with opener(record) as link:
            yield _RecordedLink(link, session)

    return open_link


class _RecordedLink:
    """A :class:`mcptrio.abc.links.Link` that records the messages."""

    def __init__(self, link: Link, session: SessionRecorder) -> None:
        self.name = link.name
        self._link = link
        self._session = session
        self.abandon = link.abandon
        self.cancels_by_closing = link.cancels_by_closing
        self.sends_param_headers = link.sends_param_headers
        self.start_listening = link.start_listening
        self.drop_revision = link.drop_revision
        self.until_listening = link.until_listening
        self.wait_closed = link.wait_closed

    @property
    def closed(self) -> bool:
        return self._link.closed

    async def exchange(
        self, request: Request, revision: Revision, *, param_headers: Mapping[str, tuple[str, ...]] = _NOTHING
    ) -> Response | ErrorResponse:
        self._session.sent(request)
        try:
            answer = await self._link.exchange(request, revision, param_headers=param_headers)
        except RequestFailed as failed:
            # The server may send a JSON-RPC error with an HTTP error status.
            if failed.reply is not None:
                self._session.received(ErrorResponse.of(request.id, failed.reply))
            raise
        self._session.received(answer)
        return answer

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        self._session.sent(message)
        await self._link.send(message, revision)
