"""Authorization over real HTTP, in every revision: 401, its header, the documents, a token, 200.

A real issuer on its own socket signs, and the endpoint verifies with the keys that it fetches from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define, field, frozen

import mcptrio
from mcptrio import Context, PluginSetup, Server, tool
from mcptrio.abc import FetchRequest
from mcptrio.auth import DPoPRule, FailureLimit, IssuerKeys, JWTTokens, ResourceServer, ResourceServerOptions
from mcptrio.auth.challenges import parse_challenges
from mcptrio.auth.discovery import discover
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.flows import drive
from mcptrio.auth.jose import Key, KeySet, sign
from mcptrio.auth.server.issuer_keys import KeyTimes
from mcptrio.http.client.address_policy import AddressPolicy
from mcptrio.http.client.fetcher import Fetcher
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    HTTPOptions,
)
from tests.processes import held_port

__all__: list[str] = []

KEY, OTHER = Key.generate("ES256"), Key.generate("ES256")
FIRST: Mapping[str, tuple[Mapping[str, str], Mapping[str, Any]]] = {
    "2026-07-28": (
        {"mcp-protocol-version": "2026-07-28", "mcp-method": "server/discover"},
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "server/discover",
            "params": {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            },
        },
    ),
    **{
        version: (
            {},
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": version,
                    "capabilities": {},
                    "clientInfo": {"name": "raw", "version": "1"},
                },
            },
        )
        for version in ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
    },
}
"""The first headers and message of a client of each revision."""


class Notes:
    """A plugin with an open tool and one that requires a scope."""

    @tool
    async def whoami(self, ctx: Context) -> str:
        assert ctx.principal is not None
        return f"{ctx.principal.subject} {' '.join(sorted(ctx.principal.scopes))}"

    @tool(scopes=["write"])
    async def write(self) -> str:
        return "written"


@define
class OwnIssuer:
    """An authorization server as a plugin: its metadata and keys, over HTTP."""

    url: str = ""
    keys: list[Key] = field(factory=lambda: [KEY])
    is_ill: bool = False
    asked: list[str] = field(factory=list)

    @mcptrio.hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_route("/.well-known/oauth-authorization-server", self.answer)
        server.add_route("/keys", self.answer)

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        documents: Mapping[str, Any] = {
            "/keys": KeySet(self.keys).document,
            "/.well-known/oauth-authorization-server": {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "code_challenge_methods_supported": ["S256"],
            },
        }
        body = json.dumps(documents[scope["path"]]).encode()
        status = 500 if self.is_ill else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    def token(self, resource: str, key: Key = KEY, **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": self.url, "aud": resource, "sub": "ada", "client_id": "cli", "iat": now, "exp": now + 300}
        return sign({**usual, "scope": "read", **claims}, key, typ="at+jwt")


@frozen
class Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes = field(repr=False)

    def header(self, name: str) -> str:
        return ", ".join(value for each, value in self.headers if each == name)


@frozen
class Site:
    resource: str
    issuer: OwnIssuer
    fetch: Fetcher

    async def ask(self, method: str, target: str, body: bytes = b"", *fields: tuple[str, str]) -> Reply:
        """Send one request on its own connection, exactly as given."""
        host = self.resource.split("/")[2]
        lines = [f"{method} {target} HTTP/1.1", f"host: {host}", "connection: close", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in fields]
        with trio.fail_after(30):
            async with await trio.open_tcp_stream("127.0.0.1", int(host.split(":")[1])) as stream:
                await stream.send_all("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
                data = b"".join([part async for part in stream])
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *read = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in read]
        return Reply(int(first.split()[1]), [(name.lower(), value.strip()) for name, _, value in pairs], rest)

    async def begin(self, version: str, *fields: tuple[str, str], target: str = "/mcp") -> Reply:
        headers, message = FIRST[version]
        usual = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
        return await self.ask("POST", target, json.dumps(message).encode(), *usual.items(), *fields)


@asynccontextmanager
async def protected(options: ResourceServerOptions | None = None, times: KeyTimes | None = None) -> AsyncIterator[Site]:
    """Serve an endpoint that requires the scope ``read``, and the issuer of its tokens."""
    issuer = OwnIssuer()
    # The guard needs the address of the endpoint.
    with held_port() as port:
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(_serve, Server(plugins=[issuer]), HTTPOptions())
            issuer.url = _origin(urls[0]).replace("127.0.0.1", "localhost")
            resource = f"http://localhost:{port}/mcp"
            fetch = Fetcher(AddressPolicy(origins=frozenset({issuer.url, resource})))
            tokens = JWTTokens(IssuerKeys(issuer.url, fetch, times=times), audience=[resource])
            guard = ResourceServer(
                resource, tokens=[tokens], authorization_servers=[issuer.url], scopes=["read"], options=options
            )
            await nursery.start(_serve, Server(plugins=[Notes()]), HTTPOptions(auth=guard), port)
            yield Site(resource, issuer, fetch)
            nursery.cancel_scope.cancel()


async def _serve(server: Server, options: HTTPOptions, port: int = 0, *, task_status: trio.TaskStatus[Any]) -> None:
    await serve_http(server, port=port, options=options, task_status=task_status)


def _origin(url: str) -> str:
    return "/".join(url.split("/")[:3])


@define
class Walker:
    """A client's authorization that follows the challenge and requests tokens with the challenge's scopes."""

    here: Site
    prover: DPoPSigner | None = None
    token: str | None = None
    asked: list[frozenset[str]] = field(factory=list)

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        if self.token is None:
            return {}
        if self.prover is None:
            return {"authorization": f"Bearer {self.token}"}
        return {
            "authorization": f"DPoP {self.token}",
            "dpop": self.prover.prove(method, url.replace("127.0.0.1", "localhost"), token=self.token),
        }

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        [challenge, *_] = parse_challenges(headers["www-authenticate"])
        if self.prover is not None and self.prover.take_nonce(self.here.resource, headers):
            return True
        where = challenge.parameters["resource_metadata"]
        place = await drive(discover(self.here.resource, metadata_url=where), self.here.fetch)
        assert (place.resource, place.server.issuer) == (self.here.resource, self.here.issuer.url)
        wanted = frozenset(challenge.parameters["scope"].split())
        self.asked.append(wanted)
        bound: dict[str, Any] = {"cnf": {"jkt": self.prover.thumbprint}} if self.prover is not None else {}
        self.token = self.here.issuer.token(place.resource, scope=" ".join(wanted), **bound)
        return True


@pytest.mark.parametrize("version", FIRST)
async def test_unauthorized_client_is_led_to_the_issuer_by_the_challenge(version: str) -> None:
    async with protected() as here:
        refused = await here.begin(version)
        [challenge, _] = parse_challenges(refused.header("www-authenticate"))
        assert (refused.status, challenge.scheme) == (401, "bearer")
        assert "error" not in challenge.parameters

        path = challenge.parameters["resource_metadata"].removeprefix(_origin(here.resource))
        assert path == "/.well-known/oauth-protected-resource/mcp"
        document = await here.ask("GET", path)
        assert (document.status, document.header("content-type")) == (200, "application/json")
        metadata = json.loads(document.body)
        assert metadata["resource"] == here.resource

        [issuer] = metadata["authorization_servers"]
        found = await here.fetch(FetchRequest(url=f"{issuer}/.well-known/oauth-authorization-server"))
        assert json.loads(found.body)["issuer"] == issuer

        token = here.issuer.token(metadata["resource"], scope=challenge.parameters["scope"])
        answer = await here.begin(version, ("authorization", f"Bearer {token}"))
        assert answer.status == 200
        assert b'"result"' in answer.body


@pytest.mark.parametrize("version", [version for version in FIRST if version != "2024-11-05"])
async def test_client_follows_the_challenge_and_steps_up(version: str) -> None:
    async with protected() as here:
        walker = Walker(here)
        target = mcptrio.Endpoint(url=here.resource, auth=walker)
        async with mcptrio.connect(target, revision=version) as client:
            assert _text(await client.call_tool("whoami")) == "ada read"
            assert _text(await client.call_tool("write")) == "written"
            assert _text(await client.call_tool("whoami")) == "ada read write"

        assert walker.asked == [{"read"}, {"read", "write"}]
        assert here.issuer.asked.count("/keys") == 1


async def test_client_of_2024_11_05_is_admitted_over_sse() -> None:
    async with protected() as here:
        refused = await here.ask("GET", "/sse", b"", ("accept", "text/event-stream"))
        assert refused.status == 401
        assert "oauth-protected-resource/mcp" in refused.header("www-authenticate")

        token = here.issuer.token(here.resource)
        target = mcptrio.Endpoint(
            url=here.resource.replace("/mcp", "/sse"), headers={"authorization": f"Bearer {token}"}, transport="sse"
        )
        async with mcptrio.connect(target) as client:
            assert _text(await client.call_tool("whoami")) == "ada read"


async def test_bound_token_requires_a_proof_with_each_request() -> None:
    options = ResourceServerOptions(dpop=DPoPRule(use="required", nonces=300))
    async with protected(options) as here:
        walker = Walker(here, prover=DPoPSigner())
        async with mcptrio.connect(mcptrio.Endpoint(url=here.resource, auth=walker)) as client:
            for _ in range(3):
                assert _text(await client.call_tool("whoami")) == "ada read"

        stolen = await here.begin("2026-07-28", ("authorization", f"Bearer {walker.token}"))
        assert stolen.status == 401
        [challenge] = parse_challenges(stolen.header("www-authenticate"))
        assert challenge.scheme == "dpop"
        assert stolen.header("dpop-nonce")
        assert walker.prover is not None
        assert walker.token is not None
        proof = walker.prover.prove("POST", here.resource, token=walker.token)
        fields = (("authorization", f"DPoP {walker.token}"), ("dpop", proof))
        assert (await here.begin("2026-07-28", *fields)).status == 200
        replayed = await here.begin("2026-07-28", *fields)
        assert (replayed.status, "invalid_dpop_proof" in replayed.header("www-authenticate")) == (401, True)


async def test_forged_tokens_are_refused_without_a_reason() -> None:
    async with protected(ResourceServerOptions(failures=FailureLimit(per_minute=0))) as here:
        make = partial(here.issuer.token, here.resource)
        good, now = ("authorization", f"Bearer {make()}"), int(time.time())
        assert (await here.begin("2026-07-28", good)).status == 200

        for name, token in {
            "audience": make(aud="http://localhost:1/mcp"),
            "issuer": make(iss="https://evil.example"),
            "key": make(OTHER),
            "expired": make(exp=now - 61, iat=now - 400),
            "not yet": make(nbf=now + 1000),
            "refresh": make(token_use="refresh"),
            "opaque": "x",
        }.items():
            refused = await here.begin("2026-07-28", ("authorization", f"Bearer {token}"))
            assert refused.status == 401, name
            assert 'error="invalid_token"' in refused.header("www-authenticate"), name
            assert token not in str(refused) or len(token) < 9, name
            # Only the sender of a genuine token learns the reason.
            assert ("has expired" in refused.body.decode()) == (name == "expired"), name
        for name, fields, target in (
            ("twice", [good, good], "/mcp"),
            ("two names", [good, ("AUTHORIZATION", good[1])], "/mcp"),
            ("query", [], f"/mcp?access_token={good[1].split()[1]}"),
            ("query too", [good], "/mcp?access_token=x"),
            ("no token", [("authorization", "Bearer")], "/mcp"),
        ):
            refused = await here.begin("2026-07-28", *fields, target=target)
            assert refused.status == 400, name
        weak = await here.begin("2026-07-28", ("authorization", f"Bearer {make(scope='other')}"))
        assert weak.status == 403
        assert 'scope="other read"' in weak.header("www-authenticate")


async def test_rotated_key_is_found_and_old_keys_survive_an_unreachable_issuer() -> None:
    async with protected(times=KeyTimes(refetch_after=0.05)) as here:
        make = partial(here.issuer.token, here.resource)
        assert (await here.begin("2026-07-28", ("authorization", f"Bearer {make()}"))).status == 200
        here.issuer.keys = [OTHER]
        await trio.sleep(0.06)
        assert (await here.begin("2026-07-28", ("authorization", f"Bearer {make(OTHER)}"))).status == 200
        assert (await here.begin("2026-07-28", ("authorization", f"Bearer {make(jti='2')}"))).status == 401
        here.issuer.is_ill = True
        await trio.sleep(0.06)
        assert (await here.begin("2026-07-28", ("authorization", f"Bearer {make(OTHER, jti='3')}"))).status == 200

    async with protected() as here:
        here.issuer.is_ill = True
        unsure = await here.begin("2026-07-28", ("authorization", f"Bearer {here.issuer.token(here.resource)}"))
        assert unsure.status in (429, 503)
        assert int(unsure.header("retry-after")) >= 1
        assert (await here.begin("2026-07-28")).status == 401


async def test_address_with_many_failures_is_rate_limited() -> None:
    async with protected(ResourceServerOptions(failures=FailureLimit(per_minute=1, burst=3))) as here:
        statuses = [(await here.begin("2026-07-28", ("authorization", "Bearer guess"))).status for _ in range(5)]

        assert statuses == [401, 401, 401, 429, 429]
        assert (await here.begin("2026-07-28")).status == 401


def _text(result: Any) -> str:
    text: str = result.content[0].text
    return text
