"""The size, depth and id of a JSON text, found without parsing it.

The codec uses it before it parses, because parsed values take up to 29 times the memory of their text, and the parser
ends the process when memory runs out. The line framer uses it for lines that it skips.

Source: RFC 8259; JSON-RPC 2.0 section 5.
"""

from __future__ import annotations

import re
from itertools import accumulate

import orjson
from attrs import frozen

from mcptrio.protocol.messages import RequestId

__all__ = [
    "HEAD_BYTES",
    "LIGHT",
    "TAIL_BYTES",
    "Shape",
    "identify",
    "measure",
    "read_head",
    "read_id",
    "read_tail",
]

HEAD_BYTES = 512
# Long enough for an id of the largest size behind the other members that may come first.
"""Bytes at the beginning of a message that are searched for its id."""
TAIL_BYTES = 256
"""Bytes at the end of a message that are searched for its id."""

# Patterns, compiled when the first message is too large: most processes never see one. An underscore stands for blanks.
_BLANKS = (b"_", rb"[ \t\r]*")
_ID = rb'(-?[0-9]{1,20}|"(?:[^"\\\x00-\x1f]|\\.){0,150}")'
_VERSION = rb'"jsonrpc"_:_"2\.0"'
_HEAD = rb'_\{_(?:%b_,_)?(?:"id"_:_%b_,_)?(?:%b_,_)?"(method|result|error)"_:' % (_VERSION, _ID, _VERSION)
"""The first members of a message up to its kind. No string can have begun before them, so this cannot match within
one."""
_TAIL = rb',_"id"_:_%b_(?:,_%b_)?\}_\Z' % (_ID, _VERSION)
"""The last members of a message. Its last brace is outside every string; read backwards from there, each quotation mark
is a real one, because none has a backslash before it."""

_OTHERS = bytes(set(range(256)) - set(b'[]{},"'))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets to +1 and -1, as signed bytes."""

LIGHT = 1024
"""Bytes. A text up to this size has weight 0, because the number of requests bounds such texts."""
_CONTAINER = 250
"""Bytes of memory of an array or an object with one member; measured."""
_VALUE = 64
"""Bytes of memory of an item or a member; measured."""


def read_head(start: bytes) -> tuple[bytes, bytes | None] | None:
    """Return ``method``, ``result`` or ``error``, and the encoded id, if they are among the first members."""
    found = re.match(_HEAD.replace(*_BLANKS), start)
    return (found[2], found[1]) if found is not None else None


def read_tail(end: bytes) -> bytes | None:
    """Return the encoded id, if it is among the last members."""
    found = re.search(_TAIL.replace(*_BLANKS), end)
    return found[1] if found is not None else None


# Compiled by `re` itself, which keeps the pattern.
def read_id(written: bytes | None) -> RequestId | None:
    """Return the decoded id; ``None`` if it is not valid."""
    try:
        id = orjson.loads(written) if written is not None else None
    except orjson.JSONDecodeError:
        return None
    # A bool is not an id, and neither is a float or null.
    return id if type(id) is int or type(id) is str else None


def identify(start: bytes, end: bytes) -> tuple[bool, RequestId | None] | None:
    """Return whether a message is a call and not a response, and its id; ``None`` if the first members do not tell.

    Args:
        start: The first :data:`HEAD_BYTES` of the message.
        end: The last :data:`TAIL_BYTES` of the message.
    """
    head = read_head(start)
    if head is None:
        return None
    kind, written = head
    return kind == b"method", read_id(written if written is not None else read_tail(end))


@frozen
class Shape:
    """The counts of a JSON text, outside its strings."""

    containers: int
    """Arrays and objects."""
    commas: int
    """Items and members, without the first of each container."""
    weight: int
    """Approximate bytes of memory of the parsed text, rather too many than too few; 0 for a short text."""
    brackets: bytes
    """All brackets, in order."""

    def is_deeper(self, limit: int) -> bool:
        """Return whether more than ``limit`` arrays and objects are nested."""
        steps = memoryview(self.brackets.translate(_STEPS)).cast("b")
        # More containers than the limit are necessary for more levels, and counting them is cheaper.
        return self.containers > limit and max(accumulate(steps)) > limit


def measure(data: bytes | bytearray | memoryview, values: int) -> Shape:
    """Return the shape of a JSON text; if it has many more than ``values`` values, only that it has more."""
    # Only operations on whole texts, with no step in Python for each value: 2 ms for 4 MB of Base64, at most 25 ms.
    text = data if isinstance(data, bytes) else bytes(data)
    size = len(text)
    if b"\\" in text:
        # Pairs of backslashes first, so that the rest of the quotation marks after a backslash are escaped ones.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Only brackets, commas and quotation marks are left.
    text = text.translate(None, _OTHERS)
    quotes = text.count(b'"')
    if quotes > 4 * values:  # a value has at most two strings: its key and itself
        return Shape(0, quotes // 4, 0, b"")
    # Most strings are empty by now. The brackets within the others do not count, so drop every second part.
    text = b"".join(text.replace(b'""', b"").split(b'"')[::2])
    commas = text.count(b",")
    text = text.translate(None, b",")
    containers = text.count(b"[") + text.count(b"{")
    weight = size + _CONTAINER * containers + _VALUE * commas if size > LIGHT else 0
    return Shape(containers, commas, weight, text)
