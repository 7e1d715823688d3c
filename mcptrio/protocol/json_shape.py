"""What can be told of a JSON text without parsing it: how many values it holds, and which request it belongs to.

Used by the codec before it parses, since parsed values take up to 29 times as much memory as their text and the parser
ends the process when memory runs out; and by the line framer for lines that it skips.

Source: RFC 8259; JSON-RPC 2.0 section 5.
"""

from __future__ import annotations

import re

import orjson

from mcptrio.protocol.messages import RequestId

__all__ = ["HEAD_BYTES", "TAIL_BYTES", "identify", "read_head", "read_id", "read_tail", "too_many", "weigh"]

HEAD_BYTES = 512
"""How much of the beginning of a message is looked at for its id."""
TAIL_BYTES = 256
"""How much of its end."""

# Patterns, compiled when the first message is too large. At each underscore there may be blanks.
_BLANKS = (b"_", rb"[ \t\r]*")
_ID = rb'(-?[0-9]{1,20}|"(?:[^"\\\x00-\x1f]|\\.){0,150}")'
_VERSION = rb'"jsonrpc"_:_"2\.0"'
_HEAD = rb'_\{_(?:%b_,_)?(?:"id"_:_%b_,_)?(?:%b_,_)?"(method|result|error)"_:' % (_VERSION, _ID, _VERSION)
"""The first members of an object that says there what it is. No text can have begun before them."""
_TAIL = rb',_"id"_:_%b_(?:,_%b_)?\}_\Z' % (_ID, _VERSION)
"""The last members of an object. Its last brace stands outside of every text; read backwards from there, and since none
has a backslash before it, each quotation mark begins or ends what it seems to."""

_STRUCTURE = b'[]{},:"'
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_TEXTS = re.compile(rb'"[^"]*"')

_LIGHT = 1024
"""Bytes of a text that weighs nothing: the number of requests bounds it."""
_CONTAINER = 250
"""Bytes of memory that an object of one member takes, or an array; measured."""
_VALUE = 64
"""Bytes of memory that an item or a member takes."""
_EXACT_FROM = 1024 * 1024
"""An estimate above this is worth a second look, without what is inside strings."""


def read_head(start: bytes) -> tuple[bytes, bytes | None] | None:
    """``method``, ``result`` or ``error``, and the id as it is written, where the first members have them."""
    found = re.match(_HEAD.replace(*_BLANKS), start)
    return (found[2], found[1]) if found is not None else None


def read_tail(end: bytes) -> bytes | None:
    """The id as it is written, where it is one of the last members."""
    found = re.search(_TAIL.replace(*_BLANKS), end)
    return found[1] if found is not None else None


def read_id(written: bytes | None) -> RequestId | None:
    """The id as the codec reads it."""
    try:
        id = orjson.loads(written) if written is not None else None
    except orjson.JSONDecodeError:
        return None
    return id if type(id) is int or type(id) is str else None


def identify(start: bytes, end: bytes) -> tuple[bool, RequestId | None] | None:
    """Whether a message is a call, as opposed to an answer, and its id; ``None`` if the first members do not say.

    Args:
        start: its first :data:`HEAD_BYTES`.
        end: its last :data:`TAIL_BYTES`.
    """
    head = read_head(start)
    if head is None:
        return None
    kind, written = head
    return kind == b"method", read_id(written if written is not None else read_tail(end))


def too_many(data: bytes | bytearray | memoryview, containers: int, values: int) -> str | None:
    """Why a JSON text is not parsed: it holds more than so many arrays and objects, or items and members.

    The time is linear, without a step in Python for each value. Brackets and commas inside strings do not count; they
    are looked at only if there are more than the limit.
    """
    text = data if isinstance(data, bytes) else bytes(data)
    if text.count(b"[") + text.count(b"{") <= containers and text.count(b",") <= values:
        return None
    text = _structure(text)
    # Strings are keys or values, so more of them than this break the limit, and need not be cut out.
    if text.count(b'"') <= 4 * values:
        text = _TEXTS.sub(b"", text.replace(b'""', b""))
        found = text.count(b"[") + text.count(b"{")
        if found > containers:
            return f"message of {found} arrays and objects: the limit is {containers}"
        if text.count(b",") <= values:
            return None
    return f"message of more than {values} values: the limit is {values}"


def weigh(data: bytes | bytearray | memoryview) -> int:
    """About how many bytes of memory a JSON text takes when it is parsed, never much less; 0 for a short text."""
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    if size <= _LIGHT:
        return 0
    text = data if isinstance(data, bytes) else bytes(data)
    weight = size + _weight(text)
    if weight > max(_EXACT_FROM, 2 * size):
        text = _structure(text)
        weight = size + _weight(_TEXTS.sub(b"", text.replace(b'""', b"")))
    return weight


def _weight(text: bytes) -> int:
    return _CONTAINER * (text.count(b"[") + text.count(b"{")) + _VALUE * text.count(b",")


def _structure(text: bytes) -> bytes:
    """The brackets, commas, colons and quotation marks of a JSON text, without those that are escaped."""
    if b"\\" in text:
        # A run of backslashes begins outside of an escape, so that pairs are pairs.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.translate(None, _OTHERS)
