"""``[auth]``: the settings that a valid file yields, and for invalid ones errors with file, line and key."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcptrio.abc import FetchResponse, Principal
from mcptrio.auth.jose import KeySet
from mcptrio.auth.server.resource_server import ResourceServer
from mcptrio.auth.server.static_tokens import make_token, tokens_text
from mcptrio.errors import AuthorizationError, ConfigError, Overloaded
from mcptrio.serve.auth_config import TOKEN, guard_of, principal_of_environment, read_settings
from mcptrio.serve.config import ServeConfig, load_config
from tests.auth.server_parts import INTROSPECTION, ISSUER, JWKS, METADATA, OTHER_KEY, RESOURCE, Clock, Issuer, request
from tests.auth.test_certificates import certificate

__all__: list[str] = []

URL = f'resource = "{RESOURCE}"\n'
RESOURCE_AND_ISSUER = f'{URL}issuers = ["{ISSUER}"]\n'


def read(folder: Path, text: str, profile: str | None = None) -> ServeConfig:
    file = folder / "mcptrio.toml"
    file.write_text(text)
    return load_config(file, profile)


def guard(folder: Path, text: str, issuer: Issuer | None = None, **environ: str) -> ResourceServer:
    resource_server = guard_of(read(folder, text), fetch=issuer or issuer_now(), environ=environ)
    assert resource_server is not None
    return resource_server


def issuer_now() -> Issuer:
    """Return an issuer whose clock shows the real time."""
    return Issuer(clock=Clock(time.time()))


def answer(document: Any) -> FetchResponse:
    return FetchResponse(status=200, headers={"content-type": "application/json"}, body=orjson.dumps(document))


def test_config_without_auth_table_has_no_guard(tmp_path: Path) -> None:
    assert guard_of(read(tmp_path, "[server]\n"), environ={}) is None


async def test_token_file_is_found_next_to_the_configuration(tmp_path: Path) -> None:
    token, stored_token = make_token("ada", subject="ada", scopes=["mcp"], created=0)
    (tmp_path / "tokens.json").write_text(tokens_text([stored_token]))

    resource_server = guard(tmp_path, '[auth]\ntokens = "tokens.json"\nscopes = ["mcp"]\n')

    assert (await resource_server.admit(request(token))).subject == "ada"
    assert not resource_server.documents


async def test_issuer_tokens_are_accepted_for_the_configured_audience(tmp_path: Path) -> None:
    issuer = issuer_now()
    text = (
        f'[auth]\n{RESOURCE_AND_ISSUER}scopes = ["read"]\nname = "Files"\n[auth.includes]\nadmin = ["read", "write"]\n'
    )

    resource_server = guard(tmp_path, text, issuer)

    assert (await resource_server.admit(request(issuer.token(scope="admin")))).scopes == {"admin", "read", "write"}
    with pytest.raises(AuthorizationError) as refused:
        await resource_server.admit(request(issuer.token(aud="https://other.example")))
    assert refused.value.status == 401
    assert issuer.asked == {METADATA: 1, JWKS: 1}
    document = orjson.loads(resource_server.documents["/.well-known/oauth-protected-resource/mcp"])
    assert document["authorization_servers"] == [ISSUER]
    assert document["scopes_supported"] == ["read"]
    assert document["resource_name"] == "Files"


async def test_configured_token_types_are_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    issuer = issuer_now()

    resource_server = guard(tmp_path, f'[auth]\n{RESOURCE_AND_ISSUER}types = ["at+jwt"]\n', issuer)

    assert "auth.scopes is empty" in caplog.text
    assert (await resource_server.admit(request(issuer.token()))).subject == "ada"
    with pytest.raises(AuthorizationError):
        await resource_server.admit(request(issuer.token(typ="JWT")))


async def test_configured_audience_and_keys_url_are_used(tmp_path: Path) -> None:
    issuer = issuer_now()

    resource_server = guard(
        tmp_path, f'[auth]\n{RESOURCE_AND_ISSUER}audience = ["api://mcp"]\njwks = "{JWKS}"\n', issuer
    )

    assert (await resource_server.admit(request(issuer.token(aud="api://mcp")))).subject == "ada"
    with pytest.raises(AuthorizationError):
        await resource_server.admit(request(issuer.token(aud=RESOURCE)))
    assert issuer.asked == {JWKS: 1}


async def test_introspected_issuer_receives_no_token_of_another_issuer(tmp_path: Path) -> None:
    issuer, other = issuer_now(), "https://other.example"
    token, stored_token = make_token("ada", subject="ada", created=0)
    (tmp_path / "tokens.json").write_text(tokens_text([stored_token]))
    text = (
        f'[auth]\n{URL}issuers = ["{ISSUER}", "{other}"]\ntokens = "tokens.json"\n[auth.introspection]\n'
        f'issuer = "{ISSUER}"\nclient_id = "us"\nclient_secret = {{"$env" = "SECRET"}}\nendpoint = "{INTROSPECTION}"\n'
    )
    issuer.answers = {
        f"{other}/.well-known/oauth-authorization-server": answer({"issuer": other, "jwks_uri": f"{other}/keys"}),
        f"{other}/keys": answer(KeySet([OTHER_KEY]).document),
    }
    issuer.active["opaque"] = {"active": True, "sub": "eve", "aud": RESOURCE}
    resource_server = guard(tmp_path, text, issuer, SECRET="hush")

    assert (await resource_server.admit(request(token))).subject == "ada"
    assert (await resource_server.admit(request(issuer.token(OTHER_KEY, iss=other)))).issuer == other
    for bad in (f"{token}x", issuer.token(OTHER_KEY, iss=other, exp=1), issuer.token(iss="https://third.example")):
        with pytest.raises(AuthorizationError):
            await resource_server.admit(request(bad))
    assert not issuer.questions
    assert (await resource_server.admit(request("opaque"))).subject == "eve"
    assert [form["token"] for _, form in issuer.questions] == [["opaque"]]


async def test_introspection_secret_is_read_from_the_environment(tmp_path: Path) -> None:
    issuer = issuer_now()
    issuer.active["opaque"] = {"active": True, "sub": "ada", "aud": RESOURCE}
    text = (
        f'[auth]\n{RESOURCE_AND_ISSUER}[auth.introspection]\nclient_id = "mcp"\n'
        'client_secret = { "$env" = "SECRET" }\nmethod = "client_secret_post"\n'
    )

    resource_server = guard(tmp_path, text, issuer, SECRET="hush")

    assert (await resource_server.admit(request("opaque"))).subject == "ada"
    assert issuer.questions[0][1]["client_secret"] == ["hush"]
    assert issuer.asked[INTROSPECTION] == 1
    assert "hush" not in repr(read_settings(read(tmp_path, text), {"SECRET": "hush"}))


async def test_issuers_and_token_file_are_both_accepted(tmp_path: Path) -> None:
    issuer = issuer_now()
    token, stored_token = make_token("robot", subject="robot", created=0)
    (tmp_path / "tokens.json").write_text(tokens_text([stored_token]))

    resource_server = guard(tmp_path, f'[auth]\n{RESOURCE_AND_ISSUER}tokens = "tokens.json"\n', issuer)

    assert (await resource_server.admit(request(token))).subject == "robot"
    assert (await resource_server.admit(request(issuer.token()))).subject == "ada"
    assert not [url for url in issuer.asked if url == INTROSPECTION]


async def test_certificate_setting_admits_its_subject(tmp_path: Path) -> None:
    resource_server = guard(tmp_path, '[auth]\ncertificates = "uri"\ncertificate_scopes = ["mcp"]\n')

    with pytest.raises(AuthorizationError) as refused:
        await resource_server.admit(request(certificate=certificate()))
    assert refused.value.status == 403


def test_environment_overrides_the_file_and_suffices_alone(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text(tokens_text([]))
    config = read(tmp_path, '[auth]\nscopes = ["one"]\ntokens = "none.json"\n')
    environ = {"MCPTRIO_AUTH_SCOPES": "two, three", "MCPTRIO_AUTH_TOKENS": str(tmp_path / "tokens.json")}

    settings = read_settings(config, environ)
    assert settings is not None
    assert settings.scopes == ("two", "three")
    assert guard_of(config, environ=environ) is not None
    assert guard_of(ServeConfig(), environ=environ) is not None


def test_misspelt_environment_variable_is_an_error() -> None:
    with pytest.raises(ConfigError, match="AUTH_TOKNES: there is no such setting; did you mean `MCPTRIO_AUTH_TOKENS`"):
        guard_of(ServeConfig(), environ={"MCPTRIO_AUTH_TOKNES": "tokens.json"})


def test_profile_overrides_auth_settings(tmp_path: Path) -> None:
    text = f'[auth]\n{RESOURCE_AND_ISSUER}scopes = ["read"]\n[profiles.strict.auth]\ndpop = "required"\n'

    settings = read_settings(read(tmp_path, text, "strict"), {})
    assert settings is not None
    assert (settings.dpop, settings.scopes) == ("required", ("read",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[auth]\n", ":1: auth: expected issuers, tokens or certificates"),
        ("auth = 1\n", ":1: auth: expected a table, got 1"),
        ('[auth]\nissuer = "x"\n', ":2: auth.issuer: there is no setting `issuer`; did you mean `issuers`?"),
        ('[auth]\nissuers = "x"\n', ":2: auth.issuers: expected a list"),
        (f'[auth]\nissuers = ["{ISSUER}"]\n', ":1: auth.resource: expected the address of the endpoint"),
        (f'[auth]\n{URL}issuers = ["http://login.example.com"]\n', ":3: auth.issuers: expected an https URL"),
        (
            '[auth]\nresource = "https://MCP.example.com"\nissuers = ["https://x.example"]\n',
            ":2: auth.resource: expected",
        ),
        (f"[auth]\n{RESOURCE_AND_ISSUER}algorithms = ['HS256']\n", ":4: auth.algorithms: expected some of"),
        (f"[auth]\n{RESOURCE_AND_ISSUER}clock_skew = 3600\n", ":4: auth.clock_skew"),
        (f"[auth]\n{RESOURCE_AND_ISSUER}dpop = 'on'\n", ":4: auth.dpop: expected one of off, accepted, required"),
        (f"[auth]\n{RESOURCE_AND_ISSUER}dpop = 'off'\ndpop_nonces = 60\n", ":5: auth.dpop_nonces: expected dpop"),
        (f"[auth]\n{RESOURCE_AND_ISSUER}scopes = ['a b']\n", "auth: expected a scope"),
        (
            f"[auth]\n{RESOURCE_AND_ISSUER}certificate_scopes = ['a']\n",
            ":4: auth.certificate_scopes: expected certificates",
        ),
        ("[auth]\njwks = 'https://x.example'\n", ":2: auth.jwks: expected issuers"),
        (
            f"[auth]\n{URL}issuers = ['{ISSUER}', 'https://b.example']\njwks = '{JWKS}'\n",
            "auth.jwks: expected one issuer",
        ),
        (f"[auth]\n{RESOURCE_AND_ISSUER}jwks = 'http://x.example'\n", ":4: auth.jwks: expected an https URL"),
        (f"[auth]\n{RESOURCE_AND_ISSUER}introspection = {{}}\n", "auth.introspection: client_id: expected"),
        (
            f"[auth]\n{RESOURCE_AND_ISSUER}[auth.introspection]\nclient_id = 'a'\nissuer = 'b'\n",
            "issuer: expected one of issuers",
        ),
        (
            f"[auth]\n{RESOURCE_AND_ISSUER}[auth.introspection]\nsecret = 'a'\n",
            ":5: auth.introspection.secret: there is no",
        ),
        (
            f"[auth]\n{RESOURCE_AND_ISSUER}[auth.limits]\nfailures_burst = 0\n",
            ":5: auth.limits.failures_burst: expected an integer",
        ),
        ('[auth]\ntokens = "none.json"\n', ":2: auth.tokens: "),
        (
            f'[auth]\n{RESOURCE_AND_ISSUER}introspection = {{client_id = "a", client_secret = {{"$env" = "NONE"}}}}\n',
            "expected the environment variable NONE",
        ),
    ],
)
def test_invalid_setting_error_names_file_line_and_key(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        guard_of(read(tmp_path, text), environ={})

    assert str(refused.value).startswith(str(tmp_path / "mcptrio.toml"))
    assert problem in str(refused.value)


def test_config_error_does_not_contain_the_secret(tmp_path: Path) -> None:
    text = f"[auth]\n{RESOURCE_AND_ISSUER}[auth.introspection]\nclient_id = 'a'\nclient_secret = ['hush']\n"

    with pytest.raises(ConfigError) as refused:
        guard_of(read(tmp_path, text), environ={})
    assert "hush" not in str(refused.value)


# Over standard input and output


async def environment_principal(
    folder: Path, environ: dict[str, str], issuer: Issuer | None = None, text: str | None = None
) -> Any:
    config = read(folder, text or f'[auth]\n{RESOURCE_AND_ISSUER}scopes = ["read"]\n')
    return await principal_of_environment(config, fetch=issuer or issuer_now(), environ=environ)


async def test_environment_token_sets_the_principal_and_is_removed(tmp_path: Path) -> None:
    issuer = issuer_now()
    environ = {TOKEN: issuer.token(), "OTHER": "1"}

    principal: Principal = await environment_principal(tmp_path, environ, issuer)

    assert principal.subject == "ada"
    assert environ == {"OTHER": "1"}


async def test_requests_are_anonymous_without_an_environment_token(tmp_path: Path) -> None:
    assert await environment_principal(tmp_path, {}) is None
    assert await environment_principal(tmp_path, {TOKEN: ""}) is None
    assert await principal_of_environment(ServeConfig(), environ={TOKEN: "x"}) is None


async def test_invalid_environment_token_prevents_the_start(tmp_path: Path) -> None:
    issuer = issuer_now()
    with pytest.raises(ConfigError, match=f"^{TOKEN}: invalid access token") as refused:
        await environment_principal(tmp_path, {TOKEN: issuer.token(aud="https://other.example")}, issuer)
    assert "ey" not in str(refused.value)
    with pytest.raises(ConfigError, match="lacks scopes: read"):
        await environment_principal(tmp_path, {TOKEN: issuer.token(scope="other")}, issuer)
    with pytest.raises(ConfigError, match="unbound access token"):
        await environment_principal(tmp_path, {TOKEN: issuer.token(cnf={"jkt": "x"})}, issuer)
    issuer.down = True
    with pytest.raises(ConfigError, match="cannot be verified now") as refused:
        await environment_principal(tmp_path, {TOKEN: issuer.token()}, issuer)
    assert isinstance(refused.value.__cause__, Overloaded)
