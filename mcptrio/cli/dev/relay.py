"""``mcptrio dev --stdio``: relays messages between a client and workers that are replaced.

The command line runs it. It imports no plugin. When a file changes, it starts a new worker. As soon as that worker is
ready, it receives all messages, and the client is notified that its lists have changed. Every request gets a response:
from a worker, or an error.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Final

import trio

from mcptrio.abc import MessageChannel
from mcptrio.cli.dev.session_state import SessionState
from mcptrio.cli.dev.sources import SourceWatch, file_names
from mcptrio.cli.dev.worker import DevWorker, StartWorker
from mcptrio.errors import Code, ConnectionClosed
from mcptrio.outbox import Item, Outbox
from mcptrio.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
)

__all__ = ["DRAIN_TIMEOUT", "DevRelay"]

_log = logging.getLogger("mcptrio.dev")

DRAIN_TIMEOUT: Final = 2.0
"""Seconds for requests in flight to finish after another worker has taken over."""
_READY_TIMEOUT: Final = 60.0
"""Seconds for a worker to get ready."""
_MIN_WORKER_SECONDS: Final = 5.0
"""Seconds that a worker must have served to be restarted when it exits. A worker that exits sooner would probably exit
again, so it is restarted after the next change."""
_CANCEL_TIMEOUT: Final = 1.0
"""Seconds for sending cancellations to a replaced worker."""
_CLOSE_TIMEOUT: Final = 2.0
"""Seconds for sending the last messages to the client."""
_CANCELLED: Final = "notifications/cancelled"
_SUPERSEDED_NOTIFICATIONS: Final = ("/list_changed", "/updated")
"""Suffixes of notifications that an old worker still sends, although the new one has newer lists."""


class DevRelay:
    """The relay of one client. :meth:`run` is called once.

    Args:
        shutdown: Seconds for requests in flight after the client disconnects or a signal arrives.
    """

    def __init__(self, channel: MessageChannel, watch: SourceWatch, start: StartWorker, *, shutdown: float) -> None:
        self._channel = channel
        self._watch = watch
        self._start = start
        self._shutdown = shutdown
        self._outbox = Outbox()
        self._session: SessionState[DevWorker] = SessionState()
        self._worker_requests: dict[RequestId, tuple[DevWorker, RequestId]] = {}
        """Requests to the client by their id; the values are the worker and the worker's own id."""
        self._numbers = count(1)
        self._current: DevWorker | None = None
        self._workers: set[DevWorker] = set()
        self._failure = ""
        """The reason why there is no worker."""
        self._decided = trio.Event()
        """Set once there is a worker or a failure. Until then no message of the client is forwarded."""
        self._routing = trio.Lock()
        """Held while a message is delivered to a worker, and while the worker is replaced."""
        self._delivery = trio.CancelScope()
        """The scope of the task that waits for a worker to accept a message."""
        self._is_switching = False
        """True while a task replaces the worker and waits for the lock; no delivery to that worker may wait then."""
        self._answered = trio.Event()
        self._worker_exited = trio.Event()
        self._client_left = trio.Event()
        """Set once the client has disconnected."""
        self._nursery: trio.Nursery

    async def run(self, shutdown: trio.Event) -> None:
        """Serve the client until it disconnects or ``shutdown`` is set."""
        async with trio.open_nursery() as self._nursery:
            # The client's tasks are cancelled at the end. The workers in the outer nursery are asked to exit, so
            # that their processes can run their own cleanup.
            async with trio.open_nursery() as nursery:
                flushed = trio.Event()
                nursery.start_soon(self._write_outbox, flushed)
                keeper = trio.CancelScope()
                nursery.start_soon(self._keep_worker, keeper)
                nursery.start_soon(self._read_client)
                nursery.start_soon(_set_after, shutdown, self._client_left)
                await self._client_left.wait()
                keeper.cancel()
                with trio.move_on_after(self._shutdown):
                    await self._wait_until_answered(None)
                for worker in tuple(self._workers):
                    await self._abandon(worker, "the server is ending")
                self._outbox.close()
                with trio.move_on_after(_CLOSE_TIMEOUT):
                    await flushed.wait()
                nursery.cancel_scope.cancel()
            # _run_worker reports the exit of the current worker as a failure.
            self._current = None
            for worker in self._workers:
                worker.leave()

    # The workers

    async def _keep_worker(self, scope: trio.CancelScope) -> None:
        with scope:
            changed: list[Path] = []
            while True:
                # If files change during a start, the next attempt begins at once.
                changed = await self._replace(changed) or await self._wait_for_changes(self._worker_exited)

    async def _replace(self, changed: Sequence[Path]) -> list[Path]:
        """Start a new worker, switch to it, and return the files that changed before it was ready, if any."""
        began = trio.current_time()
        self._watch.renew()
        self._worker_exited = trio.Event()
        # The client's messages wait for this start, instead of failing with the failure of the previous one.
        if self._current is None and self._decided.is_set():
            self._decided = trio.Event()
        worker = DevWorker(self._start, self._handle_worker_message)
        self._workers.add(worker)
        self._nursery.start_soon(self._run_worker, worker)
        newer_changes = await self._wait_for_changes(worker.settled, _READY_TIMEOUT)
        # The new worker has read old files; another one is started with the newest.
        if newer_changes:
            worker.leave()
            return sorted({*changed, *newer_changes})
        if worker.ready_since is not None and not worker.ended.is_set():
            self._watch.add(worker.files)
            await self._switch(
                worker, f"reloaded because of changes in {file_names(changed)}" if changed else "restarted"
            )
            milliseconds = (trio.current_time() - began) * 1000
            if changed:
                _log.info("reloaded in %.0f ms: %s", milliseconds, file_names(changed))
            else:
                count = len(self._watch)
                _log.info("started in %.0f ms; watching %d %s", milliseconds, count, "file" if count == 1 else "files")
        else:
            failure = worker.failure if worker.ended.is_set() else f"it was not ready within {_READY_TIMEOUT:g} seconds"
            worker.leave()
            # The worker has already written the reason to the same standard error.
            why = "" if worker.has_logged_failure else f": {failure}"
            if self._current is None:
                self._failure = failure
                _log.error("start failed, nothing is served until a file changes%s", why)
            else:
                _log.error("reload failed, the previous version keeps running%s", why)
        self._decided.set()
        return []

    async def _wait_for_changes(self, event: trio.Event, seconds: float = inf) -> list[Path]:
        """Wait for a change, the event or the timeout. Return the changed files."""
        changed: list[Path] = []
        async with trio.open_nursery() as nursery:

            async def watch_sources() -> None:
                changed.extend(await self._watch.wait_for_changes())
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch_sources)
            with trio.move_on_after(seconds):
                await event.wait()
            nursery.cancel_scope.cancel()
        return changed

    async def _switch(self, new: DevWorker, why: str) -> None:
        # A worker that does not read must not prevent its own replacement.
        self._is_switching = True
        self._delivery.cancel()
        async with self._routing:
            self._is_switching = False
            old, self._current = self._current, new
            # Before any other message: the new worker has to know the client first.
            for message in self._session.replay(new):
                await _deliver(new, message)
        for notification in self._session.list_changes():
            await self._outbox.send(notification)
        if old is not None:
            self._nursery.start_soon(self._retire, old, why)

    async def _retire(self, old: DevWorker, why: str) -> None:
        with trio.move_on_after(DRAIN_TIMEOUT):
            await self._wait_until_answered(old)
        lost = await self._abandon(old, f"the server was {why}; send the request again")
        # With the cancellations the worker can end at once, if it still reads.
        with trio.move_on_after(_CANCEL_TIMEOUT):
            for id in lost:
                await _deliver(old, Notification(_CANCELLED, {"requestId": id, "reason": "the server is reloaded"}))
        await old.finish()

    async def _run_worker(self, worker: DevWorker) -> None:
        await worker.run()
        self._workers.discard(worker)
        if self._current is worker:
            self._current, self._failure = None, worker.failure
            now = trio.current_time()
            if now - (worker.ready_since or now) > _MIN_WORKER_SECONDS:
                _log.error("the server exited, starting another one: %s", worker.failure)
                self._worker_exited.set()
            else:
                _log.error("the server exited, nothing is served until a file changes: %s", worker.failure)
        await self._abandon(worker, f"the server ended before it answered: {worker.failure}")

    async def _abandon(self, worker: DevWorker, why: str) -> list[RequestId]:
        """Answer a worker's requests with an error, cancel its questions, and return the answered ids."""
        lost = self._session.abandon(worker)
        for id in lost:
            await self._write_client(ErrorResponse(id, int(Code.INTERNAL_ERROR), why))
        for id, (owner, _) in tuple(self._worker_requests.items()):
            if owner is worker:
                del self._worker_requests[id]
                # The user should not answer a question for which no worker waits.
                await self._write_client(Notification(_CANCELLED, {"requestId": id, "reason": why}))
        self._notify_answered()
        return lost

    async def _wait_until_answered(self, worker: DevWorker | None) -> None:
        while self._session.unanswered(worker):
            await self._answered.wait()

    def _notify_answered(self) -> None:
        self._answered.set()
        # A Trio event cannot be reset.
        self._answered = trio.Event()

    # From the client

    async def _read_client(self) -> None:
        try:
            while True:
                for incoming in await self._channel.receive():
                    await self._decided.wait()
                    await self._handle_client_message(incoming)
                # Backpressure: a client that does not read responses is not read either.
                await self._outbox.wait_for_room()
        except (trio.EndOfChannel, ConnectionClosed):
            self._client_left.set()

    async def _handle_client_message(self, incoming: Incoming) -> None:
        if isinstance(incoming, Malformed):
            await self._write_client(incoming.reply)
        elif isinstance(incoming, Batch) and not self._session.batches:
            # Refused as a whole, without an id.
            text = "expected one JSON-RPC message, got an array: batches exist in another revision only"
            await self._write_client(ErrorResponse(None, int(Code.INVALID_REQUEST), text))
        elif isinstance(incoming, Batch):
            for each in incoming.messages:
                # Forwarded one by one, and answered one by one: JSON-RPC clients accept responses in any order.
                await self._handle_client_message(each)
        else:
            # A request that the old worker has not accepted goes to the new one.
            while not await self._route(incoming):
                pass

    async def _route(self, message: Message) -> bool:
        """Return whether the message was delivered or has no receiver."""
        async with self._routing:
            if isinstance(message, Request):
                return await self._handle_request(message)
            if isinstance(message, Notification):
                await self._notify(message)
            # An answer for a worker that has ended is dropped.
            elif message.id is not None and message.id in self._worker_requests:
                worker, message.id = self._worker_requests.pop(message.id)
                await self._forward(worker, message)
            return True

    async def _handle_request(self, request: Request) -> bool:
        """Forward or answer a request. Return False if its worker is about to be replaced."""
        if request.id in self._session.waiting:
            text = f"expected a new id, got {request.id!r}: a request with this id is in flight"
            await self._write_client(ErrorResponse(request.id, int(Code.INVALID_REQUEST), text))
        elif self._current is not None:
            self._session.add_request(request, self._current)
            if not await self._forward(self._current, request):
                self._session.remove_request(request)
                return False
        # A client that only checks the connection must not give up while an edit is broken.
        elif request.method == "ping":
            await self._write_client(Response(request.id, {}))
        else:
            text = f"the server could not be started; it is started again when a file changes: {self._failure}"
            await self._write_client(ErrorResponse(request.id, int(Code.INTERNAL_ERROR), text))
        return True

    async def _notify(self, notification: Notification) -> None:
        self._session.handle_notification(notification)
        if notification.method == _CANCELLED:
            worker = self._session.cancel_request((notification.params or {}).get("requestId"))
            if worker is not None:
                await self._forward(worker, notification)
                self._notify_answered()
        else:
            for worker in tuple(self._workers):
                # A worker that is not ready does not know the client yet; it gets this in the replay.
                if worker is self._current or worker in {owner for owner, _ in self._worker_requests.values()}:
                    await self._forward(worker, notification)

    async def _forward(self, worker: DevWorker, message: Message) -> bool:
        """Deliver a message to a worker, unless the worker is replaced first. Return whether it was delivered."""
        with trio.CancelScope() as delivery:
            self._delivery = delivery
            if self._is_switching:
                delivery.cancel()
            await _deliver(worker, message)
        return not delivery.cancelled_caught

    # From the workers

    async def _handle_worker_message(self, worker: DevWorker, incoming: Incoming) -> None:
        for each in incoming.messages if isinstance(incoming, Batch) else (incoming,):
            message = self._message_for_client(worker, each)
            if message is not None:
                await self._write_client(message)

    def _message_for_client(self, worker: DevWorker, message: Message | Malformed) -> Message | None:
        """Return the message for the client, if any."""
        if isinstance(message, Malformed):
            if message.answers is None:
                _log.debug("ignored an invalid message: %s", message.reply.message)
                return None
            reason = f"the answer cannot be read: {message.reply.message}"
            message = ErrorResponse(message.answers, int(Code.INTERNAL_ERROR), reason)
        if isinstance(message, Response | ErrorResponse):
            # Drop responses to the relay itself, and to requests that were answered or cancelled in the meantime.
            if worker.handle_own_response(message) or not self._session.handle_response(message, worker):
                return None
            self._notify_answered()
            return message
        if isinstance(message, Request):
            # Two workers number their requests alike, so the client gets numbers of the relay.
            id = next(self._numbers)
            self._worker_requests[id] = (worker, message.id)
            return Request(id, message.method, message.params)
        if message.method == _CANCELLED:
            return self._translate_cancellation(worker, message.params or {})
        is_superseded = worker is not self._current and message.method.endswith(_SUPERSEDED_NOTIFICATIONS)
        return None if is_superseded or self._session.is_repeated(message) else message

    def _translate_cancellation(self, worker: DevWorker, params: dict[str, Any]) -> Message | None:
        for id, (owner, worker_id) in self._worker_requests.items():
            if owner is worker and worker_id == params.get("requestId"):
                del self._worker_requests[id]
                return Notification(_CANCELLED, {**params, "requestId": id})
        return None

    # To the client

    async def _write_client(self, item: Item) -> None:
        # The client may have disconnected.
        with suppress(ConnectionClosed):
            await self._outbox.send(item)

    async def _write_outbox(self, flushed: trio.Event) -> None:
        try:
            while True:
                await self._channel.send(await self._outbox.take())
        except trio.EndOfChannel:
            pass
        except ConnectionClosed:
            self._outbox.abort()
            self._client_left.set()
        finally:
            flushed.set()


async def _deliver(worker: DevWorker, message: Message) -> None:
    # The owner of a worker that has ended answers its requests.
    with suppress(ConnectionClosed):
        await worker.outbox.send(message)


async def _set_after(first: trio.Event, second: trio.Event) -> None:
    await first.wait()
    second.set()
