"""``mcptrio serve --console`` over each transport."""

from __future__ import annotations

import json
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
    """Whether the server has announced another link."""
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

    done = run("serve", "--http", "--port=0", "--plugin=hello.py", "--console", cwd=folder)

    assert done.returncode == 2
    assert "expected one worker with --console, which shows one process, got 2" in done.stderr


@pytest.mark.parametrize("port", ["x", "65536"])
def test_port_of_the_console_is_checked(folder: Path, port: str) -> None:
    done = run("serve", "--stdio", "--plugin=hello.py", f"--console={port}", cwd=folder)

    assert done.returncode == 2
    assert f"expected a port from 0 to 65535, got '{port}'" in done.stderr
