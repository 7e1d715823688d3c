"""Starts the server on plugin.py, and clients' scripts against it.

Used by the tests of the clients.
The one rule: whatever is started here has ended, and has said so in its log, before the test that asked for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conformance.runner import CACHE

__all__ = ["HERE", "complaints", "install_packages", "run_script", "serve_command"]

HERE = Path(__file__).resolve().parent

INSTALL_SECONDS = 180
SCRIPT_SECONDS = 120
"""A script takes 2 to 4 s on two cores; one behaviour that hangs costs it 20."""


def serve_command(transport: str) -> tuple[str, ...]:
    """As a user would start it."""
    where = ("--stdio",) if transport == "stdio" else ("--http", "--port", "0")
    options = ("--config", str(HERE / "mcptrio.toml"), "--plugin", str(HERE / "plugin.py"))
    return (sys.executable, "-m", "mcptrio", "serve", *where, *options)


def run_script(
    command: Sequence[str | Path], *, revision: str, url: str | None, behaviours: Sequence[str], log: Path
) -> dict[str, dict[str, Any]]:
    """Run a client's script and read its report: ``{"saw": …}`` or ``{"failed": …}`` for each behaviour.

    Args:
        url: of the server; ``None`` for one that the client starts, over stdio.
        log: takes what the script and, over stdio, the server write to standard error.
    """
    target = {"url": url} if url is not None else {"command": serve_command("stdio")}
    with log.open("wb") as errors:
        done = subprocess.run(
            [*command, revision, json.dumps(target), *behaviours],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=SCRIPT_SECONDS,
            check=False,
        )
    written = log.read_text("utf-8", "replace")
    assert done.returncode == 0, written
    report = json.loads(done.stdout)
    assert report.keys() == set(behaviours), written
    return report  # type: ignore[no-any-return]


def complaints(log: Path) -> list[str]:
    """What is wrong with a server, from its log; nothing when it has left in order."""
    written = log.read_text("utf-8", "replace")
    wrong = []
    if (entered := written.count("plugin entered")) != (left := written.count("plugin left")):
        wrong.append(f"{entered} servers have begun and {left} have ended in order:\n{written[-4000:]}")
    # One is the plugin's own, and wanted.
    if written.count("Traceback") != written.count("tool crash failed"):
        wrong.append(f"unexpected traceback:\n{written[-4000:]}")
    return wrong


def install_packages(folder: Path, node: Path, npm: Sequence[str]) -> Path:
    """A folder's Node packages, installed from its lock file into ``.cache`` unless they are there already."""
    lock = (folder / "package-lock.json").read_bytes()
    home = CACHE / f"{folder.name}-{hashlib.sha256(lock).hexdigest()[:12]}"
    if home.exists():
        return home
    CACHE.mkdir(exist_ok=True)
    # Made beside its place and renamed: a run that is interrupted, or two at once, leave no half of an installation.
    with tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as scratch:
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(folder / name, scratch)
        done = subprocess.run(
            [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
            cwd=scratch,
            env={**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"npm ci failed ({done.returncode}):\n{done.stdout}{done.stderr}"
        try:
            Path(scratch).rename(home)
        except OSError:
            if not home.exists():
                raise
    return home
