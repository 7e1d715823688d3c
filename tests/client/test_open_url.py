"""A URL that a server asks the user to open: its host, its warnings, and its refusal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.client.forms import ElicitationLimits, OpenURL, read_url
from mcptrio.protocol.model.elicitation import ElicitResult, ElicitURLParams

__all__: list[str] = []


def look(url: str) -> OpenURL:
    return read_url(ElicitURLParams(message="Pay", url=url), server="shop")


def test_page_names_the_server_and_its_message() -> None:
    page = read_url(ElicitURLParams(message="Pay", url="https://pay.example/?x=1", elicitation_id="7"), server="shop")

    assert (page.server, page.message, page.url, page.elicitation_id) == (
        "shop",
        "Pay",
        "https://pay.example/?x=1",
        "7",
    )
    assert (page.host, page.is_punycode, page.is_openable, page.warnings) == ("pay.example", False, True, ())


def test_consent_to_a_page_has_no_content() -> None:
    page = look("https://pay.example")

    assert page.accept() == ElicitResult(action="accept", content=None)
    assert page.decline() == ElicitResult(action="decline")
    assert page.cancel() == ElicitResult(action="cancel")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org", "example.org"),
        ("HTTPS://WWW.Example.Org:8443/a?b#c", "www.example.org"),
        ("https://example.org./", "example.org."),
        ("https://example.org/?next=http://other.example@b", "example.org"),
        ("https://example.org#@other.example", "example.org"),
        ("https://example.org/%20/@x", "example.org"),
        ("https://sub_domain.example.org/", "sub_domain.example.org"),
        ("http://localhost:8080/done", "localhost"),
        ("http://app.localhost/", "app.localhost"),
        ("http://127.0.0.1:3000/", "127.0.0.1"),
        ("http://[::1]/", "::1"),
        ("https://127.9.9.9/", "127.9.9.9"),
    ],
)
def test_ordinary_url_has_no_warnings(url: str, host: str) -> None:
    page = look(url)

    assert (page.host, page.is_punycode, page.warnings) == (host, False, ())
    assert page.accept().action == "accept"


@pytest.mark.parametrize(
    ("url", "host", "warning"),
    [
        (
            "http://example.org/",
            "example.org",
            "it is not encrypted (http): others may read along, and change the page",
        ),
        ("http://localhost.example.org/", "localhost.example.org", "it is not encrypted (http)"),
        ("http://192.168.0.1/reboot", "192.168.0.1", "the host 192.168.0.1 is an address and not a name"),
        ("https://[2001:db8::1]/", "2001:db8::1", "the host 2001:db8::1 is an address and not a name"),
        ("https://bank.example@evil.example/", "evil.example", "it has a user name before the host"),
        ("https://bank.example:pw@evil.example/", "evil.example", "it has a user name before the host"),
        ("https://@evil.example/", "evil.example", "it has a user name before the host"),
        (
            "https://xn--80ak6aa92e.com/",
            "xn--80ak6aa92e.com",
            "the host xn--80ak6aa92e.com is shown by some programs as \u0430\u0440\u0440\u04cf\u0435.com",
        ),
        ("https://\u0430pple.com/", "xn--pple-43d.com", "the host xn--pple-43d.com is shown by some programs as"),
        ("https://\u0430pple.com/", "xn--pple-43d.com", "mixes letters of several scripts: Cyrillic, Latin"),
        ("https://xn--pple-43d.com/", "xn--pple-43d.com", "mixes letters of several scripts: Cyrillic, Latin"),
        ("https://b\xfccher.example/", "xn--bcher-kva.example", "the host xn--bcher-kva.example is shown by some"),
        ("https://xn--99999999999/", "xn--99999999999", "the host xn--99999999999 is shown by some programs as xn--"),
        (
            "https://\u24d4xample.org/",
            "example.org",
            "with characters that stand for others: it is example.org",
        ),
        (
            "https://example\u3002org/",
            "example.org",
            "with characters that stand for others: it is example.org",
        ),
        ("https://example.org/\u05d0", "example.org", "right-to-left letters"),
        ("https://example.org/?" + "x" * 2_000, "example.org", "it is 2021 characters long"),
    ],
)
def test_suspicious_url_has_a_warning(url: str, host: str, warning: str) -> None:
    page = look(url)

    assert page.host == host
    assert any(warning in each for each in page.warnings), page.warnings
    assert page.accept().action == "accept"


@pytest.mark.parametrize(
    "url", ["https://xn--80ak6aa92e.com/", "https://\u0430pple.com/", "https://a.xn--bcher-kva.b/"]
)
def test_host_beyond_ascii_is_punycode(url: str) -> None:
    assert look(url).is_punycode


def test_scripts_of_one_language_are_not_reported_as_mixed() -> None:
    warnings = look("https://\u65e5\u672c\u8a9e\u3072\u3089\u30ab\u30ca.example/").warnings

    assert len(warnings) == 1
    assert "is shown by some programs as" in warnings[0]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("javascript:alert(1)", 'expected the scheme https or http, got "javascript"'),
        ("file:///etc/passwd", 'expected the scheme https or http, got "file"'),
        ("data:text/html,x", 'expected the scheme https or http, got "data"'),
        ("ms-settings:x", 'expected the scheme https or http, got "ms-settings"'),
        ("example.org/a", "expected the scheme https or http, got none"),
        ("//example.org/a", "expected the scheme https or http, got none"),
        ("", "expected the scheme https or http, got none"),
        ("https:", "it names no host"),
        ("https:evil.example", "it names no host"),  # a browser goes to evil.example
        ("https:///evil.example", "it names no host"),
        ("https:/\\evil.example", "characters that a URL may not contain: a backslash"),
        ("https://good.example\\@evil.example", "characters that a URL may not contain: a backslash"),
        ("https://good.example\t.evil.example/", r"characters that a URL may not contain: \t"),
        ("https://good.example/\n", r"characters that a URL may not contain: \n"),
        ("https://good.example/\x1b]8;;", r"characters that a URL may not contain: \x1b"),
        ("https://good.example/\u202egro", r"characters that a URL may not contain: \u202e"),
        ("https://good\xadexample/", r"characters that a URL may not contain: \xad"),
        (" https://good.example/", "characters that a URL may not contain: a space"),
        ("https://good.example/\ud800", r"characters that a URL may not contain: \ud800"),
        ("https://[::1", "it is not a valid URL"),
        ("https://good.example:99999/", "it is not a valid URL"),
        ("https://good.example:x/", "it is not a valid URL"),
        ("https://\u2100.example/", "it is not a valid URL"),  # becomes a/c
        ("https://%65vil.example/", '"%65vil.example" is not the name of a host'),
        ("https://a..b/", '"a..b" is not the name of a host'),
        ("https://a,b/", '"a,b" is not the name of a host'),
        ("https://2130706433/", '"2130706433" is not the name of a host'),  # a browser goes to 127.0.0.1
        ("https://0x7f.1/", '"0x7f.1" is not the name of a host'),
        ("https://1.2.3.4.5/", '"1.2.3.4.5" is not the name of a host'),
        ("https://[fe80::1%25eth0]/", "is not the name of a host"),
        ("https://" + "a." * 127 + "b/", "is not the name of a host"),
        ("https://" + "\xfc" * 7_000 + "/", "is not the name of a host"),
    ],
)  # fmt: skip
def test_misleading_url_cannot_be_opened(url: str, reason: str) -> None:
    page = look(url)

    assert not page.is_openable
    assert any(warning.startswith("it may not be opened: ") and reason in warning for warning in page.warnings)
    with pytest.raises(ValueError, match=r"^url: ") as caught:
        page.accept()
    assert reason in str(caught.value)
    assert page.decline().action == "decline"


def test_page_over_a_limit_is_refused() -> None:
    limits = ElicitationLimits(text=10, url=20)

    with pytest.raises(ValueError, match="url: expected at most 20 characters, got 21"):
        read_url(ElicitURLParams(message="m", url="https://example.org/x"), server="s", limits=limits)
    with pytest.raises(ValueError, match="message: expected at most 10 characters, got 11"):
        read_url(ElicitURLParams(message="m" * 11, url="https://a.example/"), server="s", limits=limits)


PIECES = ["http", "https", ":", "/", "//", "@", "#", "?", "[", "]", ".", "%", "xn--", "a", "1", "::", "\u3002", "\xfc"]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES) | st.characters(), max_size=20).map("".join))
def test_any_text_is_classified(url: str) -> None:
    for each in (url, f"https://{url}"):
        page = look(each)

        assert page.host.isascii()
        assert page.host.isprintable()
        assert all(warning.isprintable() for warning in page.warnings)
        assert page.is_openable or page.warnings
        if page.is_openable:
            assert page.host
