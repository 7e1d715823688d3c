"""Repeats recorded calls at a live server, and prints the results that differ.

Calls are repeated one after the other. ``_meta``, sealed state and the paths that the user names are not compared.
Secrets are removed from the live results first, as the recorder has removed them from the recorded ones.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import trio

from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.replay.recorded_calls import RecordedAnswers, RecordedCall
from mcptrio.cli.terminal.layout import count_text
from mcptrio.errors import MCPError
from mcptrio.protocol.model.input_required import InputRequiredResult
from mcptrio.recording.message_redaction import MessageRedactor

__all__ = ["repeat_calls"]

_VOLATILE: Final = frozenset({"_meta", "requestState"})
_MAX_ROUNDS: Final = 10
"""Repetitions of one request with answers."""
_MAX_SHOWN_CHARS: Final = 200


async def repeat_calls(
    cmd: CommandContext,
    calls: Sequence[RecordedCall],
    answers: RecordedAnswers,
    *,
    speed: float,
    ignored: Sequence[str],
) -> int:
    """Repeat the calls, and return the number of those with a different result.

    Args:
        speed: Recorded pauses between calls are divided by this; 0 leaves them out.
        ignored: Paths of members that are not compared. ``*`` stands for any member.
    """
    difference_count = 0
    started = trio.current_time()
    # Requests without a response were cancelled, so there is nothing to compare.
    answered = [call for call in calls if call.response is not None]
    for call in answered:
        if speed:
            await trio.sleep_until(started + (call.t - answered[0].t) / speed)
        answers.call = call
        live = _comparable_lines(await _repeat(cmd, call, answers), ignored)
        recorded = _comparable_lines(call.response or {}, ignored)
        if live != recorded:
            difference_count += 1
            params = json.dumps(call.params, ensure_ascii=False)[:_MAX_SHOWN_CHARS]
            cmd.console.print(f"{call.method} {params}")
            lines = difflib.unified_diff(recorded, live, "recorded", "live", lineterm="")
            cmd.console.print("\n".join(lines))
    cmd.console.note(f"{count_text(len(answered), 'requests')} repeated, {difference_count} with a different result")
    return difference_count


async def _repeat(cmd: CommandContext, call: RecordedCall, answers: RecordedAnswers) -> Mapping[str, Any]:
    """Return the last response as JSON."""
    params = call.params
    try:
        result = await cmd.client.request(call.method, params)
        for _ in range(_MAX_ROUNDS):
            if not isinstance(result, InputRequiredResult):
                break
            responses = {
                key: answers.find(question.method, getattr(question.params, "message", None))
                for key, question in (result.input_requests or {}).items()
            }
            more = {"inputResponses": responses, "requestState": result.request_state}
            result = await cmd.client.request(call.method, {**params, **more})
    except MCPError as error:
        return {"error": {"code": int(error.code), "message": error.message, "data": error.data}}
    return {"result": result if isinstance(result, dict) else cmd.wire(result)}


def _comparable_lines(response: Mapping[str, Any], ignored: Sequence[str]) -> list[str]:
    """Return the compared part of a response, as lines."""
    error, result = response.get("error"), response.get("result")
    compared = {"error": error} if error is not None else {"result": _comparable_part(result, ignored, ())}
    if isinstance(error, dict):
        compared = {"error": {name: error[name] for name in ("code", "message", "data") if error.get(name) is not None}}
    clean = MessageRedactor().clean(json.loads(json.dumps(compared, default=str)))
    return json.dumps(clean, indent=2, sort_keys=True, ensure_ascii=False).split("\n")


def _comparable_part(value: Any, ignored: Sequence[str], path: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {
            name: _comparable_part(member, ignored, (*path, name))
            for name, member in value.items()
            if name not in _VOLATILE and not _is_ignored((*path, name), ignored)
        }
    if isinstance(value, list | tuple):
        return [
            _comparable_part(item, ignored, (*path, str(number)))
            for number, item in enumerate(value)
            if not _is_ignored((*path, str(number)), ignored)
        ]
    return value


def _is_ignored(path: tuple[str, ...], ignored: Sequence[str]) -> bool:
    for pattern in ignored:
        parts = pattern.split(".")
        if len(parts) == len(path) and all(map(fnmatchcase, path, parts)):
            return True
    return False
