"""Request lines that are wrong, old, new or strange.

Source: RFC 9112 sections 2.2, 2.3 and 3; RFC 9110 sections 9 and 15.5.
"""

from __future__ import annotations

from tests.hostile.cases import HALF_CLOSE, Case, dropped, get, refused, served, served_and_closed

__all__ = ["CASES"]

OK = served(200)
NO = refused(400, 501, 505)
"""Method, target and version are checked in any order; the first invalid one decides the status."""
ROUTED = served(frozenset({400, 404, 405}))
"""Well-formed; the application has no such path."""


def case(name: str, says: bytes, *allowed: object, why: str, **more: object) -> Case:
    return Case(name=name, says=(says,), allowed=allowed, why=why, **more)  # type: ignore[arg-type]


def line(text: bytes) -> bytes:
    return text + b"\r\nhost: a\r\n\r\n"


_ECHO = {"path": "/echo"}
_FIRST = "9112 2.2: an empty line before the request line is to be ignored"
_TARGET = "9112 3.2: whitespace and control bytes are in no target; 400"
_VERSION = "9112 2.3: HTTP-version is 'HTTP/' DIGIT '.' DIGIT, in capitals"

CASES = (
    case("line good", get(), OK.seeing({"path": "/echo", "method": "GET", "query": ""}), why="or nothing below counts"),
    case("line empty before", b"\r\n" + get(), OK, NO, why=_FIRST),
    case("line many empty before", b"\r\n" * 20 + get(), OK, NO, why=_FIRST),
    case("line leading space", b" " + get(), NO, why="9112 3: a method is a token"),
    case("line leading nul", b"\0" + get(), NO, why="9112 3: a method is a token"),
    case("line two spaces", line(b"GET  /echo  HTTP/1.1"), OK.seeing(_ECHO), NO, why="9112 3: may be lenient"),
    case("line tabs", line(b"GET\t/echo\tHTTP/1.1"), OK.seeing(_ECHO), NO, why="9112 3: may be lenient"),
    case("line trailing space", line(b"GET /echo HTTP/1.1 "), OK.seeing(_ECHO), NO, why="9112 3: may be lenient"),
    case("line bare lf", b"GET /echo HTTP/1.1\nhost: a\n\n", OK.seeing(_ECHO), NO, why="9112 2.2: may be a line end"),
    case("line bare cr", b"GET /echo HTTP/1.1\rhost: a\r\n\r\n", NO, why="9112 2.2: a bare CR ends no line"),
    case("line cr in target", line(b"GET /ec\rho HTTP/1.1"), NO, why=_TARGET),
    case("line nul in target", line(b"GET /ec\0ho HTTP/1.1"), NO, why=_TARGET),
    case("line tab in target", line(b"GET /ec\tho HTTP/1.1"), NO, why=_TARGET),
    case("line space in target", line(b"GET /ec ho HTTP/1.1"), NO, why=_TARGET),
    case("line del in target", line(b"GET /ec\x7fho HTTP/1.1"), NO, why=_TARGET),
    case("line non-ascii target", line("GET /éch HTTP/1.1".encode()), NO, why="3986: a URI is ASCII"),
    case("line latin-1 target", line(b"GET /\xe9ch HTTP/1.1"), NO, why="3986: a URI is ASCII"),
    case("line percent target", line(b"GET /%ff%fe%00 HTTP/1.1"), ROUTED, NO, why="it is the application's to refuse"),
    case("line bad percent", line(b"GET /%zz% HTTP/1.1"), ROUTED, NO, why="it is the application's to refuse"),
    case("line dots", line(b"GET /../../etc/passwd HTTP/1.1"), ROUTED, NO, why="it is the application's to refuse"),
    case("line empty target", line(b"GET HTTP/1.1"), NO, why="9112 3: three parts"),
    case("line fragment", line(b"GET /echo#f HTTP/1.1"), ROUTED, NO, OK.seeing(_ECHO), why="9112 3.2: not in a target"),
    case(
        "line absolute",
        line(b"GET http://a/echo?x=1 HTTP/1.1"),
        OK.seeing({"path": "/echo", "query": "x=1"}),
        ROUTED,
        NO,
        why="9112 3.2.2: to be accepted; we are no proxy, so not finding it harms nobody",
    ),
    case(
        "line absolute other host",
        line(b"GET http://b/echo HTTP/1.1"),
        OK.seeing(_ECHO),
        ROUTED,
        NO,
        refused(421),
        why="9112 3.2.2: the host of the target wins",
    ),
    case("line authority", line(b"GET a:80 HTTP/1.1"), ROUTED, NO, why="9112 3.2.3: only for CONNECT"),
    case(
        "line asterisk", line(b"OPTIONS * HTTP/1.1"), served(frozenset({200, 204, 400, 404, 405})), NO, why="9112 3.2.4"
    ),
    case("line asterisk get", line(b"GET * HTTP/1.1"), ROUTED, NO, why="9112 3.2.4: only for OPTIONS"),
    case("line no slash", line(b"GET echo HTTP/1.1"), ROUTED, NO, why="9112 3.2.1: absolute-path"),
    case("line double slash", line(b"GET //a/echo HTTP/1.1"), ROUTED, NO, why="the path is not taken for a host"),
    case("line head", line(b"HEAD /echo HTTP/1.1"), OK, why="9110 9.3.2: no body", head=True),
    case("line head refused", line(b"HEAD /none HTTP/1.1"), served(404), why="9110 9.3.2: no body", head=True),
    case(
        "line connect",
        line(b"CONNECT a:80 HTTP/1.1") + get(b"/smuggled?connect"),
        refused(400, 405, 501),
        why="9110 9.3.6: what follows is no HTTP of ours",
    ),
    case(
        "line connect path",
        line(b"CONNECT /echo HTTP/1.1"),
        refused(400, 405, 501),
        served(frozenset({400, 404, 405, 501})),
        why="9112 3.2.3: authority-form only",
    ),
    case(
        "line trace",
        b"TRACE /echo HTTP/1.1\r\nhost: a\r\ncookie: secret\r\n\r\n",
        refused(400, 405, 501),
        OK.seeing({"method": "TRACE"}),
        why="9110 9.3.8: the server itself reflects nothing",
    ),
    case(
        "line lower case method",
        line(b"get /echo HTTP/1.1"),
        refused(400, 405, 501),
        OK.seeing({"method": "get"}),
        why="9110 9.1: a method is case-sensitive; get is not GET",
    ),
    case(
        "line unknown method",
        line(b"BREW /echo HTTP/1.1"),
        refused(400, 405, 501),
        OK.seeing({"method": "BREW"}),
        why="9110 9.1: 501 or 405; or the application decides",
    ),
    case("line method not a token", line(b"GE(T /echo HTTP/1.1"), NO, refused(501), why="9110 9.1"),
    case("line non-ascii method", line(b"G\xcbT /echo HTTP/1.1"), NO, refused(501), why="9110 9.1"),
    case("line long method", line(b"G" * 100_000 + b" /echo HTTP/1.1"), refused(400, 414, 431, 501), why="9112 3: 501"),
    case("line long target", line(b"GET /" + b"e" * 100_000 + b" HTTP/1.1"), refused(400, 414, 431), why="9112 3: 414"),
    case(
        "line very long target",
        line(b"GET /" + b"e" * 2_000_000 + b" HTTP/1.1"),
        refused(400, 414, 431),
        why="9112 3: 414, read by who still writes",
    ),
    case("line no version", b"GET /echo\r\n\r\n", refused(400, 505), dropped(), why="9112 2.3: HTTP/0.9 is no more"),
    case("line 0.9 with host", line(b"GET /echo"), refused(400, 505), dropped(), why="9112 2.3"),
    case("line version 0.9", line(b"GET /echo HTTP/0.9"), refused(400, 505), why="9110 15.6.6"),
    case(
        "line version 1.0",
        b"GET /echo HTTP/1.0\r\n\r\n",
        served_and_closed(200).seeing({"version": "1.0"}),
        why="9112 9.3: no persistence unless asked for; no Host needed",
    ),
    case(
        "line version 1.0 keep-alive",
        b"GET /echo HTTP/1.0\r\nhost: a\r\nconnection: keep-alive\r\n\r\n",
        served_and_closed(200),
        served(200),
        why="9112 9.3: may persist",
    ),
    case("line version 1.1 close", get(b"/echo", b"connection: close"), served_and_closed(200), why="9112 9.6"),
    case(
        "line version 1.1 close among others",
        get(b"/echo", b"connection: x, Close ,y") + get(b"/smuggled?close"),
        served_and_closed(200),
        why="9112 9.6: a list, in any case; nothing after it is answered",
    ),
    case("line version 1.2", line(b"GET /echo HTTP/1.2"), OK, refused(400, 505), why="9110 2.5: as 1.1"),
    case("line version 2.0", line(b"GET /echo HTTP/2.0"), refused(400, 505), why="9110 15.6.6"),
    case("line version 3.0", line(b"GET /echo HTTP/3.0"), refused(400, 505), why="9110 15.6.6"),
    case("line version 9.9", line(b"GET /echo HTTP/9.9"), refused(400, 505), why="9110 15.6.6"),
    case("line version 1.10", line(b"GET /echo HTTP/1.10"), refused(400, 505), why=_VERSION),
    case("line version 01.1", line(b"GET /echo HTTP/01.1"), refused(400, 505), why=_VERSION),
    case("line version 1", line(b"GET /echo HTTP/1"), refused(400, 505), why=_VERSION),
    case("line version lower case", line(b"GET /echo http/1.1"), refused(400, 505), why=_VERSION),
    case("line version comma", line(b"GET /echo HTTP/1,1"), refused(400, 505), why=_VERSION),
    case("line version junk", line(b"GET /echo HTTP/1.1x"), refused(400, 505), why=_VERSION),
    case("line version other protocol", line(b"GET /echo ICE/1.0"), refused(400, 505), why=_VERSION),
    case("line rtsp", line(b"DESCRIBE /echo RTSP/1.0"), refused(400, 501, 505), why="no HTTP, whatever a parser knows"),
    case("line icy", line(b"SOURCE /echo ICE/1.0"), refused(400, 501, 505), why="no HTTP, whatever a parser knows"),
    case("line h2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", refused(400, 505), why="9113 3.4: not on this port"),
    case(
        "line h2 preface and frames",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + b"\xff" * 200,
        refused(400, 505),
        why="9113 3.4: not on this port",
    ),
    case("line response", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", refused(400, 501, 505), why="not a request"),
    case("line nul bytes", b"\0" * 100 + b"\r\n\r\n", NO, dropped(), why="it is no HTTP"),
    case("line every byte", bytes(range(256)) * 8, NO, dropped(), why="it is no HTTP"),
    case(
        "line tls hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 200, NO, dropped(), why="no HTTP"
    ),
    case("line ssh banner", b"SSH-2.0-OpenSSH_9.9\r\n\r\n", NO, dropped(), why="it is no HTTP"),
    case("line proxy protocol", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + get(), NO, why="nobody asked for it"),
    Case(name="line half", says=(b"GET /echo HT", HALF_CLOSE), allowed=(NO, dropped(), refused(408)), why="9112 8"),
    Case(name="line nothing", says=(HALF_CLOSE,), allowed=(dropped(),), why="nothing was asked"),
)
