"""The commands of docs/authorization.md run, from an empty folder to a protected server.

As in docs/commands.md, ``$`` begins a command in a ``console`` block, the lines below are its output and its standard
error, and ``…`` matches any text. All commands run in one folder, the second one while the server runs.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import attrs
import pytest

from mcptrio.serve.auth_config import AuthLimits, AuthSettings, Introspection, guard_of
from mcptrio.serve.config import load_config
from tests.commands.conftest import runs_are_warm
from tests.commands.processes import run_lines
from tests.processes import serving
from tests.test_readme import blocks_of

__all__ = ["runs_are_warm"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "authorization.md").read_text("utf-8")
BLOCKS = list(blocks_of(PAGE, "docs/authorization.md"))
PROVIDER_PAGE = (ROOT / "docs" / "identity-provider.md").read_text("utf-8")
CONFIGURATIONS = [
    block for block in (*BLOCKS, *blocks_of(PROVIDER_PAGE, "docs/identity-provider.md")) if block.language == "toml"
]
EMPTY_FILE = '{"format": 1, "tokens": []}'


def run_console(text: str, folder: Path) -> None:
    """Run the commands of a block, and compare their output."""
    parts = [part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    script = "".join(f"{command}\necho @@@\n" for command, _, _ in parts)
    programs = folder.with_name(f"{folder.name}-programs")
    programs.mkdir(exist_ok=True)
    out = run_lines(script, cwd=folder, programs=programs)
    outputs = out.split("@@@\n")
    assert len(outputs) == len(parts) + 1, out
    for (command, _, expected), got in zip(parts, outputs, strict=False):
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, got), f"$ {command}\n{got}"


def test_commands_of_the_page_protect_a_server(tmp_path: Path) -> None:
    [plugin, *_] = [block for block in BLOCKS if block.language == "python"]
    before, during = [block for block in BLOCKS if block.language == "console"]
    [serve, *_] = [block for block in BLOCKS if block.language == "sh"]
    (tmp_path / "team.py").write_text(plugin.text)
    (tmp_path / "mcptrio.toml").write_text(CONFIGURATIONS[0].text)

    run_console(before.text, tmp_path)
    words = serve.text.split()
    assert words[:2] == ["mcptrio", "serve"]
    with serving(*words[2:], "--port", "0", cwd=tmp_path) as server:
        run_console(during.text.replace(":8000/", f":{server.port}/"), tmp_path)
        token = (tmp_path / "ada.token").read_text().strip()
        assert "request refused: client=127.0.0.1: invalid access token" in server.stderr
        assert token not in server.stderr


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=str)
def test_documented_configuration_creates_a_guard(block: object, tmp_path: Path) -> None:
    text = getattr(block, "text", "")
    (tmp_path / "tokens.json").write_text(EMPTY_FILE)
    (tmp_path / "mcptrio.toml").write_text(text)

    assert "auth" in tomllib.loads(text)
    environ = {"INTROSPECTION_SECRET": "hush"}
    assert guard_of(load_config(tmp_path / "mcptrio.toml"), environ=environ) is not None


PROGRAMS = [block for block in BLOCKS if block.language == "python"][1:]


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_documented_program_creates_a_server(block: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokens.json").write_text(EMPTY_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    names: dict[str, object] = {}
    exec(compile(getattr(block, "text", ""), "docs/authorization.md", "exec"), names)

    if "login" in names:
        store = names["login"].store  # type: ignore[attr-defined]
        assert store.path == tmp_path / ".config" / "notes" / "tokens.json"
    else:
        assert callable(names["app"])


def rows(table: str) -> dict[str, str]:
    """The keys of a table, and the cell with the default."""
    [found] = re.findall(rf"^\| key of `\[{re.escape(table)}\]` .*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", found, re.MULTILINE))


@pytest.mark.parametrize(
    ("table", "cls"), [("auth", AuthSettings), ("auth.introspection", Introspection), ("auth.limits", AuthLimits)]
)
def test_every_key_is_documented_with_its_default(table: str, cls: type) -> None:
    shown = rows(table)
    defaults = {each.name: each.default for each in attrs.fields(cls)}

    assert shown.keys() == defaults.keys()
    for name, default in defaults.items():
        if isinstance(default, bool):
            assert shown[name] == str(default).lower(), name
        elif isinstance(default, int | float):
            assert float(shown[name]) == default, name
        elif isinstance(default, tuple) and default:
            assert tuple(re.findall(r"`(\S+)`", shown[name])) == default, name
        elif name == "dpop":
            assert shown[name] == f"`{default}`"


def test_authorization_pages_link_to_each_other() -> None:
    index, security, deployment = (
        (ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("index", "security", "deployment")
    )

    for page in (index, security):
        assert "(authorization.md)" in page
        assert "(threat-model.md)" in page
    assert "(authorization.md" in deployment
