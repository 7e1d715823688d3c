"""Attackers with another user's tokens, session ids, event ids, states or names gain nothing.

Our server and our authorization server over real HTTP; ada and bob have logged in, and ada has more scopes. Tests of
single parts are with the tests of site parts; docs/threat-model.md has the whole list.

Source: MCP 2025-11-25 and 2026-07-28, basic/security_best_practices, basic/transports, basic/authorization.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import Factory, define, frozen

import mcptrio
from mcptrio import Context, tool
from mcptrio.auth import DPoPRule, FailureLimit, OAuth, OwnRedirects, ResourceServerOptions
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.jose import Key, sign
from tests.auth_peers.guarded import ACCEPT, WAIT_TIMEOUT, Guarded, last_message, loopback_fetch, modern, plain_http
from tests.auth_peers.own_authorization import BACK, browser_of, own_authorization

__all__: list[str] = []

UNBOUNDED = FailureLimit(per_minute=0)
HERE = "notes://open"
SECRET = "notes://secret"


@define
class Office:
    """A plugin with secrets of its users."""

    begun: trio.Event = Factory(trio.Event)
    go: trio.Event = Factory(trio.Event)

    @tool
    def who(self, ctx: Context) -> str:
        return _subject(ctx)

    @tool
    async def slow(self, ctx: Context) -> str:
        self.begun.set()
        await self.go.wait()
        return f"the secret of {_subject(ctx)}"

    @tool
    async def ask(self, ctx: Context) -> str:
        answer = await ctx.ask("The number of your account?", str, key="number")
        return f"{_subject(ctx)} said {answer}"

    @tool(scopes=["write"])
    def write(self) -> str:
        return "written"

    @mcptrio.resource(HERE)
    def open_note(self) -> str:
        return "for all"

    @mcptrio.resource(SECRET, scopes=["write"])
    def secret_note(self) -> str:
        return "for few"


def _subject(ctx: Context) -> str:
    assert ctx.principal is not None
    return ctx.principal.subject


@frozen
class Site:
    """A server, its plugin, and the access tokens of two users."""

    here: Guarded
    office: Office
    ada: str
    bob: str
    log_in_again: Callable[[str], Any]
    """Logs a user in with another client, and returns the new access token."""


async def logged_in(here: Guarded, name: str, *scopes: str) -> str:
    """Return the access token of a user who has logged in with our client."""
    method = OAuth(redirects=OwnRedirects(uri=BACK, send=browser_of(name).visit), scopes=scopes)
    auth = method.client_auth(here.url, loopback_fetch())
    await auth.log_in()
    return (await auth.headers("POST", here.url))["Authorization"].removeprefix("Bearer ")


@asynccontextmanager
async def open_site(folder: Path, **server: Any) -> AsyncIterator[Site]:
    office = Office()
    async with own_authorization(folder, office, options=ResourceServerOptions(failures=UNBOUNDED), **server) as (
        here,
        _,
    ):
        found: dict[str, str] = {}

        async def store_token(name: str, *scopes: str) -> None:
            found[name] = await logged_in(here, name, *scopes)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(store_token, "ada", "read", "write")
            nursery.start_soon(store_token, "bob", "read")
        yield Site(here, office, found["ada"], found["bob"], lambda name: logged_in(here, name, "read", "write"))
        office.go.set()


def call(name: str, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {}}}


def text_in(response: dict[str, Any]) -> str:
    text: str = response["result"]["content"][0]["text"]
    return text


# Stolen values


async def test_session_of_another_user_is_unknown(tmp_path: Path) -> None:
    """bob, ada with another client, and an anonymous client send it with every method. The session survives."""
    async with open_site(tmp_path) as site:
        here, session = site.here, await site.here.begin(site.ada)
        unknown = {**session, "mcp-session-id": "x" * len(session["mcp-session-id"])}
        for thief in (site.bob, await site.log_in_again("ada")):
            for method, message in (("POST", call("who")), ("GET", None), ("DELETE", None)):
                stolen = await here.send(message, token=thief, method=method, headers=session)
                missing = await here.send(message, token=thief, method=method, headers=unknown)
                assert stolen.status_code == missing.status_code == 404, method
                assert stolen.text == missing.text
                assert (await here.send(message, method=method, headers=session)).status_code == 401
        assert text_in(last_message(await here.send(call("who"), token=site.ada, headers=session))) == "ada"


async def test_event_id_of_another_user_replays_nothing(tmp_path: Path) -> None:
    """The id is unknown in the thief's session, and the owner can still resume."""
    async with open_site(tmp_path) as site:
        here = site.here
        ada, bob = await here.begin(site.ada), await here.begin(site.bob)
        with trio.fail_after(WAIT_TIMEOUT):
            async with here.stream(call("slow", 7), token=site.ada, headers=ada) as answer:
                assert answer.status == 200
                event = await answer.first("id")
                assert event
            site.office.go.set()
            resume = {"last-event-id": event, "accept": "text/event-stream"}
            async with here.stream(token=site.bob, method="GET", headers={**bob, **resume}) as stolen:
                assert stolen.status in (200, 400, 404)
                with trio.move_on_after(0.3):
                    assert await stolen.first("data", "{") == ""
            assert (await here.send(token=site.bob, method="GET", headers={**ada, **resume})).status_code == 404
            async with here.stream(token=site.ada, method="GET", headers={**ada, **resume}) as answer:
                assert answer.status == 200
                assert text_in(json.loads(await answer.first("data", "{"))) == "the secret of ada"


async def test_request_state_of_another_user_is_refused(tmp_path: Path) -> None:
    """The thief sends the awaited answer with the stolen state. The owner can still use the state."""
    async with open_site(tmp_path) as site:
        here = site.here
        asking = modern("tools/call", name="ask", arguments={})
        asked = last_message(await here.send(**asking, token=site.ada))["result"]
        assert asked["resultType"] == "input_required"
        answers = {"number": {"action": "accept", "content": {"value": "stolen"}}}
        answer_members = {"requestState": asked["requestState"], "inputResponses": answers}
        theft = await here.send(**modern("tools/call", name="ask", arguments={}, **answer_members), token=site.bob)
        assert last_message(theft)["error"]["code"] == mcptrio.InvalidParams("").code
        assert "ada" not in theft.text
        other = await here.send(**modern("tools/call", name="who", arguments={}, **answer_members), token=site.ada)
        assert "error" in last_message(other)
        used = await here.send(**modern("tools/call", name="ask", arguments={}, **answer_members), token=site.ada)
        assert text_in(last_message(used)) == "ada said stolen"


async def test_cancellation_of_another_users_request_has_no_effect(tmp_path: Path) -> None:
    """bob sends the id of ada's request in his own session."""
    async with open_site(tmp_path) as site:
        here, office = site.here, site.office
        ada, bob = await here.begin(site.ada), await here.begin(site.bob)
        results: list[str] = []

        async def wait() -> None:
            results.append(text_in(last_message(await here.send(call("slow", 7), token=site.ada, headers=ada))))

        with trio.fail_after(WAIT_TIMEOUT):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await office.begun.wait()
                cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
                assert (await here.send(cancel, token=site.bob, headers=bob)).status_code == 202
                assert (await here.send(cancel, token=site.bob, headers=ada)).status_code == 404
                # A revision without sessions has no request for such a notification.
                note = {**modern("notifications/cancelled", requestId=7)["message"]}
                del note["id"]
                headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "notifications/cancelled"}
                await here.send(note, token=site.bob, headers=headers)
                office.go.set()
        assert results == ["the secret of ada"]


async def test_unreadable_resources_send_no_updates(tmp_path: Path) -> None:
    """bob can neither read, subscribe to nor listen to such a resource, nor list it with another user's cursor."""
    async with open_site(tmp_path, page_size=1) as site:
        here = site.here
        page = last_message(await here.send(**modern("resources/list"), token=site.ada))["result"]
        next_page = last_message(
            await here.send(**modern("resources/list", cursor=page["nextCursor"]), token=site.ada)
        )["result"]
        assert [each["uri"] for each in page["resources"] + next_page["resources"]] == [HERE, SECRET]
        stolen = last_message(await here.send(**modern("resources/list", cursor=page["nextCursor"]), token=site.bob))
        assert SECRET not in json.dumps(stolen)

        assert (await here.send(**modern("resources/read", uri=SECRET), token=site.bob)).status_code == 403
        session = await here.begin(site.bob)
        subscribe = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": SECRET}}
        refused = await here.send(subscribe, token=site.bob, headers=session)
        assert refused.status_code == 403 or "error" in last_message(refused)

        wanted = {"resourceSubscriptions": [HERE, SECRET]}
        with trio.fail_after(WAIT_TIMEOUT):
            request = modern("subscriptions/listen", notifications=wanted)
            async with here.stream(request["message"], token=site.bob, headers=request["headers"]) as answer:
                assert answer.status == 200
                acknowledged = json.loads(await answer.first("data", "{"))
                assert acknowledged["params"]["notifications"]["resourceSubscriptions"] == [HERE]
                here.server.notify_resource_updated(SECRET)
                here.server.notify_resource_updated(HERE)
                update = json.loads(await answer.first("data", "{"))
                assert update["params"]["uri"] == HERE


async def test_identity_is_not_taken_from_meta_or_headers(tmp_path: Path) -> None:
    """A parent process names the caller in ``_meta``; proxies name it in headers. The server ignores both."""
    async with open_site(tmp_path) as site:
        ada = {"subject": "ada", "issuer": None, "clientId": None, "scopes": ["read", "write"]}
        meta = {"mcptrio/caller": {"caller": "principal:ada", "principal": ada}, "principal": ada}
        request = modern("tools/call", name="who", arguments={}, meta=meta)
        headers = {**request["headers"], "x-forwarded-user": "ada", "x-remote-user": "ada", "mcptrio-principal": "ada"}
        answer = await site.here.send(request["message"], token=site.bob, headers=headers)
        assert text_in(last_message(answer)) == "bob"
        write = modern("tools/call", name="write", arguments={}, meta=meta)
        assert (await site.here.send(**write, token=site.bob)).status_code == 403


# Tokens


async def test_forged_token_is_refused(tmp_path: Path) -> None:
    """The attacker has a valid token and everything that the authorization server publishes."""
    async with open_site(tmp_path) as site:
        here = site.here
        async with plain_http() as http:
            metadata = (await http.get(f"{here.origin}/.well-known/oauth-authorization-server/auth")).json()
            keys = (await http.get(metadata["jwks_uri"])).json()["keys"]
        head, body, signature = site.ada.split(".")
        claims, header = _read(body), _read(head)
        public = next(key for key in keys if key["kid"] == header["kid"])
        own = Key.generate("ES256")
        forged = {
            "nothing": f"{_written({'alg': 'none', 'typ': 'at+jwt'})}.{body}.",
            "nothing, and the old signature": f"{_written({'alg': 'none', 'typ': 'at+jwt'})}.{body}.{signature}",
            "the public key as a secret": _mac({**header, "alg": "HS256"}, body, json.dumps(public).encode()),
            "the empty secret": _mac({**header, "alg": "HS256"}, body, b""),
            "another subject": f"{head}.{_written({**claims, 'sub': 'root'})}.{signature}",
            "more scopes": f"{head}.{_written({**claims, 'scope': 'read write admin'})}.{signature}",
            "the attacker's key": sign(claims, own, typ="at+jwt"),
            "the attacker's key with the server's kid": sign(claims, own, typ="at+jwt", header={"kid": header["kid"]}),
            "the attacker's key in the header": sign(
                claims, own, typ="at+jwt", header={"jwk": own.bare, "kid": header["kid"]}
            ),
            "the attacker's key at another URL": sign(
                claims, own, typ="at+jwt", header={"jku": f"{here.origin}/keys", "kid": "x"}
            ),
        }
        request = modern("tools/call", name="who", arguments={})
        for name, token in forged.items():
            refused = await here.send(**request, token=token)
            assert (refused.status_code, name) == (401, name)
            assert 'error="invalid_token"' in refused.headers["www-authenticate"], name
        assert (await here.send(**request, token=site.ada)).status_code == 200


def _written(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _read(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def _mac(header: Any, body: str, secret: bytes) -> str:
    signed = f"{_written(header)}.{body}"
    code = hmac.digest(secret, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(code).rstrip(b'=').decode()}"


async def test_refresh_tokens_and_codes_are_refused_as_access_tokens(tmp_path: Path) -> None:
    browser = browser_of("ada")
    method = OAuth(redirects=OwnRedirects(uri=BACK, send=browser.visit))
    async with own_authorization(tmp_path, Office(), options=ResourceServerOptions(failures=UNBOUNDED)) as (here, _):
        auth = method.client_auth(here.url, loopback_fetch())
        await auth.log_in()
        granted = method._servers[here.url].granted
        assert granted is not None
        assert granted.tokens.refresh_token is not None
        for token in (granted.tokens.refresh_token.reveal(), "mcpac_" + "x" * 43, "x"):
            refused = await here.send(**modern("tools/call", name="who", arguments={}), token=token)
            assert refused.status_code == 401


async def test_token_bound_to_a_key_is_refused_without_a_new_proof(tmp_path: Path) -> None:
    """ada's client has proved its key to the authorization server; a thief has the token and one whole request."""
    options = ResourceServerOptions(failures=UNBOUNDED, dpop=DPoPRule(use="required"))
    method = OAuth(redirects=OwnRedirects(uri=BACK, send=browser_of("ada").visit))
    async with own_authorization(tmp_path, Office(), options=options) as (here, _):
        request = modern("tools/call", name="who", arguments={})
        async with here.client("2026-07-28", auth=method) as client:
            assert (await client.call_tool("who")).content[0].text == "ada"  # type: ignore[union-attr]
        auth = method.client_auth(here.url, loopback_fetch())
        stolen = dict(await auth.headers("POST", here.url))
        token = stolen["Authorization"].removeprefix("DPoP ")

        async def status(headers: dict[str, str]) -> int:
            return (await here.send(request["message"], headers={**request["headers"], **headers})).status_code

        assert await status(stolen) == 200
        assert await status(stolen) == 401
        assert await status({"Authorization": f"Bearer {token}"}) == 401
        assert await status({"Authorization": f"DPoP {token}"}) == 401
        thief = DPoPSigner()
        assert (
            await status({"Authorization": f"DPoP {token}", "dpop": thief.prove("POST", here.url, token=token)}) == 401
        )
        elsewhere = dict(await auth.headers("POST", here.url + "/../auth/token"))
        assert await status(elsewhere) == 401
        assert await status(dict(await auth.headers("GET", here.url))) == 401
        assert await status(dict(await auth.headers("POST", here.url))) == 200


async def test_secrets_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The authorization server, the server and the client log no secret at any level."""
    with caplog.at_level(logging.DEBUG):
        async with open_site(tmp_path) as site:
            session = await site.here.begin(site.ada)
            await site.here.send(call("who"), token=site.bob, headers=session)
            await site.here.send(call("who"), token=site.ada + "x")
            await site.here.send(call("write"), token=site.bob, headers=await site.here.begin(site.bob))
            await site.here.send(call("who"), query=f"?access_token={site.ada}")
    own = [record for record in caplog.records if record.name.startswith("mcptrio")]
    assert len(own) > 3
    logged = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in own)
    for token in (site.ada, site.bob):
        assert all(part not in logged for part in token.split("."))
    for word in ("code=", "refresh_token=", "code_verifier=", "correct horse", session["mcp-session-id"]):
        assert word not in logged


# Paths, transports and host names


async def test_unauthenticated_requests_are_refused_on_every_path_and_transport(tmp_path: Path) -> None:
    """The requests use similar paths, other methods, and the other transports of the same server."""
    async with open_site(tmp_path) as site:
        request = modern("tools/call", name="who", arguments={})
        for path in (
            "/mcp",
            "/mcp/",
            "//mcp",
            "/MCP",
            "/mcp;x",
            "/mcp%2f",
            "/%6dcp",
            "/./mcp",
            "/auth/../mcp",
            "/messages",
        ):
            async with plain_http() as http:
                given = {"accept": ACCEPT, **request["headers"]}
                answer = await http.post(site.here.origin + path, json=request["message"], headers=given)
                assert answer.status_code in (400, 401, 404), path
                upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
                upgrade |= {"sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==", "sec-websocket-protocol": "mcp"}
        for path, headers in (("/sse", {}), ("/ws", upgrade)):
            async with plain_http() as http:
                assert (await http.get(site.here.origin + path, headers=headers)).status_code == 401, path
        for method in ("HEAD", "PUT", "PATCH", "TRACE"):
            assert (await site.here.send(request["message"], method=method)).status_code in (401, 405)


async def test_request_for_a_foreign_host_is_refused(tmp_path: Path) -> None:
    """DNS rebinding: evil.example now resolves to this machine, and its page sends a stolen token."""
    async with open_site(tmp_path) as site:
        here = site.here
        for host in ("evil.example", f"evil.example:{here.url.split(':')[2].split('/')[0]}", "127.0.0.1.evil.example"):
            for path in ("/mcp", "/auth/authorize", "/auth/token", "/auth/register"):
                async with plain_http() as http:
                    headers = {"host": host, "authorization": f"Bearer {site.ada}", "accept": ACCEPT}
                    request = modern("tools/call", name="who", arguments={})
                    answer = await http.post(
                        here.origin + path, json=request["message"], headers={**request["headers"], **headers}
                    )
                    assert answer.status_code == 421, path
                    assert "ada" not in answer.text
            for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server/auth"):
                async with plain_http() as http:
                    assert (await http.get(here.origin + path, headers={"host": host})).status_code == 421, path
        page = {"origin": "https://evil.example"}
        assert (await here.send(**_with(modern("tools/list"), page), token=site.ada)).status_code == 403


def _with(request: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    return {**request, "headers": {**request["headers"], **headers}}
