"""Converts documents in separate processes, which are limited in memory, time and output.

The tools call it, and other plugins can call it with the bytes of a document. A process converts one document and ends,
so a document cannot affect the next one. If the call is cancelled, the process is killed.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec
import trio
from attrs import define, field

from mcptrio import ToolError
from mcptrio.errors import ConnectionClosed
from mcptrio.net import ChildProcess, start_process

from .config import Config
from .document import ConversionOrder, PagedDocument

__all__ = ["MAX_TEXT_CHARS", "DocumentConverter"]

MAX_TEXT_CHARS: Final = 10_000_000
"""Maximum number of characters of one converted document."""

_MAX_OUTPUT_BYTES: Final = 6 * MAX_TEXT_CHARS
"""JSON encodes a character in at most six bytes."""
_CHUNK_BYTES: Final = 64 * 1024
_MAX_MESSAGE_BYTES: Final = 4000
_EXIT_TIMEOUT: Final = 1.0
"""Seconds for a process to exit after it has closed its output."""
_END_TIMEOUT: Final = 10.0
"""Seconds for a killed process to disappear."""

# For python -c, with the folder of this package and sys.path as arguments. This code bypasses the package's __init__,
# which imports the whole plugin.
_START: Final = """
import sys, types
sys.path[:] = sys.argv[2:]
package = types.ModuleType("mcptrio_documents")
package.__path__ = [sys.argv[1]]
sys.modules["mcptrio_documents"] = package
from mcptrio_documents.worker import main
main()
"""
_FOLDER: Final = str(Path(__file__).parent)
_CHILD_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", "LANG", "LC_ALL")
_CRASH_EXIT_CODES: Final = (
    -signal.SIGABRT,
    -signal.SIGSEGV,
    -signal.SIGILL,
    -getattr(signal, "SIGBUS", signal.SIGSEGV),
)
_TIMEOUT_EXIT_CODES: Final = (-getattr(signal, "SIGXCPU", signal.SIGTERM), -getattr(signal, "SIGKILL", signal.SIGTERM))


class _Result(msgspec.Struct):
    document: PagedDocument | None = None
    error: str = ""


class DocumentConverter:
    """Converts documents, a few at a time."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._processes = trio.CapacityLimiter(config.max_processes)

    async def convert(self, data: bytes, name: str) -> PagedDocument:
        """Convert a document to Markdown.

        Args:
            name: The file name, for messages. HTML and CSV are recognised by its ending.

        Raises:
            ToolError: The document is damaged, protected, of another kind, or exceeds a limit; the message has the
                reason.
        """
        config = self._config
        order = ConversionOrder(
            name=name,
            process_memory_mb=config.process_memory_mb,
            max_cpu_seconds=math.ceil(config.convert_timeout),
            max_parts=config.max_pages,
            max_chars=MAX_TEXT_CHARS,
        )
        async with self._processes:
            with trio.move_on_after(config.convert_timeout):
                return await self._run(order, data)
        raise self._too_slow()

    async def _run(self, order: ConversionOrder, data: bytes) -> PagedDocument:
        environment = {name: os.environ[name] for name in _CHILD_VARIABLES if name in os.environ}
        # Each further arena of malloc would reserve 64 MiB of the limited address space.
        environment["MALLOC_ARENA_MAX"] = "1"
        # A file in the working folder must not be imported: -P keeps that folder out of sys.path, and relative entries,
        # which depend on it, are left out.
        command = (sys.executable, "-P", "-c", _START, _FOLDER, *filter(os.path.isabs, sys.path))
        try:
            run = _Run(start_process(command, env=environment, cwd="/"))
        except ConnectionClosed as error:
            raise ToolError(str(error)) from error
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run.read_messages)
                nursery.start_soon(run.feed, msgspec.json.encode(order) + b"\n", data)
                await run.read_output()
                with trio.move_on_after(_EXIT_TIMEOUT):
                    await run.process.wait()
                nursery.cancel_scope.cancel()
        finally:
            with trio.move_on_after(_END_TIMEOUT, shield=True):
                await run.end()
        return self._result(run)

    def _result(self, run: _Run) -> PagedDocument:
        code = run.process.returncode
        if code == 0 and len(run.output) <= _MAX_OUTPUT_BYTES:
            result = msgspec.json.decode(run.output, type=_Result)
            if result.document is not None:
                return result.document
            raise ToolError(result.error)
        if len(run.output) > _MAX_OUTPUT_BYTES:
            raise ToolError(f"expected at most {MAX_TEXT_CHARS} characters of text in the document, got more")
        if code in _TIMEOUT_EXIT_CODES:
            raise self._too_slow()
        if code in _CRASH_EXIT_CODES or b"MemoryError" in run.messages:
            raise ToolError(
                f"reading the document took more than {self._config.process_memory_mb} MiB of memory, or it is damaged"
            )
        last = bytes(run.messages).decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ToolError(f"the process that reads documents has ended with code {code}: {last[:300] or 'no message'}")

    def _too_slow(self) -> ToolError:
        return ToolError(f"reading the document took longer than {self._config.convert_timeout:g} seconds")


@define(eq=False)
class _Run:
    """One process and its output so far."""

    process: ChildProcess
    output: bytearray = field(init=False, factory=bytearray)
    messages: bytearray = field(init=False, factory=bytearray)
    """The end of the process's standard error."""
    _stdin: trio.lowlevel.FdStream = field(init=False)
    _stdout: trio.lowlevel.FdStream = field(init=False)
    _stderr: trio.lowlevel.FdStream = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._stdin = trio.lowlevel.FdStream(self.process.stdin)
        self._stdout = trio.lowlevel.FdStream(self.process.stdout)
        self._stderr = trio.lowlevel.FdStream(self.process.stderr)

    async def feed(self, *pieces: bytes) -> None:
        """Write to the process's standard input, and close it."""
        try:
            for piece in pieces:
                await self._stdin.send_all(piece)
        except trio.BrokenResourceError:
            pass  # the process has ended, and its exit code has the reason
        self._stdin.close()

    async def read_output(self) -> None:
        """Read the process's standard output to its end, or until it exceeds the limit."""
        while len(self.output) <= _MAX_OUTPUT_BYTES and (piece := await self._stdout.receive_some(_CHUNK_BYTES)):
            self.output += piece

    async def read_messages(self) -> None:
        """Read the process's standard error, and keep the end."""
        async for piece in self._stderr:
            self.messages += piece
            del self.messages[:-_MAX_MESSAGE_BYTES]

    async def end(self) -> None:
        """Kill the process if it runs, and wait until it has ended. Call this in a shielded scope."""
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()
        await self.process.end(exit=0, terminate=0)
