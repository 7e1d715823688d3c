"""Describes exceptions for the authors of plugins: type, message, the author's own frames, and the causes.

Used by the log, the commands and the plugin manager. Consecutive frames of mcptrio, Trio and the standard library are
folded into one line, and a group around a single exception is shown as that exception.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from types import FrameType
from typing import Any, Final, NoReturn, TypeAlias

__all__ = [
    "details_of",
    "explain_warning",
    "has_own_frames",
    "headline",
    "hint_of",
    "log_failure",
    "raise_single",
    "render",
    "single",
    "to_fields",
    "type_name",
]

MAX_FRAMES: Final = 12
"""Frames shown of one exception: the outermost and the innermost ones. A RecursionError has a thousand."""
MAX_CAUSES: Final = 5
"""Exceptions shown of one chain of causes."""
MAX_MEMBERS: Final = 5
"""Exceptions shown of one group."""
MAX_MESSAGE: Final = 4_000
"""Characters shown of one message."""
MAX_LINES: Final = 300
"""Lines of one description: groups may contain groups, each member with its own causes."""
MAX_DEPTH: Final = 3
"""Groups within groups that are shown as JSON."""

_LIBRARIES: Final = frozenset(
    {"mcptrio", "trio", "outcome", "pluggy", "attr", "attrs", "cattrs", "msgspec", "click", *sys.stdlib_module_names}
)
"""Packages whose frames say nothing about a fault in a plugin."""
_ID_BYTES: Final = 4
_FILE_PLUGIN_PREFIX: Final = "mcptrio_file_"
"""The beginning of the module name of a plugin that is a single file."""
_CAUSED: Final = "caused by"
_WHILE: Final = "while handling"

_OTHER_LOOP: Final = ("trio.run received unrecognized yield message", "trio got unexpected")
_NO_LOOP: Final = ("no running event loop", "There is no current event loop", "Timeout should be used inside a task")
_UNAWAITED: Final = re.compile(r"'coroutine'|\bof type coroutine\b|\ba coroutine\b")
_NEVER_AWAITED: Final = re.compile(r"coroutine '(?P<name>[^']+)' was never awaited")

_Frame: TypeAlias = tuple[FrameType, traceback.FrameSummary]


def log_failure(log: logging.Logger, error: BaseException, text: str, *args: object) -> str:
    """Log an exception of an author's code under a short random id, which the answer to the client repeats.

    Returns:
        The id. The log record has it too, as ``failure_id``.
    """
    # A counter would tell clients the number of failures.
    failure_id = os.urandom(_ID_BYTES).hex()
    extra = {"failure_id": failure_id}
    # The stack level makes the record name the caller of this function.
    log.error(f"{text} (id %s)", *args, failure_id, exc_info=single(error), extra=extra, stacklevel=2)
    return failure_id


def single(error: BaseException) -> BaseException:
    """Return the exception inside nested groups of one, or the exception itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def raise_single(group: BaseException) -> NoReturn:
    """Raise the exception inside nested groups of one, with the cause and context that it has."""
    error = single(group)
    context = error.__context__
    try:
        raise error
    finally:
        # The raise has set the context to the group, because the caller is handling the group.
        error.__context__ = context


def headline(error: BaseException) -> str:
    """Return type and message: ``ValueError: expected a date``."""
    message = _message(error)
    return f"{type_name(type(error))}: {message}" if message else type_name(type(error))


def type_name(kind: type) -> str:
    """Return the name of a class with its module. The module is omitted if it tells an author nothing."""
    omits_module = kind.__module__ in ("builtins", "__main__") or kind.__module__.startswith(_FILE_PLUGIN_PREFIX)
    return kind.__qualname__ if omits_module else f"{kind.__module__}.{kind.__qualname__}"


def has_own_frames(error: BaseException) -> bool:
    """Return whether the exception passed through code of an author, or is a syntax error in it."""
    error = single(error)
    return isinstance(error, SyntaxError) or any(not _library(frame) for frame, _ in _frames(error))


def render(error: BaseException, *, full: bool = False, shown: str = "") -> str:
    """Return the description of an exception, on several lines.

    Args:
        full: Show every frame and every group.
        shown: The line that the caller prints above. If it already contains the headline, the headline is omitted.
    """
    lines = list(islice(_lines(error, full=full, shown=shown), MAX_LINES))
    if len(lines) == MAX_LINES:
        lines.append("…")
    if (hint := hint_of(error)) is not None:
        lines.append(f"hint: {hint}")
    return "\n".join(lines)


def details_of(error: BaseException) -> str:
    """Return the description of an error's cause, or an empty text if the cause has no frames of an author."""
    cause = error.__cause__
    return render(cause, shown=str(error)) if cause is not None and has_own_frames(cause) else ""


def to_fields(error: BaseException) -> dict[str, Any]:
    """Return the description of an exception as JSON values.

    The members are ``type``, ``message`` and ``frames``, and where they apply ``cause``, ``context``, ``exceptions``
    and ``hint``.
    """
    fields = _to_fields(error, MAX_DEPTH)
    if (hint := hint_of(error)) is not None:
        fields["hint"] = hint
    return fields


def hint_of(error: BaseException) -> str | None:
    """Return how to correct the likely mistake, in one sentence; ``None`` if there is no hint for this exception."""
    error = single(error)
    text = _message(error)
    if (isinstance(error, RuntimeError) and text.startswith(_NO_LOOP)) or (
        isinstance(error, TypeError) and text.startswith(_OTHER_LOOP)
    ):
        return "mcptrio runs on Trio, where asyncio does not work: call trio.sleep, not asyncio.sleep"
    if isinstance(error, RuntimeError) and text == "must be called from async context":
        return "Trio cannot be called from here: declare the function with async def"
    if isinstance(error, TypeError | AttributeError) and _UNAWAITED.search(text):
        return "a coroutine is used where its result is expected: write await before the call"
    return None


def explain_warning(message: Warning | str, category: type[Warning]) -> str:
    """Return the text of a Python warning with its type; for a coroutine that was never awaited, the correction."""
    if issubclass(category, RuntimeWarning) and (match := _NEVER_AWAITED.search(str(message))):
        name = match["name"].rpartition(".")[2]
        return f"coroutine {match['name']!r} was never awaited: write `await {name}(…)`"
    return f"{category.__name__}: {message}"


# Private


def _lines(error: BaseException, *, full: bool, shown: str) -> Iterator[str]:
    for link, each in _chain(error if full else single(error), full=full):
        # The line above already ends with the headline.
        head = headline(each)
        if link or head not in shown:
            yield f"{link} {head}".lstrip()
        notes = getattr(each, "__notes__", None)
        yield from _indent(note for note in (notes if isinstance(notes, list) else ()) if isinstance(note, str))
        yield from _indent(_frame_lines(each, full=full))
        if isinstance(each, SyntaxError):
            yield from _indent(_syntax_error_lines(each))
        if isinstance(each, BaseExceptionGroup):
            for number, member in enumerate(each.exceptions[:MAX_MEMBERS], 1):
                for place, line in enumerate(_indent(_lines(member, full=full, shown=""))):
                    yield f"  {line}" if place else f"  {number}. {line.lstrip()}"
            if (more := len(each.exceptions) - MAX_MEMBERS) > 0:
                yield f"  … {more} more"


def _to_fields(error: BaseException, depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    before = ""
    # From the innermost cause outwards, because the fields of an exception contain those of its cause.
    for link, each in reversed(list(_chain(single(error), full=False))):
        inner = {} if not before else {"cause" if before == _CAUSED else "context": fields}
        fields = {"type": type_name(type(each)), "message": _message(each), "frames": _frame_fields(each), **inner}
        if isinstance(each, BaseExceptionGroup) and depth:
            fields["exceptions"] = [_to_fields(member, depth - 1) for member in each.exceptions[:MAX_MEMBERS]]
        before = link
    return fields


def _chain(error: BaseException, *, full: bool) -> Iterator[tuple[str, BaseException]]:
    """Yield the exception and its causes, each with the words that link it to the exception before."""
    link, seen = "", set[int]()
    # `raise e from e` makes an endless chain.
    while len(seen) < MAX_CAUSES and id(error) not in seen:
        seen.add(id(error))
        yield link, error
        if error.__cause__ is not None:
            link, error = _CAUSED, error.__cause__
        elif error.__context__ is not None and not error.__suppress_context__:
            link, error = _WHILE, error.__context__
        else:
            return
        error = error if full else single(error)


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError | BaseExceptionGroup):
        text = str(error)
    else:
        # TracebackException adds Python's suggestions, and survives an exception whose __str__ fails.
        formatted = traceback.TracebackException(
            type(error), error, error.__traceback__, limit=0, lookup_lines=False, compact=True
        )
        formatted.__notes__ = None
        text = "".join(formatted.format_exception_only()).rstrip("\n").partition(": ")[2]
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"


def _frames(error: BaseException) -> list[_Frame]:
    frames = list(traceback.walk_tb(error.__traceback__))
    # A dummy exception: TracebackException would format the causes and members of the real one too.
    formatted = traceback.TracebackException(Exception, Exception(), error.__traceback__)
    return [(frame, summary) for (frame, _), summary in zip(frames, formatted.stack, strict=False)]


def _frame_lines(error: BaseException, *, full: bool) -> Iterator[str]:
    frames = _frames(error)
    shown_numbers = {number for number, (frame, _) in enumerate(frames) if full or not _library(frame)}
    if not shown_numbers:
        # For an exception that mcptrio raises on purpose, the message is enough. Any other one is a bug of mcptrio, so
        # its innermost frame is shown.
        if not frames or isinstance(error, SyntaxError) or (frames[-1][1].line or "").startswith("raise "):
            return
        shown_numbers = {len(frames) - 1}
    if len(shown_numbers) > MAX_FRAMES:
        ordered = sorted(shown_numbers)
        # A quarter are outermost frames, which show how the code was reached; the rest are innermost.
        shown_numbers = {*ordered[: MAX_FRAMES // 4], *ordered[-(MAX_FRAMES - MAX_FRAMES // 4) :]}
    for is_shown, run in groupby(enumerate(frames), key=lambda each: each[0] in shown_numbers):
        part = [frame for _, frame in run]
        if is_shown:
            for _, summary in part:
                [text] = traceback.StackSummary.from_list([summary]).format()
                yield from (line.removeprefix("  ") for line in text.rstrip("\n").split("\n"))
        else:
            yield _fold([frame for frame, _ in part])


def _fold(frames: list[FrameType]) -> str:
    names = list(dict.fromkeys(_library(frame) or "repeated calls" for frame in frames))
    noun = "frame" if len(frames) == 1 else "frames"
    return f"… {len(frames)} {noun} of {', '.join(names)}"


def _library(frame: FrameType) -> str | None:
    """Return the package of a frame that is folded; ``None`` for code of an author."""
    name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return name if name in _LIBRARIES else None


def _syntax_error_lines(error: SyntaxError) -> Iterator[str]:
    formatted = traceback.TracebackException(type(error), error, None)
    for line in "".join(formatted.format_exception_only()).split("\n"):
        if not line.startswith(" "):
            return
        yield line.removeprefix("  ")


def _frame_fields(error: BaseException) -> list[dict[str, Any]]:
    summaries = [
        (summary.filename, summary.lineno, summary.name) for frame, summary in _frames(error) if not _library(frame)
    ]
    return [{"file": file, "line": line, "function": name} for file, line, name in summaries[-MAX_FRAMES:]]


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {part}" for line in lines for part in line.split("\n"))
