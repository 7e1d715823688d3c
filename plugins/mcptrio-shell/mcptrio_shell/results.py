"""The results of the tools.

Results are not compared or printed, so the classes have no ``__eq__`` and ``__repr__``: attrs would compile these at
each start.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from attrs import frozen

from .config import Config
from .output_buffer import OutputBuffer
from .process import Process, Status
from .processes import log_uri

__all__ = [
    "AllowedCommand",
    "AllowedCommands",
    "CommandResult",
    "InputResult",
    "OutputPage",
    "ProcessInfo",
    "ProcessList",
    "Stream",
    "as_text",
    "info_of",
    "result_of",
    "stream_of",
]


@frozen(kw_only=True, eq=False, repr=False)
class Stream:
    """The output on one stream."""

    text: Annotated[str, "The output; a line in brackets replaces an omitted middle."]
    bytes: Annotated[int, "Total bytes written."]
    omitted_bytes: Annotated[int, "Bytes omitted from the middle; {tool:read_output} shows those that are kept."] = 0
    omitted_lines: Annotated[int, "Line ends among the omitted bytes."] = 0


@frozen(kw_only=True, eq=False, repr=False)
class ProcessInfo:
    """A command and its status."""

    id: Annotated[str, "For {tool:read_output}, {tool:send_input} and {tool:stop_process}."]
    command: str
    cwd: str
    status: Annotated[
        Status,
        "exited: ended on its own; timed_out, stopped, too_much_output, too_many_processes: ended by the server for "
        "this reason; lost: its monitoring process was killed.",
    ]
    exit_code: Annotated[int | None, "0 is success; null while it is running or if a signal ended it."]
    signal: Annotated[str | None, "The signal that ended it."]
    started_at: Annotated[str, "ISO 8601, UTC."]
    seconds: Annotated[float, "Run time so far or in total."]
    cpu_seconds: Annotated[float | None, "Processor time of the command and the child processes it has waited for."]
    left_behind: Annotated[int, "Processes that were still running when it exited; they were ended."]
    takes_input: Annotated[bool, "Whether {tool:send_input} works."]
    log: Annotated[str, "URI of the resource with its output."]


@frozen(kw_only=True, eq=False, repr=False)
class CommandResult:
    """The result of an ended command."""

    process: ProcessInfo
    stdout: Stream
    stderr: Stream
    truncated: Annotated[bool, "Whether output is omitted."]


@frozen(kw_only=True, eq=False, repr=False)
class OutputPage:
    """A part of the output on one stream."""

    process: ProcessInfo
    text: str
    offset: Annotated[int, "Start of the text, in bytes from the beginning of the stream."]
    next_offset: Annotated[int, "Offset of the next part."]
    total: Annotated[int, "Bytes written so far."]
    skipped_bytes: Annotated[int, "Requested bytes before the text that are not kept."]
    truncated: Annotated[bool, "Whether more output is available now, from next_offset on."]


@frozen(kw_only=True, eq=False, repr=False)
class ProcessList:
    """Commands, newest first."""

    items: list[ProcessInfo]
    truncated: bool


@frozen(kw_only=True, eq=False, repr=False)
class InputResult:
    """The accepted part of the input."""

    process: ProcessInfo
    bytes_taken: Annotated[int, "Bytes that the process has accepted; the rest was dropped."]
    bytes_given: int


@frozen(kw_only=True, eq=False, repr=False)
class AllowedCommand:
    """A rule that allows commands."""

    argv: Annotated[list[str], "The program and the arguments that must come first."]
    rest: Annotated[list[str], "Patterns; each further argument must match one of them."]
    description: str


@frozen(kw_only=True, eq=False, repr=False)
class AllowedCommands:
    """Allowed commands, folders, variables and limits."""

    items: list[AllowedCommand]
    truncated: bool
    folders: list[str]
    variables: Annotated[list[str], "Variables that a call may set."]
    default_timeout: float
    max_timeout: float
    max_age: Annotated[float, "Seconds for a process of {tool:start_process}."]
    max_running: Annotated[int, "Maximum number of your concurrent commands."]


def info_of(process: Process) -> ProcessInfo:
    """Return the current status of a command."""
    return ProcessInfo(
        id=process.id,
        command=process.command.shown,
        cwd=process.command.cwd,
        status=process.status,
        exit_code=process.exit_code,
        signal=process.signal,
        started_at=datetime.fromtimestamp(process.started_at, UTC).isoformat(timespec="seconds"),
        seconds=round(process.seconds, 3),
        cpu_seconds=process.cpu_seconds,
        left_behind=process.left_behind,
        takes_input=process.takes_input,
        log=log_uri(process.id),
    )


def result_of(process: Process, config: Config, pager: str) -> CommandResult:
    """Return the result of a command.

    Args:
        pager: Name of the tool that shows the whole output.
    """
    stdout = stream_of(process.stdout, config.result_bytes, pager)
    stderr = stream_of(process.stderr, config.result_bytes, pager)
    return CommandResult(
        process=info_of(process),
        stdout=stdout,
        stderr=stderr,
        truncated=bool(stdout.omitted_bytes or stderr.omitted_bytes),
    )


def stream_of(output: OutputBuffer, limit: int, pager: str) -> Stream:
    """Return the beginning and the end of a stream, cut at line ends if some are near."""
    first, last = output.ends(limit)
    if first.end >= last.start:
        return Stream(text=as_text(first.data + last.data), bytes=output.total)
    head = first.data[: _after_last_line(first.data)]
    tail = last.data[_after_first_line(last.data) :]
    omitted = output.total - len(head) - len(tail)
    lines = output.lines - head.count(b"\n") - tail.count(b"\n")
    note = f"[{omitted} bytes with {lines} line ends omitted; {pager} shows those that are kept]"
    joint = "" if head.endswith(b"\n") else "\n"
    return Stream(
        text=f"{as_text(head)}{joint}{note}\n{as_text(tail)}",
        bytes=output.total,
        omitted_bytes=omitted,
        omitted_lines=lines,
    )


def as_text(data: bytes) -> str:
    """Decode output as UTF-8; invalid bytes become U+FFFD."""
    return data.decode("utf-8", "replace")


def _after_last_line(data: bytes) -> int:
    """Return where to cut the end: after the last line end, or after the last complete character if a line end would
    drop more than half."""
    end = data.rfind(b"\n") + 1
    if end > len(data) // 2:
        return end
    # UTF-8: continuation bytes are 10xxxxxx, the first byte of a longer character is 11xxxxxx.
    end = len(data)
    while end and len(data) - end < 4 and (data[end - 1] & 0xC0) == 0x80:
        end -= 1
    return end - 1 if end and data[end - 1] >= 0xC0 else end


def _after_first_line(data: bytes) -> int:
    """Return where to cut the start: after the first line end, or at the first complete character if a line end would
    drop more than half."""
    start = data.find(b"\n") + 1
    if 0 < start < len(data) // 2:
        return start
    start = 0
    while start < min(3, len(data)) and (data[start] & 0xC0) == 0x80:
        start += 1
    return start
