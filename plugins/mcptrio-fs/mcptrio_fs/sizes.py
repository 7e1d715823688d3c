"""The size of an answer on the wire, and the part of a text that fits.

The reading tools and the resources use it. The bounds are for the sent bytes, because JSON writes some characters as
six.

Source: RFC 8259 section 7.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

from .reading import Text

__all__ = ["AROUND", "MAX_TEXT", "fitting", "how_many_fit", "most_bytes_of_media", "wire_size"]

AROUND = 32 * 1024
"""Bytes of an answer apart from the text of a file or a list: members, notes, and a cursor, which may have four
thousand escapes and occurs twice."""
MAX_TEXT = 36_000
"""Bytes of the text of one answer as JSON, about 9,000 tokens. With the notes after it, this is less than mcptrio's
default limit for one result, which would cut off the note on how to continue."""
_TRIES = 8


def wire_size(text: str) -> int:
    """Return the bytes of a text in JSON, without its quotes."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")) - 2


def most_bytes_of_media(most: int) -> int:
    """Return how large a file may be to fit as Base64 into an answer of ``most`` bytes."""
    return (most - AROUND) // 4 * 3


async def fitting(read: Callable[[int], Awaitable[Text]], bound: int, most: int) -> Text:
    """Return a part of a file that fits.

    Args:
        read: reads up to this number of bytes of the file.
        bound: the requested bytes.
        most: maximum bytes of the text as JSON.
    """
    bound = min(bound, most)
    for _ in range(_TRIES):
        text = await read(bound)
        size = wire_size(text.text)
        if size <= most or bound <= 4:
            return text
        # As dense as it was; where it gets denser, there is another try.
        bound = max(4, min(bound - 1, (text.end - text.start) * most // size))
    return await read(max(4, most // 6))


def how_many_fit(lines: Sequence[str], most: int) -> int:
    """Return how many of these lines, from the first on, fit into an answer; at least one."""
    # Almost always all: one pass over the whole text is ten times as fast as one for each line.
    if wire_size("\n".join(lines)) <= most:
        return len(lines)
    count, size = 0, 0
    for line in lines:
        size += wire_size(line) + 2  # the line end, which is two characters in JSON
        if size > most and count:
            break
        count += 1
    return count
