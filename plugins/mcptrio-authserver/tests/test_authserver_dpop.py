"""Tokens that are bound to a key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from mcptrio_authserver import ClientSettings, LedgerSettings

from mcptrio.auth.dpop import DPoPSigner

from .conftest import CLIENTS, REDIRECT, SECRET, Site, error_of, opened, payload


@pytest.fixture
async def site(folder: Path, ledger: LedgerSettings | None) -> AsyncIterator[Site]:
    async with opened(folder, ledger=ledger) as site:
        yield site


async def prove(site: Site, prover: DPoPSigner, form: dict[str, str]) -> httpx2.Response:
    """Request a token with a proof as a client does, again with the nonce if the server requires one."""
    url = f"{site.issuer}/token"
    response = await site.post("token", form, headers={"dpop": prover.prove("POST", url)})
    if response.status_code == 400 and response.json()["error"] == "use_dpop_nonce":
        assert prover.take_nonce(url, {"dpop-nonce": response.headers["dpop-nonce"]})
        response = await site.post("token", form, headers={"dpop": prover.prove("POST", url)})
    return response


def code_form(site: Site, code: str) -> dict[str, str]:
    return {
        "grant_type": "authorization_code",
        "client_id": "app",
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": site.verifier,
    }


@pytest.fixture
def prover(site: Site) -> DPoPSigner:
    return DPoPSigner(clock=site.clock)


async def test_tokens_are_bound_to_the_key_of_the_proof(site: Site, prover: DPoPSigner) -> None:
    response = await prove(site, prover, code_form(site, (await site.code())["code"]))

    tokens = response.json()
    assert tokens["token_type"] == "DPoP"
    assert payload(tokens["access_token"])["cnf"] == {"jkt": prover.thumbprint}
    assert response.headers["dpop-nonce"]
    reply = await site.post("introspect", {"token": tokens["access_token"]}, auth=("server", SECRET))
    assert (reply.json()["token_type"], reply.json()["cnf"]) == ("DPoP", {"jkt": prover.thumbprint})


async def test_refresh_token_of_a_public_client_is_bound_to_its_key(site: Site, prover: DPoPSigner) -> None:
    tokens = (await prove(site, prover, code_form(site, (await site.code())["code"]))).json()
    form = {"grant_type": "refresh_token", "client_id": "app", "refresh_token": tokens["refresh_token"]}

    assert error_of(await site.post("token", form)) == "invalid_dpop_proof"
    assert error_of(await prove(site, DPoPSigner(clock=site.clock), form)) == "invalid_dpop_proof"
    renewed = await prove(site, prover, form)

    assert payload(renewed.json()["access_token"])["cnf"] == {"jkt": prover.thumbprint}


async def test_code_may_be_bound_to_the_key_in_advance(site: Site, prover: DPoPSigner) -> None:
    code = (await site.code(dpop_jkt=prover.thumbprint))["code"]

    assert error_of(await prove(site, DPoPSigner(clock=site.clock), code_form(site, code))) == "invalid_dpop_proof"
    assert error_of(await prove(site, prover, code_form(site, code))) == "invalid_grant", "it is spent"


async def test_proof_without_a_nonce_does_not_use_up_the_code(site: Site, prover: DPoPSigner) -> None:
    form = code_form(site, (await site.code())["code"])
    url = f"{site.issuer}/token"

    first = await site.post("token", form, headers={"dpop": prover.prove("POST", url)})

    assert error_of(first) == "use_dpop_nonce"
    assert first.headers["access-control-expose-headers"].startswith("DPoP-Nonce")
    assert (await prove(site, prover, form)).status_code == 200


async def test_nonce_is_valid_for_some_minutes(site: Site, prover: DPoPSigner) -> None:
    form = {"grant_type": "client_credentials"}
    url = f"{site.issuer}/token"
    first = await site.post("token", form, auth=("robot", SECRET), headers={"dpop": prover.prove("POST", url)})
    prover.take_nonce(url, dict(first.headers))
    site.clock.now += 601

    old = await site.post("token", form, auth=("robot", SECRET), headers={"dpop": prover.prove("POST", url)})

    assert error_of(old) == "use_dpop_nonce"


async def test_proof_is_accepted_once_and_at_its_url_only(folder: Path) -> None:
    async with opened(folder, dpop_nonces=False) as site:
        prover = DPoPSigner(clock=site.clock)
        form, url = {"grant_type": "client_credentials"}, f"{site.issuer}/token"

        async def ask(*proofs: str) -> httpx2.Response:
            headers = httpx2.Headers([("dpop", proof) for proof in proofs])
            return await site.post("token", form, auth=("robot", SECRET), headers=headers)

        proof = prover.prove("POST", url)
        assert (await ask(proof)).status_code == 200
        for wrong in (
            [proof],
            [prover.prove("GET", url)],
            [prover.prove("POST", f"{url}/x")],
            [prover.prove("POST", url, token="x") + "x"],
            [prover.prove("POST", url), prover.prove("POST", url)],
            ["nonsense"],
        ):
            assert error_of(await ask(*wrong)) == "invalid_dpop_proof"
        late = prover.prove("POST", url)
        site.clock.now += 400
        assert error_of(await ask(late)) == "invalid_dpop_proof"


async def test_proof_can_be_required(folder: Path) -> None:
    clients = CLIENTS | {"app": ClientSettings(redirect_uris=(REDIRECT,), dpop=True)}
    async with opened(folder, clients=clients) as site:
        code = (await site.code())["code"]
        assert error_of(await site.redeem(code)) == "invalid_dpop_proof"
        prover = DPoPSigner(clock=site.clock)
        assert (await prove(site, prover, code_form(site, code))).json()["token_type"] == "DPoP"
    async with opened(folder, dpop="required") as site:
        response = await site.post("token", {"grant_type": "client_credentials"}, auth=("robot", SECRET))
        assert error_of(response) == "invalid_dpop_proof"
