"""Keys are fetched when they are needed, at a limited rate, and are kept while their issuer is down."""

from __future__ import annotations

import logging

import orjson
import pytest
import trio
import trio.testing

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.jose import Key, KeySet
from mcptrio.auth.server.issuer_keys import IssuerKeys, KeyTimes
from mcptrio.errors import Overloaded
from tests.auth.server_parts import ISSUER, JWKS, KEY, METADATA, OTHER_KEY, Issuer

__all__: list[str] = []

TIMES = KeyTimes(fresh=1000, stale=5000, refetch_after=30, fetch_timeout=5)


def keys_of(issuer: Issuer, jwks: str | None = JWKS) -> IssuerKeys:
    return IssuerKeys(ISSUER, issuer, jwks=jwks, times=TIMES, ticks=issuer.clock)


async def test_keys_url_is_read_from_the_metadata() -> None:
    issuer = Issuer()

    assert (await keys_of(issuer, None).for_token(KEY.id)).has(KEY.id or "")
    assert issuer.asked == {METADATA: 1, JWKS: 1}


async def test_keys_are_fetched_once_and_again_after_they_expire() -> None:
    issuer = Issuer()
    keys = keys_of(issuer)

    for _ in range(10):
        await keys.for_token(KEY.id)
    assert issuer.asked[JWKS] == 1
    issuer.clock.now += 1000
    await keys.for_token(KEY.id)
    assert issuer.asked[JWKS] == 2


async def test_rotated_key_is_fetched_at_once_and_replaces_the_old_one() -> None:
    issuer = Issuer()
    keys = keys_of(issuer)
    await keys.for_token(KEY.id)
    issuer.keys = [OTHER_KEY]
    issuer.clock.now += 30

    found = await keys.for_token(OTHER_KEY.id)

    assert found.has(OTHER_KEY.id or "")
    assert not found.has(KEY.id or "")
    assert issuer.asked[JWKS] == 2


async def test_flood_of_unknown_key_ids_causes_few_requests() -> None:
    issuer = Issuer()
    keys = keys_of(issuer)
    for second in range(300):
        issuer.clock.now += 1
        for number in range(10):
            assert (await keys.for_token(f"{second}-{number}")).has(KEY.id or "")

    assert issuer.asked[JWKS] == 10  # in 300 seconds, one in 30


async def test_concurrent_requests_fetch_the_keys_once() -> None:
    issuer = Issuer()
    slow = trio.Event()

    async def fetch(request: FetchRequest) -> FetchResponse:
        await slow.wait()
        return await issuer(request)

    keys = IssuerKeys(ISSUER, fetch, jwks=JWKS, times=TIMES, ticks=issuer.clock)
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(keys.for_token, KEY.id)
        await trio.testing.wait_all_tasks_blocked()
        slow.set()

    assert issuer.asked[JWKS] == 1


async def test_requests_during_a_key_fetch_wait_or_use_the_old_keys() -> None:
    issuer = Issuer()
    gates: list[trio.Event] = []

    async def fetch(request: FetchRequest) -> FetchResponse:
        gates.append(trio.Event())
        await gates[-1].wait()
        return await issuer(request)

    keys, results = IssuerKeys(ISSUER, fetch, jwks=JWKS, times=TIMES, ticks=issuer.clock), []

    async def wait() -> None:
        results.append(await keys.for_token(KEY.id))

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
        assert not results
        gates[0].set()
    assert len(results) == 2

    issuer.clock.now += 1001
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert (await keys.for_token(KEY.id)).has(KEY.id or "")
        gates[1].set()
    assert len(gates) == 2


async def test_old_keys_are_used_while_the_issuer_is_down(caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer()
    keys = keys_of(issuer)
    await keys.for_token(KEY.id)
    issuer.down = True
    issuer.clock.now += 1001

    assert (await keys.for_token(KEY.id)).has(KEY.id or "")
    assert "keys not fetched: issuer=" in caplog.text
    for _ in range(10):
        await keys.for_token(KEY.id)
    assert issuer.asked[JWKS] == 2  # one attempt in 30 seconds

    issuer.clock.now += 4000
    with pytest.raises(Overloaded, match="cannot be verified now") as refused:
        await keys.for_token(KEY.id)
    assert refused.value.retry_after == pytest.approx(30)

    issuer.down = False
    issuer.clock.now += 30
    assert (await keys.for_token(KEY.id)).has(KEY.id or "")


async def test_verification_without_keys_is_overloaded_and_fetches_once() -> None:
    issuer = Issuer(down=True)
    keys = keys_of(issuer)

    for _ in range(3):
        with pytest.raises(Overloaded):
            await keys.for_token(KEY.id)
    assert issuer.asked[JWKS] == 1


async def test_silent_issuer_times_out(autojump_clock: trio.testing.MockClock) -> None:
    async def fetch(request: FetchRequest) -> FetchResponse:
        await trio.sleep_forever()

    keys = IssuerKeys(ISSUER, fetch, jwks=JWKS, times=TIMES)
    began = trio.current_time()

    with pytest.raises(Overloaded):
        await keys.for_token(KEY.id)
    assert trio.current_time() - began == pytest.approx(5)


async def test_cancelled_key_fetch_does_not_affect_others() -> None:
    """Otherwise an attacker who disconnects during each fetch could keep the other clients from getting the keys."""
    issuer = Issuer()
    asked: list[trio.Event] = []

    async def fetch(request: FetchRequest) -> FetchResponse:
        asked.append(trio.Event())
        await asked[-1].wait()
        return await issuer(request)

    keys = IssuerKeys(ISSUER, fetch, jwks=JWKS, times=TIMES, ticks=issuer.clock)
    results = []

    async def wait() -> None:
        results.append(await keys.for_token(KEY.id))

    async with trio.open_nursery() as nursery:
        leaving = trio.CancelScope()
        nursery.start_soon(_under, leaving, keys)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        asked[-1].set()

    assert len(asked) == 2
    assert results[0].has(KEY.id or "")


async def test_repeated_cancellations_cause_one_request_a_second() -> None:
    issuer = Issuer()
    asked = []

    async def fetch(request: FetchRequest) -> FetchResponse:
        asked.append(request.url)
        await trio.sleep_forever()

    keys = IssuerKeys(ISSUER, fetch, jwks=JWKS, times=TIMES, ticks=issuer.clock)
    for _ in range(30):
        issuer.clock.now += 0.1
        async with trio.open_nursery() as nursery:
            leaving = trio.CancelScope()
            nursery.start_soon(_under, leaving, keys)
            await trio.testing.wait_all_tasks_blocked()
            leaving.cancel()

    assert 2 <= len(asked) <= 4


async def _under(scope: trio.CancelScope, keys: IssuerKeys) -> None:
    with scope:
        try:
            await keys.for_token(KEY.id)
        except Overloaded:
            pass


MANY = KeySet([KEY] * 101).document
HUGE = orjson.dumps({"keys": [], "padding": "x" * 300_000})


@pytest.mark.parametrize(
    ("url", "answer", "problem"),
    [
        (JWKS, FetchResponse(status=500), "HTTP 500"),
        (JWKS, FetchResponse(status=302, headers={"location": "http://127.0.0.1/"}), "HTTP 302"),
        (JWKS, FetchResponse(status=200, body=b"<html>"), "invalid JSON"),
        (JWKS, FetchResponse(status=200, body=b"[]"), "expected a JSON Web Key set"),
        (JWKS, FetchResponse(status=200, body=HUGE), "at most 256 KiB"),
        (JWKS, FetchResponse(status=200, body=orjson.dumps(MANY)), "at most 100 keys"),
        (JWKS, FetchResponse(status=200, body=b'{"keys":[]}'), "got none"),
        (JWKS, FetchResponse(status=200, body=b'{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}'), "got none"),
        (METADATA, FetchResponse(status=200, body=b'{"issuer":"https://evil.example"}'), "issuer"),
        (METADATA, FetchResponse(status=200, body=orjson.dumps({"issuer": ISSUER})), "jwks_uri"),
        (
            METADATA,
            FetchResponse(status=200, body=orjson.dumps({"issuer": ISSUER, "jwks_uri": "http://10.0.0.1/"})),
            "https",
        ),
    ],
)
async def test_invalid_key_response_yields_no_keys(
    url: str, answer: FetchResponse, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer(answers={url: answer})

    with caplog.at_level(logging.ERROR, "mcptrio.auth"), pytest.raises(Overloaded):
        await keys_of(issuer, None).for_token(KEY.id)
    assert problem in caplog.text
    assert len(caplog.text) < 2000


async def test_invalid_key_response_keeps_the_old_keys() -> None:
    issuer = Issuer()
    keys = keys_of(issuer)
    await keys.for_token(KEY.id)
    issuer.answers[JWKS] = FetchResponse(status=200, body=b'{"keys":[]}')
    issuer.clock.now += 1001

    assert (await keys.for_token(KEY.id)).has(KEY.id or "")


@pytest.mark.parametrize("issuer", ["http://login.example.com", "ftp://x", "", "https://x/?a=1", "https://u:p@x/"])
def test_unsafe_issuer_url_is_refused(issuer: str) -> None:
    with pytest.raises(ValueError, match="issuer"):
        IssuerKeys(issuer, Issuer())


def test_private_keys_of_an_issuer_are_not_used() -> None:
    assert not KeySet.read(orjson.dumps({"keys": [Key.generate().private()]})).keys
