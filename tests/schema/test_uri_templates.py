"""URI templates: RFC 6570 expansion, and matching that refuses path traversal."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.schema.uri_templates import URITemplate
from tests.schema.uri_expansion import expand

# RFC 6570, section 3.2.
VALUES: dict[str, Any] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "undef": None,
}
EXPANSIONS = """
{count} one,two,three
{count*} one,two,three
{/count} /one,two,three
{/count*} /one/two/three
{;count} ;count=one,two,three
{;count*} ;count=one;count=two;count=three
{?count} ?count=one,two,three
{?count*} ?count=one&count=two&count=three
{&count*} &count=one&count=two&count=three
{var} value
{hello} Hello%20World%21
{half} 50%25
O{empty}X OX
O{undef}X OX
{x,y} 1024,768
{x,hello,y} 1024,Hello%20World%21,768
?{x,empty} ?1024,
?{x,undef} ?1024
?{undef,y} ?768
{var:3} val
{var:30} value
{list} red,green,blue
{list*} red,green,blue
{keys} semi,%3B,dot,.,comma,%2C
{keys*} semi=%3B,dot=.,comma=%2C
{+var} value
{+hello} Hello%20World!
{+half} 50%25
{base}index http%3A%2F%2Fexample.com%2Fhome%2Findex
{+base}index http://example.com/home/index
O{+empty}X OX
{+path}/here /foo/bar/here
here?ref={+path} here?ref=/foo/bar
up{+path}{var}/here up/foo/barvalue/here
{+x,hello,y} 1024,Hello%20World!,768
{+path,x}/here /foo/bar,1024/here
{+path:6}/here /foo/b/here
{+list} red,green,blue
{+keys} semi,;,dot,.,comma,,
{+keys*} semi=;,dot=.,comma=,
{#var} #value
{#hello} #Hello%20World!
foo{#empty} foo#
foo{#undef} foo
{#x,hello,y} #1024,Hello%20World!,768
{#path:6}/here #/foo/b/here
{#keys*} #semi=;,dot=.,comma=,
X{.var} X.value
X{.empty} X.
X{.undef} X
X{.var:3} X.val
X{.list*} X.red.green.blue
X{.keys} X.semi,%3B,dot,.,comma,%2C
X{.keys*} X.semi=%3B.dot=..comma=%2C
X{.empty_keys*} X
{/half,who} /50%25/fred
{/var,empty} /value/
{/var,undef} /value
{/var,x}/here /value/1024/here
{/list*,path:4} /red/green/blue/%2Ffoo
{;who} ;who=fred
{;half} ;half=50%25
{;empty} ;empty
{;v,empty,who} ;v=6;empty;who=fred
{;v,undef,who} ;v=6;who=fred
{;hello:5} ;hello=Hello
{;keys} ;keys=semi,%3B,dot,.,comma,%2C
{;keys*} ;semi=%3B;dot=.;comma=%2C
{?who} ?who=fred
{?x,y,empty} ?x=1024&y=768&empty=
{?x,y,undef} ?x=1024&y=768
{?var:3} ?var=val
{?keys*} ?semi=%3B&dot=.&comma=%2C
{&who} &who=fred
?fixed=yes{&x} ?fixed=yes&x=1024
{&var:3} &var=val
"""
CASES = [tuple(line.split(" ", 1)) for line in EXPANSIONS.strip().splitlines()]


@pytest.mark.parametrize(("template", "expected"), CASES)
def test_examples_of_the_rfc_are_expanded(template: str, expected: str) -> None:
    assert expand(template, VALUES) == expected


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("note://{id}", "note://a", {"id": "a"}),
        ("note://{id}", "note://user@host:1", {"id": "user@host:1"}),
        ("note://{id}", "note://caf%C3%A9", {"id": "café"}),
        ("note://{id}", "note://café", {"id": "café"}),
        ("é://{id}", "%C3%A9://x", {"id": "x"}),
        ("note://{id}", "note://%252e%252e", {"id": "%2e%2e"}),  # decoded once only
        ("note://{id}", "note://", None),
        ("note://{id}", "note://a/b", None),
        ("note://{id}", "NOTE://a", None),
        ("note://fixed", "note://fixed", {}),
        ("note://fixed", "note://fixed2", None),
        ("t:{a}-{b}", "t:1-2-3", {"a": "1-2", "b": "3"}),
        ("t:{a,b}", "t:1,2", {"a": "1", "b": "2"}),
        ("t:{a,b}", "t:1", {"a": "1", "b": None}),
        ("t:{a,b}", "t:1,2,3", None),
        ("t:{a*}", "t:1,2%2C3", {"a": ["1", "2,3"]}),
        ("t:{a:3}", "t:abc", {"a": "abc"}),
        ("t:{a:3}", "t:abcd", None),
        ("t:{a:3}", "t:%C3%A9%C3%A9%C3%A9", {"a": "ééé"}),
        ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("t:{+path}{?q}", "t:a/b?q=1", {"path": "a/b", "q": "1"}),
        ("t:{+path}", "t:a?b#c", {"path": "a?b#c"}),
        ("t:{+path}/end", "t:a/end/end", {"path": "a/end"}),
        ("t:{name}{.ext}", "t:a.b.c", {"name": "a.b", "ext": "c"}),
        ("t:{name}{.ext}", "t:a", {"name": "a", "ext": None}),
        ("t:{name}{.x,y}", "t:n.a.b", {"name": "n", "x": "a", "y": "b"}),
        ("t:{owner}{/path*}", "t:o/a/b", {"owner": "o", "path": ["a", "b"]}),
        ("t:{owner}{/path*}", "t:o", {"owner": "o", "path": None}),
        ("t:{owner}{/path*}", "t:o/a//b", None),
        ("t:{/a,b}", "t:/1/2", {"a": "1", "b": "2"}),
        ("t:{/a}", "t:/1/2", None),
        ("t:{;x,y}", "t:;y;x=1", {"x": "1", "y": ""}),
        ("t:{a}{;x}", "t:v;x=1", {"a": "v", "x": "1"}),
        ("t:{?x,y}", "t:?y=2&x=1", {"x": "1", "y": "2"}),
        ("t:{?x,y}", "t:", {"x": None, "y": None}),
        ("t:{?x}", "t:?x=a/b?c&", None),
        ("t:{?x}", "t:?x=1&x=2", None),
        ("t:{?x*}", "t:?x=1&x=2", {"x": ["1", "2"]}),
        ("t:{?x}", "t:?z=1", None),
        ("t:{?x}{&y,z}", "t:?x=1&y=2&z=3", {"x": "1", "y": "2", "z": "3"}),
        ("t:?f=1{&y,z}", "t:?f=1&z=3", {"y": None, "z": "3"}),
        ("t:a{#f}", "t:a#x/y", {"f": "x/y"}),
        ("t:{a}/{a}", "t:1/1", {"a": "1"}),
        ("t:{a}/{a}", "t:1/2", None),
        ("t:{id}", "t:%zz", None),
        ("t:{id}", "t:%C3", None),
        ("t:{id}", "t:%c0%ae", None),  # an overlong encoding of a dot
    ],
)
def test_uri_is_matched_with_its_variables(template: str, uri: str, expected: dict[str, Any] | None) -> None:
    assert URITemplate(template).match(uri) == expected


@pytest.mark.parametrize(
    "value", ["..", "%2e%2e", ".%2E", "a%2Fb", "a%5Cb", "a\\b", "a%00b", "..%2F..", "a b", "a\nb", "\ud800"]
)
@pytest.mark.parametrize("template", ["file:///{id}", "file:///x{/id}", "file:///x{/id*}", "file:///{id,other}"])
def test_simple_variable_refuses_path_traversal(template: str, value: str) -> None:
    uri = "file:///x/" + value if "x{/" in template else "file:///" + value

    assert URITemplate(template).match(uri) is None


@pytest.mark.parametrize(
    "value",
    [
        "..", "../x", "a/..", "a/../b", "a/%2e%2e/b", "a%2f..%2Fb", "a%2F%2e%2e", "/etc/passwd", "%2Fetc/passwd",
        "a%00", "a%5C..%5Cb", "C:/x", "c%3A/x", "C:x",
    ],
)  # fmt: skip
def test_reserved_variable_refuses_path_traversal(value: str) -> None:
    assert URITemplate("file:///{+path}").match("file:///" + value) is None
    assert URITemplate("file:///{+path}{?q}").match("file:///" + value + "?q=1") is None


def test_reserved_variable_accepts_unusual_paths() -> None:
    template = URITemplate("file:///{+path}")

    for path in ("..a/b..", "a/.../b", "a/./b", "%252e%252e/x", "ab:c"):
        assert template.match("file:///" + path) is not None
    assert URITemplate("repo:{+path}").match("repo:/a/b") == {"path": "/a/b"}
    assert URITemplate("t:{+a,b}").match("t:x,/etc") is None
    assert URITemplate("t:{+a*}").match("t:x,/etc") is None


def test_nul_is_refused() -> None:
    assert URITemplate("file:///{+path}").match("file:///a%00") is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a{b", "position 1 is not closed"),
        ("a}b", "'}' at position 1"),
        ("a{}b", "variable name at position 2"),
        ("{a,}", "variable name at position 3"),
        ("{a b}", "at position 2"),
        ("{=a}", "'=' at position 1 is reserved"),
        ("{|a}", "reserved"),
        ("{a:0}", "at position 2"),
        ("{a:12345}", "1 to 9999"),
        ("{a**}", "got '\\*\\*'"),
        ("{a:3*}", "at position 2"),
        ("{a..b}", "at position 2"),
        ("{-a}", "position 1"),
        ("{a,a}", "'a' at position 3 is repeated"),
        ("a b", "' ' at position 1"),
        ("a%2", "'%' at position 1"),
        ("x" * 3000, "2048 characters"),
        ("{a}" * 33, "32 expressions"),
        ("{" + ",".join(f"v{n}" for n in range(65)) + "}", "64 variables"),
    ],
)
def test_malformed_template_is_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        URITemplate(template)


def test_variables_are_listed_once_and_in_order() -> None:
    assert URITemplate("t:{b}{?a,c*}{#b}").variables == ("b", "a", "c")


def test_more_specific_template_is_tried_first() -> None:
    templates = [
        "f:///{+path}",
        "f:///{name}",
        "f:///docs/{+path}",
        "f:///docs/{name}",
        "f:///docs/index",
        "f:///docs/{a}{b}",
    ]

    ordered = sorted(map(URITemplate, templates), key=lambda template: template.specificity, reverse=True)

    assert [each.template for each in ordered] == [
        "f:///docs/index", "f:///docs/{name}", "f:///docs/{a}{b}", "f:///docs/{+path}", "f:///{name}", "f:///{+path}",
    ]  # fmt: skip


def test_error_names_the_value_that_cannot_be_expanded() -> None:
    with pytest.raises(TypeError, match="'a': a prefix"):
        expand("{a:3}", {"a": ["x"]})
    with pytest.raises(TypeError, match="'a': expected a string or number, got list"):
        expand("{a}", {"a": [["x"]]})  # type: ignore[list-item]
    assert expand("{?a,b,c}", {"a": 1, "b": True, "c": 1.5}) == "?a=1&b=true&c=1.5"


def test_matching_of_any_uri_takes_linear_time() -> None:
    """Thirty ambiguous variables over the longest URI: a backtracking matcher would never finish."""
    template = URITemplate("t:" + "".join(f"{{+v{n}}}x" for n in range(30)) + "!")
    named = URITemplate("t:{&a*}{&b*}")

    started = time.process_time()
    assert template.match("t:" + "x" * 8_000) is None
    assert named.match("t:" + "&a=1&b=2" * 900) is None
    assert URITemplate("t:{x}").match("t:" + "x" * 8_191) is None  # too long
    assert time.process_time() - started < 5


SAFE = st.text(min_size=1, max_size=12).filter(
    lambda text: text != ".." and not set(text) & {"\0", "/", "\\"} and text.isprintable()
)
# Characters that do not also separate adjacent expressions of the templates below.
PLAIN = st.text("abcXYZ019_~é ü%&=?#,;:", min_size=1, max_size=8)


@given(SAFE)
def test_any_safe_value_is_matched_after_expansion(value: str) -> None:
    for text in ("t:{v}", "t:x{/v}", "t:a/{v}/b", "t:a{?v}", "t:a{;v}", "t:a?b=c{&v}", "t:a{/v*}"):
        template = URITemplate(text)
        given_value: Any = [value] if "*" in text else value

        assert template.match(expand(text, {"v": given_value})) == {"v": given_value}


@given(
    st.fixed_dictionaries(
        {"a": PLAIN, "b": PLAIN},
        optional={
            "ext": PLAIN,
            "p": st.lists(PLAIN, min_size=1, max_size=3),
            "q": st.text("ab/&= é", max_size=5),
            "r": PLAIN,
        },
    )
)
def test_expanded_uri_matches_its_template(values: dict[str, Any]) -> None:
    for text in ("t://{a}/{b}{.ext}{/p*}{?q,r}", "t:{a}{;r}/{b}{/p*}{?q}{&ext}", "t:{a,b}{/ext}{;r}{?p*,q}"):
        template = URITemplate(text)
        expected = {name: values.get(name) for name in template.variables}

        assert template.match(expand(text, values)) == expected


@given(st.text("abc/.%2eEfF5cC\\0:?#", max_size=30))
def test_matched_values_contain_no_path_traversal(text: str) -> None:
    for template in ("t:/{v}", "t:/{+v}", "t:/x{/v*}", "t:/{v}{.w}", "t:/{+v}{?q}"):
        for uri in ("t:/" + text, "t:/x/" + text):
            variables = URITemplate(template).match(uri) or {}
            for name in ("v", "w"):
                for value in (
                    [variables.get(name)] if not isinstance(variables.get(name), list) else variables[name] or []
                ):
                    parts = (value or "").replace("\\", "/").split("/")
                    assert ".." not in parts
                    assert "\0" not in (value or "")
                    assert not (value or "").startswith("/")
