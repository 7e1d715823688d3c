"""What is measured: three servers with one echo tool, each in an environment of its own, and the null server.

The one rule: every server runs in a virtual environment that holds it and what it needs and nothing else, made by the
same Python; so none pays for what another has installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NULL", "ROOT", "SERVERS", "Server", "environment"]

ROOT = Path(__file__).resolve().parent.parent
_ECHO = Path(__file__).resolve().parent / "echo"
_CACHE = ROOT / ".cache" / "benchmarks"


@dataclass(frozen=True)
class Server:
    """One server: how to install it, and the arguments of Python that start it."""

    name: str
    distribution: str
    requirements: tuple[str, ...]
    stdio: tuple[str, ...]
    http: Callable[[int], tuple[str, ...]]

    def python(self) -> Path:
        """The interpreter of this server's environment, which is made where it is missing."""
        if not self.requirements:
            return Path(sys.executable)
        asked = [sys.version, *self.requirements]
        if str(ROOT) in self.requirements:
            asked.append((ROOT / "pyproject.toml").read_text("utf-8"))
        digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()[:12]
        directory = _CACHE / f"{self.name}-{digest}"
        python = directory / "bin" / "python"
        if not (directory / "ready").exists():
            print(f"making {directory.relative_to(ROOT)}", file=sys.stderr)
            shutil.rmtree(directory, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *self.requirements], check=True, stdout=sys.stderr)
            # Bytecode for everything: whoever starts first must not pay for compiling.
            compileall = [str(python), "-m", "compileall", "-q", str(directory / "lib")]
            subprocess.run(compileall, check=False, stdout=subprocess.DEVNULL)
            (directory / "ready").touch()
        return python

    def version(self, python: Path) -> str:
        """The version that is installed there."""
        if not self.distribution:
            return "-"
        code = f"from importlib.metadata import version; print(version({self.distribution!r}))"
        return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


SERVERS = (
    Server(
        "mcptrio",
        "mcptrio",
        ("-e", str(ROOT)),
        ("-m", "mcptrio", "serve", "--log-level=warning", f"--plugin={_ECHO / 'echo_mcptrio.py'}", "--stdio"),
        lambda port: (
            *("-m", "mcptrio", "serve", "--log-level=warning", f"--plugin={_ECHO / 'echo_mcptrio.py'}"),
            *("--http", f"--port={port}"),
        ),
    ),
    Server(
        "mcp",
        "mcp",
        ("mcp==2.3.0",),
        (str(_ECHO / "echo_mcp.py"), "stdio"),
        lambda port: (str(_ECHO / "echo_mcp.py"), "http", str(port)),
    ),
    Server(
        "fastmcp",
        "fastmcp",
        ("fastmcp==4.1.2",),
        (str(_ECHO / "echo_fastmcp.py"), "stdio"),
        lambda port: (str(_ECHO / "echo_fastmcp.py"), "http", str(port)),
    ),
)

NULL = Server(
    "null",
    "",
    (),
    (str(_ECHO / "echo_null.py"), "stdio"),
    lambda port: (str(_ECHO / "echo_null.py"), "http", str(port)),
)


def environment() -> dict[str, str]:
    """For the servers: nothing of Python's own settings comes through."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MCPTRIO"))}
