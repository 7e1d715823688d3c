"""The process that runs SQL: it opens databases, runs jobs, and can be killed at any moment.

``Lane`` starts it so that it imports only the modules it needs. A separate process is necessary because SQLite cannot
interrupt a single SQL function that works on megabytes, and because the system can then limit the memory and disk space
of a query.

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

from .config import Config
from .connections import open_database
from .frames import LENGTH, CallDone, Failed, Message, Order, Ready, Stop, Undone, largest, message_frame, packed
from .policy import SQLitePolicy
from .watching import CallStopped, Watch

__all__ = ["main"]

_FILES: Final = 64
"""Open files, which also limits the number of temporary files."""
_SPARE: Final = 5
"""Seconds of processor time in addition to the query timeout: the server should stop the query first, because it can
explain why."""
_JOURNALS: Final = 2
"""Size limit of a file as a multiple of the database size: a WAL can grow larger than its database."""


def main() -> None:
    """Run the server's orders one after another."""
    requests, answers = os.dup(0), os.dup(1)
    # Output of a library to standard output would corrupt the answers.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    # Ctrl-C in the terminal is the server's to handle.
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
        self._orders: SimpleQueue[tuple[Order, Watch]] = SimpleQueue()

    def run(self) -> None:
        # Reads orders while the main thread computes; sqlite3 releases the GIL meanwhile.
        threading.Thread(target=self._listen, daemon=True).start()
        # A core dump would contain the data of the databases.
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_NOFILE, _FILES)
        _limit_memory(self._config.max_memory_bytes)
        self._send(Ready())
        while True:
            order, watch = self._orders.get()
            self._limit_for(order)
            message = self._run_job(order, watch)
            self._send(message)
            # After a MemoryError this process may not get its memory back; the server starts another one.
            if isinstance(message, Failed) and message.is_spent:
                return

    def _run_job(self, order: Order, watch: Watch) -> Message:
        config = self._config
        policy = SQLitePolicy(order.job.access, config.deny)
        try:
            with open_database(order.database, policy, config, watch) as opened:
                answer = packed(order.job.run(opened))
        except CallStopped:
            return Undone()
        except ToolError as error:
            # Lone surrogates cannot be encoded as UTF-8.
            return Failed(str(error).encode(errors="backslashreplace").decode())
        except MemoryError:
            return Failed(
                f"this takes more memory than max_memory_bytes of the configuration, {config.max_memory_bytes} bytes; "
                "ask for fewer or shorter values at once",
                is_spent=True,
            )
        # The server would refuse a longer message; 1000 bytes leave room for the envelope.
        if len(answer) > largest(config) - 1000:
            return Failed("the answer is far larger than max_result_bytes of the configuration; ask for less")
        return CallDone(answer)

    def _send(self, message: Message) -> None:
        data = memoryview(message_frame(message))
        while data:
            data = data[os.write(self._answers, data) :]

    def _listen(self) -> None:
        """Read orders while the other thread computes. Ends only when the server closes the pipe."""
        current: tuple[int, Watch] | None = None
        while True:
            order = _read(self._requests)
            if isinstance(order, Order):
                watch = Watch(self._send)
                current = order.number, watch
                self._orders.put((order, watch))
            elif isinstance(order, Stop) and current is not None and current[0] == order.number:
                current[1].stop()

    def _limit_for(self, order: Order) -> None:
        """Set the limits of one call."""
        config = self._config
        # RLIMIT_CPU counts from the start of the process, so the time used so far is added.
        _limit(resource.RLIMIT_CPU, int(time.process_time() + config.query_timeout) + _SPARE)
        most = config.max_temp_bytes
        if order.job.access.writes:
            most = max(most, _JOURNALS * max(config.max_database_bytes, _size(order.database.path)))
        _limit(resource.RLIMIT_FSIZE, most)


def _read(descriptor: int) -> object:
    (length,) = LENGTH.unpack(_exactly(descriptor, LENGTH.size))
    order: object = loads(_exactly(descriptor, length))
    return order


def _exactly(descriptor: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = os.read(descriptor, count - len(data))
        if not piece:
            # The server has closed the pipe or exited. The next process that opens the file rolls an open transaction
            # back.
            os._exit(0)
        data += piece
    return bytes(data)


def _limit(which: int, value: int) -> None:
    """Set the soft limit only, so that later calls can raise it again."""
    hard = resource.getrlimit(which)[1]
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (soft, hard))


def _limit_memory(more: int) -> None:
    """Limit the address space to its current size plus ``more`` bytes. Only Linux enforces it."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + more)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
