"""The texts of results for models: the output, and one line in brackets with the command's status.

The tools pass these functions as ``text=``.
"""

from __future__ import annotations

from .results import AllowedCommands, CommandResult, InputResult, OutputPage, ProcessInfo, ProcessList

__all__ = ["allowed_text", "input_text", "output_text", "process_text", "processes_text", "result_text"]


def result_text(result: CommandResult) -> str:
    text = _with_line_end(result.stdout.text)
    if result.stderr.text:
        text += f"[stderr]\n{_with_line_end(result.stderr.text)}"
    process = result.process
    # A model needs the id only to read omitted output.
    id = f"; id={process.id}" if result.truncated else ""
    return f"{text}[{_status(process)}{id}]"


def process_text(process: ProcessInfo) -> str:
    return f"id={process.id} {_status(process)}: {process.command}"


def processes_text(process_list: ProcessList) -> str:
    lines = [process_text(process) for process in process_list.items]
    return "\n".join([*lines, *(["[there are more]"] if process_list.truncated else [])]) or "no commands"


def output_text(page: OutputPage) -> str:
    skipped = f"[{page.skipped_bytes} bytes before this are not kept]\n" if page.skipped_bytes else ""
    more = ""
    if page.truncated:
        more = f"; more follows: pass offset={page.next_offset}"
    elif page.process.status == "running":
        more = f"; to follow: pass offset={page.next_offset} and wait"
    return f"{skipped}{_with_line_end(page.text)}[{_status(page.process)}{more}]"


def input_text(result: InputResult) -> str:
    return f"{result.bytes_taken} of {result.bytes_given} bytes taken [{_status(result.process)}]"


def allowed_text(allowed: AllowedCommands) -> str:
    lines = []
    for each in allowed.items:
        rest = f" [{' | '.join(each.rest)}]" if each.rest else ""
        described = f": {each.description}" if each.description else ""
        lines.append(f"{' '.join(each.argv)}{rest}{described}")
    if allowed.truncated:
        lines.append("[there are more]")
    lines = lines or ["no command is allowed: [[plugins.shell.allow]] of mcptrio.toml has no rule"]
    lines.append(f"folders: {', '.join(allowed.folders) or 'none'}")
    if allowed.variables:
        lines.append(f"variables: {', '.join(allowed.variables)}")
    times = f"{allowed.default_timeout:g} s, at most {allowed.max_timeout:g} s, in the background {allowed.max_age:g} s"
    return "\n".join([*lines, f"timeouts: {times}; {allowed.max_running} commands at a time"])


def _status(process: ProcessInfo) -> str:
    if process.status == "exited":
        ended = f"exit {process.exit_code}" if process.exit_code is not None else f"ended by {process.signal}"
    else:
        ended = f"{process.status} after {process.seconds:.3g} s"
    return f"{ended}, {process.left_behind} processes left behind were ended" if process.left_behind else ended


def _with_line_end(text: str) -> str:
    """Return the text with a line end at its end, unless the text is empty."""
    return text if not text or text.endswith("\n") else f"{text}\n"
