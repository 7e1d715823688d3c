"""The tools and the resource of the plugin.

Each call is fully checked by the policy before anything is started. A cancelled call returns only after the processes
that it started have ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import MappingProxyType
from typing import Annotated, Literal

import trio
from attrs import field, frozen
from msgspec import Meta

from mcptrio import Context, Registrar, ResourceNotFound, ToolError, completion, lifespan, resource, tool
from mcptrio.types import TextResourceContents

from .config import Config
from .policy import CommandPolicy, PermittedCommand
from .process import Process
from .processes import Processes, log_uri, open_processes
from .rendering import allowed_text, input_text, output_text, process_text, processes_text, result_text
from .results import (
    AllowedCommand,
    AllowedCommands,
    CommandResult,
    InputResult,
    OutputPage,
    ProcessInfo,
    ProcessList,
    as_text,
    info_of,
    result_of,
    stream_of,
)

__all__ = ["LOG", "Shell"]

LOG = "process://{id}/log{?stream,start}"

_PAGE_BYTES = 16 * 1024
"""Maximum output in one page, if the call does not set ``limit``."""
_MAX_LISTED = 100
"""Maximum number of entries in one list."""
_MAX_WAIT_SECONDS = 30.0
_MAX_LINE_CHARS = 200
"""Maximum length of an output line that is reported as progress."""
_MAX_THREADS = 4
"""Concurrent calls that access the file system."""

_Argv = Annotated[list[str], Meta(min_length=1, description="Program and arguments; not a shell command line.")]
_Cwd = Annotated[str, "Working folder. Default: the first allowed one."]
_Timeout = Annotated[float, Meta(ge=0, description="Seconds; 0 for the default.")]
_Env = Annotated[Mapping[str, str], "Variables to set."]
_Merge = Annotated[bool, "Add stderr to stdout."]
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_Name = Literal["stdout", "stderr"]


@frozen
class Shell:
    """The plugin: the commands of one configuration."""

    config: Config
    _policy: CommandPolicy = field(init=False)
    _threads: trio.CapacityLimiter = field(init=False, factory=lambda: trio.CapacityLimiter(_MAX_THREADS))

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_policy", CommandPolicy(self.config))

    @lifespan
    def processes(self, server: Registrar) -> AbstractAsyncContextManager[Processes]:
        """Run background commands while the server is open, and end all commands afterwards."""
        return open_processes(self.config, server.notify_resource_updated)

    @tool(
        text=result_text,
        title="Run Command",
        read_only=False,
        destructive=True,
        idempotent=False,
        open_world=True,
        # The command has its own timeout; mcptrio's would cancel the call, and the output would be lost.
        timeout=math.inf,
    )
    async def run_command(
        self,
        ctx: Context,
        argv: _Argv,
        cwd: _Cwd = "",
        timeout: _Timeout = 0,
        stdin: str = "",
        env: _Env = _NO_VARIABLES,
        merge_stderr: _Merge = False,
    ) -> CommandResult:
        """Run an allowed command (see {tool:list_allowed_commands}) and return its output and exit code. Without a
        shell: no pipes, globs or variables. All its processes end with it.
        """
        data = self._encoded_input(stdin) or None
        process = await self._admit(ctx, argv, cwd, env, merge_stderr)
        seconds = min(timeout or self.config.default_timeout, self.config.max_timeout)
        failed: ToolError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report, ctx, process)
            try:
                await process.run(seconds=seconds, stdin=data)
            except ToolError as error:
                failed = error  # raised below, so that the nursery does not wrap it in a group
            nursery.cancel_scope.cancel()
        if failed is not None:
            _processes(ctx).discard(process)
            raise failed
        return result_of(process, self.config, ctx.tool_name("read_output"))

    @tool(
        text=process_text, title="Start Process", read_only=False, destructive=True, idempotent=False, open_world=True
    )
    async def start_process(
        self,
        ctx: Context,
        argv: _Argv,
        cwd: _Cwd = "",
        timeout: _Timeout = 0,
        stdin: str = "",
        env: _Env = _NO_VARIABLES,
        merge_stderr: _Merge = False,
    ) -> ProcessInfo:
        """Start an allowed command in the background and return its id, for servers, watchers and interactive programs.
        It ends at its timeout and with the server.
        """
        data = self._encoded_input(stdin) or None
        process = await self._admit(ctx, argv, cwd, env, merge_stderr)
        try:
            await _processes(ctx).start(process, seconds=min(timeout or math.inf, self.config.max_age), stdin=data)
        except ToolError:
            _processes(ctx).discard(process)
            raise
        return info_of(process)

    @tool(text=output_text, title="Read Output", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def read_output(
        self,
        ctx: Context,
        id: str,
        stream: _Name = "stdout",
        offset: Annotated[int, Meta(ge=-1, description="Byte to start at; -1: the last part.")] = -1,
        limit: Annotated[int, Meta(ge=4, description="Bytes.")] = _PAGE_BYTES,
        wait: Annotated[
            float, Meta(ge=0, le=_MAX_WAIT_SECONDS, description="Seconds to wait for output or the end.")
        ] = 0,
    ) -> OutputPage:
        """Read output of a process that runs or has ended recently. To follow it, pass the offset that the result
        names, and wait.
        """
        process = _processes(ctx).get(id, ctx.caller)
        output = process.stdout if stream == "stdout" else process.stderr
        limit = min(limit, self.config.result_bytes)
        until = trio.current_time() + wait
        begin = output.total if offset < 0 else offset
        while output.total <= begin and not process.finished.is_set() and trio.current_time() < until:
            await process.wait_for_change(until - trio.current_time())
        piece = output.read(max(0, output.total - limit) if offset < 0 else offset, limit)
        data = piece.data
        # The page ends at a complete character; the next page begins with the incomplete one.
        if piece.end < output.total or not process.finished.is_set():
            data = data[: _complete_length(data)] or data
        next_offset = piece.start + len(data)
        return OutputPage(
            process=info_of(process),
            text=as_text(data),
            offset=piece.start,
            next_offset=next_offset,
            total=output.total,
            skipped_bytes=piece.skipped_bytes,
            truncated=next_offset < output.total,
        )

    @tool(text=input_text, title="Send Input", read_only=False, destructive=True, idempotent=False, open_world=True)
    async def send_input(
        self,
        ctx: Context,
        id: str,
        text: Annotated[str, "Text with its line ends."] = "",
        close: Annotated[bool, "Close standard input afterwards."] = False,
        timeout: Annotated[float, Meta(ge=0, le=_MAX_WAIT_SECONDS)] = 10,
    ) -> InputResult:
        """Write to the standard input of a started process."""
        process = _processes(ctx).get(id, ctx.caller)
        data = self._encoded_input(text)
        sent_bytes = await process.send(data, seconds=timeout, close=close)
        return InputResult(process=info_of(process), bytes_taken=sent_bytes, bytes_given=len(data))

    @tool(text=result_text, title="Stop Process", read_only=False, destructive=True, idempotent=True, open_world=False)
    async def stop_process(self, ctx: Context, id: str) -> CommandResult:
        """Stop a process and its children with SIGTERM, then SIGKILL, and return its output."""
        process = _processes(ctx).get(id, ctx.caller)
        await process.stop()
        return result_of(process, self.config, ctx.tool_name("read_output"))

    @tool(
        text=processes_text,
        title="List Processes",
        read_only=True,
        examples=[{}],
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def list_processes(self, ctx: Context) -> ProcessList:
        """List running and recently ended commands, newest first."""
        owned_processes = _processes(ctx).owned_by(ctx.caller)
        return ProcessList(
            items=[info_of(process) for process in owned_processes[:_MAX_LISTED]],
            truncated=len(owned_processes) > _MAX_LISTED,
        )

    @tool(
        text=allowed_text,
        title="List Allowed Commands",
        read_only=True,
        examples=[{}],
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    async def list_allowed_commands(self) -> AllowedCommands:
        """List allowed commands, folders, variables and limits. In patterns, {path} is a path inside the folders."""
        config = self.config
        return AllowedCommands(
            items=[
                AllowedCommand(argv=list(rule.argv), rest=list(rule.rest), description=rule.description)
                for rule in config.allow[:_MAX_LISTED]
            ],
            truncated=len(config.allow) > _MAX_LISTED,
            folders=[str(folder) for folder in config.folders],
            variables=list(config.client_environment),
            default_timeout=config.default_timeout,
            max_timeout=config.max_timeout,
            max_age=config.max_age,
            max_running=min(config.max_running, config.max_running_per_caller),
        )

    @resource(LOG, name="log", title="Output of a command", mime_type="text/plain")
    async def log(
        self, ctx: Context, id: str, stream: _Name | None = None, start: Annotated[int, Meta(ge=0)] = 0
    ) -> TextResourceContents:
        """Kept output of a command: both streams, or one stream from an offset."""
        try:
            process = _processes(ctx).get(id, ctx.caller)
        except ToolError as error:
            raise ResourceNotFound(log_uri(id)) from error
        if stream is not None:
            output = process.stdout if stream == "stdout" else process.stderr
            text = as_text(output.read(start, self.config.log_bytes).data)
            return TextResourceContents(uri=f"{log_uri(id)}?stream={stream}&start={start}", text=text)
        pager, outputs = ctx.tool_name("read_output"), (process.stdout, process.stderr)
        parts = [stream_of(output, self.config.log_bytes, pager).text for output in outputs]
        text = parts[0] if process.merged else f"[stdout]\n{parts[0]}\n[stderr]\n{parts[1]}"
        return TextResourceContents(uri=log_uri(id), mime_type="text/plain", text=text)

    @completion("resource", LOG, "id")
    async def complete_id(self, ctx: Context) -> list[str]:
        """Return the ids of the caller's commands."""
        return [process.id for process in _processes(ctx).owned_by(ctx.caller)]

    async def _admit(self, ctx: Context, argv: list[str], cwd: str, env: Mapping[str, str], merged: bool) -> Process:
        """Return a new command after the policy has allowed it and the table has admitted it.

        Raises:
            ToolError: The command is not allowed, or too many are running.
        """
        decide: Callable[[], PermittedCommand] = partial(self._policy.decide, argv, cwd or None, env)
        # With a limiter of its own, a hanging mount blocks only the plugin's threads.
        command = await trio.to_thread.run_sync(decide, limiter=self._threads, abandon_on_cancel=True)
        return _processes(ctx).admit(command, ctx.caller, merged=merged)

    def _encoded_input(self, text: str) -> bytes:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise ToolError("stdin: expected Unicode text, got a lone surrogate") from None
        if len(data) > self.config.max_input_bytes:
            raise ToolError(f"stdin: expected at most {self.config.max_input_bytes} bytes, got {len(data)}")
        return data

    async def _report(self, ctx: Context, process: Process) -> None:
        """Report the last line of output as progress at intervals, until cancelled."""
        reported = 0
        while True:
            await trio.sleep(self.config.progress_interval)
            written = process.stdout.total + process.stderr.total
            if written > reported:
                reported = written
                # Some programs write nothing but progress, which goes to standard error.
                output = process.stderr if process.stderr.total and not process.stdout.total else process.stdout
                await ctx.report_progress(written, None, output.last_line(_MAX_LINE_CHARS) or None)


def _processes(ctx: Context) -> Processes:
    if not isinstance(ctx.state, Processes):
        raise ToolError("the server is not open")
    return ctx.state


def _complete_length(data: bytes) -> int:
    """Return the offset after the last complete UTF-8 character."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            sequence_length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if sequence_length <= back else len(data) - back
        if byte < 0x80:
            break
    return len(data)
