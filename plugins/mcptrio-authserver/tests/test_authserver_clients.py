"""Clients that register themselves, have a metadata document, or authenticate with a key."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcptrio_authserver import ClientSettings

from mcptrio.abc import FetchResponse
from mcptrio.auth.jose import Key, KeySet, sign
from mcptrio.errors import RequestFailed

from .conftest import CLIENTS, REDIRECT, Site, Web, answer_of, error_of, opened, payload

URL = "https://app.example/oauth/client.json"
DOCUMENT: dict[str, Any] = {
    "client_id": URL,
    "client_name": "Documented",
    "redirect_uris": ["http://127.0.0.1:3000/cb", "https://app.example/cb"],
    "grant_types": ["authorization_code", "refresh_token"],
}
JWT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
async def reaching(folder: Path, web: Web) -> AsyncIterator[Site]:
    """A server that can reach other servers."""
    async with opened(folder, fetch=web) as site:
        yield site


# Registration


async def test_client_registers_itself_and_is_admitted(site: Site) -> None:
    answer = await site.register(
        grant_types=["authorization_code", "refresh_token"], application_type="native", scope="notes:read nonsense"
    )
    assert answer.status_code == 201
    document = answer.json()
    assert document["grant_types"] == ["authorization_code", "refresh_token"]
    assert document["application_type"] == "native"
    assert document["scope"] == "notes:read"
    assert "client_secret" not in document

    consent = await site.log_in(await site.authorize(client_id=document["client_id"]))

    assert "Newcomer" in consent.text
    assert "has registered itself" in consent.text
    assert "program on this computer" in consent.text
    code = answer_of(await site.submit(consent, decision="allow"))["code"]
    tokens = (await site.redeem(code, client_id=document["client_id"])).json()
    assert (await site.refresh(tokens["refresh_token"], client_id=document["client_id"])).status_code == 200


async def test_client_must_use_its_registered_authentication_method(site: Site) -> None:
    document = (await site.register(token_endpoint_auth_method="client_secret_post")).json()
    client, secret = document["client_id"], document["client_secret"]
    assert document["client_secret_expires_at"] == 0
    code = (await site.code(client_id=client))["code"]
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": site.verifier}

    assert error_of(await site.post("token", {**form, "client_id": client})) == "invalid_client"
    assert error_of(await site.post("token", form, auth=(client, secret))) == "invalid_client"
    good = await site.post("token", {**form, "client_id": client, "client_secret": secret})
    assert good.status_code == 200, "what did not authenticate has spent no code"


async def test_secret_is_form_encoded_for_basic_authentication(folder: Path) -> None:
    from mcptrio import Secret

    clients = {"ro:bot +": ClientSettings(secret=Secret("a:b+c%d e/f" * 3), grant_types=("client_credentials",))}
    async with opened(folder, clients=clients) as site:
        encoded = base64.b64encode(b"ro%3Abot+%2B:" + b"a%3Ab%2Bc%25d+e%2Ff" * 3).decode()
        headers = {"authorization": f"Basic {encoded}"}

        response = await site.post("token", {"grant_type": "client_credentials"}, headers=headers)

        assert payload(response.json()["access_token"])["sub"] == "client:ro:bot +"


async def test_registration_can_be_disabled(folder: Path) -> None:
    async with opened(folder, registration=False, client_documents=False) as site:
        metadata = (await site.get("/.well-known/oauth-authorization-server/auth")).json()
        assert "registration_endpoint" not in metadata
        assert metadata["client_id_metadata_document_supported"] is False
        assert (await site.register()).status_code == 403
        assert (await site.authorize(client_id=URL)).status_code == 400


# Documents


async def test_client_is_described_by_its_document(reaching: Site, web: Web) -> None:
    web.put(URL, DOCUMENT)
    redirect = "http://127.0.0.1:5123/cb"

    consent = await reaching.log_in(await reaching.authorize(client_id=URL, redirect_uri=redirect))

    assert "Documented" in consent.text
    assert "as app.example describes it" in consent.text
    assert "127.0.0.1:5123" in consent.text
    assert "program on this computer" in consent.text
    code = answer_of(await reaching.submit(consent, decision="allow"))["code"]
    tokens = (await reaching.redeem(code, client_id=URL, redirect_uri=redirect)).json()
    assert payload(tokens["access_token"])["client_id"] == URL
    assert (await reaching.refresh(tokens["refresh_token"], client_id=URL)).status_code == 200
    assert web.count(URL) == 1
    assert [*web.asked[0].headers] == ["accept"]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 3600),
        ({"cache_control": "max-age=600"}, 600),
        ({"cache_control": "public, max-age=900", "age": "300"}, 600),
        ({"cache_control": "no-store"}, 60),
        ({"cache_control": "max-age=99999999"}, 86_400),
    ],
)
async def test_document_is_cached_as_its_headers_permit(
    reaching: Site, web: Web, headers: dict[str, str], seconds: int
) -> None:
    web.put(URL, DOCUMENT, **headers)
    ask = {"client_id": URL, "redirect_uri": "https://app.example/cb"}
    await reaching.authorize(**ask)

    reaching.clock.now += seconds - 1
    await reaching.authorize(**ask)
    assert web.count(URL) == 1
    reaching.clock.now += 2
    await reaching.authorize(**ask)

    assert web.count(URL) == 2


@pytest.mark.parametrize(
    "document",
    [
        {**DOCUMENT, "client_id": f"{URL}/"},
        {**DOCUMENT, "client_id": "https://APP.example/oauth/client.json"},
        {name: value for name, value in DOCUMENT.items() if name != "client_id"},
        {name: value for name, value in DOCUMENT.items() if name != "client_name"},
        {name: value for name, value in DOCUMENT.items() if name != "redirect_uris"},
        {**DOCUMENT, "token_endpoint_auth_method": "client_secret_basic"},
        {**DOCUMENT, "client_secret": "x"},
        {**DOCUMENT, "redirect_uris": ["javascript:x"]},
        {**DOCUMENT, "padding": "x" * 20_000},
        [DOCUMENT],
        "x",
    ],
    ids=["slash", "case", "no id", "no name", "no redirects", "secret", "a secret", "script", "huge", "list", "text"],
)
async def test_invalid_client_document_is_refused(reaching: Site, web: Web, document: object) -> None:
    web.put(URL, document)

    for _ in range(2):
        response = await reaching.authorize(client_id=URL, redirect_uri="https://app.example/cb")
        assert response.status_code == 400
        assert "location" not in response.headers

    assert web.count(URL) == 1, "it is not asked for again at once"


async def test_unreachable_document_error_reveals_nothing_of_the_network(reaching: Site, web: Web) -> None:
    web.pages[URL] = RequestFailed("connection refused by 10.0.0.7:443")

    response = await reaching.authorize(client_id=URL, redirect_uri="https://app.example/cb")

    assert response.status_code == 400
    assert "10.0.0.7" not in response.text
    web.put(URL, DOCUMENT)
    reaching.clock.now += 61
    assert (await reaching.authorize(client_id=URL, redirect_uri="https://app.example/cb")).status_code == 200
    web.pages["https://r.example/x"] = FetchResponse(status=302, headers={"location": URL})
    assert (await reaching.authorize(client_id="https://r.example/x")).status_code == 400
    assert web.count(URL) == 2, "no redirect is followed"


@pytest.mark.parametrize(
    "url",
    [
        "http://app.example/client.json",
        "https://app.example",
        "https://app.example/",
        "https://app.example/a/../b",
        "https://app.example/a/%2e%2E/b",
        "https://app.example/x#y",
        "https://user@app.example/x",
        "https://app.example:99999/x",
        "ftp://app.example/x",
        "file:///etc/passwd",
    ],
)
async def test_invalid_document_url_is_not_fetched(reaching: Site, web: Web, url: str) -> None:
    assert (await reaching.authorize(client_id=url)).status_code == 400
    assert not web.asked


async def test_document_fetches_per_address_are_rate_limited(reaching: Site, web: Web) -> None:
    seen = [(await reaching.authorize(client_id=f"https://a{n}.example/x")).status_code for n in range(33)]

    assert seen == [400] * 30 + [429] * 3
    assert len(web.asked) == 30


async def test_documents_are_fetched_only_from_configured_hosts(folder: Path, web: Web) -> None:
    web.put(URL, DOCUMENT)
    async with opened(folder, fetch=web, client_document_hosts=("other.example",)) as site:
        assert (await site.authorize(client_id=URL, redirect_uri="https://app.example/cb")).status_code == 400
        assert not web.asked


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/x", "https://169.254.169.254/latest", "https://10.1.2.3/x"])
async def test_document_in_a_private_network_is_not_fetched(folder: Path, url: str) -> None:
    """The server has the shipped address policy and a public issuer."""
    async with opened(folder, issuer="https://login.example/auth") as site:
        page = await site.get(f"/auth/authorize?{site.query(client_id=url, resource=None)}")

        assert page.status_code == 400
        assert "cannot be fetched" in page.text


async def test_document_is_fetched_over_http_on_this_machine(folder: Path) -> None:
    """Developers need this. The server has the shipped address policy, and its issuer is on this machine."""
    documents: dict[str, bytes] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": documents[scope["path"]]})

    from functools import partial

    import trio

    from mcptrio.http.engine.server import serve_asgi as serve

    async with trio.open_nursery() as nursery:
        [url] = await nursery.start(partial(serve, app, bind="127.0.0.1:0"))
        client = f"{url}/client.json"
        documents["/client.json"] = orjson.dumps({**DOCUMENT, "client_id": client})
        async with opened(folder) as site:
            page = await site.authorize(client_id=client, redirect_uri="http://127.0.0.1:3000/cb")
            assert page.status_code == 200
            assert "Documented" in page.text
        nursery.cancel_scope.cancel()


# Keys


def assertion(key: Key, client: str, site: Site, *, alg: str | None = None, **changes: Any) -> str:
    claims = {
        "iss": client,
        "sub": client,
        "aud": site.issuer,
        "exp": site.clock.now + 60,
        "iat": site.clock.now,
        "jti": f"{changes!r}",
    }
    claims = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    if alg is None:
        return sign(claims, key)
    # No library creates these: no signature, or one with a public key as a shared secret.
    import hmac

    parts = [json.dumps({"alg": alg, "typ": "JWT", "kid": key.id}).encode(), json.dumps(claims).encode()]
    head = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    tag = b"" if alg == "none" else hmac.digest(json.dumps(key.public).encode(), head, "sha256")
    return f"{head.decode()}.{base64.urlsafe_b64encode(tag).rstrip(b'=').decode()}"


@pytest.fixture
def key() -> Key:
    return Key.generate("ES256")


@pytest.fixture
async def keyed(folder: Path, key: Key, web: Web) -> AsyncIterator[Site]:
    """A server with the client ``signer``, whose keys are in the settings, and ``publisher``, which publishes them."""
    jwks = json.dumps(KeySet((Key.from_jwk(key.public),)).document)
    clients = CLIENTS | {
        "signer": ClientSettings(jwks=jwks, grant_types=("client_credentials",)),
        "publisher": ClientSettings(jwks_uri="https://keys.example/jwks", grant_types=("client_credentials",)),
    }
    web.put("https://keys.example/jwks", json.loads(jwks))
    async with opened(folder, fetch=web, clients=clients) as site:
        yield site


def signed(text: str, **form: str) -> dict[str, str]:
    return {
        "grant_type": "client_credentials",
        "client_assertion_type": JWT,
        "client_assertion": text,
        **form,
    }


@pytest.mark.parametrize("client", ["signer", "publisher"])
async def test_client_authenticates_with_a_key_once(keyed: Site, key: Key, client: str) -> None:
    proof = assertion(key, client, keyed)

    response = await keyed.post("token", signed(proof))

    assert payload(response.json()["access_token"])["sub"] == f"client:{client}"
    assert error_of(await keyed.post("token", signed(proof))) == "invalid_client"
    endpoint = assertion(key, client, keyed, aud=f"{keyed.issuer}/token")
    assert (await keyed.post("token", signed(endpoint))).status_code == 200


async def test_keys_are_fetched_again_for_an_unknown_key(keyed: Site, key: Key, web: Web) -> None:
    url = "https://keys.example/jwks"
    assert (await keyed.post("token", signed(assertion(key, "publisher", keyed)))).status_code == 200
    other = Key.generate("ES256")
    web.put(url, KeySet((Key.from_jwk(other.public),)).document)

    assert error_of(await keyed.post("token", signed(assertion(other, "publisher", keyed)))) == "invalid_client"
    assert web.count(url) == 1, "not more often than once a minute"
    keyed.clock.now += 61
    assert (await keyed.post("token", signed(assertion(other, "publisher", keyed, jti="2")))).status_code == 200
    assert web.count(url) == 2


async def test_failed_key_fetches_are_rate_limited(keyed: Site, key: Key, web: Web) -> None:
    url = "https://keys.example/jwks"
    there = web.pages[url]
    web.pages[url] = RequestFailed("no answer")
    seen = [(await keyed.post("token", signed(assertion(key, "publisher", keyed, jti=str(n))))) for n in range(5)]
    assert [each.status_code for each in seen] == [503] + [401] * 4
    assert web.count(url) == 1

    web.pages[url] = there
    keyed.clock.now += 61
    assert (await keyed.post("token", signed(assertion(key, "publisher", keyed)))).status_code == 200


@pytest.mark.parametrize("alg", ["none", "None", "HS256"])
async def test_assertion_without_a_real_signature_is_refused(keyed: Site, key: Key, alg: str) -> None:
    """``alg: none``, and a public key taken for a shared secret."""
    assert error_of(await keyed.post("token", signed(assertion(key, "signer", keyed, alg=alg)))) == "invalid_client"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://elsewhere.example"},
        {"aud": None},
        {"aud": ["https://elsewhere.example", "https://x.example"]},
        {"iss": "app"},
        {"exp": 1_900_000_000 - 61},
        {"exp": 1_900_000_000 + 86_400},
        {"exp": None},
        {"nbf": 1_900_000_000 + 120},
        {"jti": None},
    ],
)
async def test_assertion_with_wrong_audience_or_time_is_refused(keyed: Site, key: Key, changes: dict[str, Any]) -> None:
    answer = await keyed.post("token", signed(assertion(key, "signer", keyed, **changes)))

    assert error_of(answer) == "invalid_client"


@pytest.mark.parametrize("typ", ["dpop+jwt", "at+jwt", "oauth-id-jag+jwt", "client-authentication+jwt"])
async def test_only_client_assertions_authenticate_a_client(keyed: Site, key: Key, typ: str) -> None:
    now = keyed.clock.now
    claims = {"iss": "signer", "sub": "signer", "aud": keyed.issuer, "exp": now + 60, "jti": "1"}

    answer = await keyed.post("token", signed(sign(claims, key, typ=typ)))
    assert (answer.status_code == 200) == (typ == "client-authentication+jwt")


async def test_assertion_of_another_key_or_client_is_refused(keyed: Site, key: Key) -> None:
    other = Key.generate("ES256")
    for text, form in (
        (assertion(other, "signer", keyed), {}),
        (assertion(key, "signer", keyed), {"client_id": "publisher"}),
        (assertion(key, "robot", keyed), {}),
        (assertion(key, "nobody", keyed), {}),
        ("a.b.c", {}),
        (assertion(key, "signer", keyed), {"client_assertion_type": "x"}),
        (assertion(key, "signer", keyed), {"client_secret": "x"}),
    ):
        answer = await keyed.post("token", signed(text, **form))
        assert error_of(answer) in ("invalid_client", "invalid_request")
    bare = {"grant_type": "client_credentials", "client_id": "signer"}
    assert error_of(await keyed.post("token", bare)) == "invalid_client"


async def test_registered_client_may_have_a_key(site: Site, key: Key) -> None:
    answer = await site.register(
        token_endpoint_auth_method="private_key_jwt", jwks=KeySet((Key.from_jwk(key.public),)).document
    )
    client = answer.json()["client_id"]
    code = (await site.code(client_id=client))["code"]
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": site.verifier, "redirect_uri": REDIRECT}

    response = await site.post("token", {**signed(assertion(key, client, site)), **form})

    assert response.status_code == 200
