"""Header fields that are malformed, too many, too large, or missing.

Source: RFC 9112 sections 2.2, 3.2 and 5; RFC 9110 sections 5.4, 5.5 and 7.2; RFC 6585 section 5.
"""

from __future__ import annotations

from tests.hostile.cases import Case, Outcome, get, refused, served

__all__ = ["CASES"]

OK = served(200)
NO = refused(400)


def case(name: str, field: bytes, *allowed: Outcome, why: str) -> Case:
    """Return a case with this field line in an otherwise valid request, whose body is a smuggled request."""
    return whole(name, b"POST /echo HTTP/1.1\r\nhost: a\r\n%b\r\nconnection: x\r\n\r\n" % field, *allowed, why=why)


def whole(name: str, says: bytes, *allowed: Outcome, why: str) -> Case:
    return Case(name=name, says=(says,), allowed=allowed, why=why)


def seeing(name: str, *values: str) -> Outcome:
    return OK.seeing({"header": (name, list(values))})


_HOST = "9112 3.2: 400 to none, to several, and to one that is invalid"
_NAME = "9112 5.1: a name is a token, and no whitespace stands before the colon; 400"
_VALUE = "9110 5.5: CR, LF and NUL are in no value: refused, or replaced by a space"
_SIZE = "6585 5: 431, whatever it arrives in"

CASES = (
    whole("host missing", b"GET /echo HTTP/1.1\r\n\r\n", NO, why=_HOST),
    whole("host twice", get(b"/echo", b"host: b"), NO, why=_HOST),
    whole("host twice the same", get(b"/echo", b"host: a"), NO, why=_HOST),
    whole("host empty", get(host=b""), OK, NO, why="9112 3.2: empty where the target has no authority"),
    whole("host with space", get(host=b"a b"), NO, why=_HOST),
    whole("host with slash", get(host=b"a/b"), NO, why=_HOST),
    whole("host with at", get(host=b"u@a"), NO, why=_HOST),
    whole("host list", get(host=b"a, b"), NO, why=_HOST),
    whole("host bad port", get(host=b"a:b"), NO, why=_HOST),
    whole("host non-ascii", get(host=b"\xe9"), NO, why=_HOST),
    whole("host good", get(host=b"mcp.example.com:8000"), OK, why="or nothing above counts"),
    whole("host v6", get(host=b"[::1]:8000"), OK, why="or nothing above counts"),
    case("name space before colon", b"x : 1", NO, why=_NAME),
    case("name tab before colon", b"x\t: 1", NO, why=_NAME),
    case("name length space before colon", b"content-length : 30", NO, why=_NAME),
    case("name coding space before colon", b"transfer-encoding : chunked", NO, why=_NAME),
    case("name empty", b": 1", NO, why=_NAME),
    case("name without colon", b"x", NO, why=_NAME),
    case("name with space", b"x y: 1", NO, why=_NAME),
    case("name with paren", b"x(y: 1", NO, why=_NAME),
    case("name with quote", b'"x": 1', NO, why=_NAME),
    case("name with nul", b"x\0y: 1", NO, why=_NAME),
    case("name with cr", b"x\ry: 1", NO, why=_NAME),
    case("name with high byte", b"x\xe9: 1", NO, why=_NAME),
    case("name in utf-8", "größe: 1".encode(), NO, why=_NAME),
    case("name with del", b"x\x7f: 1", NO, why=_NAME),
    case("name underscore", b"content_length: 30", seeing("content_length", "30"), NO, why="another name, no framing"),
    case("name hidden after nul", b"\0content-length: 30", NO, why=_NAME),
    whole(
        "name space on the first line",
        b"GET /echo HTTP/1.1\r\n x: 1\r\nhost: a\r\n\r\n",
        NO,
        seeing("x"),
        why="9112 2.2: refused, or dropped without being understood",
    ),
    whole(
        "host folded on the first line",
        b"GET /echo HTTP/1.1\r\n host: b\r\nhost: a\r\n\r\n",
        NO,
        seeing("host", "a"),
        why="9112 2.2: refused, or dropped without being understood",
    ),
    case("value folded", b"x: a\r\n b", NO, seeing("x", "a b"), why="9112 5.2: refused, or joined by a space"),
    case("value folded by tab", b"x: a\r\n\tb", NO, seeing("x", "a b"), why="9112 5.2: refused, or joined by a space"),
    whole(
        "value folded coding",
        b"POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\r\n chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        NO,
        OK.seeing({"body": "ab"}),
        why="9112 5.2: refused, or understood as one line",
    ),
    case("value folded length", b"content-length: 0\r\n 30", NO, why="9112 6.3: 0 30 is no length"),
    case("value bare cr", b"x: a\rb", NO, seeing("x", "a b"), why=_VALUE),
    case("value bare cr and field", b"x: a\rcontent-length: 30", NO, seeing("x", "a content-length: 30"), why=_VALUE),
    case("value ends in cr", b"x: a\r\r\ny: b", NO, seeing("x", "a"), why=_VALUE),
    case("value bare lf", b"x: a\ny: b", NO, seeing("y", "b"), why="9112 2.2: a line end, or refused"),
    case("value nul", b"x: a\0b", NO, seeing("x", "a b"), why=_VALUE),
    case("value soh", b"x: a\x01b", NO, seeing("x", "a\x01b"), why="9110 5.5: may be kept where it does no harm"),
    case("value del", b"x: a\x7fb", NO, seeing("x", "a\x7fb"), why="9110 5.5: may be kept where it does no harm"),
    case("value high bytes", b"x: \xff\xfe", NO, seeing("x", "\xff\xfe"), why="9110 5.5: opaque"),
    case("value empty", b"x:", seeing("x", ""), why="9112 5: a value may be empty"),
    case("value blank around", b"x: \t a \t ", seeing("x", "a"), why="9112 5.1: not part of the value"),
    case("value twice", b"x: 1\r\nx: 2", seeing("x", "1", "2"), seeing("x", "1, 2"), why="9110 5.3: in order"),
    case("fields 50", b"\r\n".join(b"x%d: y" % i for i in range(50)), seeing("x49", "y"), why="nothing unusual"),
    case(
        "fields 500",
        b"\r\n".join(b"x%d: y" % i for i in range(500)),
        seeing("x499", "y"),
        refused(400, 431),
        why="9110 5.4: the server's limit, reported with 431",
    ),
    case("fields 20000", b"\r\n".join(b"x%d: y" % i for i in range(20_000)), refused(400, 431), why=_SIZE),
    case("fields 20000 the same", b"x: y\r\n" * 20_000 + b"x: y", refused(400, 431), why=_SIZE),
    case("fields 20000 empty", b"x:\r\n" * 20_000 + b"x:", refused(400, 431), why=_SIZE),
    case("field 20 kB", b"x: " + b"y" * 20_000, seeing("x", "y" * 20_000), refused(431), why="below our limit"),
    case("field 33 kB", b"x: " + b"y" * 33_000, refused(400, 431), why=_SIZE),
    case("field 1 MB", b"x: " + b"y" * 1_000_000, refused(400, 431), why=_SIZE),
    case("field name 1 MB", b"x" * 1_000_000 + b": y", refused(400, 431), why=_SIZE),
    case("field 1 MB of blanks", b"x: " + b" " * 1_000_000 + b"y", refused(400, 431), why=_SIZE),
    Case(
        name="field without an end",
        says=(b"GET /echo HTTP/1.1\r\nhost: a\r\nx: ", *([b"y" * 65536] * 64)),
        allowed=(refused(400, 431),),
        why=_SIZE,
    ),
    Case(
        name="fields without an end",
        says=(b"GET /echo HTTP/1.1\r\nhost: a\r\n", *([b"x: y\r\n" * 10_000] * 64)),
        allowed=(refused(400, 431),),
        why=_SIZE,
    ),
)
