"""Malformed chunked coding.

Source: RFC 9112 section 7.1; RFC 9110 section 6.5.
"""

from __future__ import annotations

from tests.hostile.cases import HALF_CLOSE, RESET, Case, Outcome, Say, dropped, get, post, refused, served

__all__ = ["CASES"]

NO = refused(400)
SHORT = (NO, dropped(), refused(408))
HUGE = (NO, refused(413), dropped())
"""Refused; or accepted, and the chunk is never complete."""
HELLO = served(200).seeing({"body": "hello", "length": 5})


def case(name: str, body: bytes, *allowed: Outcome, more: tuple[Say, ...] = (), why: str) -> Case:
    says = (post(b"transfer-encoding: chunked", body=body), *more)
    return Case(name=f"chunk {name}", says=says, allowed=allowed, why=why)


def hidden(name: str) -> bytes:
    return get(b"/smuggled?" + name.encode())


_SIZE = "9112 7.1: chunk-size = 1*HEXDIG"
_DATA = "9112 7.1: data ends where it says, with CRLF"
_EXTENSION = "9112 7.1.1: an extension is ignored, if it is well-formed and not too long"
_TRAILERS = "9112 7.1.2: a trailer is a field line; it changes no framing"
_CUT = "9112 8: an incomplete request is never handled as a complete one"
_END = b"0\r\n\r\n"

CASES = (
    case("good", b"5\r\nhello\r\n" + _END, HELLO, why="or nothing below counts"),
    case("bytes", b"".join(b"1\r\n%c\r\n" % byte for byte in b"hello") + _END, HELLO, why="or nothing below counts"),
    case("none", _END, served(200).seeing({"length": 0}), why="or nothing below counts"),
    case("capital size", b"A\r\n0123456789\r\n" + _END, served(200).seeing({"length": 10}), why=_SIZE),
    case("zeros before size", b"0005\r\nhello\r\n" + _END, HELLO, why=_SIZE),
    case("many zeros before size", b"0" * 30 + b"5\r\nhello\r\n" + _END, HELLO, NO, why="the engine's limit"),
    case(
        "100 kB of zeros before size",
        b"0" * 100_000 + b"5\r\nhello\r\n" + _END,
        NO,
        refused(413, 431),
        HELLO,
        why=_SIZE,
    ),
    case("size of 16 f", b"f" * 16 + b"\r\n", *HUGE, more=(HALF_CLOSE,), why="no negative number"),
    case("size of 17 digits", b"1" + b"0" * 15 + b"5\r\nhello\r\n" + _END, *HUGE, more=(HALF_CLOSE,), why="it is no 5"),
    case("size of 18 f", b"f" * 18 + b"\r\nhello\r\n" + _END, *HUGE, more=(HALF_CLOSE,), why="not a number of bytes"),
    case("plus", b"+5\r\nhello\r\n" + _END, NO, why=_SIZE),
    case("minus", b"-5\r\nhello\r\n" + _END, NO, why=_SIZE),
    case("0x", b"0x5\r\nhello\r\n" + _END, NO, why=_SIZE),
    case("underscore", b"0_5\r\nhello\r\n" + _END, NO, why=_SIZE),
    case("no digit", b"z\r\nhello\r\n" + _END, NO, why=_SIZE),
    case("empty size", b"\r\nhello\r\n" + _END, NO, why=_SIZE),
    case("blank before size", b" 5\r\nhello\r\n" + _END, NO, why=_SIZE),
    case("blank after size", b"5 \r\nhello\r\n" + _END, NO, HELLO, why="9112 7.1.1: blanks before an extension"),
    case("size and lf", b"5\nhello\r\n" + _END, NO, why="some take it for a line end and some do not"),
    case("size and cr", b"5\rhello\r\n" + _END, NO, why="a bare CR is no line end"),
    case("size and cr cr lf", b"5\r\r\nhello\r\n" + _END, NO, why="a bare CR is no line end"),
    case("data and lf", b"5\r\nhello\n" + _END, NO, why=_DATA),
    case("data without end", b"5\r\nhello" + _END, NO, why=_DATA),
    case("data and two bytes", b"5\r\nhelloXX" + _END, NO, why=_DATA),
    case("data longer", b"5\r\nhello world\r\n" + _END, NO, why=_DATA),
    case("extension", b"5;a=b\r\nhello\r\n" + _END, HELLO, NO, why=_EXTENSION),
    case("extension quoted", b'5;a="b;c"\r\nhello\r\n' + _END, HELLO, NO, why=_EXTENSION),
    case("extension with lf", b"5;a\nb\r\nhello\r\n" + _END, NO, why="some take it for a line end and some do not"),
    case(
        "extension ends in lf",
        b"2;\nxx\r\n%x\r\n%b\r\n" % (len(hidden("lf")), hidden("lf")) + _END,
        NO,
        why="as before",
    ),
    case(
        "extension with cr", b"5;a\rb\r\nhello\r\n" + _END, NO, more=(HALF_CLOSE,), why="a bare CR is nowhere allowed"
    ),
    case("extension with nul", b"5;a\0b\r\nhello\r\n" + _END, NO, HELLO, why=_EXTENSION),
    case("extension without semicolon", b"5 a\r\nhello\r\n" + _END, NO, why=_EXTENSION),
    case(
        "extension of 8 kB",
        b"5;a=" + b"b" * 8_000 + b"\r\nhello\r\n" + _END,
        HELLO,
        refused(400, 413, 431),
        why=_EXTENSION,
    ),
    case(
        "extension of 1 MB",
        b"5;a=" + b"b" * 1_000_000 + b"\r\nhello\r\n" + _END,
        refused(400, 413, 431),
        why=_EXTENSION,
    ),
    case(
        "extension of every byte",
        (b"1;a=" + b"b" * 1_000 + b"\r\nx\r\n") * 2_000 + _END,
        refused(400, 413, 431),
        served(200).seeing({"length": 2_000}),
        why="2 MB for 2 kB: refused, or at least done with",
    ),
    case("trailer", b"5\r\nhello\r\n0\r\nx: y\r\n\r\n", HELLO, NO, why=_TRAILERS),
    case("trailer length", b"5\r\nhello\r\n0\r\ncontent-length: 50\r\n\r\n", HELLO, NO, why=_TRAILERS),
    case("trailer coding", b"5\r\nhello\r\n0\r\ntransfer-encoding: chunked\r\n\r\n", HELLO, NO, why=_TRAILERS),
    case(
        "trailer host",
        b"5\r\nhello\r\n0\r\nhost: b\r\n\r\n",
        served(200).seeing({"header": ("host", ["a"])}),
        NO,
        why=_TRAILERS,
    ),
    case("trailer is a request", b"5\r\nhello\r\n0\r\n" + hidden("trailer"), NO, why=_TRAILERS),
    case("trailer without colon", b"5\r\nhello\r\n0\r\nx\r\n\r\n", NO, why=_TRAILERS),
    case("trailer with nul", b"5\r\nhello\r\n0\r\nx: \0\r\n\r\n", NO, why=_TRAILERS),
    case(
        "trailer of 400 kB",
        b"5\r\nhello\r\n0\r\nx: " + b"y" * 400_000 + b"\r\n\r\n",
        refused(400, 413, 431),
        why=_TRAILERS,
    ),
    case(
        "trailers 90000", b"5\r\nhello\r\n0\r\n" + b"a: b\r\n" * 90_000 + b"\r\n", refused(400, 413, 431), why=_TRAILERS
    ),
    case("end and lf", b"5\r\nhello\r\n0\n\n", *SHORT, more=(HALF_CLOSE,), why="some take it for a line end"),
    case(
        "end and lf and request",
        b"5\r\nhello\r\n0\r\n\n" + get(b"/echo?second"),
        NO,
        served(200, 200).seeing({"body": "hello"}, {"query": "second"}),
        why="9112 2.2: a line end, or refused",
    ),
    case("end and two bytes", b"5\r\nhello\r\n0\r\nXX", NO, *SHORT, more=(HALF_CLOSE,), why=_TRAILERS),
    case("cut in the size", b"5\r\nhello\r\n5", *SHORT, more=(HALF_CLOSE,), why=_CUT),
    case("cut in the data", b"5\r\nhel", *SHORT, more=(HALF_CLOSE,), why=_CUT),
    case("cut after the data", b"5\r\nhello\r\n", *SHORT, more=(HALF_CLOSE,), why=_CUT),
    case("cut before the last line", b"5\r\nhello\r\n0\r\n", *SHORT, more=(HALF_CLOSE,), why=_CUT),
    case("cut in the trailer", b"5\r\nhello\r\n0\r\nx: y\r\n", *SHORT, more=(HALF_CLOSE,), why=_CUT),
    case("cut by a reset", b"5\r\nhel", dropped(), more=(RESET,), why=_CUT),
)
