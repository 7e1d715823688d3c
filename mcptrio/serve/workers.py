"""The parent of worker processes, which owns their listening sockets and keeps the workers running.

The command line runs it for ``http.workers``. It imports neither plugins nor the HTTP stack; each worker is a new
interpreter that runs the same command and inherits the sockets (:mod:`mcptrio.serve.worker`). The parent ends all
workers within the shutdown timeout. If the parent is killed, the workers see the end of their link and exit.

Source: socket(7) "SO_REUSEPORT"; signal(7).
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Final

import trio
from attrs import define, field, frozen

from mcptrio.errors import ConfigError
from mcptrio.ground.backoff import MAX_PAUSE_SECONDS, Backoff
from mcptrio.ground.stderr_tail import exit_reason
from mcptrio.serve.process import Hangups
from mcptrio.serve.worker import LINK_VARIABLE, WorkerStart
from mcptrio.serve.worker_balance import ConnectionCounters
from mcptrio.serve.worker_bus import BusRelay
from mcptrio.serve.worker_link import ALIVE_INTERVAL, FrameKind, WorkerLink
from mcptrio.serve.worker_output import SharedStderr, WorkerStderr
from mcptrio.transports.child_process import ChildProcess, signal_name
from mcptrio.transports.sockets import ListeningSockets

__all__ = ["WorkerPlan", "WorkerPool"]

_log = logging.getLogger("mcptrio.workers")

# Seconds before a worker that has died is started again; later pauses are longer.
_FIRST_PAUSE_SECONDS: Final = 0.2
# Consecutive failures of one worker after which the parent gives up, if no worker ever served.
_MAX_ATTEMPTS: Final = 3
# The exit code for a wrong command or configuration; another attempt would fail too.
_USAGE_ERROR_CODE: Final = 2
# Seconds beyond the shutdown timeout for connections, lifespans and the interpreter's exit.
_EXIT_TIMEOUT: Final = 3.0
# Seconds after SIGTERM for processes that a worker has left behind.
_GROUP_TIMEOUT: Final = 1.0
# Seconds after SIGTERM for a worker whose event loop is blocked.
_BLOCKED_TIMEOUT: Final = 1.0
# Seconds for the rest of a worker's standard error, which a process left behind may keep open.
_STDERR_TIMEOUT: Final = 1.0
# Seconds between the end of a link and the exit of its worker.
_LINK_TIMEOUT: Final = 1.0


@frozen(kw_only=True)
class WorkerPlan:
    """The workers to keep running.

    Args:
        command: The command of a worker; its environment marks it as a worker.
        count: The number of workers.
        listening: The sockets from which they accept; owned, and closed at the end.
        shutdown: Seconds for requests in flight when a worker ends.
        as_json: True if the workers log one JSON object per line.
        folder: True to give them a shared private folder, which is removed at the end.
        ready_timeout: Seconds from the start of a worker until it has to serve.
        last_request_timeout: Seconds in which clients of a replaced worker can send one more request. After that their
            connections are closed, as idle connections are.
        worker_timeout: Seconds after which a worker with a blocked event loop is replaced; 0 never replaces it.
    """

    command: Sequence[str]
    count: int
    listening: Sequence[ListeningSockets]
    shutdown: float
    as_json: bool = False
    folder: bool = False
    ready_timeout: float = 60.0
    last_request_timeout: float = 1.0
    worker_timeout: float = 60.0


@define(eq=False, kw_only=True)
class _Worker:
    """One worker process.

    Attributes:
        scope: Cancel it to end the process.
        began: Trio clock time of the start.
        is_ready: True once the worker serves.
        is_late: True if the parent ends the worker because it was not ready in time.
        last_alive: Trio clock time of the last ALIVE frame.
        is_stuck: True if the parent ends the worker because its event loop is blocked.
        ready_or_ended: Set when the worker is ready or has ended.
        replaced_or_ended: Set when another worker has replaced this one, or this one has ended.
        ended: Set when the worker has ended.
    """

    number: int
    index: int
    child: ChildProcess
    link: WorkerLink
    stderr: WorkerStderr
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    began: float = field(factory=trio.current_time)
    is_ready: bool = False
    is_late: bool = False
    last_alive: float = field(factory=trio.current_time)
    is_stuck: bool = False
    ready_or_ended: trio.Event = field(factory=trio.Event)
    replaced_or_ended: trio.Event = field(factory=trio.Event)
    ended: trio.Event = field(factory=trio.Event)

    def end_reason(self) -> str:
        """Return a description of the worker's end, with its error or last line if it never served."""
        code = self.child.returncode
        if code is not None and code < 0:
            end = f"was killed by {signal_name(-code)}"
        else:
            end = f"ended with {code}"
        if self.is_late:
            end = "was not ready in time"
        if self.is_stuck:
            end = "was ended because its event loop was blocked"
        if self.is_ready:
            return f"worker {self.number} {end}"
        lines = [line.decode("utf-8", "replace") for line in self.stderr.last_lines] or ["no output"]
        return f"worker {self.number} {end} before it served: {exit_reason(lines) or lines[-1]}"


@define(eq=False)
class _Slot:
    """A position in the pool with at most one worker, or two while it is replaced."""

    worker: _Worker | None = None
    # Set when another task puts a worker here.
    changed: trio.Event = field(factory=trio.Event)

    def put(self, worker: _Worker) -> None:
        old, self.worker = self.worker, worker
        if old is not None:
            old.replaced_or_ended.set()
        self.changed.set()
        self.changed = trio.Event()

    async def until_changed(self, timeout: float) -> None:
        """Wait until another task puts a worker here, for at most ``timeout`` seconds."""
        with trio.move_on_after(timeout):
            await self.changed.wait()


class WorkerPool:
    """The workers of one plan. Run it once."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan
        self._key = secrets.token_bytes(32)
        self._relay = BusRelay()
        self._output = SharedStderr()
        self._folder: str | None = None
        self._counters: ConnectionCounters
        self._live: set[_Worker] = set()
        self._slots = [_Slot() for _ in range(plan.count)]
        self._started = 0
        # True once any worker has served.
        self._served = False
        self._nursery: trio.Nursery
        self._status: trio.TaskStatus[list[str]]

    async def run(
        self,
        shutdown: trio.Event,
        hangups: Hangups,
        *,
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Keep the workers running until ``shutdown`` is set or the caller is cancelled.

        Then all of them are ended concurrently.

        Args:
            shutdown: Set it to stop.
            hangups: Each SIGHUP replaces all workers, one after another.
            task_status: Started with the URLs when the first worker serves.

        Raises:
            ChildProcessError: No worker could be started; the message has the error of the last one.
            ConfigError: No worker could be started, because the command or the configuration is wrong.
        """
        self._status = task_status
        with ExitStack() as stack:
            stack.callback(self._stop_listening)
            # A reload adds one worker, and in each slot one worker may be ending while the next one starts.
            self._counters = ConnectionCounters(2 * self._plan.count + 1)
            stack.callback(self._counters.close)
            if self._plan.folder:
                self._folder = tempfile.mkdtemp(prefix="mcptrio-")
                stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            async with trio.open_nursery() as outputs:
                outputs.start_soon(self._output.run)
                async with trio.open_nursery() as self._nursery:
                    for slot in self._slots:
                        self._nursery.start_soon(self._keep_running, slot)
                    self._nursery.start_soon(self._reload_when_asked, hangups)
                    await shutdown.wait()
                    self._stop_listening()
                    self._nursery.cancel_scope.cancel()
                outputs.cancel_scope.cancel()

    def kill(self) -> None:
        """Kill all workers before this process exits. A signal handler may call it."""
        for worker in tuple(self._live):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.child.pid, signal.SIGKILL)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _stop_listening(self) -> None:
        for listening in self._plan.listening:
            listening.close()

    # The pool

    async def _keep_running(self, slot: _Slot) -> None:
        """Keep one worker running in a slot."""
        backoff, failures = Backoff(_FIRST_PAUSE_SECONDS), 0
        worker: _Worker | None = None
        while True:
            if slot.worker is worker:
                try:
                    slot.put(self._start())
                except OSError as error:
                    failures += 1
                    self._fail_after(failures, f"no process can be started: {error.strerror}")
                    _log.error("no process can be started: %s", error.strerror)
                    await slot.until_changed(backoff.next_pause())
                    continue
            worker = slot.worker
            assert worker is not None, "_keep_running or a reload has just put a worker there"
            await worker.replaced_or_ended.wait()
            if slot.worker is not worker:
                backoff, failures = Backoff(_FIRST_PAUSE_SECONDS), 0
                continue
            if worker.is_ready and trio.current_time() - worker.began > MAX_PAUSE_SECONDS:
                backoff.reset()
            failures = 0 if worker.is_ready else failures + 1
            if worker.child.returncode == _USAGE_ERROR_CODE and not self._served:
                raise ConfigError(f"no worker serves: {worker.end_reason()}")
            self._fail_after(failures, worker.end_reason())
            pause = backoff.next_pause()
            _log.error("%s; another one is started in %.1f s", worker.end_reason(), pause)
            await slot.until_changed(pause)

    def _fail_after(self, failures: int, why: str) -> None:
        """Stop the pool after repeated failures.

        Raises:
            ChildProcessError: The worker has failed too often, and no worker ever served.
        """
        if failures >= _MAX_ATTEMPTS and not self._served:
            raise ChildProcessError(f"no worker serves: {why}")

    async def _reload_when_asked(self, hangups: Hangups) -> None:
        while True:
            await hangups.wait()
            _log.info("SIGHUP: replacing %d workers", len(self._slots))
            if await self._reload():
                _log.info("all workers are replaced")

    async def _reload(self) -> bool:
        """Replace the workers one after another. Return True if all were replaced."""
        for slot in self._slots:
            try:
                new = self._start()
            except OSError as error:
                _log.error(
                    "reload aborted, the other workers keep running: no process can be started: %s", error.strerror
                )
                return False
            # The old worker serves until the new one is ready, so the number of serving workers never decreases.
            await new.ready_or_ended.wait()
            if not new.is_ready:
                await new.ended.wait()
                _log.error("reload aborted, the other workers keep running: %s", new.end_reason())
                return False
            old = slot.worker
            slot.put(new)
            if old is not None:
                await self._retire(old)
        return True

    async def _retire(self, worker: _Worker) -> None:
        """Let a worker finish its requests within the timeouts, then end it."""
        worker.link.queue(FrameKind.LEAVE)
        with trio.move_on_after(self._plan.last_request_timeout + self._plan.shutdown + _EXIT_TIMEOUT) as scope:
            await worker.ended.wait()
        if scope.cancelled_caught:
            _log.warning("worker %d did not exit in time, killing it", worker.number)
            worker.scope.cancel()
            await worker.ended.wait()

    # One worker

    def _start(self) -> _Worker:
        """Start a worker process and the task that owns it.

        Raises:
            OSError: The system cannot start another process.
        """
        self._started += 1
        with ExitStack() as theirs, ExitStack() as ours:
            link, worker_end = socket.socketpair()
            ours.callback(link.close)
            theirs.callback(worker_end.close)
            read, write = os.pipe()
            ours.callback(os.close, read)
            theirs.callback(os.close, write)
            sockets = tuple(each.fileno() for listening in self._plan.listening for each in listening.sockets)
            popen = subprocess.Popen(
                self._plan.command,
                stdin=subprocess.DEVNULL,
                stderr=write,
                env={**os.environ, LINK_VARIABLE: str(worker_end.fileno())},
                pass_fds=(worker_end.fileno(), self._counters.fd, *sockets),
                # Ctrl-C in the terminal reaches only the parent, which ends the workers. The process group allows
                # signalling processes that a worker leaves behind.
                start_new_session=True,
            )
            ours.pop_all()
        worker = _Worker(
            number=self._started,
            index=self._counters.take(),
            child=ChildProcess(popen, stdin=-1, stdout=-1, stderr=read),
            link=WorkerLink(link),
            stderr=WorkerStderr(read, self._output, number=self._started, as_json=self._plan.as_json),
        )
        start_parameters = WorkerStart(
            number=worker.number,
            sockets=sockets,
            counters=self._counters.fd,
            index=worker.index,
            key=self._key,
            folder=self._folder,
            last_request_timeout=self._plan.last_request_timeout,
            shutdown=self._plan.shutdown,
        )
        worker.link.queue(FrameKind.BEGIN, start_parameters.encode())
        self._live.add(worker)
        self._nursery.start_soon(self._keep_worker, worker)
        return worker

    async def _keep_worker(self, worker: _Worker) -> None:
        """Manage a worker from its start to its end. Cancellation ends the worker."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.stderr.copy)
                nursery.start_soon(worker.link.send)
                nursery.start_soon(self._receive_messages, worker)
                nursery.start_soon(self._watch_start, worker)
                if self._plan.worker_timeout:
                    nursery.start_soon(self._watch_event_loop, worker)
                try:
                    with worker.scope:
                        await worker.child.wait()
                finally:
                    with trio.CancelScope(shield=True):
                        # Each step has a timeout.
                        await self._end(worker)
                nursery.cancel_scope.cancel()
        finally:
            self._live.discard(worker)
            self._counters.give_back(worker.index)
            self._relay.remove(worker.link)
            worker.link.close()
            worker.ended.set()
            worker.ready_or_ended.set()
            worker.replaced_or_ended.set()

    async def _end(self, worker: _Worker) -> None:
        try:
            if worker.child.returncode is None:
                # Only the worker gets the signal: it ends its child processes itself, when it no longer needs them.
                with suppress(ProcessLookupError):
                    os.kill(worker.child.pid, signal.SIGTERM)
            # A worker with a blocked event loop cannot use the longer time.
            seconds = _BLOCKED_TIMEOUT if worker.is_stuck else self._plan.shutdown + _EXIT_TIMEOUT
            if not await worker.child.end(exit=seconds, terminate=_GROUP_TIMEOUT):
                _log.warning("worker %d left processes that did not end", worker.number)
            with trio.move_on_after(_STDERR_TIMEOUT):
                await worker.stderr.ended.wait()
        finally:
            worker.stderr.close()

    async def _receive_messages(self, worker: _Worker) -> None:
        link = worker.link
        try:
            while True:
                for kind, body in await link.receive():
                    if kind is FrameKind.MESSAGE:
                        self._relay.forward(link, body)
                    elif kind is FrameKind.LOST:
                        self._relay.report_lost(link)
                    elif kind is FrameKind.FOLLOW:
                        self._relay.follow(link, body)
                    elif kind is FrameKind.UNFOLLOW:
                        self._relay.unfollow(link, body)
                    elif kind is FrameKind.READY:
                        self._note_ready(worker, body)
                    elif kind is FrameKind.ALIVE:
                        worker.last_alive = trio.current_time()
        except trio.EndOfChannel:
            # The worker is exiting, or it has closed the link, without which the parent cannot control it.
            with trio.move_on_after(_LINK_TIMEOUT):
                await worker.child.wait()
            worker.scope.cancel()

    def _note_ready(self, worker: _Worker, body: bytes) -> None:
        worker.is_ready = True
        worker.ready_or_ended.set()
        _log.info("worker %d serves", worker.number)
        if not self._served:
            self._served = True
            self._status.started(body.decode("utf-8", "replace").split("\n"))

    async def _watch_start(self, worker: _Worker) -> None:
        with trio.move_on_after(self._plan.ready_timeout):
            await worker.ready_or_ended.wait()
            return
        worker.is_late = True
        worker.scope.cancel()

    async def _watch_event_loop(self, worker: _Worker) -> None:
        """End a serving worker whose event loop is blocked: its clients would wait without a limit."""
        await worker.ready_or_ended.wait()
        worker.last_alive = trio.current_time()
        timeout = self._plan.worker_timeout + ALIVE_INTERVAL
        while trio.current_time() - worker.last_alive < timeout:
            await trio.sleep_until(worker.last_alive + timeout)
            # If the parent was stopped (SIGSTOP), it first reads the frames that have arrived in the meantime.
            await trio.sleep(ALIVE_INTERVAL)
        _log.error("worker %d: its event loop has been blocked for %g s", worker.number, self._plan.worker_timeout)
        worker.is_stuck = True
        worker.scope.cancel()
