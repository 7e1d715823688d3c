"""The official conformance suite finds neither errors nor warnings in the authorization server.

The server runs in ``mcptrio serve --http``, as a user starts it; a user without JavaScript logs in and consents.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import httpx2
import pytest
from attrs import frozen

from tests.conformance.runner import ConformanceError, find_suite, serve
from tests.node import Node, find_node
from tests.processes import held_port

__all__: list[str] = []

SECONDS = 120
"""Timeout of a run of the suite, which usually takes two seconds."""
PASSWORD = "correct horse battery staple"
SCENARIOS = {"authorization-server-metadata-endpoint", "authorization-code-grant"}


@frozen
class Site:
    url: str
    issuer: str
    callback: int
    """The port of the suite's own client."""


@pytest.fixture(scope="session")
def suite() -> tuple[Node, Path]:
    """Node and the suite's script."""
    node = find_node()
    return node, find_suite(node)


@pytest.fixture(scope="module", params=["with a path", "without one"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with a user and the suite's client; its issuer has a path, or none."""
    home = tmp_path_factory.mktemp("authorization")
    # The issuer contains its port, which is bound later.
    with held_port() as port, held_port() as callback:
        issuer = f"http://127.0.0.1:{port}" + ("/auth" if request.param == "with a path" else "")
        config = home / "mcptrio.toml"
        config.write_text(
            f"""
            [plugins.authserver]
            issuer = "{issuer}"
            folder = "{home / "state"}"
            [plugins.authserver.scopes]
            "notes:read" = "Read your notes"
            [plugins.authserver.clients.public]
            redirect_uris = ["http://127.0.0.1:{callback}/callback"]
            """
        )
        added = [sys.executable, "-m", "mcptrio_authserver", "user", "add", "ada", "--folder", str(home / "state")]
        subprocess.run(added, input=f"{PASSWORD}\n", text=True, check=True, timeout=SECONDS, capture_output=True)
        command = (sys.executable, "-m", "mcptrio", "serve", "--http", "--port", str(port))
        log = home / "log"
        with serve((*command, "--plugin", "authserver", "--config", str(config)), log) as url:
            yield Site(url, issuer, callback)

        assert 'File "' not in log.read_text("utf-8", "replace")


def test_suite_reports_no_problem(site: Site, suite: tuple[Node, Path], tmp_path: Path) -> None:
    node, script = suite
    options = ["--url", site.issuer, "--client-id", "public", "-p", str(site.callback), "-o", str(tmp_path)]
    options += ["--resource", site.url]
    with subprocess.Popen(
        [node.binary, script, "authorization", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        watchdog = Timer(SECONDS, running.kill)
        watchdog.start()
        try:
            output = follow(running)
        finally:
            running.kill()
            watchdog.cancel()
            watchdog.join()

    checks = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("*/checks.json")}
    assert {name for name in SCENARIOS for run in checks if f"-{name}-" in run} == SCENARIOS, output
    complaints = [check for run in checks.values() for check in run if check["status"] not in ("SUCCESS", "INFO")]
    assert not complaints
    assert all(any(check["status"] == "SUCCESS" for check in run) for run in checks.values())


def follow(running: subprocess.Popen[str]) -> str:
    """Read the suite's output; log in and consent when the suite requires it."""
    assert running.stdout is not None
    messages: list[str] = []
    url: str | None = None
    for line in running.stdout:
        messages.append(line)
        if match := re.match(r"http://\S+/authorize\?\S+", line):
            url = match[0]
        if url is not None and any(each.startswith("Callback server started") for each in messages):
            consent(url)
            url = None
    return "".join(messages)


def consent(url: str) -> None:
    """Log in and allow, like a browser without scripts."""
    with httpx2.Client(timeout=SECONDS, follow_redirects=True) as browser:
        page = browser.get(url)
        page = browser.post(action_of(page), data={**token_of(page), "username": "ada", "password": PASSWORD})
        done = browser.post(action_of(page), data={**token_of(page), "decision": "allow"})
        assert "You can close this page" in done.text, done.text


def action_of(page: httpx2.Response) -> str:
    match = re.search(r'action="([^"]+)"', page.text)
    if match is None:
        raise ConformanceError(f"expected a form @ {page.url.path}:\n{page.text}")
    return str(page.url.join(html.unescape(match[1])))


def token_of(page: httpx2.Response) -> dict[str, str]:
    match = re.search(r'name="form_token" value="([^"]+)"', page.text)
    assert match is not None, page.text
    return {"form_token": match[1]}
