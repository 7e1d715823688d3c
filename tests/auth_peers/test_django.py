"""Our server with tokens of Django OAuth Toolkit, verified with its keys or by introspection.

Source: RFC 9068 section 4; RFC 7662 section 2; RFC 8707 section 2; RFC 7009; django-oauth-toolkit 3.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from attrs import define, evolve

from mcptrio import Secret
from mcptrio.auth import (
    IntrospectedTokens,
    IssuerKeys,
    JWTTokens,
    OAuth,
    OwnRedirects,
    PreRegistered,
    ResourceServer,
)
from mcptrio.auth.server.introspection import IntrospectionBounds
from mcptrio.auth.token_requests import ClientIdentity
from mcptrio.errors import AuthorizationError
from tests.auth_peers.browser import Browser
from tests.auth_peers.django_peer import BACK, DjangoPeer
from tests.auth_peers.guarded import Guarded, guarded, loopback_fetch

__all__: list[str] = []

WAYS = ("jwks", "introspection")
REVISIONS = ("2026-07-28", "2025-11-25")
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@define
class Clock:
    """The real time plus an offset."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def guard_by(
    way: str, peer: DjangoPeer, clock: Clock | None = None, *, remember: float = 30.0
) -> Callable[[str], ResourceServer]:
    """Return a guard that verifies tokens with keys or by introspection."""
    clock = clock or Clock()

    def make(url: str) -> ResourceServer:
        tokens: JWTTokens | IntrospectedTokens
        if way == "jwks":
            keys = IssuerKeys(peer.url, loopback_fetch(), ticks=clock)
            tokens = JWTTokens(keys, audience=[url], clock=clock)
        else:
            tokens = IntrospectedTokens(
                peer.url,
                peer.guard.identity,
                loopback_fetch(),
                audience=[url],
                bounds=IntrospectionBounds(remember=remember, remember_bad=remember),
                clock=clock,
                ticks=clock,
            )
        return ResourceServer(url, tokens=[tokens], authorization_servers=[peer.url], scopes=["read"], clock=clock)

    return make


async def who(here: Guarded, token: str, revision: str = "2026-07-28") -> str:
    async with here.client(revision, token=token) as client:
        return (await client.call_tool("who")).content[0].text  # type: ignore[union-attr]


async def refused(here: Guarded, token: str) -> tuple[int, str]:
    answer = await here.send(LIST, token=token)
    return answer.status_code, answer.headers.get("www-authenticate", "")


# Tokens of clients without a user


@pytest.mark.parametrize("way", WAYS)
async def test_token_for_this_server_is_accepted(django: DjangoPeer, way: str) -> None:
    async with guarded(guard_by(way, django)) as here:
        token = await django.token(here.url)
        for revision in REVISIONS:
            assert await who(here, token, revision) == "robot robot read"


@pytest.mark.parametrize("way", WAYS)
async def test_token_for_another_server_is_refused(django: DjangoPeer, way: str) -> None:
    async with guarded(guard_by(way, django)) as here:
        for elsewhere in ("https://other.example.com/mcp", here.origin, here.url + "/deeper", None):
            status, challenge = await refused(here, await django.token(elsewhere))
            assert status == 401
            assert 'error="invalid_token"' in challenge
            assert f"{here.origin}/.well-known/oauth-protected-resource/mcp" in challenge


@pytest.mark.parametrize("way", WAYS)
async def test_token_without_a_required_scope_gets_a_scope_challenge(django: DjangoPeer, way: str) -> None:
    async with guarded(guard_by(way, django)) as here:
        status, challenge = await refused(here, await django.token(here.url, "write"))
        assert status == 403
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="read write"' in challenge


@pytest.mark.parametrize("way", WAYS)
async def test_modified_token_is_refused(django: DjangoPeer, way: str) -> None:
    async with guarded(guard_by(way, django)) as here:
        head, body, signature = (await django.token(here.url)).split(".")
        other = (await django.token("https://other.example.com/mcp")).split(".")[1]
        middle = len(signature) // 2
        changed = signature[:middle] + ("A" if signature[middle] != "A" else "B") + signature[middle + 1 :]
        for token in (f"{head}.{other}.{signature}", f"{head}.{body}.{changed}", f"{head}.{body}.", f"{head}.{body}"):
            assert (await refused(here, token))[0] == 401


@pytest.mark.parametrize("way", WAYS)
async def test_token_expires(django: DjangoPeer, way: str) -> None:
    """It expires after ten minutes, also in the cache."""
    clock = Clock()
    async with guarded(guard_by(way, django, clock, remember=3600)) as here:
        token = await django.token(here.url)
        assert await who(here, token) == "robot robot read"
        clock.ahead = 600 + 61
        assert (await refused(here, token))[0] == 401


async def test_revoked_token_is_refused_after_its_cache_lifetime(django: DjangoPeer) -> None:
    clock = Clock()
    async with guarded(guard_by("introspection", django, clock)) as here:
        token = await django.token(here.url)
        assert await who(here, token) == "robot robot read"
        await django.revoke(token)
        clock.ahead = 31
        assert (await refused(here, token))[0] == 401


async def test_server_that_may_not_introspect_is_unavailable(django: DjangoPeer) -> None:
    """The server's own secret is wrong. That is not the client's fault, so the client may retry."""

    def make(url: str) -> ResourceServer:
        wrong = ClientIdentity(client_id=django.guard.id, client_secret=Secret("wrong"))
        return ResourceServer(url, tokens=[IntrospectedTokens(django.url, wrong, loopback_fetch(), audience=[url])])

    async with guarded(make) as here:
        answer = await here.send(LIST, token=await django.token(here.url))
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1


async def test_new_signing_key_is_found_after_a_rotation(django: DjangoPeer) -> None:
    """The next token names an unknown key; the keys are fetched again half a minute after the last fetch."""
    clock = Clock()
    async with guarded(guard_by("jwks", django, clock)) as here:
        old = await django.token(here.url)
        assert await who(here, old) == "robot robot read"
        await django.rotate(keep=True)
        new = await django.token(here.url)
        assert (await refused(here, new))[0] == 401
        clock.ahead = 31
        assert await who(here, new) == await who(here, old) == "robot robot read"

    await django.rotate(keep=False)
    async with guarded(guard_by("jwks", django)) as again:
        assert (await refused(again, old))[0] == 401
        assert await who(again, await django.token(again.url)) == "robot robot read"


# Tokens of users


class Person:
    """A user who logs in and consents; the browser keeps its cookies."""

    def __init__(self, peer: DjangoPeer, name: str, answer: str = "Authorize") -> None:
        typed = {"username": name, "password": peer.passwords[name]}
        self.browser = Browser(typed, ("Log in", answer), BACK)

    @property
    def oauth(self) -> OAuth:
        return OAuth(client_name="peers", redirects=OwnRedirects(uri=BACK, send=self.browser.visit))


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("way", WAYS)
async def test_user_logs_in_consents_and_steps_up(django: DjangoPeer, way: str, revision: str) -> None:
    """Our client discovers metadata, registration, PKCE and the resource, and steps up for more scopes."""
    ada = Person(django, "ada")
    async with guarded(guard_by(way, django), list_all=True) as here:
        async with here.client(revision, auth=ada.oauth) as client:
            subject, client_id, *scopes = (await client.call_tool("who")).content[0].text.split()  # type: ignore[union-attr]
            assert (subject, scopes) == ("ada", ["read"])
            assert client_id not in ("", "None", "robot")
            assert len(ada.browser.pages) == 2  # the login, the consent
            assert (await client.call_tool("write")).content[0].text == "written"  # type: ignore[union-attr]
            assert len(ada.browser.pages) == 3
            assert "Write notes" in ada.browser.pages[2]
            assert (await client.call_tool("who")).content[0].text.split()[2:] == ["read", "write"]  # type: ignore[union-attr]


@pytest.mark.parametrize("way", WAYS)
async def test_users_with_the_same_client_do_not_share_sessions(django: DjangoPeer, way: str) -> None:
    """The client is registered in advance, with a secret."""
    client = PreRegistered(client_id=django.reader.id, client_secret=Secret(django.reader.secret), issuer=django.url)
    tokens: dict[str, str] = {}
    async with guarded(guard_by(way, django)) as here:
        for name in ("ada", "bob"):
            oauth = evolve(Person(django, name).oauth, client=client)
            auth = oauth.client_auth(here.url, loopback_fetch())
            await auth.log_in()
            tokens[name] = (await auth.headers("POST", here.url))["Authorization"].removeprefix("Bearer ")
            assert (await who(here, tokens[name], "2025-11-25")).split() == [name, django.reader.id, "read"]
        session = await here.begin(tokens["ada"])
        assert (await here.send(LIST, token=tokens["bob"], headers=session)).status_code == 404
        assert (await here.send(LIST, token=tokens["ada"], headers=session)).status_code == 200


async def test_login_denied_by_the_user_is_an_error(django: DjangoPeer) -> None:
    """That server announces ``iss`` and omits it when the user denies the request, so its reason is not shown."""
    bob = Person(django, "bob", answer="Cancel")
    async with guarded(guard_by("jwks", django)) as here:
        with pytest.raises(AuthorizationError, match=f"iss: expected '{django.url}' in the redirect, got none"):
            async with here.client(auth=bob.oauth):
                pass
    assert len(bob.browser.pages) == 2
