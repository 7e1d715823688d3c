"""Attacks by servers, by authorization servers, and through the hosts that they name.

Our client and our guard over real HTTP; every attacker listens on this machine and records the requests.

Source: MCP 2026-07-28, basic/authorization/security-considerations; security best practices; RFC 9700.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
import trio
from attrs import define, field

import mcptrio
from mcptrio import Context, Mount, Secret, tool
from mcptrio.auth import IntrospectedTokens, IssuerKeys, JWTTokens, OAuth, OwnRedirects, ResourceServer
from mcptrio.auth.jose import Key, KeySet, sign
from mcptrio.auth.token_requests import ClientIdentity
from mcptrio.serving import MountOptions
from tests.auth_peers.guarded import WAIT_TIMEOUT, Guarded, guarded, loopback_fetch, modern, plain_http
from tests.auth_peers.hostile import CannedResponse, Hostile, ReceivedRequest, endless, hostile
from tests.auth_peers.own_authorization import BACK, browser_of, own_authorization
from tests.function_guard import FunctionGuard

__all__: list[str] = []

MAX_WRITTEN_BYTES = 16 * 1024 * 1024
"""Bytes: a quarter of a megabyte is read, and the rest is in the growing buffers of two sockets."""
DEEP = b"[" * 50_000 + b"]" * 50_000
PRIVATE = (
    "http://169.254.169.254/latest/meta-data",
    "https://169.254.169.254",
    "https://10.0.0.1",
    "https://192.168.1.1/realm",
    "https://[fd00::1]",
    "https://[::ffff:10.0.0.1]",
    "http://10.0.0.1",
    "https://2852039166",  # 169.254.169.254
    "https://user:password@login.example.com",
    "file:///etc/passwd",
    "gopher://127.0.0.1:70",
)


async def unexpected_visit(url: str) -> str:
    raise AssertionError(f"the user was sent to {url}")


def client_oauth(send: Callable[[str], Any] = unexpected_visit) -> OAuth:
    return OAuth(redirects=OwnRedirects(uri=BACK, send=send))


def honest(url: str, **changes: Any) -> dict[str, CannedResponse | Callable[[ReceivedRequest], CannedResponse]]:
    """Return the responses of a server that is its own authorization server."""
    metadata = {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": f"{url}/token",
        "registration_endpoint": f"{url}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": True,
    }
    canned: dict[str, Any] = {
        "/mcp": CannedResponse(
            401, headers={"www-authenticate": f'Bearer resource_metadata="{url}/resource", scope="read"'}
        ),
        "/resource": CannedResponse(200, {"resource": f"{url}/mcp", "authorization_servers": [url]}),
        "/.well-known/oauth-authorization-server": CannedResponse(200, metadata),
        "/register": CannedResponse(
            201, {"client_id": "us", "redirect_uris": [BACK], "token_endpoint_auth_method": "none"}
        ),
        "/token": CannedResponse(200, {"access_token": "good", "token_type": "Bearer"}),
    }
    return {**canned, **changes}


async def refused(there: Hostile, auth: OAuth) -> str:
    """Return the error with which our client refuses to connect, within a short time."""
    with trio.fail_after(WAIT_TIMEOUT), pytest.raises(mcptrio.MCPTrioError) as caught:
        async with mcptrio.connect(mcptrio.Endpoint(url=f"{there.url}/mcp", auth=auth, transport="http")):
            pass
    return str(caught.value)


async def redirected_back(url: str) -> str:
    """Return the redirect of a user who consents at once, at a correct authorization server."""
    query = parse_qs(url.partition("?")[2])
    return f"{BACK}?code=c&state={query['state'][0]}&iss={url.partition('/authorize')[0]}"


# Documents


@pytest.mark.parametrize("document", ["/resource", "/.well-known/oauth-authorization-server", "/register", "/token"])
@pytest.mark.parametrize("kind", ["endless", "deep", "garbage"])
async def test_oversized_or_malformed_document_is_refused(document: str, kind: str) -> None:
    status = 201 if document == "/register" else 200
    canned = {
        "endless": CannedResponse(status, writer=endless),
        "deep": CannedResponse(status, DEEP),
        "garbage": CannedResponse(status, b"\xff\xfe{]"),
    }
    async with hostile() as there:
        there.responses = honest(there.url, **{document: canned[kind]})
        await refused(there, client_oauth(redirected_back))
        assert document in there.paths()
        assert there.written < MAX_WRITTEN_BYTES


@pytest.mark.parametrize("document", ["/resource", "/.well-known/oauth-authorization-server", "/register", "/token"])
async def test_redirect_of_a_document_is_not_followed(document: str) -> None:
    """No code, verifier or request reaches the target of a redirect, even if the target is allowed otherwise."""
    async with hostile() as there, hostile() as victim:
        for path in (document, "/stolen"):
            victim.responses[path] = CannedResponse(200, {})
        for status in (301, 302, 303, 307, 308):
            there.requests.clear()
            there.responses = honest(
                there.url, **{document: CannedResponse(status, headers={"location": f"{victim.url}/stolen"})}
            )
            await refused(there, client_oauth(redirected_back))
            assert document in there.paths()
            assert victim.requests == []


async def test_token_is_not_sent_to_a_redirect_target() -> None:
    async with hostile() as there, hostile() as victim:
        canned = honest(there.url)

        def answer(request: ReceivedRequest) -> CannedResponse:
            if "authorization" not in request.headers:
                first = canned["/mcp"]
                assert isinstance(first, CannedResponse)
                return first
            return CannedResponse(307, headers={"location": f"{victim.url}/mcp"})

        there.responses = {**canned, "/mcp": answer}
        await refused(there, client_oauth(redirected_back))
        assert any(each.headers.get("authorization") == "Bearer good" for each in there.requests)
        assert victim.requests == []


@pytest.mark.parametrize("place", PRIVATE)
async def test_metadata_with_a_private_address_causes_no_connection(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is in a challenge, or is that of an authorization server or an endpoint. No token is sent either."""
    dialled: list[str] = []
    dial = trio.open_tcp_stream

    async def note(host: str, port: int, **more: Any) -> trio.SocketStream:
        dialled.append(host)
        return await dial(host, port, **more)

    monkeypatch.setattr(trio, "open_tcp_stream", note)
    async with hostile() as there:
        challenge = {"www-authenticate": f'Bearer resource_metadata="{place}/resource"'}
        for changes in (
            {"/mcp": CannedResponse(401, headers=challenge)},
            {"/resource": CannedResponse(200, {"resource": f"{there.url}/mcp", "authorization_servers": [place]})},
        ):
            there.responses = honest(there.url, **changes)
            await refused(there, client_oauth())
        canned = honest(there.url)["/.well-known/oauth-authorization-server"]
        assert isinstance(canned, CannedResponse)
        for endpoint in ("token_endpoint", "registration_endpoint"):
            document = {**canned.body, endpoint: f"{place}/x"}
            there.responses = honest(
                there.url, **{"/.well-known/oauth-authorization-server": CannedResponse(200, document)}
            )
            await refused(there, client_oauth(redirected_back))
        assert all("authorization" not in each.headers for each in there.requests)
    assert set(dialled) == {"127.0.0.1"}


# Mix-up


async def test_code_is_not_sent_to_another_authorization_server(tmp_path: Path) -> None:
    """The attacker's authorization server sends users to an honest one, to receive its code."""
    async with own_authorization(tmp_path) as (here, own), hostile() as there:
        async with plain_http() as http:
            where = f"{here.origin}/.well-known/oauth-authorization-server/auth"
            published = (await http.get(where)).json()

        def register(request: ReceivedRequest) -> CannedResponse:
            return CannedResponse(201, {"client_id": id, "redirect_uris": [BACK], "token_endpoint_auth_method": "none"})

        async with plain_http() as http:
            document = {"redirect_uris": [BACK], "client_name": "peers", "token_endpoint_auth_method": "none"}
            id = (await http.post(published["registration_endpoint"], json=document)).json()["client_id"]
        canned = honest(there.url)["/.well-known/oauth-authorization-server"]
        assert isinstance(canned, CannedResponse)
        mixed = {**canned.body, "authorization_endpoint": published["authorization_endpoint"]}
        there.responses = honest(
            there.url, **{"/register": register, "/.well-known/oauth-authorization-server": CannedResponse(200, mixed)}
        )
        browser = browser_of("ada")

        async def consent(url: str) -> str:
            # Simulate an honest server that issues tokens for any resource, to test the next defence alone.
            query = parse_qs(url.partition("?")[2])
            return await browser.visit(url.replace(_quoted(query["resource"][0]), _quoted(here.url)))

        why = await refused(there, client_oauth(consent))
        assert "iss" in why
        assert own.config.issuer in why or there.url in why
        assert "code=" not in why
        assert len(browser.pages) == 2
        assert "/token" not in there.paths()


def _quoted(url: str) -> str:
    return quote(url, safe="")


# Keys and introspection


def keys_of(there: Hostile) -> Callable[[str], ResourceServer]:
    def make(resource: str) -> ResourceServer:
        keys = IssuerKeys(there.url, loopback_fetch(), jwks=f"{there.url}/keys")
        return ResourceServer(resource, tokens=[JWTTokens(keys, audience=[resource])])

    return make


KEY = Key.generate("ES256")
KEYS: Mapping[str, Any] = {
    "deep": DEEP,
    "many": {"keys": [KEY.bare | {"kid": str(number)} for number in range(2000)]},
    "secret": {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "x", "alg": "HS256"}]},
    "none": {"keys": []},
    "nonsense": {"keys": [{"kty": "EC", "crv": "P-256", "x": "?", "y": 1}, 7, None]},
}


@pytest.mark.parametrize("kind", ["endless", *KEYS])
async def test_invalid_keys_document_admits_no_request(kind: str) -> None:
    """The server keeps working: a request without a token gets its 401 at once."""
    async with hostile() as there:
        there.responses = {
            "/keys": CannedResponse(200, KEYS[kind]) if kind in KEYS else CannedResponse(200, writer=endless)
        }
        async with guarded(keys_of(there)) as here:
            token = sign(
                {"iss": there.url, "aud": here.url, "sub": "x", "exp": 2e9}, KEY, typ="at+jwt", header={"kid": "y"}
            )
            request = modern("tools/call", name="who", arguments={})
            with trio.fail_after(WAIT_TIMEOUT / 2):
                answer = await here.send(**request, token=token)
                assert answer.status_code in (401, 503)
                assert (await here.send(**request)).status_code == 401
            assert there.paths() == ["/keys"]
            assert there.written < MAX_WRITTEN_BYTES


async def test_redirect_of_the_keys_document_is_not_followed() -> None:
    async with hostile() as there, hostile() as victim:
        there.responses = {"/keys": CannedResponse(302, headers={"location": f"{victim.url}/keys"})}
        victim.responses = {"/keys": CannedResponse(200, KeySet([KEY]).document)}
        async with guarded(keys_of(there)) as here:
            token = sign({"iss": there.url, "aud": here.url, "sub": "x", "exp": 2e9}, KEY, typ="at+jwt")
            answer = await here.send(**modern("tools/call", name="who", arguments={}), token=token)
            assert answer.status_code in (401, 503)
        assert victim.requests == []


@pytest.mark.parametrize("kind", ["redirect", "endless", "deep", "true", "list"])
async def test_invalid_introspection_response_admits_no_request(kind: str) -> None:
    """A followed redirect would send the token and the server's own secret to another host."""
    async with hostile() as there, hostile() as victim:
        victim.responses = {"/x": CannedResponse(200, {"active": True, "sub": "x"})}
        there.responses["/ask"] = {
            "redirect": CannedResponse(307, headers={"location": f"{victim.url}/x"}),
            "endless": CannedResponse(200, writer=endless),
            "deep": CannedResponse(200, DEEP),
            "true": CannedResponse(200, {"active": "true", "sub": "x"}),
            "list": CannedResponse(200, [True]),
        }[kind]

        def make(resource: str) -> ResourceServer:
            us = ClientIdentity(client_id="us", client_secret=Secret("s"), method="client_secret_basic")
            tokens = IntrospectedTokens(there.url, us, loopback_fetch(), audience=[], endpoint=f"{there.url}/ask")
            return ResourceServer(resource, tokens=[tokens])

        async with guarded(make) as here:
            with trio.fail_after(WAIT_TIMEOUT / 2):
                answer = await here.send(**modern("tools/call", name="who", arguments={}), token="stolen")
        assert answer.status_code in (401, 503)
        assert there.paths() == ["/ask"]
        assert victim.requests == []
        assert there.written < MAX_WRITTEN_BYTES


# Tokens are not forwarded


@define(eq=False)
class Relay:
    """Forwards bytes between two sockets, and records them."""

    to: int
    carried: bytearray = field(factory=bytearray)

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream, await trio.open_tcp_stream("127.0.0.1", self.to) as there:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._carry, stream, there, self.carried)
                await self._carry(there, stream, bytearray())
                nursery.cancel_scope.cancel()

    async def _carry(self, one: trio.SocketStream, other: trio.SocketStream, kept: bytearray) -> None:
        try:
            async for data in one:
                kept += data
                await other.send_all(data)
            await other.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


@asynccontextmanager
async def relayed(to: Guarded) -> AsyncIterator[tuple[str, Relay]]:
    """Yield another address of a server, and the relay that records what is sent there."""
    relay = Relay(int(to.url.rpartition(":")[2].partition("/")[0]))
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(trio.serve_listeners, relay.serve, [listener])
        yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp", relay
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_mounted_server_does_not_receive_the_callers_token(tmp_path: Path, revision: str) -> None:
    """The token is neither in a header nor in a body. The operator's headers are sent instead."""
    async with (
        guarded(lambda url: FunctionGuard(lambda headers: None), lambda: [Open()]) as there,
        relayed(there) as (url, relay),
    ):
        target = mcptrio.Endpoint(url=url, headers={"x-own": "the operator's"}, transport="http")
        mount = Mount(target, name="up", options=MountOptions(revision=revision, start_timeout=60))
        async with own_authorization(tmp_path, mount) as (here, _):
            method = client_oauth(browser_of("ada").visit)
            async with here.client("2026-07-28", auth=method) as client:
                assert (await client.call_tool("up_echo", {"text": "carried"})).content[0].text == "carried"  # type: ignore[union-attr]
                await client.read_resource("notes://open")
            token = (await method.client_auth(here.url, loopback_fetch()).headers("POST", here.url))["Authorization"]
        carried = relay.carried.decode("latin-1")
        assert carried.count('"tools/call"') == 1
        assert "the operator's" in carried
        assert "uthorization" not in carried
        assert all(part not in carried for part in token.removeprefix("Bearer ").split("."))


class Open:
    """A plugin of a server without authorization."""

    @tool
    def echo(self, text: str) -> str:
        return text

    @mcptrio.resource("notes://open")
    def note(self) -> str:
        return "for all"


async def test_tool_cannot_read_the_token(tmp_path: Path) -> None:
    """The tool can read the user and the claims, but neither the token nor its signature."""

    class Curious:
        @tool
        def tell(self, ctx: Context) -> str:
            assert ctx.principal is not None
            seen = [ctx.principal, dict(ctx.principal.claims), ctx.meta]
            seen += [getattr(ctx, name) for name in dir(ctx) if not name.startswith("__") and _is_plain(ctx, name)]
            return repr(seen)

    async with own_authorization(tmp_path, Curious()) as (here, _):
        method = client_oauth(browser_of("ada").visit)
        async with here.client("2026-07-28", auth=method) as client:
            text = (await client.call_tool("tell")).content[0].text  # type: ignore[union-attr]
        token = (await method.client_auth(here.url, loopback_fetch()).headers("POST", here.url))["Authorization"]
    assert "'sub': 'ada'" in text
    assert token.rpartition(".")[2] not in text
    assert "uthorization" not in text


def _is_plain(ctx: Context, name: str) -> bool:
    try:
        return not callable(getattr(ctx, name))
    except Exception:
        return False
