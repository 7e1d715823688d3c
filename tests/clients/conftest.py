"""One server over HTTP for all clients; one run of a client's script for all tests of that run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.running import problems_in, serve_command
from tests.conformance.runner import serve

__all__: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server for all clients; it must also exit properly after their tests.

    The fixture is created before the first test, so that the leak check does not count it for a test that requests it
    later.
    """
    log = tmp_path_factory.mktemp("server") / "log"
    with serve(serve_command("http"), log) as url:
        yield url

    assert not problems_in(log)
