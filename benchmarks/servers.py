"""The measured servers: four SDKs with the same tools, and the limits to compare them with.

Each is served as in its documentation, with default settings, except for limits that would end a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from environments import ROOT, Environment, NodeEnvironment, PythonEnvironment, ThisPython
from processes import Process, free_port, started, wait_for
from scale import GROUPS
from sets import NODE_PACKAGES

__all__ = ["BARE", "NULL", "OURS", "PEERS", "REFERENCES", "SERVERS", "Server", "here"]

_ECHO = Path(__file__).resolve().parent / "echo"


@dataclass(frozen=True)
class Server:
    """One server.

    Args:
        name: the name in the tables.
        home: its environment.
        distribution: the distribution whose version is shown.
        stdio: the arguments of its interpreter for stdio.
        http: the same for HTTP; the port is appended.
        groups: the groups that it takes part in.
        listens: True if it has ``subscriptions/listen``.
    """

    name: str
    home: Environment
    distribution: str
    stdio: tuple[str, ...]
    http: tuple[str, ...]
    groups: tuple[str, ...]
    listens: bool = True

    @property
    def version(self) -> str:
        return self.home.version(self.distribution) if self.distribution else ""

    @contextmanager
    def serving(self, *, tools: int = 0) -> Iterator[tuple[Process, int]]:
        """Serve HTTP during the block, and yield the process and the port.

        Args:
            tools: additional tools.
        """
        port = free_port()
        arguments = (*self.http[:-1], f"{self.http[-1]}{port}")
        variables = {"BENCHMARK_TOOLS": str(tools)}
        with started(self.home.interpreter(), arguments, pipes=False, variables=variables) as process:
            wait_for(port, process)
            yield process, port


_SERVE = ("-m", "mcptrio", "serve", "--log-level=warning", f"--config={_ECHO / 'mcptrio.toml'}")
_PLUGINS = tuple(f"--plugin={_ECHO / name}_mcptrio.py" for name in ("echo", "streams", "many"))
_SDK_GROUPS = tuple(group for group in GROUPS if group != "set")
_TYPESCRIPT = NodeEnvironment("typescript", _ECHO / "typescript")

BARE: Environment = PythonEnvironment(
    "bare", ("trio==0.35.0", "orjson==3.11.*", "httptools==0.9.*", "hypercorn==0.18.*")
)
"""What shows the limits needs."""

OURS = Server(
    "mcptrio",
    PythonEnvironment("mcptrio", ("-e", str(ROOT))),
    "mcptrio",
    (*_SERVE, _PLUGINS[0], "--stdio"),
    (*_SERVE, *_PLUGINS, "--http", "--port="),
    GROUPS,
)

PEERS = (
    Server(
        "mcp",
        PythonEnvironment("mcp", ("mcp==2.3.0",)),
        "mcp",
        (str(_ECHO / "echo_mcp.py"), "stdio"),
        (str(_ECHO / "echo_mcp.py"), "http", ""),
        _SDK_GROUPS,
    ),
    Server(
        "fastmcp",
        PythonEnvironment("fastmcp", ("fastmcp==4.1.2",)),
        "fastmcp",
        (str(_ECHO / "echo_fastmcp.py"), "stdio"),
        (str(_ECHO / "echo_fastmcp.py"), "http", ""),
        tuple(group for group in _SDK_GROUPS if group != "fanout"),
        listens=False,
    ),
    Server(
        "TypeScript",
        _TYPESCRIPT,
        "@modelcontextprotocol/server",
        (str(_TYPESCRIPT.home / "echo.mjs"), "stdio"),
        (str(_TYPESCRIPT.home / "echo.mjs"), "http", ""),
        tuple(group for group in _SDK_GROUPS if group != "client"),
    ),
)

_HYPERCORN = Server("Hypercorn", BARE, "hypercorn", (), (str(_ECHO / "echo_hypercorn.py"), ""), ("http",))
_LIMIT = Server(
    "limit",
    BARE,
    "",
    (str(_ECHO / "echo_bare.py"), "stdio"),
    (str(_ECHO / "echo_limit.py"), ""),
    ("stdio", "http", "client"),
)
NULL = Server(
    "generator",
    BARE,
    "",
    (str(_ECHO / "echo_null.py"), "stdio"),
    (str(_ECHO / "echo_null.py"), "http", ""),
    ("stdio", "http", "sse", "fanout"),
)
"""Responds without reading: the limit of the load generators."""

REFERENCES = Server("references", NODE_PACKAGES, "@modelcontextprotocol/server-filesystem", (), (), ("set",))
"""The six official reference servers; which they are is in ``sets.py``."""

SERVERS = (OURS, *PEERS, _HYPERCORN, _LIMIT, NULL, REFERENCES)


def here(server: Server) -> Server:
    """Return the server with the Python of the benchmark, if that has its packages."""
    return replace(server, home=ThisPython())
