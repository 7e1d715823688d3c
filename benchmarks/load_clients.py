"""Clients against one and the same server: as many calls as each manages.

The server is made for this, answers and does nothing else, so what is compared is the clients' own work.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from processes import started
from servers import ROOT, Server, environment

__all__ = ["measure_client"]

_CLIENTS = Path(__file__).resolve().parent / "clients"
_SERVER = str(Path(__file__).resolve().parent / "echo" / "echo_bare.py")
ERAS = ("2025-11-25", "2026-07-28")
IN_FLIGHT = (1, 16)
PATIENCE = 30.0
"""Seconds for the server to come up."""


def measure_client(client: Server, python: Path, seconds: float, transport: str | None) -> dict[str, float]:
    """Calls a second over stdio and HTTP, one at a time and several.

    Args:
        python: of the client's environment.
        transport: only this one, or both.
    """
    rates: dict[str, float] = {}
    if transport in (None, "stdio"):
        command = [sys.executable, _SERVER, "stdio"]
        for count in IN_FLIGHT:
            rates[f"client, stdio, {count} in flight, calls/s"] = _run(client, python, seconds, count, ERAS[0], command)
    if transport in (None, "http"):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port: int = taken.getsockname()[1]
        with started(Path(sys.executable), (_SERVER, "http", str(port)), pipes=False):
            _wait_for(port)
            for era in ERAS:
                for count in IN_FLIGHT:
                    name = f"client, HTTP {era}, {count} in flight, calls/s"
                    rates[name] = _run(client, python, seconds, count, era, [f"http://127.0.0.1:{port}/mcp"])
    return rates


def _run(client: Server, python: Path, seconds: float, count: int, era: str, target: list[str]) -> float:
    script = _CLIENTS / f"client_{client.name}.py"
    command = [str(python), str(script), str(seconds), str(count), era, *target]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{script.name} failed: {done.stderr[-2000:]}")
    return float(done.stdout)


def _wait_for(port: int) -> None:
    deadline = time.perf_counter() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        except ConnectionRefusedError:
            if time.perf_counter() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
