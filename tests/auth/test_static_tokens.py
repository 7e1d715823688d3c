"""Tokens in a file: found by their hash, and invalid within a second of revocation. The file contains only hashes."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from mcptrio.auth.server import static_tokens
from mcptrio.auth.server.static_tokens import PREFIX, StaticToken, StaticTokens, make_token, read_tokens, tokens_text
from mcptrio.errors import AuthorizationError, ConfigError, Overloaded
from tests.auth.server_parts import Clock

__all__: list[str] = []


def write(path: Path, *tokens: StaticToken) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(tokens_text(tokens))
    os.replace(beside, path)


async def test_static_token_yields_its_principal_until_it_expires(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "tokens.json"
    token, stored_token = make_token(
        "ada-laptop", subject="ada", scopes=["read"], created=clock(), expires=clock() + 60
    )
    lasting, kept_too = make_token("robot", subject="robot", created=clock())
    write(path, stored_token, kept_too)
    tokens = StaticTokens(path, clock=clock)

    principal = await tokens.verify(token)
    assert principal is not None
    assert (principal.subject, principal.issuer, principal.scopes) == ("ada", None, {"read"})
    assert principal.claims == {"token_name": "ada-laptop", "exp": int(clock()) + 60}
    clock.now += 61
    with pytest.raises(AuthorizationError, match="the access token has expired"):
        await tokens.verify(token)
    assert await tokens.verify(lasting) is not None


async def test_log_names_the_reason_for_a_refused_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    clock, path = Clock(), tmp_path / "tokens.json"
    old, kept_old = make_token("old", subject="ada", created=0, expires=1)
    lost, kept_lost = make_token("lost", subject="ada", created=0)
    write(path, kept_old, kept_lost)
    tokens = StaticTokens(path, clock=clock)
    assert await tokens.verify(lost) is not None
    write(path, kept_old)
    await trio.sleep(1.1)

    with caplog.at_level(logging.INFO, "mcptrio.auth"):
        with pytest.raises(AuthorizationError, match="the access token has expired"):
            await tokens.verify(old)
        for token in (lost, PREFIX + "x"):
            assert await tokens.verify(token) is None
    assert [record.getMessage().partition("tokens.json: ")[2] for record in caplog.records] == [
        "old: expired",
        "lost: revoked",
        "not in the file: never issued, or revoked earlier",
    ]
    assert lost not in caplog.text


@pytest.mark.parametrize("token", ["", PREFIX, PREFIX + "x" * 43, "x" * 43, PREFIX.upper()])
async def test_unknown_static_token_has_no_principal(token: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    write(path, make_token("ada", subject="ada", created=0)[1])

    assert await StaticTokens(path).verify(token) is None


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(("mode", "is_valid"), [(0o600, True), (0o644, True), (0o664, False), (0o666, False)])
async def test_token_file_writable_by_others_admits_no_request(mode: int, is_valid: bool, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token, stored_token = make_token("ada", subject="ada", created=0)
    write(path, stored_token)
    path.chmod(mode)
    tokens = StaticTokens(path)

    if is_valid:
        assert await tokens.verify(token) is not None
        return
    with pytest.raises(ConfigError, match=r"only its owner may write.*chmod go-w"):
        read_tokens(path)
    with pytest.raises(Overloaded):
        await tokens.verify(token)


async def test_token_hash_is_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is looked up by its SHA-256, which an attacker cannot choose, and compared by compare_digest."""
    path = tmp_path / "tokens.json"
    token, stored_token = make_token("ada", subject="ada", created=0)
    write(path, stored_token)
    compared = []

    def comparing(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(static_tokens, "compare_digest", comparing)

    assert await StaticTokens(path).verify(token) is not None
    assert compared == [(stored_token.hash, stored_token.hash)]
    assert token not in repr(stored_token) + repr(compared)


async def test_token_file_does_not_contain_the_token(tmp_path: Path) -> None:
    token, stored_token = make_token("ada", subject="ada", created=0)
    write(tmp_path / "tokens.json", stored_token)

    assert len(token) == len(PREFIX) + 43
    assert token not in (tmp_path / "tokens.json").read_text()
    assert stored_token.hash not in repr(stored_token)


async def test_changed_token_file_is_read_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"
    (one, kept), (two, kept_too) = (make_token(name, subject=name, created=0) for name in ("ada", "bob"))
    write(path, kept)
    tokens = StaticTokens(path)
    assert await tokens.verify(one) is not None

    write(path, kept_too)
    assert await tokens.verify(one) is not None  # checked at most once a second
    autojump_clock.jump(1)
    assert await tokens.verify(one) is None
    assert await tokens.verify(two) is not None

    path.write_text("{")
    autojump_clock.jump(1)
    with pytest.raises(Overloaded, match="cannot be verified"):
        await tokens.verify(two)

    path.unlink()
    autojump_clock.jump(1)
    with caplog.at_level(logging.ERROR, "mcptrio.auth"):
        assert await tokens.verify(two) is None
    assert "rejecting all tokens" in caplog.text

    write(path, kept, kept_too)
    autojump_clock.jump(1)
    assert await tokens.verify(one) is not None


async def test_concurrent_requests_read_the_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens.json"
    token, stored_token = make_token("ada", subject="ada", created=0)
    write(path, stored_token)
    tokens, read = StaticTokens(path), []
    monkeypatch.setattr(static_tokens, "read_tokens", lambda path: read.append(path) or read_tokens(path))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(tokens.verify, token)

    assert read == [path]


ENTRY = {"name": "ada", "hash": "0" * 64, "subject": "ada", "scopes": ["read"], "created": 1, "expires": None}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ([], "format 1"),
        ({"format": 2, "tokens": []}, "format 1"),
        ({"format": 1}, "tokens: expected a list"),
        ({"format": 1, "tokens": [ENTRY] * 5001}, "at most 5000"),
        ({"format": 1, "tokens": [1]}, r"tokens\[0\]: expected an object"),
        ({"format": 1, "tokens": [ENTRY, {**ENTRY, "hash": "1" * 64}]}, "expected each name once"),
        ({"format": 1, "tokens": [ENTRY, {**ENTRY, "name": "bob"}]}, "expected each hash once"),
        *(
            ({"format": 1, "tokens": [{**ENTRY, key: value}]}, rf"tokens\[0\]\.{key}: expected")
            for key, value in (
                ("name", None),
                ("name", "a b"),
                ("name", ""),
                ("hash", "0" * 63),
                ("hash", "G" * 64),
                ("subject", ""),
                ("subject", "a\nb"),
                ("scopes", "read"),
                ("scopes", [1]),
                ("created", "1"),
                ("created", True),
                ("expires", 1.5),
            )
        ),
    ],
)
def test_invalid_token_file_is_an_error(document: object, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))

    with pytest.raises(ConfigError, match=problem) as refused:
        read_tokens(path)
    assert str(path) in str(refused.value)
    assert "0" * 63 not in str(refused.value)


def test_missing_or_oversized_token_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_tokens(tmp_path / "none.json")
    (tmp_path / "huge.json").write_bytes(b" " * (4 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="at most 4194304 bytes"):
        read_tokens(tmp_path / "huge.json")


def test_token_file_that_could_not_be_read_again_is_not_written() -> None:
    with pytest.raises(ConfigError, match="at most 5000 tokens"):
        tokens_text([StaticToken(**{**ENTRY, "scopes": ()})] * 5001)
    with pytest.raises(ConfigError, match="bytes"):
        tokens_text([StaticToken(**{**ENTRY, "scopes": ("x" * 200,) * 100})] * 1000)
