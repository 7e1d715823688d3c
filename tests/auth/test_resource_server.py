"""Admitted requests, and the status, challenge and documents of each refused one."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
import trio
import trio.testing
from attrs import evolve
from cryptography import x509

from mcptrio.abc import Principal, RequestHead
from mcptrio.auth.challenges import parse_challenges
from mcptrio.auth.server.certificates import CertificatePrincipals, certificate_thumbprint
from mcptrio.auth.server.failures import FailureLimit
from mcptrio.auth.server.issuer_keys import IssuerKeys
from mcptrio.auth.server.jwt_tokens import JWTTokens
from mcptrio.auth.server.resource_options import DPoPRule, ResourceServerOptions
from mcptrio.auth.server.resource_server import ResourceServer
from mcptrio.errors import AuthorizationError, Overloaded
from tests.auth.server_parts import ISSUER, RESOURCE, Clock, Issuer, request
from tests.auth.test_certificates import certificate

__all__: list[str] = []

METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
NO_DPOP = ResourceServerOptions(dpop=DPoPRule(use="off"))


class Tokens:
    """A verifier of the given tokens; while it is ``unsure``, it cannot verify any other token."""

    def __init__(self, known: Mapping[str, Principal] | None = None, *, unsure: bool = False) -> None:
        self.known = dict(known or {})
        self.unsure = unsure
        self.asked: list[str] = []

    def recognizes(self, token: str, issuer: str | None) -> bool | None:
        return None

    async def verify(self, token: str) -> Principal | None:
        self.asked.append(token)
        if self.unsure:
            raise Overloaded("cannot tell", retry_after=7)
        return self.known.get(token)


ADA = Principal(subject="ada", issuer=ISSUER, client_id="cli", scopes=frozenset({"read"}))


def server(
    *verifiers: Any,
    options: ResourceServerOptions = NO_DPOP,
    resource: Any = RESOURCE,
    scopes: Sequence[str] = ("read",),
) -> ResourceServer:
    clock = Clock()
    return ResourceServer(
        resource,
        tokens=verifiers or [Tokens({"good": ADA})],
        authorization_servers=[ISSUER],
        scopes=scopes,
        options=options,
        clock=clock,
        ticks=clock,
    )


async def refusal(guard: ResourceServer, head: RequestHead) -> AuthorizationError:
    with pytest.raises(AuthorizationError) as refused:
        await guard.admit(head)
    return refused.value


def challenges_of(error: AuthorizationError) -> dict[str, Mapping[str, str]]:
    """Return the parameters of the challenges, by scheme."""
    return {each.scheme: each.parameters for each in parse_challenges(error.challenge or "")}


async def test_valid_token_admits_its_subject() -> None:
    assert await server().admit(request("good")) == ADA


@pytest.mark.parametrize(
    "field",
    ["Bearer good", "bearer good", "BEARER good", "bEaReR   good", " Bearer good ", "\tBearer good"],
)
async def test_scheme_is_case_insensitive(field: str) -> None:
    assert await server().admit(request(headers={"authorization": [field]})) == ADA


INVALID_REQUEST, INVALID_TOKEN = "invalid_request", "invalid_token"


@pytest.mark.parametrize(
    ("head", "status", "error"),
    [
        pytest.param(request(), 401, None, id="nothing"),
        pytest.param(request(headers={"authorization": [""]}), 401, None, id="empty field"),
        pytest.param(request(headers={"authorization": ["Basic YTpi"]}), 401, None, id="Basic"),
        pytest.param(request(headers={"authorization": ['Digest username="a", x="b"']}), 401, None, id="Digest"),
        pytest.param(request("good", scheme="DPoP"), 401, None, id="DPoP where it is off"),
        pytest.param(request("bad"), 401, INVALID_TOKEN, id="unknown token"),
        pytest.param(request("Good"), 401, INVALID_TOKEN, id="another case"),
        pytest.param(request("good="), 401, INVALID_TOKEN, id="padded"),
        pytest.param(request(headers={"authorization": ["Bearer"]}), 400, INVALID_REQUEST, id="no token"),
        pytest.param(request(headers={"authorization": ["Bearer "]}), 400, INVALID_REQUEST, id="blank token"),
        pytest.param(request("good other"), 400, INVALID_REQUEST, id="two tokens"),
        pytest.param(request("good, Bearer other"), 400, INVALID_REQUEST, id="two credentials in one field"),
        pytest.param(request('"good"'), 400, INVALID_REQUEST, id="quoted"),
        pytest.param(request("gööd"), 400, INVALID_REQUEST, id="not ASCII"),
        pytest.param(request("go\0d"), 400, INVALID_REQUEST, id="control character"),
        pytest.param(request("token=good"), 400, INVALID_REQUEST, id="parameters"),
        pytest.param(request(headers={"authorization": ["Bearer\tgood"]}), 400, INVALID_REQUEST, id="tab"),
        pytest.param(
            request(headers={"authorization": ["Bearer good", "Bearer good"]}), 400, INVALID_REQUEST, id="two fields"
        ),
        pytest.param(
            request(headers={"authorization": ["Basic YTpi", "Bearer good"]}), 400, INVALID_REQUEST, id="two schemes"
        ),
        pytest.param(request("good", query="access_token=good"), 400, INVALID_REQUEST, id="token in query too"),
        pytest.param(request(query="a=1&access_token=good"), 400, INVALID_REQUEST, id="token in query"),
        pytest.param(request(query="Access_Token=good"), 400, INVALID_REQUEST, id="token in query, odd case"),
        pytest.param(request(query="access%5Ftoken=good"), 400, INVALID_REQUEST, id="token in query, encoded"),
        pytest.param(request(query="&".join(["a=1"] * 101)), 400, INVALID_REQUEST, id="query without an end"),
    ],
)
async def test_invalid_credentials_are_refused_with_status_and_error(
    head: RequestHead, status: int, error: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        refused = await refusal(server(), head)

    assert refused.status == status
    message = challenges_of(refused)["bearer"]
    assert message.get("error") == error
    assert ("error_description" in message) == (error is not None)
    assert message["resource_metadata"] == METADATA
    # Other scopes would not make an invalid request valid.
    assert message.get("scope") == (None if status == 400 else "read")
    assert list(challenges_of(refused)) == ["bearer"]
    assert "good" not in f"{refused} {refused.challenge} {caplog.text}".replace("not good", "")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (request(headers={"authorization": ["Bearer "]}), "expected a token after Bearer in .*, got nothing"),
        (
            request("unknown"),
            "invalid access token: .*; check the header Authorization, or ask the operator for a new token",
        ),
    ],
    ids=["empty", "unknown"],
)
async def test_error_description_explains_the_fix(head: RequestHead, message: str) -> None:
    assert re.search(message, str(await refusal(server(), head)))


async def test_unrelated_query_parameters_are_accepted() -> None:
    assert await server().admit(request("good", query="sessionId=1&tokens=2")) == ADA


async def test_verifiers_are_tried_in_order_until_one_knows_the_token() -> None:
    one, two = Tokens({"good": ADA}), Tokens({"static": Principal(subject="bob", scopes=frozenset({"read"}))})
    guard = server(one, two)

    assert (await guard.admit(request("static"))).subject == "bob"
    assert (await guard.admit(request("good"))).subject == "ada"
    assert one.asked == ["static", "good"]
    assert two.asked == ["static"]


async def test_token_of_a_reachable_issuer_is_accepted_while_another_is_down() -> None:
    guard = server(Tokens(unsure=True), Tokens({"good": ADA}))

    assert await guard.admit(request("good")) == ADA
    with pytest.raises(Overloaded, match="cannot tell") as refused:
        await guard.admit(request("bad"))
    assert refused.value.retry_after == 7


# Scopes


INCLUDES = {"admin": ["write"], "write": ["read"]}


async def test_broad_scope_suffices_and_adds_the_included_scopes() -> None:
    boss = Principal(subject="boss", scopes=frozenset({"admin"}))
    guard = server(Tokens({"good": boss}), options=ResourceServerOptions(includes=INCLUDES))

    assert (await guard.admit(request("good"))).scopes == {"admin", "write", "read"}


async def test_token_without_the_required_scopes_gets_a_scope_challenge() -> None:
    weak = Principal(subject="weak", scopes=frozenset({"profile"}))

    refused = await refusal(server(Tokens({"good": weak}), scopes=("read", "list")), request("good"))

    assert refused.status == 403
    assert challenges_of(refused)["bearer"] == {
        "error": "insufficient_scope",
        "error_description": "the request needs more scopes: list read",
        "scope": "list profile read",
        "resource_metadata": METADATA,
    }


@pytest.mark.parametrize(
    ("held", "needed", "asked"),
    [
        ({"read"}, {"write"}, "write"),  # which includes read
        ({"read", "mail"}, {"write"}, "mail write"),
        ({"mail"}, {"calendar", "read"}, "calendar mail read"),
        ({"read", "offline_access"}, {"calendar"}, "calendar read"),
        ({"read", "no scope", 'a"b'}, {"calendar"}, "calendar read"),
        ({f"scope{number}" for number in range(999)}, {"calendar"}, "calendar read"),
    ],
)
def test_step_up_challenge_lists_held_and_needed_scopes(held: set[str], needed: set[str], asked: str) -> None:
    guard = server(options=ResourceServerOptions(includes=INCLUDES))
    principal = Principal(subject="ada", scopes=frozenset(held))

    error = guard.insufficient_scope(request("good"), principal, frozenset(needed))

    assert error.status == 403
    assert list(challenges_of(error)) == ["bearer"]
    assert challenges_of(error)["bearer"]["error"] == "insufficient_scope"
    assert challenges_of(error)["bearer"]["scope"] == asked
    assert challenges_of(error)["bearer"]["resource_metadata"] == METADATA


async def test_scope_prefix_is_added_only_in_challenges_and_metadata() -> None:
    guard = server(options=ResourceServerOptions(scope_prefix="api://1/", scopes_supported=["read", "write"]))

    assert (await guard.admit(request("good"))).scopes == {"read"}
    assert challenges_of(await refusal(guard, request()))["bearer"]["scope"] == "api://1/read"
    error = guard.insufficient_scope(request("good"), ADA, frozenset({"write"}))
    assert challenges_of(error)["bearer"]["scope"] == "api://1/read api://1/write"
    document = orjson.loads(guard.documents["/.well-known/oauth-protected-resource"])
    assert document["scopes_supported"] == ["api://1/read", "api://1/write"]


# Documents


def test_metadata_is_served_at_the_endpoint_and_at_the_root() -> None:
    options = ResourceServerOptions(
        name="Files", documentation="https://example.com/files", scopes_supported=["read", "write", "offline_access"]
    )
    documents = server(options=options).documents

    assert set(documents) == {"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"}
    [read] = {orjson.dumps(orjson.loads(each)) for each in documents.values()}
    document = orjson.loads(read)
    assert "ES256" in document.pop("dpop_signing_alg_values_supported")
    assert document == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["read", "write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Files",
        "resource_documentation": "https://example.com/files",
    }


async def test_each_mount_has_its_own_metadata_and_challenge() -> None:
    resources = [RESOURCE, "https://mcp.example.com/team/tools", "https://mcp.example.com/ws"]
    guard = server(resource=resources)
    root = "/.well-known/oauth-protected-resource"

    named = {path: orjson.loads(document)["resource"] for path, document in guard.documents.items()}
    assert named == {
        root: RESOURCE,
        f"{root}/mcp": RESOURCE,
        f"{root}/team/tools": resources[1],
        f"{root}/ws": resources[2],
    }
    for resource in resources:
        challenge = challenges_of(
            await refusal(guard, request(url=resource.replace("https://mcp.example.com", "http://10.0.0.1")))
        )
        assert challenge["bearer"]["resource_metadata"] == resource.replace(".com/", f".com{root}/")
    elsewhere = challenges_of(await refusal(guard, request(url="https://mcp.example.com/messages")))
    assert elsewhere["bearer"]["resource_metadata"] == METADATA


def test_resource_at_the_root_has_one_document() -> None:
    documents = server(resource="https://mcp.example.com").documents

    assert list(documents) == ["/.well-known/oauth-protected-resource"]


async def test_no_metadata_is_published_without_an_issuer() -> None:
    """MCP requires a document to name at least one authorization server."""
    guard = ResourceServer(tokens=[Tokens({"good": ADA})])

    assert not guard.documents
    assert (await guard.admit(request("good"))).subject == "ada"
    assert challenges_of(await refusal(guard, request())) == {"bearer": {}}


# Certificates


URI = x509.UniformResourceIdentifier("spiffe://team.example/robot")
BY_URI = CertificatePrincipals(name="uri", scopes=frozenset({"read"}))


async def test_certificate_admits_without_a_token_and_a_token_overrides_it() -> None:
    guard = server(options=ResourceServerOptions(certificates=BY_URI))

    assert (await guard.admit(request(certificate=certificate(URI)))).subject == "spiffe://team.example/robot"
    assert (await guard.admit(request("good", certificate=certificate(URI)))).subject == "ada"
    assert (await refusal(guard, request("bad", certificate=certificate(URI)))).status == 401
    assert (await refusal(guard, request(certificate=certificate()))).status == 401
    assert (await refusal(server(), request(certificate=certificate(URI)))).status == 401


async def test_certificate_only_server_sends_no_challenge() -> None:
    options = ResourceServerOptions(certificates=CertificatePrincipals(name="uri"))
    guard = ResourceServer(options=options, clock=Clock())

    assert (await guard.admit(request(certificate=certificate(URI)))).subject == "spiffe://team.example/robot"
    for shown in (None, certificate()):
        refused = await refusal(guard, request(certificate=shown))
        assert (refused.status, refused.challenge) == (403, None)


@pytest.mark.parametrize(
    ("bound_to", "shown", "is_valid"),
    [
        (certificate(URI), certificate(URI), False),  # a new signature: another certificate
        (b"same", b"same", True),
        (b"same", b"other", False),
        (b"same", None, False),
    ],
)
async def test_certificate_bound_token_requires_its_certificate(
    bound_to: bytes, shown: bytes | None, is_valid: bool
) -> None:
    claims = {"cnf": {"x5t#S256": certificate_thumbprint(bound_to)}}
    guard = server(Tokens({"good": Principal(subject="ada", scopes=frozenset({"read"}), claims=claims)}))

    if is_valid:
        assert (await guard.admit(request("good", certificate=shown))).subject == "ada"
    else:
        refused = await refusal(guard, request("good", certificate=shown))
        assert (refused.status, challenges_of(refused)["bearer"]["error"]) == (401, INVALID_TOKEN)


@pytest.mark.parametrize(
    "cnf",
    [
        {"x5t#S256": ""},
        {"jwk": {}},
        {"kid": "1"},
        {"x5t#S256": 1},
        {"x5t#S256": "", "new": "x"},
        "text",
        "",
        {},
        [],
        {"jkt": None},
    ],
)
async def test_token_bound_by_an_unsupported_method_is_refused(cnf: object) -> None:
    principal = Principal(subject="ada", scopes=frozenset({"read"}), claims={"cnf": cnf})

    assert (await refusal(server(Tokens({"good": principal})), request("good"))).status == 401


# Connections that stay open


async def test_connection_is_rechecked_when_its_token_expires() -> None:
    clock = Clock()
    brief = evolve(ADA, claims={"exp": clock.now + 30})
    tokens = Tokens({"brief": brief, "good": ADA})
    guard = server(tokens)

    assert guard.recheck_after(await guard.admit(request("brief"))) == 30
    assert guard.recheck_after(ADA) == 60
    assert await guard.recheck(request("good"), ADA) == ADA
    for known in ({}, {"good": evolve(ADA, subject="eve")}, {"good": evolve(ADA, scopes=frozenset())}):
        tokens.known = known
        with pytest.raises(AuthorizationError):
            await guard.recheck(request("good"), ADA)
    tokens.unsure = True
    with pytest.raises(Overloaded):
        await guard.recheck(request("good"), ADA)


async def test_connection_is_rechecked_when_its_certificate_expires() -> None:
    options = ResourceServerOptions(certificates=CertificatePrincipals(name="uri"))
    clock = Clock()
    guard = ResourceServer(options=options, clock=clock, ticks=clock)
    shown = request(certificate=certificate(URI))

    principal = await guard.admit(shown)
    assert await guard.recheck(shown, principal) == principal
    clock.now = principal.claims["exp"]
    with pytest.raises(AuthorizationError):
        await guard.recheck(shown, principal)


# Limits


async def test_address_with_many_failures_is_rate_limited_and_others_are_not() -> None:
    tokens = Tokens({"good": ADA, "new": ADA})
    guard = server(tokens, options=ResourceServerOptions(failures=FailureLimit(per_minute=6, burst=5)))
    await guard.admit(request("good"))
    for number in range(5):
        assert (await refusal(guard, request(f"guess{number}"))).status == 401
    asked = len(tokens.asked)

    with pytest.raises(Overloaded, match="too many failed") as refused:
        await guard.admit(request("guess"))
    assert refused.value.retry_after == pytest.approx(10)
    with pytest.raises(Overloaded):
        await guard.admit(request("new"))
    assert len(tokens.asked) == asked  # no request was made
    assert await guard.admit(request("good")) == ADA  # admitted before
    assert await guard.admit(request("new", address="203.0.113.8")) == ADA
    # Clients start with a request without a token.
    assert (await refusal(guard, request())).status == 401


async def test_concurrent_guesses_count_against_the_failure_limit() -> None:
    answered = trio.Event()
    outcomes: Counter[str] = Counter()

    class Slow(Tokens):
        async def verify(self, token: str) -> Principal | None:
            await answered.wait()
            return await super().verify(token)

    tokens = Slow({f"good{number}": ADA for number in range(20)})
    guard = server(tokens, options=ResourceServerOptions(failures=FailureLimit(per_minute=6, burst=5)))

    async def attempt(token: str, address: str) -> None:
        try:
            await guard.admit(request(token, address=address))
            outcomes["let in"] += 1
        except (AuthorizationError, Overloaded) as error:
            outcomes[type(error).__name__] += 1

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(attempt, f"guess{number}", "203.0.113.7")
            nursery.start_soon(attempt, f"good{number}", "203.0.113.8")
        await trio.testing.wait_all_tasks_blocked()
        answered.set()
    assert outcomes == {"let in": 20, "AuthorizationError": 5, "RateLimited": 15}
    assert sum(token.startswith("guess") for token in tokens.asked) == 5


async def test_request_without_a_token_does_not_count_as_failure() -> None:
    guard = server(options=ResourceServerOptions(failures=FailureLimit(burst=1)))
    for _ in range(10):
        await refusal(guard, request())

    assert await guard.admit(request("good")) == ADA


async def test_refusal_is_logged_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mcptrio.auth"):
        await refusal(server(), request("secret-token"))

    assert "request refused: client=203.0.113.7: invalid access token" in caplog.text
    assert "secret-token" not in caplog.text


# Without HTTP


@pytest.mark.parametrize(
    ("principal", "problem"),
    [
        (None, "invalid access token"),
        (Principal(subject="ada", scopes=frozenset({"read"}), claims={"cnf": {"jkt": "x"}}), "unbound access token"),
        (Principal(subject="ada"), "lacks scopes: read"),
    ],
)
async def test_environment_token_is_checked_like_others(principal: Principal | None, problem: str) -> None:
    guard = server(Tokens({"bad": principal} if principal else {}))

    with pytest.raises(AuthorizationError, match=problem):
        await guard.admit_token("bad")
    assert await server().admit_token("good") == ADA


# Configuration errors


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"resource": "http://mcp.example.com/mcp"}, "resource: expected an https URL"),
        ({"resource": "mcp.example.com"}, "resource: expected an http or https URL"),
        ({"resource": "https://MCP.example.com/mcp"}, "resource: expected https://mcp.example.com/mcp"),
        ({"resource": "https://mcp.example.com:443/mcp"}, "resource: expected https://mcp.example.com/mcp"),
        ({"resource": "https://mcp.example.com/"}, "resource: expected https://mcp.example.com,"),
        ({"resource": "https://mcp.example.com/mcp#x"}, "without fragment"),
        ({"resource": "https://mcp.example.com/mcp?a=1"}, "without query"),
        ({"resource": ()}, "resource: expected the address"),
        ({"authorization_servers": ["http://login.example.com"]}, "authorization_servers: expected an https URL"),
        ({"tokens": []}, "tokens: expected a token verifier"),
        ({"resource": [RESOURCE, "https://other.example.com/mcp"]}, "resource: expected paths that differ"),
        ({"scopes": ["offline_access"]}, "scopes: expected scopes that a server may request, got offline_access"),
        ({"scopes": ["a b"]}, "expected a scope"),
        ({"options": ResourceServerOptions(scope_prefix='"')}, "expected a scope"),
        ({"options": ResourceServerOptions(scopes_supported=["a b"])}, "expected a scope"),
        (
            {
                "resource": (),
                "authorization_servers": [],
                "options": ResourceServerOptions(dpop=DPoPRule(use="required")),
            },
            "res",
        ),
    ],
)
def test_invalid_settings_fail_at_the_start(arguments: Mapping[str, Any], problem: str) -> None:
    usual: dict[str, Any] = {"resource": RESOURCE, "tokens": [Tokens()], "authorization_servers": [ISSUER]}

    with pytest.raises(ValueError, match=problem):
        ResourceServer(**{**usual, **arguments})


async def test_issuer_tokens_are_verified_end_to_end() -> None:
    issuer = Issuer()
    tokens = JWTTokens(
        IssuerKeys(ISSUER, issuer, ticks=issuer.clock), audience=[RESOURCE], clock=issuer.clock, ticks=issuer.clock
    )
    guard = ResourceServer(
        RESOURCE, tokens=[tokens], authorization_servers=[ISSUER], clock=issuer.clock, ticks=issuer.clock
    )

    assert (await guard.admit(request(issuer.token()))).subject == "ada"
    assert (await refusal(guard, request(issuer.token(aud="https://other.example")))).status == 401
    issuer.down = True
    other = ResourceServer(
        RESOURCE,
        tokens=[
            JWTTokens(
                IssuerKeys(ISSUER, issuer, ticks=issuer.clock),
                audience=[RESOURCE],
                clock=issuer.clock,
                ticks=issuer.clock,
            )
        ],
        authorization_servers=[ISSUER],
    )
    with pytest.raises(Overloaded):
        await other.admit(request(issuer.token()))
