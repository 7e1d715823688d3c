"""Assertions of a company's identity provider, and of a platform's workloads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import evolve
from mcptrio_authserver import ClientSettings, TrustedIssuer

from mcptrio import Secret
from mcptrio.auth.jose import Key, KeySet, sign

from .conftest import CLIENTS, SECRET, Site, Web, error_of, opened

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
IDP, PLATFORM = "https://idp.example", "https://platform.example/cluster"
TRUSTED = {
    "company": TrustedIssuer(issuer=IDP),
    "cluster": TrustedIssuer(
        issuer=PLATFORM,
        kind="workload",
        jwks_uri="https://platform.example/keys",
        subjects=("system:serviceaccount:notes:*",),
        scopes=("notes:read",),
    ),
}
WORKLOAD = "system:serviceaccount:notes:writer"


@pytest.fixture
def key() -> Key:
    return Key.generate("ES256")


@pytest.fixture
def web(key: Key) -> Web:
    web = Web()
    keys = KeySet((Key.from_jwk(key.public),)).document
    web.put("https://idp.example/.well-known/openid-configuration", {"issuer": IDP, "jwks_uri": f"{IDP}/keys"})
    web.put(f"{IDP}/keys", keys)
    web.put("https://platform.example/keys", keys)
    return web


@pytest.fixture
async def trusting(folder: Path, web: Web) -> AsyncIterator[Site]:
    async with opened(folder, fetch=web, trusted_issuers=TRUSTED) as site:
        yield site


def jag(site: Site, key: Key, *, typ: str = "oauth-id-jag+jwt", **changes: Any) -> str:
    claims = {
        "iss": IDP,
        "sub": "u-17",
        "aud": site.issuer,
        "client_id": "robot",
        "resource": f"{site.url}/mcp",
        "scope": "notes:read",
        "jti": "1",
        "iat": site.clock.now,
        "exp": site.clock.now + 300,
    }
    return sign({name: value for name, value in {**claims, **changes}.items() if value is not None}, key, typ=typ)


async def exchange(site: Site, assertion: str, **form: str) -> httpx2.Response:
    body = {"grant_type": GRANT, "assertion": assertion, **form}
    return await site.post("token", body, auth=("robot", SECRET))


async def test_company_user_is_admitted_without_consent(trusting: Site, key: Key, web: Web) -> None:
    response = await exchange(trusting, jag(trusting, key))

    body = response.json()
    assert body["scope"] == "notes:read"
    assert "refresh_token" not in body
    claims = await trusting.claims(body["access_token"])
    assert (claims["sub"], claims["client_id"]) == ("company:u-17", "robot")
    assert claims["aud"] == f"{trusting.url}/mcp"
    metadata = (await trusting.get("/.well-known/oauth-authorization-server/auth")).json()
    assert metadata["authorization_grant_profiles_supported"] == ["urn:ietf:params:oauth:grant-profile:id-jag"]
    assert GRANT in metadata["grant_types_supported"]
    assert error_of(await exchange(trusting, jag(trusting, key))) == "invalid_grant", "once"
    assert web.count(f"{IDP}/keys") == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"typ": "JWT"}, "invalid_grant"),
        ({"iss": "https://evil.example"}, "invalid_grant"),
        ({"aud": "https://elsewhere.example"}, "invalid_grant"),
        ({"aud": None}, "invalid_grant"),
        ({"client_id": "app"}, "invalid_grant"),
        ({"client_id": None}, "invalid_grant"),
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
        ({"resource": None}, "invalid_grant"),
        ({"jti": None}, "invalid_grant"),
        ({"sub": ""}, "invalid_grant"),
        ({"exp": 1_900_000_000 - 61}, "invalid_grant"),
        ({"exp": None}, "invalid_grant"),
        ({"exp": True}, "invalid_grant"),
        ({"iat": 1_900_000_000 + 120}, "invalid_grant"),
        ({"scope": "nonsense"}, "invalid_scope"),
    ],
)
async def test_assertion_with_wrong_claims_is_refused(
    trusting: Site, key: Key, changes: dict[str, Any], error: str
) -> None:
    assert error_of(await exchange(trusting, jag(trusting, key, **changes))) == error


async def test_assertion_of_an_untrusted_issuer_or_without_a_client_is_refused(trusting: Site, key: Key) -> None:
    assert error_of(await exchange(trusting, jag(trusting, Key.generate("ES256")))) == "invalid_grant"
    assert error_of(await exchange(trusting, "nonsense")) == "invalid_grant"
    assert error_of(await exchange(trusting, jag(trusting, key), scope="notes:write")) == "invalid_scope"
    body = {"grant_type": GRANT, "assertion": jag(trusting, key, client_id="app"), "client_id": "app"}
    assert error_of(await trusting.post("token", body)) == "invalid_client"
    del body["client_id"]
    assert error_of(await trusting.post("token", body)) == "invalid_client"


async def test_workload_needs_no_client(trusting: Site, key: Key) -> None:
    claims = {"iss": PLATFORM, "sub": WORKLOAD, "aud": [trusting.issuer], "exp": trusting.clock.now + 300}
    form = {"grant_type": GRANT, "assertion": sign(claims, key), "resource": f"{trusting.url}/mcp"}

    response = await trusting.post("token", form)

    token = await trusting.claims(response.json()["access_token"])
    assert (token["sub"], token["scope"]) == (f"cluster:{WORKLOAD}", "notes:read")
    assert (await trusting.post("token", form)).status_code == 200, "a workload's token is good as long as it lives"


async def test_workload_is_limited_to_the_client_that_it_names(folder: Path, key: Key, web: Web) -> None:
    clients = CLIENTS | {
        "writer": ClientSettings(secret=Secret(SECRET), grant_types=(GRANT,), scopes=("notes:write",)),
    }
    trusted = {"cluster": evolve(TRUSTED["cluster"], scopes=None)}
    async with opened(folder, fetch=web, trusted_issuers=trusted, clients=clients) as site:
        claims = {"iss": PLATFORM, "sub": WORKLOAD, "aud": [site.issuer], "exp": site.clock.now + 300}
        form = {"grant_type": GRANT, "assertion": sign(claims, key)}

        response = await site.post("token", form, auth=("writer", SECRET))

        assert response.json()["scope"] == "notes:write"
        more = await site.post("token", {**form, "scope": "notes:read"}, auth=("writer", SECRET))
        assert error_of(more) == "invalid_scope"
        public = await site.post("token", {**form, "client_id": "app"})
        assert (public.status_code, error_of(public)) == (401, "invalid_client")


@pytest.mark.parametrize(
    "changes",
    [
        {"sub": "system:serviceaccount:other:writer"},
        {"sub": "x" + WORKLOAD},
        {"aud": ["https://elsewhere.example"]},
        {"exp": 1_900_000_000 - 61},
        {"exp": 1_900_000_000 + 90_000},
    ],
)
async def test_unknown_workload_is_refused(trusting: Site, key: Key, changes: dict[str, Any]) -> None:
    claims = {"iss": PLATFORM, "sub": WORKLOAD, "aud": [trusting.issuer], "exp": trusting.clock.now + 300}

    response = await trusting.post("token", {"grant_type": GRANT, "assertion": sign({**claims, **changes}, key)})

    assert error_of(response) == "invalid_grant"


async def test_unreachable_issuer_is_reported(trusting: Site, key: Key, web: Web) -> None:
    web.pages.clear()

    response = await exchange(trusting, jag(trusting, key))

    assert response.status_code == 503
    assert error_of(response) == "temporarily_unavailable"
    asked = len(web.asked)
    assert (await exchange(trusting, jag(trusting, key))).status_code == 503
    assert len(web.asked) == asked, "it is not asked again at once"
