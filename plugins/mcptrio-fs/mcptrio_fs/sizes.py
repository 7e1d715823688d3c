"""The size of an answer as JSON, and the part of a text that fits into one.

The reading tools and the resources use it. Limits apply to the JSON, because JSON encodes some characters in six bytes.

Source: RFC 8259 section 7.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

from .reading import Text

__all__ = ["ENVELOPE_BYTES", "MAX_TEXT_BYTES", "how_many_fit", "max_media_bytes", "read_fitting", "wire_size"]

ENVELOPE_BYTES = 32 * 1024
"""Bytes of an answer in addition to the text of a file or a list: members, notes, and a cursor, which may have four
thousand escapes and occurs twice."""
MAX_TEXT_BYTES = 36_000
"""Maximum size of the text of one answer as JSON, about 9,000 tokens. With its notes, the answer is below mcptrio's
default limit for one result, which would otherwise cut off the note on how to continue."""
_MAX_ATTEMPTS = 8


def wire_size(text: str) -> int:
    """Return the size of a text in JSON in bytes, without its quotes."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")) - 2


def max_media_bytes(max_bytes: int) -> int:
    """Return the size of the largest file whose Base64 fits into an answer of ``max_bytes``."""
    return (max_bytes - ENVELOPE_BYTES) // 4 * 3


async def read_fitting(read: Callable[[int], Awaitable[Text]], bound: int, max_bytes: int) -> Text:
    """Return a part of a file whose text fits into an answer.

    Args:
        read: A function that reads at most the given number of bytes.
        bound: The requested number of bytes.
        max_bytes: Maximum size of the text as JSON.
    """
    bound = min(bound, max_bytes)
    for _ in range(_MAX_ATTEMPTS):
        text = await read(bound)
        size = wire_size(text.text)
        if size <= max_bytes or bound <= 4:
            return text
        # Assume that the smaller part has the same ratio of JSON to bytes. If its ratio is higher, try again.
        bound = max(4, min(bound - 1, (text.end - text.start) * max_bytes // size))
    return await read(max(4, max_bytes // 6))


def how_many_fit(lines: Sequence[str], max_bytes: int) -> int:
    """Return how many of the first lines fit into an answer; at least one."""
    # Almost always all of them fit. Measuring the whole text is ten times as fast as measuring each line.
    if wire_size("\n".join(lines)) <= max_bytes:
        return len(lines)
    count, size = 0, 0
    for line in lines:
        size += wire_size(line) + 2  # the line end, which is two characters in JSON
        if size > max_bytes and count:
            break
        count += 1
    return count
