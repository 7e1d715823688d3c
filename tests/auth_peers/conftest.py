"""Third-party authorization servers: installed, started as their users start them, and stopped after the run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import SIGTERM

import pytest

from tests.auth_peers.django_peer import DjangoPeer
from tests.auth_peers.oidc_peer import OIDCPeer
from tests.node import find_node
from tests.processes import serving
from tests.servers.environment import install

__all__: list[str] = []

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def django(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DjangoPeer]:
    """Django OAuth Toolkit, once for all tests, because it takes 1.5 seconds to start."""
    python = install(HERE / "django.txt", ("django", "oauthlib.openid", "jwcrypto.jwt", "requests"))
    peer = DjangoPeer.planned()
    folder = tmp_path_factory.mktemp("django")
    command = (str(python), str(HERE / "django_authorization_server.py"), json.dumps(peer.given))
    with serving(command=command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as served:
        peer.url = served.until(r"serving (http://[^/\s]+)")[1]
        yield peer
        served.signal(SIGTERM)
        code, _ = served.end()
        assert code in (0, -SIGTERM), served.stderr
        assert 'File "' not in served.stderr, served.stderr


@pytest.fixture(scope="session")
def sdk_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Servers of the official Python SDK: ``resource`` publishes resource metadata, ``alone`` does not."""
    folder = tmp_path_factory.mktemp("sdk")
    command = (sys.executable, str(HERE / "python_sdk_guarded.py"))
    with serving(command=command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as served:
        match = served.until(r"serving (http://[^/\s]+)/ (http://[^/\s]+)/")
        yield {"resource": match[1], "alone": match[2]}
        served.signal(SIGTERM)
        code, _ = served.end()
        assert code in (0, -SIGTERM), served.stderr


@pytest.fixture(scope="session")
def oidc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OIDCPeer]:
    """panva's oidc-provider, once for all tests."""
    node = find_node()
    packages = node.install(HERE)
    peer = OIDCPeer()
    folder = tmp_path_factory.mktemp("oidc")
    command = (str(node.binary), str(HERE / "oidc_provider.mjs"), str(packages), json.dumps(peer.given))
    with serving(command=command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as served:
        peer.url = served.until(r"serving (http://[^/\s]+)")[1]
        yield peer
        served.signal(SIGTERM)
        code, _ = served.end()
        assert code in (0, -SIGTERM), served.stderr
        assert "server_error" not in served.stderr, served.stderr
