"""What the tools answer.

Made by the tools. The one rule: text that leaves something out says so where it is missing, and in numbers.

Nobody compares answers, and methods that are not generated need not be compiled at each start.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from attrs import frozen

from .config import Config
from .process import Process, Status
from .processes import log_uri
from .tape import Tape

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
    """What was written to one stream."""

    text: Annotated[str, "The output; where the middle is left out, a line in brackets stands for it."]
    bytes: Annotated[int, "Bytes written in all."]
    omitted_bytes: Annotated[int, "Bytes left out of the middle; {tool:read_output} shows those that are kept."] = 0
    omitted_lines: Annotated[int, "Line ends among them."] = 0


@frozen(kw_only=True, eq=False, repr=False)
class ProcessInfo:
    """A command and how it is."""

    id: Annotated[str, "For {tool:read_output}, {tool:send_input} and {tool:stop_process}."]
    command: str
    cwd: str
    status: Annotated[
        Status,
        "exited: it ended by itself; timed_out, stopped, too_much_output, too_many_processes: it was ended for that; "
        "lost: it has killed the process that watched it.",
    ]
    exit_code: Annotated[int | None, "0 is success; null while it runs, and where a signal has ended it."]
    signal: Annotated[str | None, "The signal that has ended it."]
    started_at: Annotated[str, "ISO 8601, UTC."]
    seconds: Annotated[float, "How long it has run."]
    cpu_seconds: Annotated[float | None, "Processor time of it and of what it has waited for."]
    left_behind: Annotated[int, "Processes it had left running at its end; they were ended."]
    takes_input: Annotated[bool, "Whether {tool:send_input} works."]
    log: Annotated[str, "The resource with its output."]


@frozen(kw_only=True, eq=False, repr=False)
class CommandResult:
    """A command that has ended."""

    process: ProcessInfo
    stdout: Stream
    stderr: Stream
    truncated: Annotated[bool, "Whether output is left out."]


@frozen(kw_only=True, eq=False, repr=False)
class OutputPage:
    """A piece of the output of one stream."""

    process: ProcessInfo
    text: str
    start: Annotated[int, "Where the piece begins, in bytes from the beginning of the stream."]
    next_start: Annotated[int, "Where to go on."]
    total: Annotated[int, "Bytes written so far."]
    skipped_bytes: Annotated[int, "Bytes before the piece that were asked for and are not kept."]
    truncated: Annotated[bool, "Whether there is more to read now, from next_start on."]


@frozen(kw_only=True, eq=False, repr=False)
class ProcessList:
    """Commands, the newest first."""

    items: list[ProcessInfo]
    truncated: bool


@frozen(kw_only=True, eq=False, repr=False)
class InputResult:
    """What has become of some input."""

    process: ProcessInfo
    bytes_taken: Annotated[int, "How many bytes the process has taken; the others were dropped."]
    bytes_given: int


@frozen(kw_only=True, eq=False, repr=False)
class AllowedCommand:
    """A kind of command that may be run."""

    argv: Annotated[list[str], "The program and the arguments that must come first."]
    rest: Annotated[list[str], "Patterns, of which each further argument must match one."]
    description: str


@frozen(kw_only=True, eq=False, repr=False)
class AllowedCommands:
    """What may be run, where, and for how long."""

    items: list[AllowedCommand]
    truncated: bool
    folders: list[str]
    variables: Annotated[list[str], "Variables that a call may set."]
    default_timeout: float
    max_timeout: float
    max_age: Annotated[float, "Seconds for a process of {tool:start_process}."]
    max_running: Annotated[int, "Commands of yours at the same time."]


def info_of(process: Process) -> ProcessInfo:
    """How a command is now."""
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
    """What a command has done.

    Args:
        pager: the name of the tool that shows the rest.
    """
    stdout = stream_of(process.stdout, config.result_bytes, pager)
    stderr = stream_of(process.stderr, config.result_bytes, pager)
    return CommandResult(
        process=info_of(process),
        stdout=stdout,
        stderr=stderr,
        truncated=bool(stdout.omitted_bytes or stderr.omitted_bytes),
    )


def stream_of(tape: Tape, limit: int, pager: str) -> Stream:
    """The beginning and the end of a stream, cut at line ends where there are some nearby."""
    first, last = tape.ends(limit)
    if first.end >= last.start:
        return Stream(text=as_text(first.data + last.data), bytes=tape.total)
    head = first.data[: _after_last_line(first.data)]
    tail = last.data[_after_first_line(last.data) :]
    omitted = tape.total - len(head) - len(tail)
    lines = tape.lines - head.count(b"\n") - tail.count(b"\n")
    note = f"[{omitted} bytes with {lines} line ends left out; {pager} shows what is kept of them]"
    joint = "" if head.endswith(b"\n") else "\n"
    return Stream(
        text=f"{as_text(head)}{joint}{note}\n{as_text(tail)}",
        bytes=tape.total,
        omitted_bytes=omitted,
        omitted_lines=lines,
    )


def as_text(data: bytes) -> str:
    """Output as text; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def _after_last_line(data: bytes) -> int:
    """Where to end: after the last line end, unless most would be lost; else between two characters."""
    end = data.rfind(b"\n") + 1
    if end > len(data) // 2:
        return end
    end = len(data)
    while end and len(data) - end < 4 and (data[end - 1] & 0xC0) == 0x80:
        end -= 1
    return end - 1 if end and data[end - 1] >= 0xC0 else end


def _after_first_line(data: bytes) -> int:
    """Where to begin: after the first line end, unless most would be lost; else between two characters."""
    start = data.find(b"\n") + 1
    if 0 < start < len(data) // 2:
        return start
    start = 0
    while start < min(3, len(data)) and (data[start] & 0xC0) == 0x80:
        start += 1
    return start
