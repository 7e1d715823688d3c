"""PostgreSQL with TLS, scram, the documented roles and a file with the password, as the README describes it."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen
from mcptrio_store_postgres import tools

from mcptrio.abc import SessionRecord
from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores import StoreSettings, open_stores
from tests.certificate_authority import Authority
from tests.engines.postgres_server import PostgresServer, data_folder, server_at
from tests.stores.shared_contract import TopicListener, eventually

__all__: list[str] = []

README = Path(__file__).parent.parent / "README.md"
PASSWORD = "s3cret-w0rd"
WRONG = "wr0ng-w0rd"
# The tests' server does not wait for its disk.
EXPECTED_PROBLEMS = ["durability"]
HBA = """
local all all trust
hostssl all app,stranger,reader 127.0.0.0/8 scram-sha-256
"""


def granted() -> list[str]:
    """Return the statements of the README that give the role of the replicas its rights."""
    lines = re.findall(r"^(?:GRANT USAGE|GRANT SELECT|ALTER DEFAULT).*;$", README.read_text("utf-8"), re.MULTILINE)
    assert len(lines) == 3
    return lines


@frozen
class SecuredServer:
    """A server whose role ``app`` has the documented rights; ``reader`` may connect, and nothing else."""

    server: PostgresServer
    authority: Path
    other_authority: Path
    password_file: Path
    wrong_file: Path

    def url(self, user: str = "app", host: str = "localhost", mode: str = "verify-full") -> str:
        return f"postgresql://{user}@{host}:{self.server.port}/postgres?sslmode={mode}"

    def settings(self, **changes: object) -> StoreSettings:
        plain = {"ca_file": self.authority, "password_file": self.password_file, "start_timeout": 0.0, **changes}
        return StoreSettings(**plain)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def secured(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    own = tmp_path_factory.mktemp("tls")
    authority, other = Authority(own, "authority"), Authority(own, "other")
    files = own / "password", own / "wrong"
    for path, text in zip(files, (PASSWORD, WRONG), strict=True):
        path.write_text(text + "\n")
    with data_folder(cluster) as folder:
        data = folder / "data"
        for source, name in zip(authority.issue("postgres"), ("server.crt", "server.key"), strict=True):
            shutil.copy(source, data / name)
            if os.geteuid() == 0:
                shutil.chown(data / name, "postgres", "postgres")
            # PostgreSQL refuses a key that others can read.
            (data / name).chmod(0o600)
        (data / "pg_hba.conf").write_text(HBA)
        # The second address is not in the certificate.
        with server_at(folder, "-c", "ssl=on", "-c", "listen_addresses=127.0.0.1,127.0.0.2") as server:
            for role in ("app", "reader"):
                server.run(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
            yield SecuredServer(server, authority.path, other.path, *files)


async def migrated(secured: SecuredServer) -> None:
    await tools.migrate(secured.server.socket_url, StoreSettings())
    for statement in granted():
        secured.server.run(statement)


async def test_documented_setup_passes_the_check_and_serves(secured: SecuredServer) -> None:
    await migrated(secured)

    found = await tools.check(secured.url(), secured.settings())

    assert [each.name for each in found if not each.is_ok] == EXPECTED_PROBLEMS
    assert {each.name: each.found for each in found}["TLS"].startswith("TLSv1.")
    async with (
        open_stores(secured.url(), secured.settings()) as one,
        open_stores(secured.url(), secured.settings()) as two,
    ):
        listener = TopicListener(two, "topic")
        await listener.begin()
        assert one.bus is not None
        one.bus.publish("topic", b"1")
        await eventually(lambda: b"1" in listener.messages, "messages arrive")
        listed = {each.name: each.found for each in await tools.check(secured.url(), secured.settings())}["replicas"]
        for replica in one.status().live:
            assert f"{replica.id} at {replica.host}, process {replica.process}, since 20" in listed
        assert listed.startswith("2 live; ")
        await one.events.append("s", "x", b"1", last=True)
        assert [event.data for event in (await two.events.read("s", "x", 0))[0]] == [b"1"]


async def test_changed_password_is_read_again_for_new_connections(secured: SecuredServer) -> None:
    await migrated(secured)
    async with open_stores(secured.url(), secured.settings()) as stores:
        listener = TopicListener(stores, "topic")
        await listener.begin()
        secured.server.run("ALTER ROLE app PASSWORD 'n3w-w0rd'")
        secured.password_file.write_text("n3w-w0rd\n")
        try:
            secured.server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")

            await stores.events.append("s", "changed", b"1", last=True)

            await eventually(lambda: None in listener.messages, "the listener is connected again")
            assert stores.status().is_reachable
        finally:
            secured.server.run(f"ALTER ROLE app PASSWORD '{PASSWORD}'")
            secured.password_file.write_text(PASSWORD)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("other authority", "certificate verify failed; set stores.ca_file to the authority that has signed"),
        ("no authority", "certificate verify failed; set stores.ca_file to the authority that has signed"),
        ("other host", 'certificate for "localhost" .*does not match host name "127.0.0.2"'),
        ("wrong password", 'password authentication failed for user "app"'),
        ("no password", "no password supplied"),
        ("unknown user", 'password authentication failed for user "stranger"'),
        ("missing right", "role reader may not use the schema mcptrio; run: GRANT USAGE ON SCHEMA mcptrio TO reader"),
        ("no TLS", 'no pg_hba.conf entry for host .*user "app".* no encryption'),
    ],
)
async def test_wrong_setup_is_explained_without_a_password(
    change: str, error: str, secured: SecuredServer, caplog: pytest.LogCaptureFixture
) -> None:
    await migrated(secured)
    url = secured.url(
        {"unknown user": "stranger", "missing right": "reader"}.get(change, "app"),
        "127.0.0.2" if change == "other host" else "localhost",
        "disable" if change == "no TLS" else "verify-full",
    )
    changes: dict[str, dict[str, object]] = {
        "other authority": {"ca_file": secured.other_authority},
        "no authority": {"ca_file": None},
        "wrong password": {"password_file": secured.wrong_file},
        "no password": {"password_file": None},
    }
    settings = secured.settings(**changes.get(change, {}))

    with caplog.at_level(logging.DEBUG), pytest.raises(StoreFailed, match=error) as raised:
        async with open_stores(url, settings):
            raise AssertionError("the engine must refuse this")

    found = [each for each in await tools.check(url, settings) if not each.is_ok]
    assert found[0].name == ("rights" if change == "missing right" else "reachable")
    assert found[0].advice
    for text in (str(raised.value), caplog.text, *(f"{each.found} {each.advice}" for each in found)):
        assert PASSWORD not in text
        assert WRONG not in text


async def test_server_without_tls_is_refused(postgres: PostgresServer, secured: SecuredServer) -> None:
    url = f"postgresql://mcptrio@localhost:{postgres.port}/postgres?sslmode=verify-full"
    with pytest.raises(StoreFailed, match="server does not support SSL, but SSL was required"):
        async with open_stores(url, secured.settings()):
            raise AssertionError("the connection would not be encrypted")


async def test_unreadable_files_are_named(secured: SecuredServer) -> None:
    missing = secured.password_file.with_name("missing")
    with pytest.raises(ConfigError, match=r"stores\.ca_file: cannot read .*missing"):
        async with open_stores(secured.url(), secured.settings(ca_file=missing)):
            raise AssertionError("there is no file")
    with pytest.raises(StoreFailed, match=r"cannot read the password file .*missing"):
        async with open_stores(secured.url(), secured.settings(password_file=missing)):
            raise AssertionError("there is no file")


async def test_url_with_a_password_works_and_is_not_shown(secured: SecuredServer) -> None:
    await migrated(secured)
    url = secured.url(f"app:{PASSWORD}")
    async with open_stores(url, secured.settings(password_file=None)) as stores:
        assert await stores.sessions.save(SessionRecord(id="with-password", revision="a revision"))
    with pytest.raises(StoreFailed, match="password authentication failed") as raised:
        async with open_stores(secured.url(f"app:{WRONG}"), secured.settings(password_file=None)):
            raise AssertionError("the password is wrong")
    assert WRONG not in str(raised.value)
