"""Hostile networks and sites: the addresses that the plugin connects to, and its limits."""

from __future__ import annotations

import gzip
import ssl
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mcptrio import Secret

from .conftest import Names, OpenReader, OpenSite, ReceivedRequest, Site

HTML = "text/html"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a00:1]",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "224.0.0.1",
    ],
)
async def test_private_addresses_are_refused_in_every_form(reading: OpenReader, site: Site, host: str) -> None:
    """The test uses the system's resolver, and a site that listens at most of these addresses."""
    async with reading() as reader:
        failures = [await reader.failure(site.url("/", host), tool) for tool in ("fetch", "fetch_links", "fetch_head")]
        prompt = await reader.client.get_prompt("fetch", {"url": site.url("/", host)})

    assert all("is not a public address" in failure for failure in failures), failures
    assert "is not a public address" in prompt.messages[0].content.text
    assert site.connections == 0


async def test_refused_address_error_names_the_address(reading: OpenReader, site: Site) -> None:
    async with reading(robots=True) as reader:
        failure = await reader.failure(site.url("/"))

    assert failure.startswith("127.0.0.1 is not a public address but one of this machine")


async def test_name_is_resolved_once_for_check_and_connection(
    reading: OpenReader, site: Site, open_another: OpenSite, names: type[Names]
) -> None:
    """A name server that returns an allowed address first and an internal one afterwards."""
    site.page("/", "<p>outside</p>")
    inside = await open_another("127.0.0.2")
    flipping = names(flip_test=[["127.0.0.1"], ["127.0.0.2"]])
    async with reading(resolver=flipping, private_hosts=("127.0.0.1",)) as reader:
        text = await reader.text(site.url("/", "flip.test"))
        refused = await reader.failure(f"http://flip.test:{inside.port}/")

    assert text.endswith("outside")
    assert site.seen[0].headers["host"] == f"flip.test:{site.port}"
    assert "flip.test resolves to 127.0.0.2, which is not a public address but one of this machine" in refused
    assert flipping.asked == ["flip.test", "flip.test"]
    assert inside.connections == 0


async def test_name_with_any_private_address_is_refused(reading: OpenReader, site: Site, names: type[Names]) -> None:
    mixed = names(mixed_test=[["127.0.0.1", "10.0.0.1"]])
    async with reading(resolver=mixed, private_hosts=("127.0.0.1",)) as reader:
        assert "10.0.0.1" in await reader.failure(site.url("/", "mixed.test"))
    assert site.connections == 0


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/meta-data/", "//[::1]/x", "http://127.1:1/"])
async def test_redirect_to_a_private_address_is_refused(
    reading: OpenReader, site: Site, names: type[Names], target: str
) -> None:
    site.page("/", status=302, Location=target)
    outside = names(site_test=[["127.0.0.1"]])
    async with reading(resolver=outside, private_hosts=("site.test",)) as reader:
        assert "is not a public address" in await reader.failure(site.url("/", "site.test"))
    assert site.paths() == ["GET /"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("file:///etc/passwd", "expected an http or https URL"),
        ("http://a:b@127.0.0.1/", "without a user name"),
        ("http://[", "with a host"),
        ("http://0177.0.0.1/", "which is not a URL"),
        ("http://[fe80::1%25eth0]/", "expected"),
        ("http://denied.test/", "not among the allowed hosts"),
        ("http://10.1.2.3/", "not among the allowed hosts"),
    ],
)
async def test_address_policy_applies_to_redirects(reading: OpenReader, site: Site, target: str, message: str) -> None:
    site.page("/", status=302, Location=target)
    async with reading(allow_private=True, deny_hosts=("denied.test", "10.0.0.0/8")) as reader:
        assert message in await reader.failure(site.url("/"))


async def test_number_of_redirects_is_limited(reading: OpenReader, site: Site) -> None:
    site.page("/loop", status=302, Location="/loop")
    site.page("/1", status=307, Location="2#part")
    site.page("/2", status=308, Location=site.url("/3"))
    site.page("/3", "<p>there</p>")
    async with reading(allow_private=True, max_redirects=2) as reader:
        there = await reader.text(site.url("/1"))
        loop = await reader.failure(site.url("/loop"))

    assert there == f"Contents of {site.url('/1')}, redirected to {site.url('/3')}:\nthere"
    assert "more than 2 redirects" in loop
    assert site.paths().count("GET /loop") == 3


async def test_only_allowed_hosts_are_fetched_from(reading: OpenReader, site: Site, names: type[Names]) -> None:
    site.page("/", "<p>here</p>")
    here = names(**{name: [["127.0.0.1"]] for name in ("good_test", "a_good_test", "bad_good_test", "evilgood_test")})
    async with reading(
        resolver=here,
        allow_private=True,
        allow_hosts=("Good.test", "*.good.test"),
        deny_hosts=("bad.good.test", "127.0.0.2"),
    ) as reader:
        for host in ("good.test", "GOOD.test.", "a.good.test"):
            assert (await reader.text(site.url("/", host))).endswith("here")
        for host in ("bad.good.test", "evilgood.test", "127.0.0.1", "other.test"):
            assert "not among the allowed hosts" in await reader.failure(site.url("/", host))


async def test_denied_address_is_refused_in_every_form(reading: OpenReader, site: Site) -> None:
    async with reading(allow_private=True, deny_hosts=("127.0.0.0/8",)) as reader:
        for host in ("127.0.0.1", "2130706433", "localhost"):
            assert "not among the allowed hosts" in await reader.failure(site.url("/", host))
    assert site.connections == 0


async def test_unresolved_name_is_reported(reading: OpenReader, names: type[Names]) -> None:
    class Slow:
        async def resolve(self, host: str, port: int) -> list[str]:
            await trio.sleep_forever()
            raise AssertionError

    async with reading(resolver=names(none_test=[[]]), connect_timeout=30) as reader:
        assert "has no address" in await reader.failure("http://none.test/")
        assert "does not resolve" in await reader.failure("http://nobody.invalid/")
    async with reading(resolver=Slow(), connect_timeout=0.1) as reader:
        assert "longer than 0.1 seconds" in await reader.failure("http://slow.test/")
    async with reading(allow_private=True) as reader:
        assert "connecting failed" in await reader.failure("http://127.0.0.1:1/")


async def test_second_address_is_tried_if_the_first_fails(reading: OpenReader, site: Site, names: type[Names]) -> None:
    site.page("/", "<p>second</p>")
    both = names(both_test=[["127.0.0.9", "127.0.0.1"]])
    async with reading(resolver=both, allow_private=True) as reader:
        assert (await reader.text(site.url("/", "both.test"))).endswith("second")


async def test_tls_certificate_is_checked_against_the_name(
    reading: OpenReader, open_another: OpenSite, names: type[Names], tmp_path: Path
) -> None:
    """The connection goes to an address, and the certificate must have the name."""
    asked: list[str | None] = []
    context, ca_file = certificate(tmp_path, "site.test")
    context.sni_callback = lambda socket, name, context: asked.append(name)
    site = await open_another(context=context)
    site.page("/", "<p>secret</p>")
    here = names(site_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]])
    async with reading(resolver=here, allow_private=True, ca_file=ca_file) as reader:
        assert (await reader.text(site.url("/", "site.test"))).endswith("secret")
        other = await reader.failure(site.url("/", "other.test"))
    async with reading(resolver=here, allow_private=True) as reader:
        unknown = await reader.failure(site.url("/", "site.test"))

    assert asked[:2] == ["site.test", "other.test"]
    assert site.seen[0].headers["host"] == f"site.test:{site.port}"
    assert "not valid for 'other.test'" in other
    assert "certificate" in unknown.lower()
    assert len(site.seen) == 1


@pytest.mark.parametrize("coding", ["gzip", "deflate", "gzip, gzip"])
async def test_decompressed_page_is_limited(reading: OpenReader, site: Site, coding: str) -> None:
    packed = b"<p>" + b"a" * 20_000_000
    packed = zlib.compress(packed, 1) if coding == "deflate" else gzip.compress(packed, 1)
    if coding == "gzip, gzip":
        packed = gzip.compress(packed)
    site.page("/bomb", packed, "text/plain", Content_Encoding=coding)
    async with reading(allow_private=True, max_bytes=100_000) as reader:
        result = await reader.call("fetch", url=site.url("/bomb"))

    if coding == "gzip, gzip":
        assert "got the Content-Encoding gzip, gzip" in result.content[0].text
    else:
        note = "of 100000; continue with offset=5000; the page is too large, so its end was not read]"
        assert result.content[0].text.endswith(note)


async def test_compressed_page_is_decompressed(reading: OpenReader, site: Site) -> None:
    site.page("/a", gzip.compress(b"<p>packed</p>"), HTML, Content_Encoding="gzip")
    site.page("/br", b"x", HTML, Content_Encoding="br")
    site.page("/broken", b"not gzip", HTML, Content_Encoding="gzip")
    async with reading(allow_private=True) as reader:
        assert (await reader.text(site.url("/a"))).endswith("packed")
        assert "expected gzip or deflate" in await reader.failure(site.url("/br"))
        assert "not compressed as" in await reader.failure(site.url("/broken"))
    assert site.seen[0].headers["accept-encoding"] == "gzip, deflate"


async def test_endless_page_is_truncated_and_its_connection_closed(reading: OpenReader, site: Site) -> None:
    closed = trio.Event()

    async def endless(seen: ReceivedRequest) -> None:
        try:
            await seen.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
            while True:
                await seen.stream.send_all(b"and so on " * 1000)
        finally:
            closed.set()

    site.routes["/endless"] = endless
    async with reading(allow_private=True, max_bytes=50_000) as reader:
        text = await reader.text(site.url("/endless"), limit=60_000)
        with trio.fail_after(30):
            await closed.wait()

    assert text.endswith("the page is too large, so its end was not read]")


@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"])
async def test_slow_site_times_out(
    reading: OpenReader, site: Site, begins: bytes, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.rate = 1.0
    closed = trio.Event()

    async def slow(seen: ReceivedRequest) -> None:
        await seen.stream.send_all(begins)
        mock_clock.jump(30)  # only now, so that connecting does not count
        assert await seen.stream.receive_some() == b""
        closed.set()

    site.routes["/slow"] = slow
    async with reading(allow_private=True, request_timeout=30) as reader:
        failure = await reader.failure(site.url("/slow"))
        with trio.fail_after(20):
            await closed.wait()

    assert "took longer than 30 seconds" in failure or "took too long" in failure


async def test_cancelling_closes_the_connection_at_once(reading: OpenReader, site: Site) -> None:
    began, closed = trio.Event(), trio.Event()

    async def slow(seen: ReceivedRequest) -> None:
        await seen.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
        began.set()
        assert await seen.stream.receive_some() == b""
        closed.set()

    site.routes["/slow"] = slow
    site.page("/", "<p>still here</p>")
    # Its timeout is far longer than this test waits.
    async with reading(allow_private=True, request_timeout=3600) as reader, trio.open_nursery() as nursery:
        nursery.start_soon(reader.text, site.url("/slow"))
        await began.wait()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True), trio.fail_after(30):
            await closed.wait()
            again = await reader.text(site.url("/"))

    assert again.endswith("still here")


async def test_response_that_is_not_http_is_reported(reading: OpenReader, site: Site) -> None:
    async def rude(seen: ReceivedRequest) -> None:
        await seen.stream.send_all(b"SSH-2.0-OpenSSH\r\n\r\n")
        await seen.stream.aclose()

    site.routes["/rude"] = rude
    async with reading(allow_private=True) as reader:
        assert "does not speak HTTP properly" in await reader.failure(site.url("/rude"))


async def test_progress_is_reported(reading: OpenReader, site: Site) -> None:
    go_on = trio.Event()

    async def in_two(seen: ReceivedRequest) -> None:
        await seen.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Type: text/plain\r\n\r\nhello")
        await go_on.wait()
        await seen.stream.send_all(b"world")

    messages: list[tuple[float, float | None]] = []

    def tell(report: Any) -> None:
        messages.append((report.progress, report.total))
        go_on.set()

    site.routes["/a"] = in_two
    async with reading(allow_private=True) as reader:
        result = await reader.client.call_tool("fetch", {"url": site.url("/a")}, progress=tell)

    assert result.content[0].text.endswith(":\nhelloworld")
    assert messages[0] == (5, 10)


async def test_concurrent_requests_per_host_are_limited(reading: OpenReader, site: Site) -> None:
    here = most = 0
    full, go_on = trio.Event(), trio.Event()

    async def busy(seen: ReceivedRequest) -> None:
        nonlocal here, most
        here += 1
        most = max(most, here)
        if here == 2:
            full.set()
        await go_on.wait()
        here -= 1
        await seen.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: text/plain\r\n\r\n")

    site.routes["/busy"] = busy
    site.page("/other", "<p>x</p>")
    async with reading(allow_private=True, host_concurrency=2) as reader, trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(reader.text, site.url(f"/busy?{number}"))
        await full.wait()
        await trio.testing.wait_all_tasks_blocked(0.05)
        go_on.set()

    assert most == 2


async def test_proxy_is_used_and_its_password_not_shown(reading: OpenReader, site: Site, names: type[Names]) -> None:
    proxy = Secret(f"http://me:s3cret@127.0.0.1:{site.port}")
    site.page("http://far.test/page", "<p>through</p>")
    async with reading(resolver=names(inside_test=[["10.0.0.1"]]), proxy=proxy) as reader:
        text = await reader.text("http://far.test/page")
        inside = await reader.failure("http://inside.test/")
        metadata = await reader.failure("http://169.254.169.254/")
        other = await reader.failure("http://far.test/none")

    assert text.endswith("through")
    assert site.seen[0].headers["proxy-authorization"] == "Basic bWU6czNjcmV0"
    assert "is not a public address" in inside
    assert "is not a public address" in metadata
    assert "s3cret" not in other


async def test_proxy_tunnels_tls(
    reading: OpenReader, site: Site, open_another: OpenSite, names: type[Names], tmp_path: Path
) -> None:
    context, ca_file = certificate(tmp_path, "far.test")
    far = await open_another(context=context)
    far.page("/", "<p>through the tunnel</p>")

    async def tunnel(seen: ReceivedRequest) -> None:
        await seen.stream.send_all(b"HTTP/1.1 200 Connected\r\n\r\n")
        async with await trio.open_tcp_stream("127.0.0.1", far.port) as onwards, trio.open_nursery() as nursery:

            async def back() -> None:
                async for data in onwards:
                    await seen.stream.send_all(data)

            nursery.start_soon(back)
            async for data in seen.stream:
                await onwards.send_all(data)
            nursery.cancel_scope.cancel()

    site.routes[f"far.test:{far.port}"] = tunnel
    # The name does not resolve here, and need not.
    proxy = Secret(f"http://127.0.0.1:{site.port}")
    async with reading(resolver=names(far_test=[[]]), proxy=proxy, ca_file=ca_file) as reader:
        text = await reader.text(far.url("/", "far.test"))

    assert text.endswith("through the tunnel")
    assert site.paths() == [f"CONNECT far.test:{far.port}"]
    assert far.paths() == ["GET /"]


async def test_cookies_are_not_stored(reading: OpenReader, site: Site) -> None:
    site.page("/a", "<p>a</p>", Set_Cookie="who=me", Cache_Control="no-store")
    async with reading(allow_private=True) as reader:
        await reader.text(site.url("/a"))
        await reader.text(site.url("/a"))

    assert [sorted(each.headers) for each in site.seen] == [["accept", "accept-encoding", "host", "user-agent"]] * 2
    assert site.connections == 1


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """Return a server's TLS context, and the file with the authority to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_file, key_file)
    return context, cert_file
