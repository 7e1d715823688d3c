"""Redis with TLS, a user with the documented rights, and a file with the password, as the README describes it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import outcome
import pytest
from attrs import frozen
from mcptrio_store_redis.tools import acl_line, check

from mcptrio.abc import SessionRecord
from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores import StoreSettings, open_stores
from tests.certificate_authority import Authority
from tests.engines.redis_server import RedisServer, free_port
from tests.stores.shared_contract import TopicListener, eventually

from .topologies import clustered, replicated, sentinels_of

__all__: list[str] = []

PASSWORD = "s3cret-w0rd"
WRONG = "wr0ng-w0rd"
RECORD = SessionRecord(id="s", revision="a revision")


@frozen
class SecuredServer:
    """A server whose user ``mcptrio`` has the documented rights; ``reader`` may read keys and nothing else."""

    server: RedisServer
    port: int
    authority: Path
    other_authority: Path
    password_file: Path
    wrong_file: Path

    def url(self, user: str = "mcptrio", host: str = "localhost") -> str:
        return f"rediss://{user}@{host}:{self.port}"

    def settings(self, prefix: str, **changes: object) -> StoreSettings:
        plain = {"ca_file": self.authority, "password_file": self.password_file, "start_timeout": 0.0, **changes}
        return StoreSettings(prefix=prefix, **plain)  # type: ignore[arg-type]


@pytest.fixture
def secured(tmp_path: Path, prefix: str) -> Iterator[SecuredServer]:
    authority, other = Authority(tmp_path, "authority"), Authority(tmp_path, "other")
    certificate, key = authority.issue("redis")
    users = [
        "user default on >admin ~* &* +@all",
        acl_line(prefix).replace("PASSWORD", PASSWORD),
        f"user reader on >{PASSWORD} ~{prefix}:* &{prefix}:* -@all +get +ping +info",
    ]
    (tmp_path / "users.acl").write_text("\n".join(users) + "\n")
    port = free_port()
    server = RedisServer(
        tmp_path / "redis",
        *("--tls-port", str(port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
        *("--tls-auth-clients", "no", "--aclfile", str(tmp_path / "users.acl")),
        # A second address, which the certificate does not contain.
        *("--bind", "127.0.0.1", "127.0.0.2"),
        *("--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "noeviction"),
    )
    server.password = "admin"
    files = tmp_path / "password", tmp_path / "wrong"
    for path, text in zip(files, (PASSWORD, WRONG), strict=True):
        path.write_text(text + "\n")
    with server:
        yield SecuredServer(server, port, authority.path, other.path, *files)


async def test_documented_setup_passes_the_check_and_serves(secured: SecuredServer, prefix: str) -> None:
    settings = secured.settings(prefix)

    found = await check(secured.url(), settings)

    assert [each for each in found if not each.is_ok] == []
    assert {each.name: each.found for each in found}["TLS"].startswith("the connection is encrypted")
    async with open_stores(secured.url(), settings) as one, open_stores(secured.url(), settings) as two:
        listener = TopicListener(two, "topic")
        await listener.begin()
        assert one.bus is not None
        one.bus.publish("topic", b"1")
        await eventually(lambda: b"1" in listener.messages, "messages arrive")
        listed = {each.name: each.found for each in await check(secured.url(), settings)}["replicas"]
        for replica in one.status().live:
            assert f"{replica.id} at {replica.host}, process {replica.process}, since 20" in listed
        assert listed.startswith("2 live; ")
        await one.events.append("s", "x", b"1")
        assert [event.data for event in (await two.events.read("s", "x", 0))[0]] == [b"1"]


async def test_changed_password_is_read_again_for_new_connections(secured: SecuredServer, prefix: str) -> None:
    async with open_stores(secured.url(), secured.settings(prefix)) as stores:
        listener = TopicListener(stores, "topic")
        await listener.begin()
        secured.server.command("ACL", "SETUSER", "mcptrio", "resetpass", ">n3w-w0rd")
        secured.password_file.write_text("n3w-w0rd\n")

        secured.server.command("CLIENT", "KILL", "USER", "mcptrio")
        await stores.events.append("s", "x", b"1")

        await eventually(lambda: None in listener.messages, "the listener is connected again")
        assert stores.status().is_reachable


async def test_password_that_the_engine_no_longer_accepts_is_named_while_serving(
    secured: SecuredServer, prefix: str
) -> None:
    async with open_stores(secured.url(), secured.settings(prefix)) as stores:
        secured.server.command("ACL", "SETUSER", "mcptrio", "resetpass", ">n3w-w0rd")
        secured.server.command("CLIENT", "KILL", "USER", "mcptrio")

        # The first command may find the connection that was ended.
        await outcome.acapture(stores.sessions.load, "s")
        with pytest.raises(StoreFailed, match="the engine refuses the user or the password"):
            await stores.sessions.save(RECORD)

        secured.password_file.unlink()
        with pytest.raises(StoreFailed, match="cannot read the password file"):
            await stores.sessions.save(RECORD)
        secured.password_file.write_text("n3w-w0rd")
        assert await stores.sessions.save(RECORD) is not None


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("other authority", "certificate is not trusted: .*issuer certificate; set stores.ca_file to the authority"),
        ("no authority", "certificate is not trusted: .*issuer certificate; set stores.ca_file to the authority"),
        ("other host", "certificate is not valid for '127.0.0.2'; use a host name that it contains"),
        ("wrong password", "the engine refuses the user or the password"),
        ("no password", "the engine refuses the user or the password"),
        ("unknown user", "the engine refuses the user or the password"),
        ("missing right", "the user of the engine lacks a right: .*'script\\|load'"),
        ("port without TLS", "expected an answer within 1 s, got none"),
    ],
)
async def test_wrong_setup_is_explained_without_a_password(
    change: str, error: str, secured: SecuredServer, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = secured.url(
        {"unknown user": "stranger", "missing right": "reader"}.get(change, "mcptrio"),
        "127.0.0.2" if change == "other host" else "localhost",
    )
    if change == "port without TLS":
        url = url.replace(str(secured.port), str(secured.server.port))
    changes = {
        "other authority": {"ca_file": secured.other_authority},
        "no authority": {"ca_file": None},
        "wrong password": {"password_file": secured.wrong_file},
        "no password": {"password_file": None},
        "port without TLS": {"timeout": 1.0},
    }
    settings = secured.settings(prefix, **changes.get(change, {}))

    with caplog.at_level(logging.DEBUG), pytest.raises(StoreFailed, match=error) as raised:
        async with open_stores(url, settings):
            raise AssertionError("the engine must refuse this")

    found = [each for each in await check(url, settings) if not each.is_ok]
    assert found[0].name == ("rights" if change == "missing right" else "reachable")
    assert found[0].advice
    for text in (str(raised.value), caplog.text, *(f"{each.found} {each.advice}" for each in found)):
        assert PASSWORD not in text
        assert WRONG not in text


async def test_cluster_with_tls_needs_the_documented_rights_only(tmp_path: Path, prefix: str) -> None:
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("redis")
    (tmp_path / "password").write_text(PASSWORD)
    ports = [free_port() for _ in range(3)]
    own = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-auth-clients", "no")
    own = (*own, "--tls-ca-cert-file", str(authority.path), "--tls-cluster", "yes")
    with clustered(tmp_path, lambda at: ("--tls-port", str(ports[at]), *own)) as (nodes, _):
        rule = acl_line(prefix, is_cluster=True).replace("PASSWORD", PASSWORD).split()[2:]
        for node in nodes:
            node.command("ACL", "SETUSER", "mcptrio", *rule)
        settings = StoreSettings(prefix=prefix, ca_file=authority.path, password_file=tmp_path / "password")
        # The cluster names its nodes to a client of TLS with their ports for TLS.
        url = f"redis+cluster://mcptrio@127.0.0.1:{ports[0]}?tls=1"

        found = await check(url, settings)

        assert {each.name for each in found if not each.is_ok} == {"memory", "durability"}, found
        async with open_stores(url, settings) as one, open_stores(url, settings) as two:
            for at in range(20):
                await one.events.append(f"s{at}", "x", b"1", last=True)
                assert len((await two.events.read(f"s{at}", "x", 0))[0]) == 1
            clients = [node.command("CLIENT", "LIST") for node in nodes]
            used = [each for each in "\n".join(map(str, clients)).split("user=") if each.startswith("mcptrio")]
            assert len(used) >= 6


async def test_sentinels_that_want_a_password_get_it(tmp_path: Path, prefix: str) -> None:
    with replicated(tmp_path) as (master, _):
        with sentinels_of(tmp_path, master, replicas=1) as place:
            sentinels = [int(port) for port in re.findall(r":(\d+)", place.url)]
            for port in (master.port, *sentinels):
                login = RedisServer(tmp_path, port=port)
                login.command("ACL", "SETUSER", "mcptrio", "on", f">{PASSWORD}", "allkeys", "allchannels", "+@all")
                if port != master.port:
                    login.command("ACL", "SETUSER", "default", "off")
            url = place.url.replace("://", f"://mcptrio:{PASSWORD}@")
            settings = StoreSettings(prefix=prefix, start_timeout=0)
            with pytest.raises(StoreFailed):
                async with open_stores(url, settings):
                    raise AssertionError("the sentinels know no such user")
            async with open_stores(f"{url}?sentinel_auth=1", settings) as stores:
                assert await stores.sessions.save(RECORD) is not None


async def test_files_that_cannot_be_read_are_named_before_connecting(secured: SecuredServer, prefix: str) -> None:
    missing = secured.password_file.with_name("missing")
    for setting in ("ca_file", "password_file"):
        with pytest.raises(ConfigError, match=rf"stores\.{setting}: cannot read .*missing"):
            async with open_stores(secured.url(), secured.settings(prefix, **{setting: missing})):
                raise AssertionError("there is no file")
