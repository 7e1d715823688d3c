"""The end of a body: Content-Length and Transfer-Encoding that are wrong, repeated, contradictory or not kept.

Every case that a proxy could read differently contains a hidden request, which must not be served.

Source: RFC 9112 sections 6 and 11.2; RFC 9110 section 8.6.
"""

from __future__ import annotations

from tests.hostile.cases import (
    HALF_CLOSE,
    RESET,
    Case,
    Outcome,
    Say,
    dropped,
    get,
    post,
    refused,
    served,
    served_and_closed,
)

__all__ = ["CASES"]

NO = refused(400)
CODING = refused(400, 501)
CHUNKED = b"transfer-encoding: chunked"


def case(name: str, *says: Say, allowed: tuple[Outcome, ...], why: str) -> Case:
    return Case(name=name, says=says, allowed=allowed, why=why)


def hidden(name: str) -> bytes:
    """A request that is hidden in a body."""
    return get(b"/smuggled?" + name.replace(" ", "-").encode())


def length(name: str, value: bytes, *allowed: Outcome, body: bytes = b"hello", why: str) -> Case:
    return case(f"length {name}", post(b"content-length:%b" % value, body=body), allowed=allowed, why=why)


def huge(name: str, value: bytes, *, why: str) -> Case:
    """Refused; or accepted, and the body is never complete."""
    says = post(b"content-length: %b" % value, body=b"hello")
    return case(f"length {name}", says, HALF_CLOSE, allowed=(refused(400, 413, 431), dropped()), why=why)


def coding(name: str, *lines: bytes, allowed: tuple[Outcome, ...] = (CODING,), why: str) -> Case:
    """Return a case with an invalid coding, followed by a chunked body and a hidden request."""
    return case(
        f"coding {name}", post(*lines, body=b"5\r\nhello\r\n0\r\n\r\n" + hidden(name)), allowed=allowed, why=why
    )


def fine(body: str) -> Outcome:
    return served(200).seeing({"body": body, "length": len(body), "method": "POST"})


_BOTH = "9112 6.1: an attempt to smuggle; refused, and the connection closed"
_LENGTH = "9110 8.6: 1*DIGIT; 9112 6.3 (5): 400 to everything else"
_CODING = "9112 6.1: 501 to a coding that is not known; 400 where chunked is not the last"
_SHORT = "9112 8: an incomplete request is never handled as a complete one"

_BOTH_BODY = b"0\r\n\r\n" + hidden("both")

CASES = (
    case(
        "body like a request line of another protocol",
        post(b"content-length: 24", body=b"\r\nGET /echo RTSP/1.0\r\n x"),
        allowed=(served(),),
        why="9112 6: a body is not looked at",
    ),
    case("both length first", post(b"content-length: 6", CHUNKED, body=_BOTH_BODY), allowed=(NO,), why=_BOTH),
    case("both coding first", post(CHUNKED, b"content-length: 6", body=_BOTH_BODY), allowed=(NO,), why=_BOTH),
    case("both length 0", post(b"content-length: 0", CHUNKED, body=_BOTH_BODY), allowed=(NO,), why=_BOTH),
    case(
        "both in capitals",
        post(b"CONTENT-LENGTH: 6", b"TRANSFER-ENCODING: CHUNKED", body=_BOTH_BODY),
        allowed=(NO,),
        why=_BOTH,
    ),
    case(
        "both on 1.0",
        post(b"content-length: 6", CHUNKED, body=_BOTH_BODY, version=b"HTTP/1.0"),
        allowed=(NO,),
        why=_BOTH,
    ),
    length("good", b" 5", fine("hello"), why="or nothing below counts"),
    length("none", b" 0", fine(""), body=b"", why="or nothing below counts"),
    length("blank around", b" \t 5 \t", fine("hello"), NO, why="9112 5.1: blanks are not part of the value"),
    length("plus", b" +5", NO, why=_LENGTH),
    length("minus", b" -5", NO, why=_LENGTH),
    length("minus 0", b" -0", NO, body=b"", why=_LENGTH),
    length("hex", b" 0x5", NO, why=_LENGTH),
    length("float", b" 5.0", NO, why=_LENGTH),
    length("exponent", b" 5e0", NO, why=_LENGTH),
    length("underscore", b" 1_0", NO, why=_LENGTH),
    length("word", b" five", NO, why=_LENGTH),
    length("empty", b"", NO, why=_LENGTH),
    length("blank inside", b" 5 5", NO, why=_LENGTH),
    length("comma after", b" 5,", NO, fine("hello"), why="9110 5.6.1: empty elements may be dropped"),
    length("comma before", b" ,5", NO, fine("hello"), why="9110 5.6.1: empty elements may be dropped"),
    length("arabic digits", " ٥".encode(), NO, why=_LENGTH),
    length("superscript", " 5²".encode("latin-1"), NO, why=_LENGTH),
    length("nul after", b" 5\0", NO, why=_LENGTH),
    length("leading zeros", b" 0005", fine("hello"), NO, why="9110 8.6: digits; read as decimal, or refused"),
    huge("2 to the 64 and 5", b"18446744073709551621", why="it is no 5"),
    huge("10 to the 30", b"1" + b"0" * 30, why="it is not a number of bytes"),
    huge("10000 digits", b"1" * 10_000, why="and takes no quadratic time"),
    case(
        "length twice",
        post(b"content-length: 5", b"content-length: 6", body=b"hello!"),
        allowed=(NO,),
        why="9112 6.3 (5)",
    ),
    case(
        "length twice the same",
        post(b"content-length: 5", b"content-length: 5", body=b"hello"),
        allowed=(NO, fine("hello")),
        why="9112 6.3 (5): may be taken for one",
    ),
    case("length list", post(b"content-length: 5, 6", body=b"hello!"), allowed=(NO,), why="9112 6.3 (5)"),
    case(
        "length list the same",
        post(b"content-length: 5, 5", body=b"hello"),
        allowed=(NO, fine("hello")),
        why="9112 6.3 (5): may be taken for one",
    ),
    case(
        "length twice and hidden",
        post(b"content-length: 0", b"content-length: 60", body=hidden("twice")),
        allowed=(NO,),
        why="9112 6.3 (5)",
    ),
    case(
        "length of get",
        get(b"/echo", b"content-length: 5") + b"hello" + get(b"/echo?second"),
        allowed=(served(200, 200).seeing({"body": "hello", "method": "GET"}, {"query": "second"}), NO),
        why="9110 9.3.1: a body of GET means nothing, but is there",
    ),
    case(
        "length of get and hidden",
        get(b"/echo", b"content-length: %d" % len(hidden("get"))) + hidden("get"),
        allowed=(served(200).seeing({"method": "GET"}), NO),
        why="9110 9.3.1: a body of GET means nothing, but is there",
    ),
    coding("identity", b"transfer-encoding: identity", why=_CODING),
    coding("identity and chunked", b"transfer-encoding: identity, chunked", why=_CODING),
    coding("gzip", b"transfer-encoding: gzip", why=_CODING),
    coding("gzip and chunked", b"transfer-encoding: gzip, chunked", why=_CODING),
    coding("chunked and gzip", b"transfer-encoding: chunked, gzip", why=_CODING),
    coding("chunked and identity", b"transfer-encoding: chunked, identity", why=_CODING),
    coding("chunked twice", b"transfer-encoding: chunked, chunked", why="9112 6.1: not more than once"),
    coding("chunked twice on two lines", CHUNKED, CHUNKED, why="9112 6.1: not more than once"),
    coding("chunked and identity on two lines", CHUNKED, b"transfer-encoding: identity", why=_CODING),
    coding("identity and chunked on two lines", b"transfer-encoding: identity", CHUNKED, why=_CODING),
    coding("nonsense", b"transfer-encoding: xchunked", why=_CODING),
    coding("chunkedx", b"transfer-encoding: chunkedx", why=_CODING),
    coding("with a parameter", b"transfer-encoding: chunked;q=1", why=_CODING),
    coding("quoted", b'transfer-encoding: "chunked"', why=_CODING),
    coding("vertical tab", b"transfer-encoding: \x0bchunked", why=_CODING),
    coding("form feed after", b"transfer-encoding: chunked\x0c", why=_CODING),
    coding("nul before", b"transfer-encoding: \0chunked", why=_CODING),
    coding("next line", b"transfer-encoding: chunked\x85", why=_CODING),
    coding("kelvin", "transfer-encoding: chun\u212aed".encode(), why="9110 5.6.2: case is that of ASCII"),
    coding("empty", b"transfer-encoding:", why=_CODING),
    coding("blank inside", b"transfer-encoding: chun ked", why=_CODING),
    case(
        "coding capitals",
        post(b"Transfer-Encoding: CHunkED", body=b"5\r\nhello\r\n0\r\n\r\n"),
        allowed=(fine("hello"),),
        why="9112 7: names of codings have no case",
    ),
    case(
        "coding comma after",
        post(b"transfer-encoding: chunked,", body=b"5\r\nhello\r\n0\r\n\r\n"),
        allowed=(CODING, fine("hello")),
        why="9110 5.6.1: empty elements may be dropped",
    ),
    case(
        "coding on 1.0",
        post(CHUNKED, body=b"5\r\nhello\r\n0\r\n\r\n", version=b"HTTP/1.0"),
        allowed=(CODING, served_and_closed(200)),
        why="9112 6.1: faulty; the connection is closed after it",
    ),
    case(
        "body longer",
        post(b"content-length: 2", body=b"ab\x01garbage\r\n\r\n"),
        allowed=(refused(400, 501, after=(200,)),),
        why="9112 6.3: what follows is the next request, and is none",
    ),
    case(
        "body longer and a request",
        post(b"content-length: 2", body=b"ab" + get(b"/echo?second")),
        allowed=(served(200, 200).seeing({"body": "ab"}, {"query": "second"}),),
        why="9112 9.3.2: pipelined",
    ),
    case(
        "body followed by a line end",
        post(b"content-length: 2", body=b"ab\r\n" + get(b"/echo?second")),
        allowed=(served(200, 200).seeing({"body": "ab"}, {"query": "second"}), refused(400, 501, after=(200,))),
        why="9112 2.2: old clients add one",
    ),
    case(
        "body missing",
        post(body=b"hello\r\n\r\n"),
        allowed=(refused(400, 501, after=(200,)),),
        why="9112 6.3 (7): without framing there is no body",
    ),
    case(
        "body short and half closed",
        post(b"content-length: 9", body=b"ab"),
        HALF_CLOSE,
        allowed=(NO, dropped(), refused(408)),
        why=_SHORT,
    ),
    case(
        "body none and half closed",
        post(b"content-length: 9"),
        HALF_CLOSE,
        allowed=(NO, dropped(), refused(408)),
        why=_SHORT,
    ),
    case("body short and reset", post(b"content-length: 9", body=b"ab"), RESET, allowed=(dropped(),), why=_SHORT),
    case(
        "body good and half closed",
        post(b"content-length: 2", body=b"ab"),
        HALF_CLOSE,
        allowed=(served_and_closed(200).seeing({"body": "ab"}),),
        why="9112 9.6: an answer is still delivered",
    ),
    case(
        "body not read by the application",
        post(b"content-length: %d" % len(hidden("early")), body=hidden("early"), target=b"/early"),
        allowed=(served(200), served_and_closed(200)),
        why="9112 9.3: read to its end, or the connection closed; never a request",
    ),
    case(
        "body refused by the application",
        post(b"content-length: 3000000", body=hidden("refused") * 30_000, target=b"/refuse/413"),
        allowed=(served(413), served_and_closed(413)),
        why="9110 15.5.14: who uploads reads why it is refused",
    ),
    case(
        "body of the endpoint too large",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"accept: application/json, text/event-stream\r\ncontent-length: 10000000\r\n\r\n" + b" " * 1_000_000,
        allowed=(served_and_closed(413),),
        why="9110 15.5.14",
    ),
)
