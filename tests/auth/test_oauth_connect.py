"""A client is authorized during a request, over real sockets, by an authorization server in memory.

The official suite covers the flow; these tests cover deadlines, step-up, bound tokens, and concurrent requests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field, frozen
from trio.testing import MockClock

import mcptrio
from mcptrio import Context, Endpoint, Server, tool
from mcptrio.abc import FetchRequest, FetchResponse, Principal
from mcptrio.auth import DPoPRule, OAuth, OwnRedirects, ResourceServer, ResourceServerOptions
from mcptrio.auth.jose import Key, peek
from mcptrio.client import ClientTimeouts
from mcptrio.errors import AuthorizationError, RequestFailed
from mcptrio.http.client.address_policy import AddressPolicy
from mcptrio.http.client.fetcher import Fetcher
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    HTTPOptions,
    ServerSettings,
)
from tests.http.web import ReceivedRequest, Wire
from tests.http.web import serving as answering
from tests.processes import held_port

from .client_parts import BACK, Issuer, answer

__all__: list[str] = []

VERSIONS = ("2026-07-28", "2025-11-25")


class Notes:
    @tool
    async def whoami(self, ctx: Context) -> str:
        return ctx.principal.subject if ctx.principal is not None else "nobody"

    @tool(scopes=["write"])
    def write(self) -> str:
        return "written"


@define
class Login(Issuer):
    """An issuer that remembers the scopes of its tokens, and the key that each is bound to."""

    good: dict[str, Principal] = field(factory=dict)
    nonce: str | None = None

    def token(self, request: FetchRequest) -> FetchResponse:
        proof = request.headers.get("dpop")
        if proof is not None and self.nonce is not None and peek(proof).claims.get("nonce") != self.nonce:
            return answer({"error": "use_dpop_nonce"}, 400, dpop_nonce=self.nonce)
        response = Issuer.token(self, request)
        if response.status != 200:
            return response
        given = json.loads(response.body)
        scope = self.asked[-1].get("scope", "")
        claims: dict[str, Any] = {}
        if proof is not None:
            claims = {"cnf": {"jkt": Key.from_jwk(peek(proof).header["jwk"]).thumbprint}}
        self.good[given["access_token"]] = Principal(
            subject="ada", issuer=self.url, scopes=frozenset(scope.split()), claims=claims
        )
        return answer({**given, "token_type": "DPoP" if claims else "Bearer"})

    def recognizes(self, token: str, issuer: str | None) -> bool | None:
        return None

    async def verify(self, token: str) -> Principal | None:
        await trio.lowlevel.checkpoint()
        return self.good.get(token)


@frozen
class Site:
    url: str
    login: Login

    def oauth(self, send: Callable[[str], Any] | None = None, **options: Any) -> OAuth:
        async def approve(url: str) -> str:
            await trio.lowlevel.checkpoint()
            return self.login.authorize(url)

        return OAuth(redirects=OwnRedirects(uri=BACK, send=send or approve), **options)


@asynccontextmanager
async def protected(
    *, metadata: dict[str, Any] | None = None, options: Any = None, whole: bool = False
) -> AsyncIterator[Site]:
    """Serve an MCP server that requires tokens, and their issuer.

    Args:
        whole: Whether tokens are required for all paths instead of the endpoint alone.
    """
    login = Login("", metadata or {})

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        request = FetchRequest(url=seen.target, method=seen.method, headers=seen.headers, body=seen.body)
        response = FetchResponse(status=404)
        if seen.target == "/.well-known/oauth-authorization-server":
            response = answer(login.document)
        elif seen.target == "/register":
            response = login.register(seen.message)
        elif seen.target == "/token":
            response = login.token(request)
        headers = {name.replace("-", "_"): value for name, value in response.headers.items()}
        await wire.reply(response.body, response.status, content_type="application/json", **headers)

    with held_port() as port:
        async with answering(handle) as web:
            login.url = f"http://127.0.0.1:{web.port}"
            url = f"http://127.0.0.1:{port}/mcp"
            guard = ResourceServer(
                url.removesuffix("/mcp") if whole else url,
                tokens=[login],
                authorization_servers=[login.url],
                scopes=["read"],
                options=options,
            )
            async with trio.open_nursery() as nursery:

                async def serve(task_status: trio.TaskStatus[Any]) -> None:
                    server = Server(plugins=[Notes()], settings=ServerSettings(list_all=True))
                    await serve_http(server, port=port, options=HTTPOptions(auth=guard), task_status=task_status)

                await nursery.start(serve)
                yield Site(url, login)
                nursery.cancel_scope.cancel()


def text_of(result: Any) -> str:
    text: str = result.content[0].text
    return text


@pytest.mark.parametrize("version", VERSIONS)
async def test_client_gets_a_token_and_steps_up(version: str) -> None:
    async with protected() as here:
        with trio.fail_after(60):
            async with mcptrio.connect(Endpoint(url=here.url, auth=here.oauth()), revision=version) as client:
                assert text_of(await client.call_tool("whoami")) == "ada"
                assert text_of(await client.call_tool("write")) == "written"
                assert text_of(await client.call_tool("whoami")) == "ada"

    assert [asked["scope"] for asked in here.login.asked] == ["read", "read write"]
    assert {asked["resource"] for asked in here.login.asked} == {here.url}


async def test_concurrent_calls_ask_the_user_once() -> None:
    async with protected() as here:
        with trio.fail_after(60):
            async with mcptrio.connect(Endpoint(url=here.url, auth=here.oauth())) as client:
                results: list[str] = []

                async def call() -> None:
                    results.append(text_of(await client.call_tool("write")))

                async with trio.open_nursery() as nursery:
                    for _ in range(10):
                        nursery.start_soon(call)

    assert results == ["written"] * 10
    assert len(here.login.asked) == 2


async def test_revoked_token_is_refreshed_during_a_call() -> None:
    async with protected() as here:
        with trio.fail_after(60):
            oauth = here.oauth(clock=lambda: times.pop(0) if len(times) > 1 else times[0])
            times = [1_800_000_000.0]
            async with mcptrio.connect(Endpoint(url=here.url, auth=oauth)) as client:
                await client.call_tool("whoami")
                here.login.good.clear()
                times[:] = [1_800_000_060.0]
                assert text_of(await client.call_tool("whoami")) == "ada"

    assert [fields["grant_type"] for fields in here.login.tokens] == ["authorization_code", "refresh_token"]


@pytest.fixture
def patient_clock() -> MockClock:
    """A clock that jumps when the event loop is idle for half a second, so only the user's thinking takes time."""
    return MockClock(autojump_threshold=0.5)


async def test_deadlines_pause_while_the_user_logs_in(patient_clock: MockClock) -> None:
    """The deadlines of connecting, of probing the revision, and of a call."""
    short = ClientTimeouts(connect=1.0, probe=1.0, idle=1.0)

    async def think(url: str) -> str:
        await trio.sleep(1.3)
        return here.login.authorize(url)

    async with protected() as here:
        with trio.fail_after(60):
            endpoint = Endpoint(url=here.url, auth=here.oauth(think))
            async with mcptrio.connect(endpoint, timeouts=short) as client:
                assert text_of(await client.call_tool("write")) == "written"

    assert len(here.login.asked) == 2


@pytest.mark.parametrize("version", VERSIONS)
async def test_tokens_are_bound_to_a_key(version: str) -> None:
    options = ResourceServerOptions(dpop=DPoPRule(use="required", nonces=60))
    async with protected(metadata={"dpop_signing_alg_values_supported": ["ES256"]}, options=options) as here:
        here.login.nonce = "of-the-login"
        with trio.fail_after(60):
            async with mcptrio.connect(Endpoint(url=here.url, auth=here.oauth()), revision=version) as client:
                assert text_of(await client.call_tool("whoami")) == "ada"
                assert text_of(await client.call_tool("write")) == "written"

    thumbprints = {str(principal.claims["cnf"]) for principal in here.login.good.values()}
    assert (len(here.login.good), len(thumbprints)) == (2, 1)


async def test_each_post_of_http_with_sse_is_authorized() -> None:
    """The POSTs are separate from the stream, so the server may refuse each of them."""
    now = [1_800_000_000.0]
    async with protected(whole=True) as here:
        here.login.gives_refresh = False
        oauth = here.oauth(clock=lambda: now[0])
        endpoint = Endpoint(url=here.url.replace("/mcp", "/sse"), auth=oauth, transport="sse")
        with trio.fail_after(60):
            async with mcptrio.connect(endpoint) as client:
                assert text_of(await client.call_tool("whoami")) == "ada"
                here.login.good.clear()
                now[0] += 60
                assert text_of(await client.call_tool("whoami")) == "ada"

    assert len(here.login.asked) == 2


async def test_login_denied_by_the_user_is_an_error() -> None:
    async def deny(url: str) -> str:
        await trio.lowlevel.checkpoint()
        raise AuthorizationError("the person said no")

    async with protected() as here:
        with trio.fail_after(60), pytest.raises(AuthorizationError, match="the person said no"):
            async with mcptrio.connect(Endpoint(url=here.url, auth=here.oauth(deny))):
                pass


async def test_public_server_that_names_a_private_address_causes_no_request() -> None:
    """By the address policy the server is not on this machine, so it may not name a private address."""
    asked: list[str] = []

    async def send(url: str) -> str:
        asked.append(url)
        return url

    async with protected() as here:
        public = Fetcher(AddressPolicy(origins=frozenset({here.url})))
        client = here.oauth(send).client_auth(here.url, public)
        with trio.fail_after(30), pytest.raises(RequestFailed, match="expected an https URL"):
            await client.log_in()

    assert asked == []
