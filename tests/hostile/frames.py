"""WebSocket frames that are malformed, forbidden, oversized or unfinished, with a writer and a reader.

Frames are written and read byte by byte, without the engines' library.

Source: RFC 6455 sections 5, 7 and 8.1.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from tests.hostile.cases import Pause

__all__ = ["CASES", "Frame", "FrameCase", "Heard", "closing", "frame", "read_frames"]

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK: Final = b"\x37\xfa\x21\x3d"


@frozen
class Frame:
    opcode: int
    payload: bytes = b""
    fin: bool = True

    @property
    def code(self) -> int | None:
        """Of a close frame."""
        return int.from_bytes(self.payload[:2], "big") if self.opcode == CLOSE and self.payload else None


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    masked: bool = True,
    length: bytes | None = None,
) -> bytes:
    """Return a client's frame.

    Args:
        rsv: The three reserved bits.
        length: The written length, if it should be wrong or longer than necessary.
    """
    if length is None:
        size = len(payload)
        if size < 126:
            length = bytes([size])
        elif size < 65536:
            length = b"\x7e" + struct.pack("!H", size)
        else:
            length = b"\x7f" + struct.pack("!Q", size)
    head = bytes([fin << 7 | rsv << 4 | opcode, masked << 7 | length[0]]) + length[1:]
    return head + MASK + mask(payload) if masked else head + payload


def mask(payload: bytes) -> bytes:
    size = len(payload)
    key = (MASK * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason)


def read_frames(data: bytes) -> list[Frame]:
    """Return the frames of a server.

    Raises:
        ValueError: A frame is masked, reserved or incomplete.
    """
    frames = []
    while data:
        if len(data) < 2:
            raise ValueError("half a frame")
        size, start = data[1] & 127, 2
        if data[1] & 128:
            raise ValueError("a server's frame is masked (6455 5.1)")
        if data[0] & 112:
            raise ValueError("reserved bits, without an extension")
        if size == 126:
            size, start = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(data[2:10], "big"), 10
        if len(data) < start + size:
            raise ValueError("half a frame")
        frames.append(Frame(data[0] & 15, data[start : start + size], bool(data[0] & 128)))
        data = data[start + size :]
    return frames


Heard: TypeAlias = tuple[Frame, ...]


@frozen(kw_only=True)
class FrameCase:
    """Bytes that a client sends after a WebSocket handshake, and the frames that it must receive.

    Args:
        says: The bytes sent after the handshake.
        hears: The exact frames received before the close frame.
        codes: The codes that the server's close frame may have; empty where it may also just hang up.
        then: ``closed`` by the server; or ``open``: it still echoes.
    """

    name: str
    says: tuple[bytes | Pause, ...]
    why: str
    hears: Heard = ()
    codes: frozenset[int] = field(default=frozenset(), converter=frozenset)
    then: Literal["closed", "open"] = "closed"
    path: bytes = b"/ws"
    port: str = "roomy"
    extension: bytes = b""


def ends(
    name: str, *says: bytes | Pause, codes: tuple[int, ...], why: str, hears: Heard = (), **more: object
) -> FrameCase:
    return FrameCase(name=f"frame {name}", says=says, codes=codes, why=why, hears=hears, **more)  # type: ignore[arg-type]


def goes_on(name: str, *says: bytes, hears: Heard, why: str) -> FrameCase:
    return FrameCase(name=f"frame {name}", says=says, hears=hears, why=why, then="open")


def echo(text: str) -> Frame:
    return Frame(TEXT, text.encode())


_PROTOCOL = (1002,)
_RESERVED = "6455 5.2: reserved for what was not agreed on"
_CONTROL = "6455 5.5: control frames are short and whole"
_TEXT = "6455 8.1: text is UTF-8; 1007"
_CODE = "6455 7.4: no code that an endpoint sends"
_SIZE = "6455 7.4.1: 1009"
_ORDER = "6455 5.4: fragments of one message follow each other"

CASES = (
    goes_on("text", frame(TEXT, "grüß".encode()), hears=(echo("grüß"),), why="or nothing below counts"),
    goes_on("binary", frame(BINARY, b"\xff\0"), hears=(Frame(BINARY, b"\xff\0"),), why="or nothing below counts"),
    goes_on("empty text", frame(TEXT), hears=(echo(""),), why="6455 5.2: a length of 0"),
    goes_on("64 kB", frame(TEXT, b"x" * 65536), hears=(echo("x" * 65536),), why="6455 5.2: 64 bits of length"),
    goes_on("ping", frame(PING, b"abc"), hears=(Frame(PONG, b"abc"),), why="6455 5.5.3"),
    goes_on("ping of 125", frame(PING, b"x" * 125), hears=(Frame(PONG, b"x" * 125),), why="6455 5.5.3"),
    goes_on("pong unasked", frame(PONG, b"abc"), hears=(), why="6455 5.5.3: not answered"),
    goes_on(
        "fragments and a ping",
        frame(TEXT, b"a", fin=False)
        + frame(PING, b"p")
        + frame(CONTINUATION, b"b", fin=False)
        + frame(CONTINUATION, b"c"),
        hears=(Frame(PONG, b"p"), echo("abc")),
        why="6455 5.4: control frames may stand between",
    ),
    goes_on(
        "character in two fragments",
        frame(TEXT, b"\xc3", fin=False) + frame(CONTINUATION, b"\xa4"),
        hears=(echo("ä"),),
        why="6455 8.1: the message is UTF-8, not the fragment",
    ),
    goes_on(
        "100 empty fragments",
        frame(TEXT, fin=False) + frame(CONTINUATION, fin=False) * 100 + frame(CONTINUATION, b"x"),
        hears=(echo("x"),),
        why="6455 5.4",
    ),
    ends("unmasked", frame(TEXT, b"hello", masked=False), codes=_PROTOCOL, why="6455 5.1: a server closes upon it"),
    ends("rsv1", frame(TEXT, b"hello", rsv=4), codes=_PROTOCOL, why=_RESERVED),
    ends("rsv2", frame(TEXT, b"hello", rsv=2), codes=_PROTOCOL, why=_RESERVED),
    ends("rsv3", frame(TEXT, b"hello", rsv=1), codes=_PROTOCOL, why=_RESERVED),
    ends("rsv1 of a ping", frame(PING, b"hello", rsv=4), codes=_PROTOCOL, why=_RESERVED),
    ends("opcode 3", frame(3, b"hello"), codes=_PROTOCOL, why=_RESERVED),
    ends("opcode 11", frame(11, b"hello"), codes=_PROTOCOL, why=_RESERVED),
    ends("ping in fragments", frame(PING, b"hello", fin=False), codes=_PROTOCOL, why=_CONTROL),
    ends("close in fragments", frame(CLOSE, b"\x03\xe8", fin=False), codes=_PROTOCOL, why=_CONTROL),
    ends("ping of 126", frame(PING, b"x" * 126), codes=_PROTOCOL, why=_CONTROL),
    ends("ping of 100 kB", frame(PING, b"x" * 100_000), codes=_PROTOCOL, why=_CONTROL),
    ends("close of 126", closing(1000, b"x" * 124), codes=_PROTOCOL, why=_CONTROL),
    ends("continuation first", frame(CONTINUATION, b"hello"), codes=_PROTOCOL, why=_ORDER),
    ends("text in a message", frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), codes=_PROTOCOL, why=_ORDER),
    ends(
        "length longer than needed", frame(TEXT, b"hello", length=b"\x7e\0\5"), codes=_PROTOCOL, why="6455 5.2: minimal"
    ),
    ends(
        "length much longer than needed",
        frame(TEXT, b"hello", length=b"\x7f" + b"\0" * 7 + b"\5"),
        codes=_PROTOCOL,
        why="6455 5.2: minimal",
    ),
    ends(
        "length of 64 bits",
        frame(TEXT, b"hello", length=b"\x7f" + b"\xff" * 8),
        codes=(1002, 1009),
        why="6455 5.2: the top bit is 0",
    ),
    ends("utf-8 bad", frame(TEXT, b"\xff"), codes=(1007,), why=_TEXT),
    ends("utf-8 surrogate", frame(TEXT, b"\xed\xa0\x80"), codes=(1007,), why=_TEXT),
    ends("utf-8 overlong", frame(TEXT, b"\xc0\xaf"), codes=(1007,), why=_TEXT),
    ends("utf-8 too high", frame(TEXT, b"\xf4\x90\x80\x80"), codes=(1007,), why=_TEXT),
    ends("utf-8 cut", frame(TEXT, b"ab\xc3"), codes=(1007,), why=_TEXT),
    ends(
        "utf-8 cut in fragments", frame(TEXT, b"ab", fin=False) + frame(CONTINUATION, b"\xc3"), codes=(1007,), why=_TEXT
    ),
    ends("close", frame(CLOSE), codes=(1000, 1005), why="6455 5.5.1: answered"),
    ends("close 1000", closing(1000, b"bye"), codes=(1000,), why="6455 5.5.1: answered, with the code as a rule"),
    ends("close 4000", closing(4000), codes=(4000, 1000), why="6455 7.4.2: private"),
    ends("close and more", closing(1000) + frame(TEXT, b"late"), codes=(1000,), why="6455 5.5.1: ignored"),
    ends("close of one byte", frame(CLOSE, b"\x03"), codes=_PROTOCOL, why="6455 5.5.1: two bytes, or none"),
    *(
        ends(f"close {code}", closing(code), codes=_PROTOCOL, why=_CODE)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)
    ),
    ends("close reason bad", closing(1000, b"\xff"), codes=(1002, 1007), why=_TEXT),
    ends(
        "message of 20 MB",
        *([frame(BINARY, b"x" * 1_000_000, fin=False)] + [frame(CONTINUATION, b"x" * 1_000_000, fin=False)] * 19),
        codes=(1009,),
        why=_SIZE,
    ),
    ends(
        "frame of 1 GB announced",
        frame(BINARY, length=b"\x7f" + struct.pack("!Q", 2**30)),
        *([b"x" * 1_000_000] * 20),
        codes=(1009,),
        why=_SIZE,
    ),
    ends("garbage", bytes(range(255, -1, -1)) * 10, codes=_PROTOCOL, why=_RESERVED),
    ends(
        "http instead", b"GET /smuggled?frames HTTP/1.1\r\nhost: a\r\n\r\n", codes=_PROTOCOL, why="6455 5.1: unmasked"
    ),
    ends(
        "application closes",
        frame(TEXT, b"hello"),
        path=b"/ws-close",
        codes=(1001,),
        port="tight",
        why="6455 7.1.1: and does not wait for ever for the client to close too",
    ),
    ends("application fails", frame(TEXT, b"hello"), path=b"/ws-crash", codes=(1011,), why="6455 7.4.1: 1011"),
)
"""1002 to 1011 are expected in a close frame where the server says why; hanging up without one is a failure here."""
