"""Several requests on a connection, expectations, upgrades and ends: errors over time.

Source: RFC 9112 sections 9.3 to 9.6; RFC 9110 sections 7.8 and 10.1.1; RFC 6455 section 4.
"""

from __future__ import annotations

from tests.hostile.cases import (
    HALF_CLOSE,
    RESET,
    Await,
    Case,
    Drip,
    Outcome,
    Pause,
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
HELLO = served(200).seeing({"body": "hello", "length": 5})


def case(name: str, *says: Say, allowed: tuple[Outcome, ...], why: str, **more: object) -> Case:
    return Case(name=name, says=says, allowed=allowed, why=why, **more)  # type: ignore[arg-type]


def numbered(count: int) -> tuple[dict[str, str], ...]:
    return tuple({"query": str(number)} for number in range(count))


_ORDER = "9112 9.3.2: answered in the order in which they were asked"
_EXPECT = "9110 10.1.1"
_TIME = "nobody may keep a connection for nothing"

PIPELINED = (
    case(
        "pipeline 50",
        b"".join(get(b"/echo?%d" % number) for number in range(50)),
        allowed=(served(*[200] * 50).seeing(*numbered(50)),),
        why=_ORDER,
    ),
    case(
        "pipeline bodies",
        b"".join(post(b"content-length: 3", body=b"%03d" % n, target=b"/echo?%d" % n) for n in range(20)),
        allowed=(served(*[200] * 20).seeing(*({"query": str(n), "body": f"{n:03}"} for n in range(20))),),
        why=_ORDER,
    ),
    case(
        "pipeline chunks",
        b"".join(
            post(b"transfer-encoding: chunked", body=b"3\r\n%03d\r\n0\r\n\r\n" % n, target=b"/echo?%d" % n)
            for n in range(20)
        ),
        allowed=(served(*[200] * 20).seeing(*({"query": str(n), "body": f"{n:03}"} for n in range(20))),),
        why=_ORDER,
    ),
    case(
        "pipeline slow first",
        get(b"/slow?0") + get(b"/echo?1"),
        allowed=(served(200, 200).seeing(*numbered(2)),),
        why=_ORDER,
    ),
    case(
        "pipeline byte by byte",
        Drip(get(b"/echo?0") + post(b"content-length: 2", body=b"ab", target=b"/echo?1") + get(b"/echo?2"), 0.001),
        allowed=(served(200, 200, 200).seeing(*numbered(3)),),
        why="bytes come as they come",
    ),
    case(
        "pipeline after close",
        get(b"/echo", b"connection: close") + get(b"/smuggled?after-close"),
        allowed=(served_and_closed(200),),
        why="9112 9.6: nothing after it is read",
    ),
    case("pipeline bad second", get() + b"nonsense\r\n\r\n", allowed=(refused(400, 501, after=(200,)),), why=_ORDER),
    case(
        "pipeline bad after slow",
        get(b"/slow?0") + b"nonsense\r\n\r\n",
        allowed=(refused(400, 501, after=(200,)),),
        why="what is wrong later does not spoil what was asked before",
    ),
    case(
        "pipeline bad after bad",
        b"nonsense\r\n\r\n" * 3 + get(b"/smuggled?after-bad"),
        allowed=(refused(400, 501),),
        why="9112 9.6: no boundary can be trusted any more",
    ),
    case(
        "pipeline half request",
        get() + b"GET /ec",
        HALF_CLOSE,
        allowed=(dropped(200), refused(400, 408, after=(200,))),
        why="9112 8",
    ),
    case(
        "crash", get(b"/crash"), allowed=(served_and_closed(500), served(500)), why="a fault of the application is 500"
    ),
    case(
        "crash in the middle",
        get(b"/crash-late"),
        Pause(0.2),
        allowed=(),
        why="the response is seen to be broken",
        raw=True,
    ),
    case(
        "split response",
        get(b"/split"),
        allowed=(served_and_closed(500), served(500), dropped()),
        why="9110 5.5: no line end in a value, from any source",
    ),
    case("short response", get(b"/short") + get(b"/echo"), allowed=(), why="9112 8: seen to be incomplete", raw=True),
    case(
        "long response",
        get(b"/long") + get(b"/echo"),
        allowed=(),
        why="9112 8: nothing follows what is too long",
        raw=True,
    ),
)

CONTINUE = (
    case(
        "expect and wait",
        post(b"content-length: 5", b"expect: 100-continue"),
        Await(1),
        b"hello",
        allowed=(HELLO.after(100),),
        why=f"{_EXPECT}: asked for the body, the server says so",
    ),
    case(
        "expect in capitals",
        post(b"content-length: 5", b"Expect: 100-Continue"),
        Await(1),
        b"hello",
        allowed=(HELLO.after(100),),
        why=f"{_EXPECT}: has no case",
    ),
    case(
        "expect and chunks",
        post(b"transfer-encoding: chunked", b"expect: 100-continue"),
        Await(1),
        b"5\r\nhello\r\n0\r\n\r\n",
        allowed=(HELLO.after(100),),
        why=_EXPECT,
    ),
    case(
        "expect without waiting",
        post(b"content-length: 5", b"expect: 100-continue", body=b"hello"),
        allowed=(HELLO, HELLO.after(100)),
        why=f"{_EXPECT}: may be left out where the body is there",
    ),
    *(
        case(
            f"expect and {status}",
            post(b"content-length: 5000000", b"expect: 100-continue", target=b"/refuse/%d" % status),
            Await(1),
            allowed=(served_and_closed(status),),
            why=f"{_EXPECT}: the final status instead of 100, so that nothing is uploaded",
        )
        for status in (401, 413, 417)
    ),
    case(
        "expect and 413 of the endpoint",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"accept: application/json, text/event-stream\r\nexpect: 100-continue\r\ncontent-length: 10000000\r\n\r\n",
        Await(1),
        allowed=(served_and_closed(413),),
        why=f"{_EXPECT}: the final status instead of 100",
    ),
    case(
        "expect on get",
        get(b"/echo", b"expect: 100-continue"),
        allowed=(served(200), served(200).after(100)),
        why=f"{_EXPECT}: without a body there is nothing to wait for",
    ),
    case(
        "expect on 1.0",
        post(b"content-length: 5", b"expect: 100-continue", body=b"hello", version=b"HTTP/1.0"),
        allowed=(served_and_closed(200).seeing({"body": "hello"}),),
        why=f"{_EXPECT}: ignored from 1.0, which knows no 100",
    ),
    case(
        "expect the unknown",
        post(b"content-length: 5", b"expect: 200-maybe", body=b"hello"),
        allowed=(refused(417, 400), served(417), HELLO),
        why=f"{_EXPECT}: may be 417",
    ),
    case(
        "expect and leave",
        post(b"content-length: 5", b"expect: 100-continue"),
        Await(1),
        RESET,
        allowed=(dropped().after(100),),
        why="the body never comes",
    ),
)

KEY = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
VERSION = b"sec-websocket-version: 13"
UPGRADE = (b"connection: upgrade", b"upgrade: websocket")
_NOT_OPENED = (refused(400, 426), served(frozenset({400, 404, 426})))

UPGRADES = (
    case(
        "upgrade unknown",
        get(b"/echo", b"connection: upgrade", b"upgrade: foo/2"),
        allowed=(served(200),),
        why="9110 7.8: ignored",
    ),
    case(
        "upgrade h2c",
        get(b"/echo", b"connection: upgrade, http2-settings", b"upgrade: h2c", b"http2-settings: AAMAAABkAAQAAP__"),
        allowed=(served(200),),
        why="9113 3.1: obsolete; 9110 7.8: ignored",
    ),
    case(
        "upgrade h2c bad settings",
        get(b"/echo", b"connection: upgrade, http2-settings", b"upgrade: h2c", b"http2-settings: !!!!"),
        allowed=(served(200),),
        why="9110 7.8: ignored",
    ),
    case(
        "upgrade tls",
        get(b"/echo", b"connection: upgrade", b"upgrade: TLS/1.0"),
        allowed=(served(200),),
        why="9110 7.8: ignored",
    ),
    case(
        "upgrade without connection",
        get(b"/echo", b"upgrade: websocket", KEY, VERSION),
        allowed=(served(200), *_NOT_OPENED),
        why="6455 4.2.1 (4)",
    ),
    case(
        "upgrade connection only",
        get(b"/echo", b"connection: upgrade", KEY, VERSION),
        allowed=(served(200), *_NOT_OPENED),
        why="6455 4.2.1 (3)",
    ),
    case(
        "socket post",
        post(*UPGRADE, KEY, VERSION, b"content-length: 0", target=b"/ws"),
        allowed=(*_NOT_OPENED, refused(405), served(405)),
        why="6455 4.2.1 (1): GET",
    ),
    case(
        "socket 1.0",
        get(b"/ws", *UPGRADE, KEY, VERSION, version=b"HTTP/1.0"),
        allowed=(refused(400, 404, 426, 505),),
        why="6455 4.2.1 (1): 1.1 or later",
    ),
    case("socket without key", get(b"/ws", *UPGRADE, VERSION), allowed=_NOT_OPENED, why="6455 4.2.1 (5)"),
    case(
        "socket empty key",
        get(b"/ws", *UPGRADE, b"sec-websocket-key:", VERSION),
        allowed=_NOT_OPENED,
        why="6455 4.2.1 (5)",
    ),
    case(
        "socket short key",
        get(b"/ws", *UPGRADE, b"sec-websocket-key: AAAA", VERSION),
        allowed=_NOT_OPENED,
        why="6455 4.2.1 (5): 16 bytes",
    ),
    case(
        "socket key no base64",
        get(b"/ws", *UPGRADE, b"sec-websocket-key: !!!!!!!!!!!!!!!!!!!!!!==", VERSION),
        allowed=_NOT_OPENED,
        why="6455 4.2.1 (5): base64",
    ),
    case("socket key twice", get(b"/ws", *UPGRADE, KEY, KEY, VERSION), allowed=_NOT_OPENED, why="6455 11.3.1: once"),
    case("socket without version", get(b"/ws", *UPGRADE, KEY), allowed=_NOT_OPENED, why="6455 4.2.1 (6)"),
    case(
        "socket version 8",
        get(b"/ws", *UPGRADE, KEY, b"sec-websocket-version: 8"),
        allowed=_NOT_OPENED,
        why="6455 4.4: 426",
    ),
    case(
        "socket version 13x",
        get(b"/ws", *UPGRADE, KEY, b"sec-websocket-version: 13x"),
        allowed=_NOT_OPENED,
        why="6455 4.4: 426",
    ),
    case(
        "socket without host",
        b"GET /ws HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n" + KEY + b"\r\n" + VERSION + b"\r\n\r\n",
        allowed=(NO,),
        why="9112 3.2",
    ),
    case(
        "socket nonsense extension",
        get(
            b"/ws",
            *UPGRADE,
            KEY,
            VERSION,
            b'sec-websocket-extensions: ;;,=,"',
        ),
        Await(1),
        HALF_CLOSE,
        allowed=(NO, dropped(101)),
        why="6455 9.1: 400, or not taken up",
    ),
    case(
        "socket deflate window abc",
        get(
            b"/ws", *UPGRADE, KEY, VERSION, b"sec-websocket-extensions: permessage-deflate; client_max_window_bits=abc"
        ),
        Await(1),
        HALF_CLOSE,
        allowed=(NO, dropped(101)),
        why="7692 7.1.2.2: declined",
    ),
    case(
        "socket deflate window 99",
        get(b"/ws", *UPGRADE, KEY, VERSION, b"sec-websocket-extensions: permessage-deflate; server_max_window_bits=99"),
        Await(1),
        HALF_CLOSE,
        allowed=(NO, dropped(101)),
        why="7692 7.1.2.1: declined",
    ),
    case(
        "socket unknown path",
        get(b"/none", *UPGRADE, KEY, VERSION),
        allowed=(refused(400, 403, 404, 500),),
        why="the application fails, or has nothing there",
    ),
    case(
        "socket refused",
        get(b"/ws-refuse", *UPGRADE, KEY, VERSION),
        allowed=(refused(403), served(403)),
        why="ASGI: closed before it is accepted is 403",
    ),
    case(
        "socket with a body",
        get(b"/ws", *UPGRADE, KEY, VERSION, b"content-length: 30") + get(b"/smuggled?socket"),
        allowed=(*_NOT_OPENED, dropped(101)),
        why="6455 4.1: the handshake has no body; what follows is frames, or refused",
    ),
    case(
        "socket both framings",
        get(b"/ws", *UPGRADE, KEY, VERSION, b"content-length: 30", b"transfer-encoding: chunked"),
        allowed=(NO,),
        why="9112 6.1",
    ),
)

ENDS = (
    case("end at once", RESET, allowed=(dropped(),), why="a port scanner"),
    case("end in the head", b"GET /echo HTT", RESET, allowed=(dropped(),), why=_TIME),
    case("end after the head", get(b"/wait"), RESET, allowed=(dropped(),), why=_TIME),
    case("end in the body", post(b"content-length: 1000000", body=b"x" * 1000), RESET, allowed=(dropped(),), why=_TIME),
    case("end in an answer", get(b"/large"), Pause(0.05), RESET, allowed=(dropped(),), why=_TIME, deaf=30.0),
    case("end in a stream", get(b"/stream"), Pause(0.05), RESET, allowed=(dropped(),), why=_TIME, deaf=30.0),
    case("end in a pipeline", get(b"/slow") * 20, RESET, allowed=(dropped(),), why=_TIME),
    case(
        "half close after get",
        get(),
        HALF_CLOSE,
        allowed=(served_and_closed(200),),
        why="9112 9.6: the answer is still delivered",
    ),
    case(
        "half close after slow",
        get(b"/slow"),
        HALF_CLOSE,
        allowed=(served_and_closed(200),),
        why="9112 9.6: the answer is still delivered",
    ),
    case(
        "half close after a pipeline",
        get(b"/slow?0") + get(b"/echo?1") + get(b"/echo?2"),
        HALF_CLOSE,
        allowed=(served_and_closed(200, 200, 200).seeing(*numbered(3)),),
        why="9112 9.6: the answers are still delivered",
    ),
    case(
        "half close after large",
        get(b"/large"),
        HALF_CLOSE,
        allowed=(served_and_closed(200),),
        why="9112 9.6: all of it",
    ),
)

HEADS = (1.9, 60.0)
"""Seconds: the deadline of the port ``tight``, with an allowance for a busy machine."""
GONE = (dropped(), refused(408))

SLOW = (
    case(
        "slow head", Drip(get(b"/echo", b"x: " + b"y" * 5000), 0.05), allowed=GONE, why=_TIME, port="tight", takes=HEADS
    ),
    case("slow first line", Drip(b"GET /" + b"e" * 5000, 0.1), allowed=GONE, why=_TIME, port="tight", takes=HEADS),
    case(
        "slow empty lines", Drip(b"\r\n" * 5000, 0.05), allowed=(*GONE, NO), why=_TIME, port="tight", takes=(0.0, 60.0)
    ),
    case("slow half head", b"GET /echo HTTP/1.1\r\n", allowed=GONE, why=_TIME, port="tight", takes=HEADS),
    case(
        "slow second head",
        get(),
        Await(1),
        Drip(get(b"/x" * 2000), 0.05),
        allowed=(dropped(200), refused(408, after=(200,))),
        why=_TIME,
        port="tight",
        takes=HEADS,
    ),
    case(
        "slow second head in one packet",
        get() + b"GET /ec",
        allowed=(dropped(200), refused(408, after=(200,))),
        why=_TIME,
        port="tight",
        takes=HEADS,
    ),
    case("slow nothing", allowed=(dropped(), refused(408)), why=_TIME, port="tight", takes=(3.9, 60.0)),
    case(
        "slow idle",
        get(),
        allowed=(dropped(200),),
        why="9112 9.5: an idle connection is closed",
        port="tight",
        takes=(3.9, 60.0),
    ),
    case(
        "slow body of the endpoint",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"accept: application/json, text/event-stream\r\ncontent-length: 10000\r\n\r\n",
        Drip(b" " * 5000, 0.05),
        allowed=(refused(408),),
        why="9110 15.5.9",
        takes=(0.9, 60.0),
    ),
    case(
        "slow but in time",
        b"GET /echo HT",
        Pause(0.3),
        b"TP/1.1\r\nhost: a\r\n\r\n",
        allowed=(served(200),),
        why="slow is not hostile",
        port="tight",
    ),
    case(
        "slow work",
        get(b"/wait"),
        Pause(4.5),
        RESET,
        allowed=(dropped(),),
        why="deadlines are for heads, not for answers",
        port="tight",
        takes=(4.4, 60.0),
    ),
    case("deaf to a stream", get(b"/stream"), allowed=(), why=_TIME, port="tight", deaf=5.0, raw=True),
    case("deaf to a large answer", get(b"/large"), allowed=(), why=_TIME, port="tight", deaf=5.0, raw=True),
    case("deaf to many answers", get(b"/large") * 20, allowed=(), why=_TIME, port="tight", deaf=5.0, raw=True),
    case("deaf for a moment", get(b"/large"), allowed=(served(200),), why="slow is not hostile", deaf=1.5),
)

CASES = PIPELINED + CONTINUE + UPGRADES + ENDS + SLOW
