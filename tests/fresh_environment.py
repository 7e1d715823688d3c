"""A new virtual environment for tests of an installed mcptrio, with a working folder.

installing/test_new_user.py and test_third_party_plugin.py use it. mcptrio and its plugins are installed from wheels
built in this tree. All other distributions are linked from the environment of the tests, so no index is needed.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from attrs import field, frozen

from tests.processes import environment

__all__ = ["ROOT", "FreshEnvironment", "create_environment"]

ROOT = Path(__file__).resolve().parent.parent
_EXCLUDED = ("mcptrio", "__editable__", "_mcptrio", "_editable")


@frozen
class FreshEnvironment:
    """A virtual environment, and the folder in which its commands run."""

    folder: Path
    venv: Path
    python: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "python", self.venv / "bin" / "python")

    def run(self, *command: str | Path, cwd: Path | None = None, python: Path | None = None, **env: str) -> str:
        """Run a module in the environment until it ends, and return its output."""
        result = subprocess.run(
            [python or self.python, "-P", "-m", *command],
            cwd=cwd or self.folder,
            env=environment(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def install(self, *projects: Path) -> None:
        """Build wheels of these projects and install them."""
        ours, wheels = Path(sys.executable), self.folder / f"wheels-{projects[0].name}"
        quiet = ("-q", "--disable-pip-version-check", "--no-deps", "--no-index")
        self.run("pip", "wheel", *quiet, "--no-build-isolation", "-w", wheels, *projects, python=ours)
        self.run("pip", "--python", self.python, "install", *quiet, *wheels.iterdir(), python=ours)


def create_environment(folder: Path, venv: Path) -> FreshEnvironment:
    """Create an environment that does not have mcptrio yet.

    Args:
        folder: An existing folder, in which commands run.
        venv: The path of the new environment.
    """
    fresh = FreshEnvironment(folder, venv)
    fresh.run("venv", "--without-pip", venv, python=Path(sys.executable))
    _link_distributions(folder / "linked", venv)
    return fresh


def _link_distributions(folder: Path, venv: Path) -> None:
    """Link every distribution of this environment into the new one, except mcptrio and its plugins."""
    folder.mkdir()
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for each in Path(site).iterdir():
            if not each.name.startswith(_EXCLUDED) and not (folder / each.name).exists():
                (folder / each.name).symlink_to(each)
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "linked.pth").write_text(f"{folder}\n")
