"""Measures how many calls each client makes to one server.

The server only responds, so the figures compare the work of the clients.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from calls import ERAS, HANDSHAKE
from environments import ROOT, cleaned
from processes import free_port, started, wait_for
from results import Figures
from scale import Scale
from servers import BARE, Server

__all__ = ["client_row", "measure_client"]

_CLIENTS = Path(__file__).resolve().parent / "clients"
_SERVER = str(Path(__file__).resolve().parent / "echo" / "echo_bare.py")


def client_row(era: str | None, in_flight: int) -> str:
    """
    Args:
        era: over HTTP; ``None`` is stdio.
    """
    return f"client, {f'HTTP {era}' if era else 'stdio'}, {in_flight} in flight, calls/s"


def measure_client(client: Server, scale: Scale) -> Figures:
    """Return the calls a second over stdio and HTTP, one at a time and concurrent."""
    figures: Figures = {}
    # Client and server use the same Python, because they need the same packages.
    python = BARE.interpreter() if client.home.isolated else client.home.interpreter()
    for count in scale.clients:
        figures[client_row(None, count)] = [
            _run(client, scale.seconds, count, HANDSHAKE, [str(python), _SERVER, "stdio"])
        ]
    port = free_port()
    with started(python, (_SERVER, "http", str(port)), pipes=False) as process:
        wait_for(port, process)
        for era in ERAS:
            for count in scale.clients:
                rate = _run(client, scale.seconds, count, era, [f"http://127.0.0.1:{port}/mcp"])
                figures[client_row(era, count)] = [rate]
    return figures


def _run(client: Server, seconds: float, count: int, era: str, target: list[str]) -> float:
    script = _CLIENTS / f"client_{client.name}.py"
    command = [str(client.home.interpreter()), str(script), str(seconds), str(count), era, *target]
    done = subprocess.run(command, cwd=ROOT, env=cleaned(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{script.name} failed: {done.stderr[-2000:]}")
    return float(done.stdout)
