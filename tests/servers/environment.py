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

from tests.cache import INSTALL_SECONDS, kept

__all__ = ["InstallError", "install"]


class InstallError(Exception):
    """pip failed, or the installed packages cannot be imported; this says nothing about the tested code."""


def install(requirements: Path, modules: Sequence[str]) -> Path:
    """The Python of an environment with what a file lists, made unless it is already there.

    Args:
        requirements: everything, pinned; dependencies that it does not list are not installed.
        modules: imported once, to see that they can be, and so that their compiled form is there when they are started.

    Raises:
        InstallError: with what pip or Python has said.
    """

    def make(home: Path) -> None:
        python = str(home / "bin" / "python")
        # Without pip and without compiling files, this takes 5 s instead of 12.
        _run(sys.executable, "-m", "venv", "--without-pip", str(home))
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
        _run(*pip, "install", "--quiet", "--no-deps", "--no-compile", "--requirement", str(requirements))
        _run(python, "-c", "import " + ", ".join(modules))

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return kept(f"{requirements.stem}-{version}", requirements.read_bytes(), make) / "bin" / "python"


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise InstallError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
