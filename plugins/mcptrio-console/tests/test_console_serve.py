"""``mcptrio serve --console`` over each transport."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import httpx2
import pytest

from tests.processes import Served, run, serving

HELLO = "from mcptrio import tool\n\n@tool\nasync def hello() -> str:\n    '''Greet.'''\n    return 'hello'\n"
LINK = r"(?m)^console (http://127\.0\.0\.1:\d+/console/\?token=\S+)$"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hello.py").write_text(HELLO)
    return tmp_path


def open_console(link: str) -> str:
    """Return the first page."""
    with httpx2.Client(follow_redirects=True, timeout=30) as http:
        page = http.get(link)
    assert page.status_code == 200, page.text
    return page.text


def used_up(served: Served, link: str) -> bool:
    """Return whether the server has announced another link."""
    return bool(served.until(LINK.replace("(http", rf"(?!{link.replace('?', chr(92) + '?')})(http")))


def test_console_is_on_the_http_port(folder: Path) -> None:
    with serving("--http", "--port=0", "--plugin=hello.py", "--console", cwd=folder) as served:
        link = served.until(LINK)[1]

        assert f":{served.port}/console/" in link
        assert "What is wrong" in open_console(link)
        assert used_up(served, link)


@pytest.mark.parametrize("console", ["--console", "--console=0"])
def test_console_of_stdio_has_a_separate_port(folder: Path, console: str) -> None:
    with serving("--stdio", "--plugin=hello.py", console, cwd=folder) as served:
        served.greet()
        link = served.until(LINK)[1]

        assert "What is wrong" in open_console(link)
        assert served.call("hello") == "hello"


def test_token_of_the_token_file_opens_the_console_until_it_is_revoked(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text(
        '[auth]\ntokens = "tokens.json"\nscopes = ["mcp"]\n[console]\nscope = "console"\n'
    )
    tokens = {
        name: run("token", "new", name, *(f"--scope={each}" for each in scopes), cwd=folder).stdout.strip()
        for name, scopes in {"ada": ("mcp", "console"), "robot": ("mcp",)}.items()
    }
    with (
        serving("--http", "--port=0", "--plugin=hello.py", "--console", cwd=folder) as served,
        httpx2.Client(base_url=f"http://127.0.0.1:{served.port}/console", timeout=30) as http,
    ):
        served.until(LINK)
        assert "enter an access token" in http.get("/").text
        for wrong in (tokens["robot"], f"{tokens['ada']}x", ""):
            assert http.post("/sign_in", data={"token": wrong}).status_code == 401

        assert http.post("/sign_in", data={"token": f" {tokens['ada']}\n"}).status_code == 303
        page = http.get("/sessions").text
        form_token = re.search(r'name="form_token" value="([^"]+)"', page)
        assert form_token is not None
        done = http.post("/actions/end", data={"form_token": form_token[1], "session": "99"})
        assert done.status_code == 303
        served.until(r"end \(by ada\): The session had already ended\.")
        assert tokens["ada"] not in served.stderr

        assert run("token", "revoke", "ada", cwd=folder).returncode == 0
        http.post("/actions/leave", data={"form_token": form_token[1]})
        assert http.get("/sessions").status_code == 401
        # The server reads the file again within a second.
        ends = time.monotonic() + 20
        while http.post("/sign_in", data={"token": tokens["ada"]}).status_code == 303:
            http.cookies.clear()
            assert time.monotonic() < ends, "the token was revoked"


def test_console_of_sockets_has_a_separate_port(folder: Path) -> None:
    with serving("--listen=0", "--plugin=hello.py", "--console", cwd=folder) as served:
        assert "What is wrong" in open_console(served.until(LINK)[1])


def test_link_is_json_if_the_log_is(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text('[log]\nformat = "json"\n')
    with serving("--http", "--port=0", "--plugin=hello.py", "--console", cwd=folder) as served:
        line = served.until(r'(?m)^\{"console".*$')[0]

        assert "What is wrong" in open_console(json.loads(line)["console"])


def test_console_shows_one_process(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text("[http]\nworkers = 2\n")

    result = run("serve", "--http", "--port=0", "--plugin=hello.py", "--console", cwd=folder)

    assert result.returncode == 2
    assert "expected one worker with --console, which shows one process, got 2" in result.stderr


@pytest.mark.parametrize("port", ["x", "65536"])
def test_port_of_the_console_is_checked(folder: Path, port: str) -> None:
    result = run("serve", "--stdio", "--plugin=hello.py", f"--console={port}", cwd=folder)

    assert result.returncode == 2
    assert f"expected a port from 0 to 65535, got '{port}'" in result.stderr
