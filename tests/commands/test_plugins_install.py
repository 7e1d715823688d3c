"""``mcptrio plugins install`` and ``uninstall``: with the real pip, into a separate environment."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from mcptrio.cli.plugins.install import _requirement
from tests.commands.processes import run_text
from tests.distributions import one_tool
from tests.processes import environment

__all__: list[str] = []


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An environment with the distributions of this one, to which others can be added."""
    folder = tmp_path / "env"
    venv.create(folder, symlinks=os.name != "nt")
    site = next(folder.glob("lib/python*/site-packages"), folder / "Lib" / "site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    # Editable installations are found through their own .pth files, which addsitedir reads.
    (site / "ours.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in ours))
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(python: Path, *args: str, cwd: Path, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``mcptrio plugins`` in that environment, after some code; nothing is downloaded."""
    script = f"{code}\nimport sys\nfrom mcptrio.cli import main\nsys.argv = ['mcptrio', 'plugins', *{args!r}]\nmain()"
    return subprocess.run(
        [python, "-c", script],
        cwd=cwd,
        env=environment(PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1", PIP_QUIET="0"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def wheel(folder: Path, name: str, version: str, plugin: str) -> Path:
    """Write a wheel with a plugin of one tool."""
    module, stem = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}"
    files = {
        f"{module}.py": one_tool("fine"),
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}.dist-info/entry_points.txt": f"[mcptrio]\n{plugin} = {module}\n",
    }
    rows = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},"
        for path, text in files.items()
    ]
    record = f"{stem}.dist-info/RECORD"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in (files | {record: "\n".join([*rows, f"{record},,", ""])}).items():
            archive.writestr(each, text)
    return path


def test_plugin_is_installed_upgraded_and_uninstalled(python: Path, tmp_path: Path) -> None:
    first, second = (wheel(tmp_path, "mcptrio-tea", version, "tea") for version in ("1.0", "1.1"))

    added = run(python, "install", f"./{first.name}", cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    assert "Successfully installed mcptrio-tea-1.0" in added.stdout
    assert added.stdout.splitlines()[-1] == "added: tea (mcptrio-tea 1.0)"
    changed = run(python, "install", "--upgrade", str(second), cwd=tmp_path)
    assert changed.stdout.splitlines()[-1] == "changed: tea (from mcptrio-tea 1.0 to mcptrio-tea 1.1)"
    listed = run(python, "list", "--plugin=tea", cwd=tmp_path).stdout
    assert [line.split()[:4] for line in listed.splitlines() if line.startswith("tea")] == [
        ["tea", "1.1", "mcptrio-tea", "loaded"]
    ]
    removed = run(python, "uninstall", "tea", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    assert removed.stdout.splitlines()[-1] == "removed: tea (mcptrio-tea 1.1)"


def test_pip_failure_is_reported(python: Path, tmp_path: Path) -> None:
    ended = run(python, "install", "no-such-plugin==1.0", cwd=tmp_path)

    assert ended.returncode == 1
    assert "No matching distribution found for mcptrio-no-such-plugin==1.0" in ended.stderr
    assert ended.stderr.splitlines()[-1] == "mcptrio: pip install failed with exit code 1; its output above says why"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("install", "--", "--target=x"), 2, "expected the name, path or URL of a distribution, got the option"),
        (("uninstall", "everythin"), 2, "no plugin `everythin` is installed; did you mean `everything`?"),
        (("uninstall", "pip"), 2, "no plugin `pip` is installed"),
    ],
)
def test_invalid_usage_starts_no_pip(tmp_path: Path, args: tuple[str, ...], code: int, message: str) -> None:
    ended = run_text("plugins", *args, cwd=tmp_path)

    assert (ended.returncode, ended.stdout) == (code, "")
    assert message in ended.stderr


def test_missing_pip_error_names_the_alternatives(python: Path, tmp_path: Path) -> None:
    ended = run(python, "install", "tea", cwd=tmp_path, code="import sys; sys.modules['pip'] = None")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"uv pip install --python {python} mcptrio-tea\n" in ended.stderr
    assert "pipx inject mcptrio mcptrio-tea\n" in ended.stderr


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        ("git", "mcptrio-git"),
        ("git==1.2", "mcptrio-git==1.2"),
        ("git[extra] >=1, <2", "mcptrio-git[extra] >=1, <2"),
        ("mcptrio-git", "mcptrio-git"),
        ("mcptrio_git>1", "mcptrio_git>1"),
        ("mcptrio", "mcptrio"),
        ("mcptriolets", "mcptrio-mcptriolets"),
        ("./git", "./git"),
        (".", "."),
        ("git-1.0-py3-none-any.whl", "git-1.0-py3-none-any.whl"),
        ("https://example.com/git.zip", "https://example.com/git.zip"),
        ("git @ file:///x", "git @ file:///x"),
        ("git+https://example.com/x", "git+https://example.com/x"),
        ("C:\\git", "C:\\git"),
    ],
)
def test_name_becomes_that_of_the_distribution(spec: str, taken: str) -> None:
    assert _requirement(spec) == taken
