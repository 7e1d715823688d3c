"""Clients of the TLS port that send something else, or stop in the middle.

The server sends an alert or nothing, and the connection has to end.

Source: RFC 8446 sections 5.1 and 6.
"""

from __future__ import annotations

from tests.hostile.cases import HALF_CLOSE, RESET, Case, Pause, Say, get

__all__ = ["CASES"]


def case(name: str, *says: Say, why: str, takes: tuple[float, float] | None = None) -> Case:
    return Case(name=f"tls {name}", says=says, allowed=(), why=why, port="tls", raw=True, takes=takes)


_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"

CASES = (
    case("plain request", get(), why="8446 5.1: no record"),
    case("garbage", bytes(range(256)) * 40, why="8446 5.1: no record"),
    case("hello of nonsense", _HELLO + b"\x11" * 600, why="8446 6.2: decode_error"),
    case("record too long", b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000, why="8446 5.1: record_overflow"),
    case("alert first", b"\x15\x03\x01\x00\x02\x02\x28", why="8446 6.2"),
    case("old version", b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + b"\x01" * 40, why="6176: SSL 2 is dead"),
    case("nothing", why="nobody may keep a connection for nothing", takes=(0.9, 60.0)),
    case("half a hello", _HELLO, why="nobody may keep a connection for nothing", takes=(0.9, 60.0)),
    case("half a hello and half closed", _HELLO, HALF_CLOSE, why="8446 6.1"),
    case("half a hello and reset", _HELLO, Pause(0.05), RESET, why="8446 6.1"),
)
