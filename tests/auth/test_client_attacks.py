"""Attacks on a client before and after authorization, and tokens that are bound to a key.

Redirects are tested in test_authorization_code.py, documents in test_discovery.py.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from attrs import define, field

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.client.registration import PreRegistered
from mcptrio.auth.jose import peek
from mcptrio.errors import AuthorizationError, ConsentNeeded

from .client_parts import Issuer, MemoryTokenStore, OAuthPeers, answer, refused

__all__: list[str] = []


# --- attacks


@pytest.mark.parametrize(
    "url", ["https://evil.example/mcp", "http://mcp.example.com/mcp", "https://mcp.example.com:8443/"]
)
async def test_credentials_are_sent_only_to_their_origin(peers: OAuthPeers, url: str) -> None:
    client = peers.client()
    await peers.refuse(client)
    with pytest.raises(AuthorizationError, match="are not sent to"):
        await client.headers("POST", url)
    with pytest.raises(AuthorizationError, match="are not sent to"):
        await client.challenged(url, 401, peers.challenge())


async def test_other_server_receives_no_credentials_of_a_shared_oauth(peers: OAuthPeers) -> None:
    oauth = peers.oauth()
    await peers.refuse(peers.client(oauth))

    assert (
        await oauth.client_auth("https://evil.example/mcp", peers.fetch).headers("POST", "https://evil.example/mcp")
        == {}
    )
    # Nor does a server whose metadata names the resource and authorization server of the honest one.
    evil = OAuthPeers(url="https://evil.example/mcp", issuers=peers.issuers, resource={"resource": peers.url})
    with pytest.raises(AuthorizationError, match="resource: expected the server's own URL"):
        await evil.refuse(evil.client(oauth))


async def test_code_of_a_mix_up_attack_is_not_sent(peers: OAuthPeers) -> None:
    """The attacker's authorization server redirects the user to the honest one, to receive its code."""
    honest, attacker = peers.issuer, Issuer("https://attacker.example")
    peers.issuers.insert(0, attacker)
    attacker.metadata["authorization_endpoint"] = f"{honest.url}/authorize"
    with pytest.raises(AuthorizationError, match="another authorization server has answered"):
        await peers.refuse(peers.client())

    assert (attacker.tokens, honest.tokens) == ([], [])


async def test_server_without_tls_gets_no_authorization() -> None:
    peers = OAuthPeers(url="http://mcp.example.com/mcp")
    with pytest.raises(AuthorizationError, match="url: expected an https URL"):
        await peers.refuse(peers.client())
    with pytest.raises(AuthorizationError, match="url: expected an https URL"):
        await peers.client().log_in()
    assert peers.requests == []


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "http://login.example.com/"])
async def test_user_is_not_sent_to_an_unsafe_authorization_endpoint(peers: OAuthPeers, url: str) -> None:
    peers.issuer.metadata["authorization_endpoint"] = url
    with pytest.raises(AuthorizationError, match="authorization_endpoint"):
        await peers.refuse(peers.client())
    assert peers.prompt_count == 0


async def test_authorization_server_without_pkce_is_refused(peers: OAuthPeers) -> None:
    peers.issuer.metadata["code_challenge_methods_supported"] = None
    with pytest.raises(AuthorizationError, match="expected S256"):
        await peers.refuse(peers.client())
    assert peers.prompt_count == 0


async def test_client_secrets_are_not_shown_or_logged(peers: OAuthPeers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    oauth = peers.oauth(client=PreRegistered(client_id="abc", client_secret="s3cret", issuer=peers.issuer.url))
    client = peers.client(oauth)
    await peers.refuse(client)
    for text in (repr(oauth), repr(client), repr(client._server), caplog.text):
        for secret in ("s3cret", "login.example.com-", "refresh-", "code-"):
            assert secret not in text


# --- bound to a key


@define
class Bound(Issuer):
    """Binds tokens to the key of the proof."""

    nonce: str = "n1"
    proofs: list[Any] = field(factory=list)

    def token(self, request: FetchRequest) -> FetchResponse:
        proof = peek(request.headers["dpop"])
        self.proofs.append(proof)
        if proof.claims.get("nonce") != self.nonce:
            return answer({"error": "use_dpop_nonce"}, 400, dpop_nonce=self.nonce)
        response = Issuer.token(self, request)
        return FetchResponse(status=response.status, body=response.body.replace(b'"Bearer"', b'"DPoP"'))


async def test_bound_token_is_sent_with_fresh_proofs_and_renewed() -> None:
    peers = OAuthPeers(
        issuers=[Bound("https://login.example.com")], resource={"dpop_bound_access_tokens_required": True}
    )
    store = MemoryTokenStore()
    client = peers.client(store=store)
    await peers.refuse(client)
    headers = [await client.headers("POST", peers.url) for _ in range(2)]

    assert headers[0]["Authorization"] == headers[1]["Authorization"]
    assert headers[0]["Authorization"].startswith("DPoP login.example.com-")
    one, other = (peek(each["dpop"]).claims for each in headers)
    assert one["jti"] != other["jti"]
    assert (one["htm"], one["htu"], "nonce" in one) == ("POST", peers.url, False)

    nonce = refused('DPoP error="use_dpop_nonce"', dpop_nonce="server-1")
    assert await client.challenged(peers.url, 401, nonce)
    assert peek((await client.headers("POST", peers.url))["dpop"]).claims["nonce"] == "server-1"
    # A request that was sent before the nonce arrived is refused with the same nonce.
    assert await client.challenged(peers.url, 401, nonce)
    assert not await client.challenged(peers.url, 401, refused('DPoP error="use_dpop_nonce"'))
    assert peers.prompt_count == 1
    # The key is stored with the tokens.
    later = await peers.client(store=store).headers("POST", peers.url)
    assert peek(later["dpop"]).header["jwk"] == peek(headers[0]["dpop"]).header["jwk"]
    peers.clock.now += 3600
    assert (await client.headers("POST", peers.url))["Authorization"] != headers[0]["Authorization"]


@pytest.mark.parametrize(
    ("mode", "challenges", "metadata", "bound"),
    [
        ("auto", ["Bearer"], {}, False),
        ("auto", ["Bearer"], {"dpop_signing_alg_values_supported": ["ES256"]}, False),
        ("auto", ["DPoP"], {}, True),
        ("auto", ["Bearer", "DPoP"], {"dpop_signing_alg_values_supported": ["ES256"]}, True),
        ("auto", ["Bearer", "DPoP"], {}, False),
        ("always", ["Bearer"], {}, True),
        ("never", ["Bearer", "DPoP"], {"dpop_signing_alg_values_supported": ["ES256"]}, False),
    ],
)
async def test_tokens_are_bound_according_to_mode_challenge_and_metadata(
    mode: Any, challenges: list[str], metadata: dict[str, Any], bound: bool
) -> None:
    made = (Bound if bound else Issuer)("https://login.example.com", metadata)
    peers = OAuthPeers(issuers=[made])
    client = peers.client(dpop=mode)
    with pytest.raises(ConsentNeeded) as caught:
        await client.challenged(peers.url, 401, refused(*challenges))
    await caught.value.ask()

    assert (await peers.sent(client) or "").startswith("DPoP " if bound else "Bearer ")


@pytest.mark.parametrize(
    ("mode", "challenge", "metadata", "why"),
    [
        ("never", "DPoP", {}, "dpop is .never."),
        ("always", "Bearer", {"dpop_signing_alg_values_supported": ["RS512"]}, "expected ES256 to be among them"),
        ("always", "Bearer", {}, "token_type: expected DPoP, got Bearer"),
    ],
)
async def test_authorization_fails_when_tokens_cannot_be_bound(
    mode: Any, challenge: str, metadata: dict[str, Any], why: str
) -> None:
    peers = OAuthPeers(issuers=[Issuer("https://login.example.com", metadata)])
    client = peers.client(dpop=mode)

    async def request() -> None:
        try:
            await client.challenged(peers.url, 401, refused(challenge))
        except ConsentNeeded as needed:
            await needed.ask()

    with pytest.raises(AuthorizationError, match=why):
        await request()
    assert await peers.sent(client) is None
