"""Introspected tokens: results are cached as configured, never used after expiry, and refused without a response."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import Secret
from mcptrio.abc import FetchRequest, FetchResponse, Principal
from mcptrio.auth.server.introspection import IntrospectedTokens, IntrospectionBounds
from mcptrio.auth.token_requests import ClientIdentity
from mcptrio.errors import Overloaded, RequestFailed
from tests.auth.server_parts import INTROSPECTION, ISSUER, METADATA, RESOURCE, Clock, Issuer

__all__: list[str] = []

CLIENT = ClientIdentity(client_id="mcp server", client_secret=Secret("s:e cret"), method="client_secret_basic")
ACTIVE = {"active": True, "sub": "ada", "client_id": "cli", "scope": "read", "aud": RESOURCE}


def verifier(
    issuer: Issuer,
    *,
    audience: tuple[str, ...] = (RESOURCE,),
    client: ClientIdentity = CLIENT,
    endpoint: str | None = INTROSPECTION,
    fetch: Any = None,
    ticks: Clock | None = None,
    **bounds: Any,
) -> IntrospectedTokens:
    return IntrospectedTokens(
        ISSUER,
        client,
        fetch or issuer,
        audience=audience,
        endpoint=endpoint,
        bounds=IntrospectionBounds(**bounds),
        clock=issuer.clock,
        ticks=ticks or issuer.clock,
    )


async def test_introspection_request_authenticates_the_resource_server() -> None:
    issuer = Issuer(active={"opaque": ACTIVE})

    principal = await verifier(issuer, endpoint=None).verify("opaque")

    assert principal == Principal(subject="ada", issuer=ISSUER, client_id="cli", scopes=frozenset({"read"}))
    [(headers, form)] = issuer.questions
    assert headers["authorization"] == "Basic " + base64.b64encode(b"mcp%20server:s%3Ae%20cret").decode()
    assert form == {"token": ["opaque"], "token_type_hint": ["access_token"], "client_id": ["mcp server"]}
    assert issuer.asked == {METADATA: 1, INTROSPECTION: 1}


async def test_introspection_client_may_authenticate_in_the_form() -> None:
    issuer = Issuer(active={"opaque": ACTIVE})
    client = ClientIdentity(client_id="us", client_secret=Secret("secret"), method="client_secret_post")

    assert await verifier(issuer, client=client).verify("opaque") is not None
    [(headers, form)] = issuer.questions
    assert "authorization" not in headers
    assert (form["client_id"], form["client_secret"]) == (["us"], ["secret"])


NOW = int(Issuer().clock())


@pytest.mark.parametrize(
    ("answer", "is_valid"),
    [
        ({}, True),
        ({"exp": None, "nbf": None, "iat": None}, True),
        ({"active": False}, False),
        ({"active": "true"}, False),
        ({"active": 1}, False),
        ({"active": None}, False),
        ({"aud": ["https://other.example", RESOURCE]}, True),
        ({"aud": "https://other.example"}, False),
        ({"aud": None}, False),
        ({"iss": ISSUER}, True),
        ({"iss": "https://other.example"}, False),
        ({"exp": NOW + 1}, True),
        ({"exp": NOW - 61}, False),
        ({"exp": "soon"}, False),
        ({"nbf": NOW + 61}, False),
        ({"sub": None}, True),
        ({"sub": None, "client_id": None}, False),
        ({"token_type": "DPoP"}, True),
        ({"token_type": "bearer"}, True),
        ({"token_type": "refresh_token"}, False),
        ({"typ": "Refresh"}, False),
        ({"token_use": "refresh"}, False),
    ],
)
async def test_introspection_response_decides_whether_the_token_is_valid(
    answer: Mapping[str, Any], is_valid: bool
) -> None:
    issuer = Issuer(active={"opaque": {**ACTIVE, **answer}})

    assert (await verifier(issuer).verify("opaque") is not None) == is_valid


async def test_audience_is_not_checked_when_none_is_configured() -> None:
    issuer = Issuer(active={"opaque": {**ACTIVE, "aud": None}})

    assert await verifier(issuer, audience=()).verify("opaque") is not None


async def test_introspection_result_is_cached_but_not_past_expiry() -> None:
    issuer = Issuer(active={"opaque": {**ACTIVE, "exp": NOW - 40}, "lasting": ACTIVE})
    tokens = verifier(issuer, remember=30)

    for _ in range(5):
        assert await tokens.verify("opaque") is not None
        assert await tokens.verify("lasting") is not None
    assert issuer.asked[INTROSPECTION] == 2
    issuer.active.clear()
    issuer.clock.now += 19
    assert await tokens.verify("opaque") is not None
    issuer.clock.now += 1
    assert await tokens.verify("opaque") is None  # expired, beyond the clock skew
    assert await tokens.verify("lasting") is not None
    issuer.clock.now += 10
    assert await tokens.verify("lasting") is None  # revoked


async def test_unknown_token_is_introspected_once_per_cache_lifetime() -> None:
    issuer = Issuer()
    tokens = verifier(issuer, remember_bad=10)

    for _ in range(5):
        assert await tokens.verify("unknown") is None
    assert issuer.asked[INTROSPECTION] == 1
    issuer.clock.now += 10
    assert await tokens.verify("unknown") is None
    assert issuer.asked[INTROSPECTION] == 2


async def test_introspection_cache_is_limited() -> None:
    issuer = Issuer(active={"opaque": ACTIVE})
    tokens = verifier(issuer, remembered=3)
    await tokens.verify("opaque")
    for number in range(3):
        await tokens.verify(str(number))
    await tokens.verify("opaque")

    assert issuer.asked[INTROSPECTION] == 5


async def test_concurrent_requests_share_one_introspection() -> None:
    issuer = Issuer(active={"opaque": ACTIVE})
    slow, results = trio.Event(), []

    async def fetch(request: FetchRequest) -> FetchResponse:
        await slow.wait()
        return await issuer(request)

    tokens = verifier(issuer, fetch=fetch)

    async def verify() -> None:
        results.append(await tokens.verify("opaque"))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(verify)
        await trio.testing.wait_all_tasks_blocked()
        slow.set()

    assert issuer.asked[INTROSPECTION] == 1
    assert len(results) == 50
    assert None not in results


async def test_cancelled_introspection_does_not_affect_others() -> None:
    issuer = Issuer(active={"opaque": ACTIVE})
    events: list[trio.Event] = []

    async def fetch(request: FetchRequest) -> FetchResponse:
        events.append(trio.Event())
        await events[-1].wait()
        return await issuer(request)

    tokens, results = verifier(issuer, fetch=fetch), []

    async def leave(scope: trio.CancelScope) -> None:
        with scope:
            await tokens.verify("opaque")

    async def stay() -> None:
        results.append(await tokens.verify("opaque"))

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        nursery.start_soon(leave, scope)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(stay)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        events[-1].set()

    assert len(events) == 2
    assert results[0] is not None


async def test_introspections_beyond_the_queue_limit_are_refused() -> None:
    issuer = Issuer()
    slow, refused = trio.Event(), []

    async def fetch(request: FetchRequest) -> FetchResponse:
        await slow.wait()
        return await issuer(request)

    tokens = verifier(issuer, fetch=fetch, asking=2, waiting=3)

    async def verify(token: str) -> None:
        try:
            await tokens.verify(token)
        except Overloaded:
            refused.append(token)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(verify, str(number))
        await trio.testing.wait_all_tasks_blocked()
        assert len(refused) == 5
        slow.set()
    assert issuer.asked[INTROSPECTION] == 5


async def test_requests_are_refused_while_the_issuer_is_unreachable(caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer(active={"opaque": ACTIVE, "known": ACTIVE}, down=False)
    tokens = verifier(issuer)
    await tokens.verify("known")
    issuer.down = True

    for _ in range(10):
        with pytest.raises(Overloaded, match="cannot be verified now"):
            await tokens.verify("opaque")
        assert await tokens.verify("known") is not None
    assert issuer.asked[INTROSPECTION] == 2
    assert "nobody is there" in caplog.text
    assert "opaque" not in caplog.text
    issuer.down = False
    issuer.clock.now += 5
    assert await tokens.verify("opaque") is not None


@pytest.mark.parametrize(
    "answer",
    [
        FetchResponse(status=401),
        FetchResponse(status=500),
        FetchResponse(status=302, headers={"location": "https://evil.example/"}),
        FetchResponse(status=200, body=b"active"),
        FetchResponse(status=200, body=b"[true]"),
        FetchResponse(status=200, body=b'{"active":true,"x":"' + b"x" * 200_000 + b'"}'),
    ],
)
async def test_malformed_response_admits_no_request(answer: FetchResponse, caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer(answers={INTROSPECTION: answer}, active={"other": ACTIVE})
    tokens = verifier(issuer)

    with caplog.at_level(logging.ERROR), pytest.raises(Overloaded):
        await tokens.verify("opaque")
    assert "token not verified: issuer=" in caplog.text
    assert "s:e cret" not in caplog.text
    issuer.answers.clear()
    assert await tokens.verify("other") is not None  # only that token was refused


async def test_failed_introspection_does_not_block_other_tokens() -> None:
    issuer = Issuer(active={"opaque": ACTIVE})

    async def fetch(request: FetchRequest) -> FetchResponse:
        if b"passwd" in request.body:
            raise RequestFailed("the connection was reset")
        return await issuer(request)

    tokens = verifier(issuer, fetch=fetch)
    with pytest.raises(Overloaded):
        await tokens.verify("../etc/passwd")
    assert await tokens.verify("opaque") is not None


async def test_revoked_token_expires_from_the_cache_when_the_wall_clock_is_set_back() -> None:
    issuer, ticks = Issuer(active={"opaque": ACTIVE}), Clock()
    tokens = verifier(issuer, ticks=ticks, remember=30)
    assert await tokens.verify("opaque") is not None

    issuer.active.clear()
    issuer.clock.now -= 86400
    ticks.now += 31
    assert await tokens.verify("opaque") is None


async def test_silent_endpoint_times_out(autojump_clock: trio.testing.MockClock) -> None:
    async def fetch(request: FetchRequest) -> FetchResponse:
        await trio.sleep_forever()

    began = trio.current_time()

    with pytest.raises(Overloaded):
        await verifier(Issuer(), fetch=fetch, request_timeout=3).verify("opaque")
    assert trio.current_time() - began == pytest.approx(3)


async def test_oversized_token_is_not_introspected() -> None:
    issuer = Issuer()

    assert await verifier(issuer).verify("x" * 16385) is None
    assert not issuer.asked
