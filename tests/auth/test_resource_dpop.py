"""Tokens that are bound to a key: accepted with a fresh proof for the same request, and useless to a thief."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve

from mcptrio.abc import Principal, RequestHead
from mcptrio.auth.challenges import parse_challenges
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.jose import Key
from mcptrio.auth.server.failures import FailureLimit
from mcptrio.auth.server.replay_cache import ReplayBounds
from mcptrio.auth.server.resource_options import DPoPRule, ResourceServerOptions
from mcptrio.auth.server.resource_server import ResourceServer
from mcptrio.errors import AuthorizationError, Overloaded
from tests.auth.server_parts import ISSUER, RESOURCE, Clock, request
from tests.auth.test_resource_server import Tokens

__all__: list[str] = []

KEY, STRANGER = Key.generate("ES256"), Key.generate("ES256")
BOUND = Principal(subject="ada", claims={"cnf": {"jkt": KEY.thumbprint}})
FREE = Principal(subject="bob")


def server(clock: Clock, *, resource: Any = RESOURCE, **rule: Any) -> ResourceServer:
    return ResourceServer(
        resource,
        tokens=[Tokens({"bound": BOUND, "free": FREE})],
        authorization_servers=[ISSUER],
        options=ResourceServerOptions(dpop=DPoPRule(**rule), failures=FailureLimit(per_minute=0)),
        clock=clock,
        ticks=clock,
    )


def proven(
    clock: Clock,
    *,
    token: str = "bound",
    scheme: str = "DPoP",
    key: Key = KEY,
    method: str = "POST",
    url: str = RESOURCE,
    over: str | None = None,
    at: str = RESOURCE,
    prover: DPoPSigner | None = None,
) -> RequestHead:
    """Return a request with a DPoP proof.

    Args:
        over: The token whose hash is in the proof; by default `token`.
        at: The URL at which the request arrives.
    """
    proof = (prover or DPoPSigner(key, clock=clock)).prove(method, url, token=over or token)
    return request(token, scheme=scheme, url=at, headers={"dpop": [proof]})


async def refusal(guard: ResourceServer, head: RequestHead) -> tuple[int, str, Mapping[str, str]]:
    """Return the status, the scheme of the first challenge, and its parameters."""
    with pytest.raises(AuthorizationError) as refused:
        await guard.admit(head)
    first, *_ = parse_challenges(refused.value.challenge or "")
    return refused.value.status, first.scheme, first.parameters


async def test_fresh_proof_is_required_for_each_request() -> None:
    clock = Clock()
    guard, prover = server(clock), DPoPSigner(KEY, clock=clock)

    for _ in range(3):
        assert await guard.admit(proven(clock, prover=prover)) == BOUND


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"key": STRANGER}, "invalid_token"),
        ({"method": "GET"}, "invalid_dpop_proof"),
        ({"url": "https://evil.example/mcp"}, "invalid_dpop_proof"),
        ({"url": "https://mcp.example.com/other"}, "invalid_dpop_proof"),
        ({"url": "http://mcp.example.com/mcp"}, "invalid_dpop_proof"),
        ({"over": "free"}, "invalid_dpop_proof"),
        ({"scheme": "Bearer"}, "invalid_token"),
        ({"token": "free"}, "invalid_token"),
        ({"token": "unknown"}, "invalid_token"),
    ],
    ids=["stranger's key", "method", "origin", "path", "scheme of URL", "ath", "as Bearer", "unbound", "unknown"],
)
async def test_proof_of_another_request_is_refused(change: Mapping[str, Any], error: str) -> None:
    clock = Clock()

    status, _, message = await refusal(server(clock), proven(clock, **change))

    assert (status, message["error"]) == (401, error)


async def test_proof_for_the_endpoint_is_invalid_for_another_path() -> None:
    clock = Clock()
    guard = server(clock)
    beside = "https://mcp.example.com/ws"

    assert (await refusal(guard, evolve(proven(clock, at=beside), is_outside_endpoint=True)))[2][
        "error"
    ] == "invalid_dpop_proof"
    assert await guard.admit(evolve(proven(clock, at=beside, url=beside), is_outside_endpoint=True)) == BOUND


@pytest.mark.parametrize("proofs", [[], [""], ["x"], ["a.b.c"], ["x"] * 2])
async def test_missing_or_malformed_proof_is_refused(proofs: list[str]) -> None:
    status, scheme, message = await refusal(server(Clock()), request("bound", scheme="DPoP", headers={"dpop": proofs}))

    assert (status, scheme, message["error"]) == (401, "dpop", "invalid_dpop_proof")
    assert "ES256" in message["algs"].split()


async def test_two_proofs_are_refused() -> None:
    clock = Clock()
    one, two = proven(clock), proven(clock)
    both = [*one.headers["dpop"], *two.headers["dpop"]]

    status, _, message = await refusal(server(clock), request("bound", scheme="DPoP", headers={"dpop": both}))
    assert (status, message["error"]) == (401, "invalid_dpop_proof")


async def test_replayed_proof_is_refused_until_it_expires() -> None:
    clock = Clock()
    guard, head = server(clock), proven(clock)
    await guard.admit(head)

    assert (await refusal(guard, head))[2]["error"] == "invalid_dpop_proof"
    clock.now += 300
    assert "jti" in (await refusal(guard, head))[2]["error_description"]
    clock.now += 1
    assert "iat" in (await refusal(guard, head))[2]["error_description"]


@pytest.mark.parametrize(("seconds", "is_valid"), [(-300, True), (-301, False), (300, True), (301, False)])
async def test_proof_is_accepted_within_its_lifetime(seconds: float, is_valid: bool) -> None:
    clock = Clock()
    guard = server(clock)
    head = proven(Clock(clock.now + seconds))

    if is_valid:
        await guard.admit(head)
    else:
        assert (await refusal(guard, head))[2]["error"] == "invalid_dpop_proof"


async def test_stolen_bound_token_is_refused_as_bearer_token() -> None:
    status, scheme, message = await refusal(server(Clock()), request("bound"))

    assert (status, scheme, message["error"]) == (401, "bearer", "invalid_token")


async def test_failed_proofs_count_against_the_failure_limit() -> None:
    clock = Clock()
    guard = ResourceServer(
        RESOURCE,
        tokens=[Tokens({"bound": BOUND})],
        options=ResourceServerOptions(failures=FailureLimit(per_minute=1, burst=2)),
        clock=clock,
        ticks=clock,
    )
    await guard.admit(proven(clock))
    for _ in range(2):
        await refusal(guard, proven(clock, key=STRANGER))

    with pytest.raises(Overloaded):
        await guard.admit(proven(clock, key=STRANGER))


async def test_proof_is_checked_against_the_configured_url_behind_a_proxy() -> None:
    """The Host header of the request is ignored, because an attacker can choose it."""
    clock = Clock()
    guard = server(clock)

    await guard.admit(proven(clock, at="http://10.0.0.5:8000/mcp"))
    await guard.admit(proven(clock, at="http://10.0.0.5:8000/inner"))
    await guard.admit(proven(clock, url="https://mcp.example.com/messages", at="http://10.0.0.5/messages"))
    evil = proven(clock, url="https://evil.example/mcp", at="https://evil.example/mcp")
    assert (await refusal(guard, evil))[2]["error"] == "invalid_dpop_proof"


async def test_both_schemes_are_offered_if_dpop_is_accepted() -> None:
    with pytest.raises(AuthorizationError) as refused:
        await server(Clock()).admit(request())

    challenges = parse_challenges(refused.value.challenge or "")
    assert [each.scheme for each in challenges] == ["bearer", "dpop"]
    assert challenges[0].parameters["resource_metadata"] == challenges[1].parameters["resource_metadata"]
    assert (await server(Clock()).admit(request("free"))).subject == "bob"


async def test_bearer_tokens_are_refused_if_dpop_is_required() -> None:
    clock = Clock()
    guard = server(clock, use="required")

    for head in (request(), request("free"), request("bound")):
        with pytest.raises(AuthorizationError) as refused:
            await guard.admit(head)
        assert [each.scheme for each in parse_challenges(refused.value.challenge or "")] == ["dpop"]
    assert await guard.admit(proven(clock)) == BOUND
    [document, _] = guard.documents.values()
    assert b'"dpop_bound_access_tokens_required":true' in document
    with pytest.raises(AuthorizationError, match="a server that requires proofs"):
        await guard.admit_token("free")


async def test_step_up_challenge_uses_the_scheme_of_the_request() -> None:
    clock = Clock()

    error = server(clock).insufficient_scope(proven(clock), BOUND, frozenset({"write"}))

    [challenge] = parse_challenges(error.challenge or "")
    assert (challenge.scheme, challenge.parameters["scope"]) == ("dpop", "write")


async def test_required_nonce_is_sent_accepted_and_rotated() -> None:
    clock = Clock()
    clock.now = 1_800_000_000.0
    guard, prover = server(clock, nonces=60), DPoPSigner(KEY, clock=clock)

    async def ask() -> str | None:
        """Return the error code; the signer takes over the nonce."""
        with pytest.raises(AuthorizationError) as refused:
            await guard.admit(proven(clock, prover=prover))
        assert refused.value.status == 401
        headers = {name.lower(): value for name, value in refused.value.headers.items()}
        assert prover.take_nonce(RESOURCE, headers)
        return parse_challenges(refused.value.challenge or "")[0].parameters.get("error")

    assert await ask() == "use_dpop_nonce"
    await guard.admit(proven(clock, prover=prover))
    clock.now += 60
    await guard.admit(proven(clock, prover=prover))  # the previous nonce is still accepted
    clock.now += 60
    assert await ask() == "use_dpop_nonce"
    await guard.admit(proven(clock, prover=prover))


async def test_replicas_with_the_same_key_accept_each_others_nonces() -> None:
    clock, prover = Clock(), None
    one, two = (server(clock, nonces=60, nonce_key=b"k" * 32) for _ in range(2))
    prover = DPoPSigner(KEY, clock=clock)
    with pytest.raises(AuthorizationError) as refused:
        await one.admit(proven(clock, prover=prover))
    prover.take_nonce(RESOURCE, {name.lower(): value for name, value in refused.value.headers.items()})

    assert await two.admit(proven(clock, prover=prover)) == BOUND


async def test_nonce_challenge_does_not_count_as_failure() -> None:
    clock = Clock()
    guard = ResourceServer(
        RESOURCE,
        tokens=[Tokens({"bound": BOUND})],
        options=ResourceServerOptions(dpop=DPoPRule(nonces=60), failures=FailureLimit(burst=1)),
        clock=clock,
        ticks=clock,
    )

    for _ in range(5):
        assert (await refusal(guard, proven(clock)))[2]["error"] == "use_dpop_nonce"


async def test_flood_of_proofs_is_refused_and_evicts_no_proof() -> None:
    clock = Clock()
    guard = server(clock, bounds=ReplayBounds(proofs_per_key=3))
    first = proven(clock)
    await guard.admit(first)
    for _ in range(2):
        await guard.admit(proven(clock))

    with pytest.raises(Overloaded, match="too many DPoP proofs"):
        await guard.admit(proven(clock))
    assert "jti" in (await refusal(guard, first))[2]["error_description"]
    clock.now += 301
    await guard.admit(proven(clock))
