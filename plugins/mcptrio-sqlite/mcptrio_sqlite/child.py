"""The process that runs SQL: it opens databases, runs jobs, and can be killed at any moment.

``QueryProcess`` starts it with only the modules that it needs. A separate process is necessary for two reasons: SQLite
cannot interrupt a single SQL function that works on megabytes, and the kernel limits memory and file sizes per process.

Source: getrlimit(2); sqlite.org/tempfiles.html.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from pickle import loads
from queue import SimpleQueue
from typing import Final

from mcptrio import ToolError

from .call_monitor import CallMonitor, CallStopped
from .config import Config
from .connections import open_database
from .frames import (
    LENGTH,
    JobDone,
    JobFailed,
    JobStopped,
    Message,
    Order,
    Ready,
    Stop,
    encode_answer,
    max_message_bytes,
    message_frame,
)
from .policy import SQLitePolicy

__all__ = ["main"]

_MAX_OPEN_FILES: Final = 64
"""Maximum number of open files, which also limits the number of temporary files."""
_EXTRA_CPU_SECONDS: Final = 5
"""Seconds of processor time in addition to the query timeout, so that the server stops the query first and can report
the timeout."""
_FILE_SIZE_FACTOR: Final = 2
"""Size limit of a file as a multiple of the database size, because a WAL can grow larger than its database."""


def main() -> None:
    """Run the jobs that the server orders, one after another."""
    requests, answers = os.dup(0), os.dup(1)
    # Output of a library to standard output would corrupt the answers.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    # The terminal sends Ctrl-C to the whole process group; the server handles it and ends its children.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    config = _read(requests)
    if not isinstance(config, Config):
        raise SystemExit(2)
    _Child(requests, answers, config).run()


class _Child:
    def __init__(self, requests: int, answers: int, config: Config) -> None:
        self._requests = requests
        self._answers = answers
        self._config = config
        self._orders: SimpleQueue[tuple[Order, CallMonitor]] = SimpleQueue()

    def run(self) -> None:
        # A thread receives Stop while the main thread runs SQL; sqlite3 releases the GIL meanwhile.
        threading.Thread(target=self._listen, daemon=True).start()
        # A core dump would contain the data of the databases.
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)
        _limit_memory(self._config.max_memory_bytes)
        self._send(Ready())
        while True:
            order, monitor = self._orders.get()
            self._set_limits(order)
            message = self._run_job(order, monitor)
            self._send(message)
            # After a MemoryError this process may not get its memory back, so the server starts another one.
            if isinstance(message, JobFailed) and message.is_unusable:
                return

    def _run_job(self, order: Order, monitor: CallMonitor) -> Message:
        config = self._config
        policy = SQLitePolicy(order.job.access, config.deny)
        try:
            with open_database(order.database, policy, config, monitor) as opened:
                answer = encode_answer(order.job.run(opened))
        except CallStopped:
            return JobStopped()
        except ToolError as error:
            # Lone surrogates cannot be encoded as UTF-8.
            return JobFailed(str(error).encode(errors="backslashreplace").decode())
        except MemoryError:
            return JobFailed(
                f"the query needs more memory than max_memory_bytes, {config.max_memory_bytes} bytes; "
                "ask for fewer or shorter values at once",
                is_unusable=True,
            )
        # The server would refuse a longer message; 1000 bytes leave room for the envelope.
        if len(answer) > max_message_bytes(config) - 1000:
            return JobFailed("the answer is far larger than max_result_bytes of the configuration; ask for less")
        return JobDone(answer)

    def _send(self, message: Message) -> None:
        data = memoryview(message_frame(message))
        while data:
            data = data[os.write(self._answers, data) :]

    def _listen(self) -> None:
        """Read orders while the main thread runs jobs. Ends the process when the server closes the pipe."""
        current: tuple[int, CallMonitor] | None = None
        while True:
            order = _read(self._requests)
            if isinstance(order, Order):
                monitor = CallMonitor(self._send)
                current = order.number, monitor
                self._orders.put((order, monitor))
            elif isinstance(order, Stop) and current is not None and current[0] == order.number:
                current[1].stop()

    def _set_limits(self, order: Order) -> None:
        """Set the limits of one call."""
        config = self._config
        # RLIMIT_CPU counts from the start of the process, which includes the time of earlier jobs.
        _limit(resource.RLIMIT_CPU, int(time.process_time() + config.query_timeout) + _EXTRA_CPU_SECONDS)
        max_file_bytes = config.max_temp_bytes
        if order.job.access.writes:
            max_file_bytes = max(
                max_file_bytes, _FILE_SIZE_FACTOR * max(config.max_database_bytes, _size(order.database.path))
            )
        _limit(resource.RLIMIT_FSIZE, max_file_bytes)


def _read(descriptor: int) -> object:
    (length,) = LENGTH.unpack(_read_exactly(descriptor, LENGTH.size))
    order: object = loads(_read_exactly(descriptor, length))
    return order


def _read_exactly(descriptor: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = os.read(descriptor, count - len(data))
        if not piece:
            # The server has closed the pipe or exited. The next process that opens the database rolls back an open
            # transaction.
            os._exit(0)
        data += piece
    return bytes(data)


def _limit(which: int, value: int) -> None:
    """Set the soft limit. The hard limit stays, so that later calls can raise the soft limit again."""
    hard = resource.getrlimit(which)[1]
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (soft, hard))


def _limit_memory(extra_bytes: int) -> None:
    """Limit the address space to its current size plus ``extra_bytes``. Only Linux enforces it."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + extra_bytes)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
