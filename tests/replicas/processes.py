"""The processes of a trial: replicas, and the proxy in front of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio
from attrs import define, field

from tests.engines.programs import program_path
from tests.processes import environment
from tests.replicas.credentials import write_tokens
from tests.replicas.history import RateLimits
from tests.replicas.raw_http import Broken, request

__all__ = ["LEASE", "Program", "Replica", "haproxy", "nginx", "replica", "until_listening"]

LEASE: Final = 2.0
"""Seconds of the leases of a trial's replicas."""
# Only prompts are counted, so no other request waits for the quota store.
_RATE_LIMIT: Final = """
[plugins.rate_limit]
per_second = {limits.per_second}
burst = {limits.burst}
methods = ["prompts/get"]
"""
_PLUGIN: Final = Path(__file__).with_name("served_plugin.py")
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0


@define
class Program:
    """A child process that can be killed, stalled and started again."""

    command: Sequence[str]
    cwd: Path
    log: Path
    env: Mapping[str, str] = field(factory=dict)
    process: subprocess.Popen[bytes] | None = None
    signals: list[tuple[float, int, signal.Signals]] = field(factory=list)
    """The signals that it has got: Trio clock time, process id and number."""

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.cwd,
                env=environment(**self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.signals.append((trio.current_time(), self.process.pid, number))
        self.process.send_signal(number)

    async def wait(self, seconds: float = _STOP_SECONDS) -> int:
        """Wait until it has ended, and return its exit code."""
        assert self.process is not None
        with trio.fail_after(seconds):
            while self.process.poll() is None:  # noqa: ASYNC110 - a signal handler would be for the whole process
                await trio.sleep(0.01)
        code: int = self.process.returncode
        return code

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.wait()

    def end(self) -> None:
        """Kill it with its children, and wait."""
        process = self.process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@define
class Replica(Program):
    port: int = 0

    async def until_ready(self) -> bool:
        """Wait until it serves, and return True; False if it has ended."""
        with trio.fail_after(_START_SECONDS):
            while self.is_running:
                if await self.is_ready(2):
                    return True
                await trio.sleep(0.05)
        return False

    async def is_ready(self, seconds: float) -> bool:
        """Return whether it answers within some seconds."""
        with suppress(Broken, trio.TooSlowError), trio.fail_after(seconds):
            async with request(self.port, "GET", {}, path="/healthz") as reply:
                return reply.status == 200
        return False


def replica(
    folder: Path, number: int, port: int, url: str, settings: Mapping[str, str], *, plugin: Path = _PLUGIN
) -> Replica:
    """Return a replica, not yet started, that serves the tools of a trial."""
    configuration = folder / "mcptrio.toml"
    configuration.write_text(_RATE_LIMIT.format(limits=RateLimits()))
    command = ["-m", "mcptrio", "serve", "--http", "--port", str(port), "--store", url, "--plugin", str(plugin)]
    command += ["--config", str(configuration)]
    env = {
        "TRIAL_FOLDER": str(folder),
        "MCPTRIO_KEYS": "a key that all replicas share",
        "MCPTRIO_SERVER_AUDIENCE": "trial",
        "MCPTRIO_STORES_LEASE": str(LEASE),
        "MCPTRIO_HTTP_KEEPALIVE_INTERVAL": "2",
        "MCPTRIO_HTTP_SESSION_RATE": "0",
        # Long enough for the proxy to notice that the listener has closed, short enough for a trial.
        "MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        **write_tokens(folder),
        **settings,
    }
    return Replica([sys.executable, *command], folder, folder / f"replica{number}.log", env, port=port)


_NGINX = """
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  upstream replicas {{
    {servers}
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://replicas;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_buffering off;
      proxy_read_timeout 1h;
      proxy_connect_timeout 2s;
      proxy_next_upstream error timeout;
    }}
  }}
}}
"""


@asynccontextmanager
async def nginx(folder: Path, port: int, ports: Sequence[int]) -> AsyncIterator[Program]:
    """Run nginx with round robin over these ports, without affinity."""
    servers = "\n    ".join(f"server 127.0.0.1:{each} max_fails=0;" for each in ports)
    written = folder / "nginx.conf"
    written.write_text(_NGINX.format(folder=folder, port=port, servers=servers))
    # As root, the workers would run as another user, who may not enter the folder of the test.
    user = ["-g", "daemon off; user root;"] if os.geteuid() == 0 else ["-g", "daemon off;"]
    command = [program_path("nginx"), "-p", str(folder), "-c", str(written), *user]
    async with _listening(Program(command, folder, folder / "nginx.out"), port) as program:
        yield program


_HAPROXY = """
global
  maxconn 4096
defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  option redispatch
  retries 3
  retry-on conn-failure
frontend service
  bind 127.0.0.1:{port}
  default_backend replicas
backend replicas
  balance roundrobin
  {servers}
"""


@asynccontextmanager
async def haproxy(folder: Path, port: int, ports: Sequence[int]) -> AsyncIterator[Program]:
    """Run HAProxy with round robin over these ports, without affinity."""
    servers = "\n  ".join(f"server replica{each} 127.0.0.1:{each} check inter 500ms fall 1 rise 1" for each in ports)
    written = folder / "haproxy.cfg"
    written.write_text(_HAPROXY.format(port=port, servers=servers))
    command = [program_path("haproxy"), "-db", "-f", str(written)]
    async with _listening(Program(command, folder, folder / "haproxy.out"), port) as program:
        yield program


@asynccontextmanager
async def _listening(program: Program, port: int) -> AsyncIterator[Program]:
    program.start()
    try:
        await until_listening(program, port)
        yield program
    finally:
        program.end()


async def until_listening(program: Program, port: int) -> None:
    """Wait until the program accepts connections."""
    with trio.fail_after(_START_SECONDS):
        while True:
            assert program.is_running, f"{program.command[0]} has ended: {program.log.read_text()[-2000:]}"
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                await trio.sleep(0.02)
                continue
            await stream.aclose()
            return
