"""A new environment with only the wheels of this tree, and a working folder.

The tests of an installed mcptrio use it. Dependencies come from the environment of the tests, except distributions
whose name begins with mcptrio, so no index is needed.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from attrs import field, frozen

from tests.processes import environment

__all__ = ["ROOT", "Elsewhere", "open_elsewhere"]

ROOT = Path(__file__).resolve().parent.parent
_LEFT_OUT = ("mcptrio", "__editable__", "_mcptrio", "_editable")


@frozen
class Elsewhere:
    """An environment in which mcptrio is installed, and a working folder."""

    folder: Path
    venv: Path
    python: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "python", self.venv / "bin" / "python")

    def run(self, *command: str | Path, cwd: Path | None = None, python: Path | None = None, **env: str) -> str:
        """Run a module in that environment until it ends. Return its output."""
        done = subprocess.run(
            [python or self.python, "-P", "-m", *command],
            cwd=cwd or self.folder,
            env=environment(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, *projects: Path) -> None:
        """Build wheels and install these."""
        ours, wheels = Path(sys.executable), self.folder / f"wheels-{projects[0].name}"
        quiet = ("-q", "--disable-pip-version-check", "--no-deps", "--no-index")
        self.run("pip", "wheel", *quiet, "--no-build-isolation", "-w", wheels, *projects, python=ours)
        self.run("pip", "--python", self.python, "install", *quiet, *wheels.iterdir(), python=ours)


def open_elsewhere(folder: Path, venv: Path) -> Elsewhere:
    """Make one; mcptrio itself has yet to be installed.

    Args:
        folder: To work in; it is there.
        venv: Where the environment is made.
    """
    there = Elsewhere(folder, venv)
    there.run("venv", "--without-pip", venv, python=Path(sys.executable))
    _lend(folder / "lent", venv)
    return there


def _lend(folder: Path, venv: Path) -> None:
    """Make every installed distribution importable there, except mcptrio and its plugins."""
    folder.mkdir()
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for each in Path(site).iterdir():
            if not each.name.startswith(_LEFT_OUT) and not (folder / each.name).exists():
                (folder / each.name).symlink_to(each)
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(f"{folder}\n")
