"""Tokens without a user's login: for the program itself, for a company's user, for a workload."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
import trio
from attrs import define, field

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth import ClientCredentials, EnterpriseManaged, IdentityProvider, Key, PreRegistered, WorkloadIdentity
from mcptrio.auth.client.engine import GrantClient
from mcptrio.auth.dpop import DPoPSigner, DPoPVerifier
from mcptrio.auth.jose import peek, sign, verify
from mcptrio.errors import AuthorizationError, RequestFailed
from mcptrio.ground.secret import Secret

from .client_parts import NOT_FOUND, Clock, answer, form, refused

__all__: list[str] = []

URL = "https://mcp.example.com/mcp"
AS = "https://as.example.com"
IDP = "https://idp.example.com"
PLACE = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
SECRET = PreRegistered(client_id="me:1", client_secret="p&ss", issuer=AS)
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
PLATFORM = Key.generate()


@define
class OAuthPeers:
    """A server, its authorization server, and an identity provider."""

    server: dict[str, Any] = field(factory=dict)
    metadata: dict[str, Any] = field(factory=dict)
    """Members that are added to the authorization server's metadata or replace members of it."""
    given: dict[str, Any] = field(factory=dict)
    """Members of its token responses."""
    refusal: FetchResponse | RequestFailed | None = None
    exchange: dict[str, Any] = field(factory=dict)
    """Members of the identity provider's token responses."""
    requests: list[FetchRequest] = field(factory=list)
    tokens: list[dict[str, str]] = field(factory=list)
    """Token requests to the authorization server."""
    exchanges: list[dict[str, str]] = field(factory=list)
    clock: Clock = field(factory=Clock)
    issuer: str = AS
    slow: bool = False

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        self.requests.append(request)
        if self.slow:
            await trio.sleep(1)
        if request.url == PLACE:
            return answer({"resource": URL, "authorization_servers": [self.issuer], **self.server})
        if request.url == f"{self.issuer}/.well-known/oauth-authorization-server":
            own = {"issuer": self.issuer, "token_endpoint": f"{self.issuer}/token"}
            return answer({**own, **self.metadata})
        if request.url == f"{IDP}/.well-known/openid-configuration":
            return answer({"issuer": IDP, "token_endpoint": f"{IDP}/token"})
        if request.url == f"{IDP}/token":
            self.exchanges.append(form(request))
            own = {"access_token": "a.b.c", "issued_token_type": ID_JAG, "token_type": "N_A"}
            return answer({**own, **self.exchange})
        if request.url == f"{self.issuer}/token":
            self.tokens.append(form(request))
            if isinstance(self.refusal, RequestFailed):
                raise self.refusal
            if self.refusal is not None:
                return self.refusal
            own = {"access_token": f"t{len(self.tokens)}", "token_type": "Bearer", "expires_in": 3600}
            return answer({**own, **self.given})
        return NOT_FOUND

    def challenge(self, scheme: str = "Bearer", **parameters: str) -> dict[str, str]:
        members = {"resource_metadata": PLACE, **parameters}
        return refused(f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in members.items()))

    async def refuse(self, client: GrantClient, status: int = 401, **parameters: str) -> bool:
        return await client.challenged(URL, status, self.challenge(**parameters))

    async def sent(self, client: GrantClient) -> str | None:
        return (await client.headers("POST", URL)).get("Authorization")


@pytest.fixture
def peers() -> OAuthPeers:
    return OAuthPeers()


def machine(peers: OAuthPeers, client: PreRegistered = SECRET, **options: Any) -> GrantClient:
    return ClientCredentials(client=client, clock=peers.clock, **options).client_auth(URL, peers.fetch)


def assertion(audience: Any = AS, **claims: Any) -> Secret:
    return Secret(sign({"iss": "https://platform", "sub": "job", "aud": audience, **claims}, PLATFORM))


def workload(peers: OAuthPeers, *assertions: Secret, issuer: str | None = None) -> GrantClient:
    rest = list(assertions)

    async def source() -> Secret:
        await trio.lowlevel.checkpoint()
        return rest.pop(0) if len(rest) > 1 else rest[0]

    return WorkloadIdentity(assertion=source, issuer=issuer, clock=peers.clock).client_auth(URL, peers.fetch)


def company(peers: OAuthPeers, **options: Any) -> GrantClient:
    async def identity() -> Secret:
        await trio.lowlevel.checkpoint()
        return Secret("id-token")

    provider = IdentityProvider(
        issuer=IDP, client=PreRegistered(client_id="us", client_secret="idp-secret"), identity=identity, **options
    )
    method = EnterpriseManaged(provider=provider, client=SECRET, clock=peers.clock)
    return method.client_auth(URL, peers.fetch)


# Client credentials


async def test_client_secret_is_sent_in_basic_authentication(peers: OAuthPeers) -> None:
    client = machine(peers)
    assert await peers.sent(client) is None

    assert await peers.refuse(client)

    assert await peers.sent(client) == "Bearer t1"
    assert peers.tokens == [{"grant_type": "client_credentials", "resource": URL, "client_id": "me:1"}]
    basic = b64encode(b"me%3A1:p%26ss").decode()
    assert peers.requests[-1].headers["authorization"] == f"Basic {basic}"
    assert [request.url for request in peers.requests] == [
        PLACE,
        f"{AS}/.well-known/oauth-authorization-server",
        f"{AS}/token",
    ]


async def test_client_secret_is_sent_in_the_body_if_the_server_requires_it(peers: OAuthPeers) -> None:
    peers.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}

    await peers.refuse(machine(peers), scope="read")

    [asked] = peers.tokens
    assert asked == {
        "grant_type": "client_credentials",
        "resource": URL,
        "scope": "read",
        "client_id": "me:1",
        "client_secret": "p&ss",
    }


async def test_client_authenticates_with_a_private_key(peers: OAuthPeers) -> None:
    key = Key.generate("ES384")
    peers.metadata = {
        "token_endpoint_auth_methods_supported": ["private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES384"],
    }

    await peers.refuse(machine(peers, PreRegistered(client_id="me", key=key, issuer=AS)))

    [asked] = peers.tokens
    assert asked["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    claims = verify(asked["client_assertion"], key, algorithms=["ES384"]).claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", AS)
    assert claims["exp"] == claims["iat"] + 300 == int(peers.clock.now) + 300
    assert len(claims["jti"]) > 16


@pytest.mark.parametrize(
    ("client", "metadata", "why"),
    [
        (PreRegistered(client_id="me"), {}, "expected a secret or a private key"),
        (SECRET, {"token_endpoint_auth_methods_supported": ["private_key_jwt"]}, "expected one of client_secret_basic"),
        (
            PreRegistered(client_id="me", key=PLATFORM, issuer=AS),
            {"token_endpoint_auth_signing_alg_values_supported": ["RS256"]},
            "expected ES256 to be among them",
        ),
        (SECRET, {"token_endpoint": None}, "token_endpoint: missing"),
        (SECRET, {"token_endpoint": "http://as.example.com/token"}, "expected an https URL"),
        (SECRET, {"issuer": "https://other.example.com"}, "issuer: expected"),
    ],
    ids=["nothing", "methods", "algorithms", "no endpoint", "plain http", "issuer"],
)
async def test_unsuitable_authorization_server_is_refused(
    peers: OAuthPeers, client: PreRegistered, metadata: dict[str, Any], why: str
) -> None:
    peers.metadata = metadata

    with pytest.raises(AuthorizationError, match=why):
        await peers.refuse(machine(peers, client))
    assert peers.tokens == []


async def test_client_secret_is_not_sent_to_another_issuer(peers: OAuthPeers) -> None:
    peers.issuer = "https://evil.example.com"

    with pytest.raises(AuthorizationError, match="nothing was sent"):
        await peers.refuse(machine(peers))
    assert peers.tokens == []


async def test_token_is_sent_only_to_its_origin(peers: OAuthPeers) -> None:
    client = machine(peers)
    await peers.refuse(client)

    for url in ("https://mcp.example.org/mcp", "http://mcp.example.com/mcp", "https://mcp.example.com:8443/mcp"):
        with pytest.raises(AuthorizationError, match="are not sent to"):
            await client.headers("POST", url)
        with pytest.raises(AuthorizationError, match="are not sent to"):
            await client.challenged(url, 401, {})


async def test_token_is_replaced_before_it_expires(peers: OAuthPeers) -> None:
    client = machine(peers)
    await peers.refuse(client, scope="a")
    peers.clock.now += 3600 - 29

    assert await peers.sent(client) == "Bearer t2"
    assert [asked["scope"] for asked in peers.tokens] == ["a", "a"]


async def test_token_is_used_until_it_expires_while_it_cannot_be_renewed(peers: OAuthPeers) -> None:
    client = machine(peers)
    await peers.refuse(client)
    peers.refusal = RequestFailed("the authorization server is away")
    peers.clock.now += 3600 - 10
    assert await peers.sent(client) == "Bearer t1"
    peers.clock.now += 20

    with pytest.raises(RequestFailed, match="away"):
        await peers.sent(client)
    assert await peers.sent(client) is None


async def test_new_token_that_the_server_refuses_is_an_error(peers: OAuthPeers) -> None:
    client = machine(peers)
    await peers.refuse(client)
    await peers.sent(client)

    with pytest.raises(AuthorizationError, match="rejects a token that was issued for it: revoked, say"):
        await peers.refuse(client, error="invalid_token", error_description="revoked, say")
    peers.clock.now += 60
    assert await peers.refuse(client)
    assert len(peers.tokens) == 2


async def test_step_up_requests_additional_scopes(peers: OAuthPeers) -> None:
    peers.server = {"scopes_supported": ["read", "write"]}
    client = machine(peers)
    await peers.refuse(client)
    await peers.sent(client)

    assert await peers.refuse(client, 403, error="insufficient_scope", scope="admin read")

    assert [asked["scope"] for asked in peers.tokens] == ["read write", "read write admin"]
    await peers.sent(client)
    with pytest.raises(AuthorizationError, match="has all that it names: admin"):
        await peers.refuse(client, 403, error="insufficient_scope", scope="admin")
    assert not await peers.refuse(client, 403, error="forbidden")


async def test_number_of_step_ups_is_limited(peers: OAuthPeers) -> None:
    client = machine(peers)
    await peers.refuse(client)
    for number in range(3):
        await peers.sent(client)
        assert await peers.refuse(client, 403, error="insufficient_scope", scope=f"s{number}")
    await peers.sent(client)

    with pytest.raises(AuthorizationError, match="reports missing scopes"):
        await peers.refuse(client, 403, error="insufficient_scope", scope="s3")


async def test_concurrent_requests_are_authorized_once(peers: OAuthPeers, autojump_clock: object) -> None:
    peers.slow = True
    method = ClientCredentials(client=SECRET, clock=peers.clock)
    sent = []

    async def request() -> None:
        client = method.client_auth(URL, peers.fetch)
        assert await peers.sent(client) is None
        assert await peers.refuse(client)
        sent.append(await peers.sent(client))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(request)

    assert sent == ["Bearer t1"] * 5
    assert len(peers.tokens) == 1


async def test_failure_is_raised_in_all_waiting_requests(peers: OAuthPeers, autojump_clock: object) -> None:
    peers.slow = True
    peers.refusal = answer({"error": "invalid_client", "error_description": "who?"}, 401)
    client = machine(peers)
    failures = []

    async def request() -> None:
        await peers.sent(client)
        with pytest.raises(AuthorizationError) as caught:
            await peers.refuse(client)
        failures.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(request)

    assert len(peers.tokens) == 1
    assert {text.partition(" at ")[0] for text in failures} == {
        "the authorization server refused the token request: invalid_client: who?"
    }


async def test_refusal_of_an_older_token_requests_no_new_one(peers: OAuthPeers, autojump_clock: object) -> None:
    client = machine(peers)
    late = trio.Event()
    results = []

    async def slow_request() -> None:
        await peers.sent(client)
        await late.wait()
        results.append(await peers.refuse(client))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow_request)
        await trio.testing.wait_all_tasks_blocked()
        await peers.refuse(client)
        late.set()

    assert results == [True]
    assert len(peers.tokens) == 1


def test_secrets_are_not_shown() -> None:
    method = ClientCredentials(client=PreRegistered(client_id="me", client_secret="hidden", key=PLATFORM, issuer=AS))

    assert "hidden" not in repr(method)
    assert PLATFORM.private()["d"] not in repr(method)


# DPoP


async def test_tokens_are_bound_to_a_key(peers: OAuthPeers) -> None:
    peers.given = {"token_type": "DPoP"}
    peers.metadata = {"dpop_signing_alg_values_supported": ["ES256"]}
    client = machine(peers)
    assert await peers.refuse(client, scheme="DPoP")

    verifier = DPoPVerifier(is_new=lambda name, until: True, clock=peers.clock)
    at_token = verifier.verify([peers.requests[-1].headers["dpop"]], method="POST", url=f"{AS}/token")
    sent = [await client.headers("POST", f"{URL}?x=1") for _ in range(2)]

    assert sent[0]["Authorization"] == "DPoP t1"
    assert sent[0]["dpop"] != sent[1]["dpop"]
    for each in sent:
        verifier.verify([each["dpop"]], method="POST", url=URL, token="t1", bound_to=at_token.thumbprint)


async def test_nonces_of_both_servers_are_used(peers: OAuthPeers) -> None:
    """The token request is repeated with the authorization server's nonce, the request with the MCP server's nonce."""
    peers.given = {"token_type": "DPoP"}
    peers.metadata = {"dpop_signing_alg_values_supported": ["ES256"]}
    client = machine(peers)
    peers.refusal = answer({"error": "use_dpop_nonce"}, 400, dpop_nonce="as-nonce")

    async def once(request: FetchRequest) -> FetchResponse:
        response = await OAuthPeers.fetch(peers, request)
        if request.url == f"{AS}/token":
            peers.refusal = None
        return response

    client = ClientCredentials(client=SECRET, clock=peers.clock).client_auth(URL, once)
    assert await peers.refuse(client, scheme="DPoP")
    proofs = [peek(request.headers["dpop"]).claims for request in peers.requests if "dpop" in request.headers]
    assert [proof.get("nonce") for proof in proofs] == [None, "as-nonce"]
    assert proofs[0]["jti"] != proofs[1]["jti"]

    first = await client.headers("POST", URL)
    headers = {**peers.challenge("DPoP", error="use_dpop_nonce"), "dpop-nonce": "rs-nonce"}
    assert await client.challenged(URL, 401, headers)
    second = await client.headers("POST", URL)
    assert (peek(first["dpop"]).claims.get("nonce"), peek(second["dpop"]).claims["nonce"]) == (None, "rs-nonce")
    assert len(peers.tokens) == 2


@pytest.mark.parametrize(
    ("mode", "server", "metadata", "given", "why"),
    [
        ("never", {"dpop_bound_access_tokens_required": True}, {}, "Bearer", "dpop is .never."),
        ("always", {}, {}, "Bearer", "expected DPoP, got Bearer"),
        ("auto", {"dpop_bound_access_tokens_required": True}, {}, "Bearer", "expected DPoP, got Bearer"),
        ("always", {}, {"dpop_signing_alg_values_supported": ["RS256"]}, "DPoP", "expected ES256"),
        ("auto", {}, {}, "DPoP", "token_type: expected Bearer, got 'DPoP'"),
    ],
    ids=["never", "always", "required", "algorithms", "unasked"],
)
async def test_token_binding_mismatch_is_an_error(
    peers: OAuthPeers, mode: str, server: dict[str, Any], metadata: dict[str, Any], given: str, why: str
) -> None:
    peers.server, peers.metadata, peers.given = server, metadata, {"token_type": given}

    with pytest.raises(AuthorizationError, match=why):
        await peers.refuse(machine(peers, dpop=mode))


# Enterprise-managed


async def test_enterprise_user_gets_a_token_by_token_exchange(peers: OAuthPeers) -> None:
    peers.metadata = {"authorization_grant_profiles_supported": ["urn:ietf:params:oauth:grant-profile:id-jag"]}
    client = company(peers, token_endpoint=f"{IDP}/token")

    assert await peers.refuse(client, scope="chat")

    assert await peers.sent(client) == "Bearer t1"
    assert peers.exchanges == [
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": ID_JAG,
            "audience": AS,
            "resource": URL,
            "scope": "chat",
            "subject_token": "id-token",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "client_id": "us",
        }
    ]
    assert peers.tokens == [
        {"grant_type": BEARER, "assertion": "a.b.c", "resource": URL, "scope": "chat", "client_id": "me:1"}
    ]
    at_idp, at_as = (request.headers["authorization"] for request in peers.requests if request.method == "POST")
    assert at_idp == f"Basic {b64encode(b'us:idp-secret').decode()}"
    assert at_as == f"Basic {b64encode(b'me%3A1:p%26ss').decode()}"


async def test_identity_assertion_is_sent_to_its_provider_only(peers: OAuthPeers) -> None:
    client = company(peers, kind="saml2")
    await peers.refuse(client)

    assert peers.exchanges[0]["subject_token_type"] == "urn:ietf:params:oauth:token-type:saml2"
    holding = [request.url for request in peers.requests if b"id-token" in request.body]
    assert holding == [f"{IDP}/token"]


@pytest.mark.parametrize(
    ("exchange", "metadata", "why"),
    [
        ({"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}, {}, "issued_token_type: expected"),
        ({"issued_token_type": None}, {}, "issued_token_type: expected"),
        ({"access_token": "opaque"}, {}, "access_token: expected a JWT"),
        ({"access_token": "a.b.c\r\nx"}, {}, "access_token: expected a JWT"),
        ({"access_token": f"a.b.{'c' * 100_000}"}, {}, "access_token: expected a JWT"),
        ({"access_token": None}, {}, "access_token: expected a JWT"),
        ({}, {"authorization_grant_profiles_supported": []}, "grant-profile:id-jag to be among them"),
    ],
    ids=["another token", "no type", "opaque", "header", "huge", "none", "not supported"],
)
async def test_invalid_token_exchange_is_refused(
    peers: OAuthPeers, exchange: dict[str, Any], metadata: dict[str, Any], why: str
) -> None:
    peers.exchange, peers.metadata = exchange, metadata

    with pytest.raises(AuthorizationError, match=why):
        await peers.refuse(company(peers))
    assert peers.tokens == []


# Workload identity


async def test_workload_gets_a_token_for_its_assertion(peers: OAuthPeers) -> None:
    shown = assertion()
    client = workload(peers, shown)

    assert await peers.refuse(client)

    assert await peers.sent(client) == "Bearer t1"
    assert peers.tokens == [{"grant_type": BEARER, "assertion": shown.reveal(), "resource": URL}]
    assert "authorization" not in peers.requests[-1].headers


async def test_rejected_assertion_is_not_sent_again(peers: OAuthPeers) -> None:
    """The client sends it neither in the same request nor in the next one, and tries no other grant."""
    peers.refusal = answer({"error": "invalid_grant", "error_description": "unknown"}, 400)
    client = workload(peers, assertion())

    for _ in range(3):
        with pytest.raises(AuthorizationError, match="invalid_grant: unknown"):
            await peers.refuse(client)
        peers.clock.now += 1000
    assert [asked["grant_type"] for asked in peers.tokens] == [BEARER]


async def test_new_assertion_is_sent_after_a_rejected_one(peers: OAuthPeers) -> None:
    peers.refusal = answer({"error": "invalid_grant"}, 400)
    client = workload(peers, assertion(jti="1"), assertion(jti="2"))
    with pytest.raises(AuthorizationError):
        await peers.refuse(client)
    peers.refusal = None

    assert await peers.refuse(client)
    assert len(peers.tokens) == 2


@pytest.mark.parametrize("audience", [f"{AS}/token", [AS, "https://other"], AS], ids=str)
async def test_assertion_for_the_authorization_server_is_sent(peers: OAuthPeers, audience: Any) -> None:
    assert await peers.refuse(workload(peers, assertion(audience)))


@pytest.mark.parametrize(
    "shown",
    [assertion("https://other"), assertion(f"{AS}/"), assertion(None), assertion([1]), Secret("opaque")],
    ids=["other", "almost", "none", "rubbish", "opaque"],
)
async def test_assertion_for_another_audience_is_not_sent(peers: OAuthPeers, shown: Secret) -> None:
    """Otherwise a server could name its own authorization server to receive the assertion."""
    with pytest.raises(AuthorizationError, match="assertion: expected"):
        await peers.refuse(workload(peers, shown))
    assert peers.tokens == []


async def test_assertion_with_another_audience_is_sent_to_the_configured_issuer_only(peers: OAuthPeers) -> None:
    assert await peers.refuse(workload(peers, assertion("api://exchange"), issuer=AS))

    peers.issuer = "https://evil.example.com"
    with pytest.raises(AuthorizationError, match="nothing was sent"):
        await peers.refuse(workload(peers, assertion("api://exchange"), issuer=AS))
    assert len(peers.tokens) == 1


def test_named_servers_are_the_configured_issuers() -> None:
    """The address policy allows these even in a private network."""

    async def source() -> Secret:
        raise AssertionError("not asked")

    provider = IdentityProvider(issuer=IDP, client=SECRET, identity=source)
    assert ClientCredentials(client=SECRET).named_servers == (AS,)
    assert ClientCredentials(client=PreRegistered(client_id="x")).named_servers == ()
    assert WorkloadIdentity(assertion=source, issuer=AS).named_servers == (AS,)
    assert EnterpriseManaged(provider=provider, client=SECRET).named_servers == (AS, IDP)


def test_dpop_signer_generates_a_key_on_first_use() -> None:
    assert DPoPSigner().key.algorithm == "ES256"
