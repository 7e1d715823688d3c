"""The operator's commands, on the file of a running server."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result
from mcptrio_authserver.__main__ import main
from mcptrio_authserver.opaque import digest_of

from .conftest import REDIRECT, SECRET, Clock, Site, error_of, opened


@pytest.fixture
async def site(folder: Path) -> AsyncIterator[Site]:
    """A server with the machine's clock, which the commands use too."""
    async with opened(folder, clock=Clock(now=time.time())) as site:
        yield site


async def command(folder: Path, *args: str) -> Result:
    """In a thread, because the command runs its own event loop."""
    invoke = partial(CliRunner().invoke, main, [*args, "--folder", str(folder)])
    return await trio.to_thread.run_sync(invoke)


async def output(folder: Path, *args: str) -> str:
    result = await command(folder, *args)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


async def test_grant_is_listed_and_ended_while_the_server_runs(site: Site, folder: Path) -> None:
    tokens = await site.tokens()

    whole = [sys.executable, "-m", "mcptrio_authserver", "grant", "list", "--folder", str(folder)]
    run = partial(subprocess.run, whole, capture_output=True, text=True, timeout=60, check=True)
    listed = (await trio.to_thread.run_sync(run)).stdout

    [line] = listed.splitlines()
    id, _, rest = line.partition(": ")
    assert rest.startswith(f"ada to 'The App' (app) at 127.0.0.1:9, notes:read for {site.url}/mcp, since 20")
    assert await output(folder, "grant", "end", id) == "ended 1 grant\n"
    assert await output(folder, "grant", "list") == ""
    assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert not await site.is_active(tokens["access_token"])


async def test_grants_of_one_user_are_ended_and_others_kept(site: Site, folder: Path) -> None:
    adas = await site.tokens()
    waiting = (await site.code())["code"]
    site.http.cookies.clear()
    await site.log_in(await site.authorize(), name="bob")
    bobs = await site.tokens()
    assert len((await output(folder, "grant", "list")).splitlines()) == 2
    assert len((await output(folder, "grant", "list", "--user", "bob")).splitlines()) == 1

    assert await output(folder, "grant", "end", "--user", "ada") == "ended 1 grant\n"

    assert error_of(await site.refresh(adas["refresh_token"])) == "invalid_grant"
    assert error_of(await site.redeem(waiting)) == "invalid_grant", "a code would begin another grant"
    bobs = (await site.refresh(bobs["refresh_token"])).json()
    assert await output(folder, "grant", "end", "--all") == "ended 1 grant\n"
    assert error_of(await site.refresh(bobs["refresh_token"])) == "invalid_grant"
    assert await output(folder, "grant", "end", "--all") == "ended 0 grants\n"


async def test_client_that_registered_itself_is_listed_and_removed(site: Site, folder: Path) -> None:
    kinds = ["authorization_code", "refresh_token"]
    name, method = "Rogue \u202e\x1b[2J", "client_secret_post"
    answer = (await site.register(client_name=name, token_endpoint_auth_method=method, grant_types=kinds)).json()
    client, secret = answer["client_id"], answer["client_secret"]
    code = (await site.code(client_id=client))["code"]
    tokens = (await site.redeem(code, client_id=client, client_secret=secret)).json()

    [line] = (await output(folder, "client", "list")).splitlines()

    assert line.startswith(f"{client}: 'Rogue [2J', {REDIRECT}, client_secret_post, registered 20")
    assert "last used 20" in line
    assert await output(folder, "client", "remove", client) == f"removed {client}; ended 1 grant\n"
    again = await site.refresh(tokens["refresh_token"], client_id=client, client_secret=secret)
    assert (again.status_code, error_of(again)) == (401, "invalid_client")
    assert "is not known" in (await site.authorize(client_id=client)).text
    assert await output(folder, "client", "list") == ""
    assert await output(folder, "grant", "list") == ""


async def test_grants_of_a_configured_client_are_removed_but_not_the_client(site: Site, folder: Path) -> None:
    tokens = await site.tokens()

    assert await output(folder, "client", "remove", "app") == "app is not kept here; ended 1 grant\n"

    assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert await site.tokens()


async def test_user_is_logged_out_of_all_browsers(site: Site, folder: Path) -> None:
    tokens = await site.tokens()
    assert (await output(folder, "session", "list")).startswith("ada: since 20")

    assert await output(folder, "session", "end", "--user", "ada") == "ended 1 session\n"

    assert 'name="password"' in (await site.authorize()).text
    assert (await site.refresh(tokens["refresh_token"])).status_code == 200
    assert await output(folder, "session", "end", "--all") == "ended 0 sessions\n"


async def test_leaked_signing_key_is_retired(site: Site, folder: Path) -> None:
    tokens = await site.tokens()
    [before] = (await site.get(f"{site.issuer}/jwks")).json()["keys"]

    printed = await output(folder, "key", "rotate", "--now")

    assert printed == "deleted 1 key; the server makes a new one for the next token\n"
    assert not await site.is_active(tokens["access_token"])
    fresh = (await site.refresh(tokens["refresh_token"])).json()["access_token"]
    [after] = (await site.get(f"{site.issuer}/jwks")).json()["keys"]
    assert before["kid"] != after["kid"]
    assert (await site.claims(fresh))["sub"] == "ada"
    assert await site.is_active(fresh)


async def test_restored_backup_revives_a_grant_until_the_commands_end_it(folder: Path) -> None:
    """The commands are those in the README."""
    path, clock = folder / "state.db", Clock(now=time.time())
    async with opened(folder, clock=clock) as site:
        tokens, issuer = await site.tokens(), site.issuer
        # The same as the command `.backup` of sqlite3.
        copy, source = sqlite3.connect(":memory:"), sqlite3.connect(path)
        source.backup(copy)
        source.close()
        await output(folder, "grant", "end", "--all")
        assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"
    target = sqlite3.connect(path)
    copy.backup(target)
    target.close()
    copy.close()
    assert len((await output(folder, "grant", "list")).splitlines()) == 1

    for args in (("grant", "end", "--all"), ("session", "end", "--all"), ("key", "rotate", "--now")):
        await output(folder, *args)

    async with opened(folder, issuer=issuer, clock=clock) as site:
        form = {"grant_type": "refresh_token", "client_id": "app", "refresh_token": tokens["refresh_token"]}
        assert error_of(await site.http.post(f"{site.url}/auth/token", data=form)) == "invalid_grant"
        asked = {"data": {"token": tokens["access_token"]}, "auth": ("server", SECRET)}
        assert (await site.http.post(f"{site.url}/auth/introspect", **asked)).json() == {"active": False}


async def test_commands_print_no_secret(site: Site, folder: Path) -> None:
    tokens = await site.tokens()
    secret = (await site.register(token_endpoint_auth_method="client_secret_post")).json()["client_secret"]
    [cookie] = dict(site.http.cookies).values()

    printed = "".join([await output(folder, kind, "list") for kind in ("grant", "client", "session")])

    assert len(printed.splitlines()) == 3
    for each in (tokens["access_token"], tokens["refresh_token"], secret, cookie, SECRET):
        assert each not in printed
        assert digest_of(each) not in printed


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        (("grant", "end"), 2, "expected one of ids, --user or --all, got 0"),
        (("grant", "end", "x", "--all"), 2, "expected one of ids, --user or --all, got 2"),
        (("grant", "end", "--user", "nosuch"), 1, "there is no grant of the user 'nosuch'"),
        (("client", "remove", "nosuch"), 1, "there is no client 'nosuch' here"),
        (("session", "end"), 2, "expected one of --user or --all, got 0"),
        (("session", "end", "--user", "nosuch"), 1, "there is no session of the user 'nosuch'"),
        (("key", "rotate"), 2, "expected --now"),
    ],
)
async def test_operator_command_errors_name_the_problem(
    site: Site, folder: Path, args: tuple[str, ...], code: int, problem: str
) -> None:
    result = await command(folder, *args)

    assert (result.exit_code, result.stdout) == (code, "")
    assert problem in result.stderr


async def test_no_grant_is_ended_if_an_id_is_unknown(site: Site, folder: Path) -> None:
    tokens = await site.tokens()
    id = (await output(folder, "grant", "list")).partition(":")[0]

    result = await command(folder, "grant", "end", id, "nosuch")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no grant 'nosuch', so none was ended" in result.stderr
    assert (await site.refresh(tokens["refresh_token"])).status_code == 200


def test_folder_without_a_file_is_named_and_stays_empty(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["grant", "list", "--folder", str(tmp_path)])

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"there is no file {tmp_path / 'state.db'}" in done.stderr
    assert [*tmp_path.iterdir()] == []


async def test_file_of_another_program_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    path.chmod(0o600)

    result = await command(tmp_path, "grant", "end", "--all")

    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{path}: expected a file of mcptrio-authserver" in result.stderr
