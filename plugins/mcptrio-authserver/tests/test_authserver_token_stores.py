"""Clients in several processes with one token store: each of their refresh tokens is used once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO

import httpx2
import trio

import mcptrio
from mcptrio import Endpoint
from mcptrio.auth import FileTokenStore, OAuth, OwnRedirects

from .conftest import TLS
from .test_authserver_plugin import BACK, ConsentingUser, protected, text_of

ROUNDS = 4

CLIENT = """
import sys, time, trio
import mcptrio
from mcptrio import Endpoint
from mcptrio.auth import FileTokenStore, OAuth

async def main():
    ahead = 0
    auth = OAuth(store=FileTokenStore(sys.argv[2]), clock=lambda: time.time() + ahead)
    print("ready", flush=True)
    while line := await trio.to_thread.run_sync(sys.stdin.readline):
        ahead = int(line)
        async with mcptrio.connect(Endpoint(url=sys.argv[1], auth=auth)) as client:
            result = await client.call_tool("whoami")
        print(result.content[0].text, flush=True)

trio.run(main)
"""


def refresh_tokens(folder: Path) -> int:
    """Return the number of refresh tokens that the server has issued."""
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM records WHERE kind = 'refresh'").fetchall()
        return int(count)


async def line_of(output: IO[str]) -> str:
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(output.readline)


async def test_two_processes_spend_each_refresh_token_once(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "client" / "tokens.json"
    start = partial(subprocess.Popen, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    async with protected(folder) as url, httpx2.AsyncClient(timeout=60, verify=TLS) as http:
        auth = OAuth(store=FileTokenStore(path), redirects=OwnRedirects(uri=BACK, send=ConsentingUser(http)))
        async with mcptrio.connect(Endpoint(url=url, auth=auth)) as client:
            assert text_of(await client.call_tool("whoami")) == "ada notes:read"
        assert refresh_tokens(folder) == 1
        command = [sys.executable, "-c", CLIENT, url, str(path)]
        with start(command) as one, start(command) as other:
            try:
                for process in (one, other):
                    assert await line_of(process.stdout) == "ready\n"
                for number in range(1, ROUNDS + 1):
                    # Both find the access token, which is valid for 600 seconds, nearly expired.
                    for process in (one, other):
                        process.stdin.write(f"{number * 570}\n")
                        process.stdin.flush()
                    for process in (one, other):
                        assert await line_of(process.stdout) == "ada notes:read\n"
                    assert refresh_tokens(folder) == 1 + number
            finally:
                one.kill()
                other.kill()
