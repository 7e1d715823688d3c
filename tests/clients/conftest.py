"""One server over HTTP for all clients; one run of a client's script for all tests of that run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.running import complaints, serve_command
from tests.conformance.runner import serve

__all__: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for all clients; it must also end in order, whatever they have done to it.

    There before the first test, some of which ask for it only while they run: it is no leak of theirs.
    """
    log = tmp_path_factory.mktemp("server") / "log"
    with serve(serve_command("http"), log) as url:
        yield url

    assert not complaints(log)
