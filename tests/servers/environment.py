"""Python servers of other projects, each version in its own environment.

The fixtures in conftest.py use it. Nothing is installed into the environment of the tests. The servers are started as
modules with their own Python: the scripts of an environment contain its original path, and the cache renames it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cache import INSTALL_SECONDS, cached_folder

__all__ = ["InstallError", "install"]


class InstallError(Exception):
    """pip failed, or the installed packages cannot be imported; this says nothing about the tested code."""


def install(requirements: Path, modules: Sequence[str]) -> Path:
    """Return the Python of an environment with the requirements of a file, which is made once.

    Args:
        requirements: A file with all requirements, pinned; dependencies that it does not list are not installed.
        modules: Modules to import once, which checks the installation and compiles them for later starts.

    Raises:
        InstallError: The installation or an import failed; the message has the output of pip or Python.
    """

    def make(home: Path) -> None:
        python = str(home / "bin" / "python")
        # Without pip and without compiling files, this takes 5 s instead of 12.
        _run(sys.executable, "-m", "venv", "--without-pip", str(home))
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
        _run(*pip, "install", "--quiet", "--no-deps", "--no-compile", "--requirement", str(requirements))
        _run(python, "-c", "import " + ", ".join(modules))

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cached_folder(f"{requirements.stem}-{version}", requirements.read_bytes(), make) / "bin" / "python"


def _run(*command: str) -> None:
    result = subprocess.run(
        command,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        raise InstallError(f"{' '.join(command)} failed ({result.returncode}):\n{result.stdout}{result.stderr}")
