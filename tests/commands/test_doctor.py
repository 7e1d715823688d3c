"""``mcptrio plugins doctor``: anything that a plugin does during its import becomes a finding of that plugin."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands.processes import run_text as run
from tests.distributions import install, one_tool

__all__: list[str] = []

EXITS = "import os\nos.write(2, b'going\\n')\nos._exit(3)\n"
HANGS = "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
HANGS += "print('waiting', flush=True)\ntime.sleep(600)\n"
CRASHES = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
RAISES = "raise SystemExit(5)\n"
SETTINGS = """
from attrs import frozen
from mcptrio import hookimpl

@frozen(kw_only=True)
class Config:
    size: int = 3

@hookimpl
def setup(config: Config):
    pass
"""
UNANNOTATED = """
from mcptrio import Context, prompt, tool

@tool
async def dig(ctx, depth: int = 1) -> str:
    "Dig a hole and return it."
    return ""

@tool
async def fill(ctx: Context, context="") -> str:
    "Fill a hole, given the context of it."
    return ""

@tool
async def rake(context: str) -> str:
    "Rake, given the context of it."
    return ""

@prompt
def plan(context) -> str:
    "Plan a garden."
    return ""
"""
ODD = """
from typing import Any
from mcptrio import hookimpl, tool

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": ["string", "null"]},
        "b": {"type": "number", "exclusiveMinimum": 0, "description": "b."},
        "c": {"type": "string"},
        "type": {"type": "array", "items": {"type": "integer", "exclusiveMaximum": 3}, "description": "d."},
        "exclusiveMinimum": {"const": {"type": ["string"]}, "description": "e."},
    },
}

@tool(input_schema=SCHEMA)
async def odd(arguments: dict[str, Any]) -> None:
    pass

@hookimpl
def setup(server):
    server.set_tool_prefix("odd")

@hookimpl
def doctor(config):
    yield "the well is dry"
    yield f"the size is {config.get('size')}"
"""
ILL = """
from mcptrio import hookimpl

class Ill:
    @hookimpl
    def doctor(self):
        return [3]

@hookimpl
def setup(server):
    server.add(Ill())
"""

REFERENCES = """
from mcptrio import completion, prompt, resource, tool

@tool
async def dig() -> None:
    "Dig a hole; fill it with {tool:fill}."

@tool
async def fill() -> None:
    "Fill a hole that {tool:digg} has made."

@resource("bed://{name}")
async def bed(name: str) -> str:
    "The state of one bed."
    return ""

@prompt
def plan(season: str) -> str:
    "Plan a garden."
    return ""

for of, name, argument in (
    ("prompt", "plan", "season"), ("resource", "bed://{name}", "name"),
    ("prompt", "plna", "season"), ("prompt", "plan", "sesson"), ("resource", "bed://{name}", "nam"),
):
    @completion(of, name, argument)
    def complete(value):
        return []
    globals()[f"complete_{name}_{argument}"] = complete
del complete
"""
EXAMPLES = """
from typing import Annotated
from msgspec import Meta
from mcptrio import ToolError, tool

Count = Annotated[int, Meta(description="Lines.")]

@tool(read_only=True, examples=[{"count": EXAMPLE}])
async def lines(count: Count) -> str:
    "Return that many lines of 100 characters."
    return ("x" * 99 + "\\n") * count

@tool(read_only=True, examples=lambda _: [{"count": EXAMPLE}])
async def items(count: Count) -> list[str]:
    "Return that many items of 100 characters."
    if count == 2:
        raise ToolError("not two")
    return ["x" * 99] * count

@tool
async def change(count: Count) -> None:
    "Never call this in a check."
    raise SystemExit(count)

@tool(read_only=True)
async def bare(count: int) -> None:
    "Never call this tool without a count."
    raise SystemExit(count)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("site")
    for name, source in {
        "exits": EXITS,
        "hangs": HANGS,
        "crashes": CRASHES,
        "raises": RAISES,
        "settings": SETTINGS,
        "odd": ODD,
        "ill": ILL,
        "references": REFERENCES,
        "well": one_tool("fine"),
    }.items():
        install(folder, f"doc-{name}", modules={f"doc_{name}": source}, **{name: f"doc_{name}"})
    info = folder / "doc_well-1.0.dist-info" / "METADATA"
    info.write_text(info.read_text() + "Requires-External: no-such-program (>=1)\nRequires-External: sh\n")
    return str(folder)


def examined(folder: Path, site: str, *names: str, code: int = 1) -> dict[str, Any]:
    """Return the findings by plugin; ``""`` for findings about all of them together."""
    ended = run("plugins", "doctor", "--json", "--timeout=60", *names, cwd=folder, PYTHONPATH=site)
    assert ended.returncode == code, ended.stderr
    report = json.loads(ended.stdout)
    return {each["name"]: each for each in report["plugins"]} | {"": report["together"]}


def test_failing_import_of_one_plugin_does_not_affect_the_others(tmp_path: Path, site: str) -> None:
    findings = examined(tmp_path, site, "exits", "crashes", "raises", "well")

    assert findings["exits"]["problems"] == ["importing it ended the process, with exit code 3"]
    assert findings["exits"]["warnings"] == ["its last output: going"]
    assert findings["crashes"]["problems"] == ["importing it ended the process: SIGSEGV"]
    assert findings["raises"]["problems"] == ["import failed: SystemExit: 5"]
    assert findings["well"]["problems"] == []
    assert findings["well"]["offers"] == {"tools": ["well_fine"]}
    assert findings["well"]["warnings"] == ["it needs the program no-such-program, which is not in PATH"]


def test_hanging_plugin_is_killed_with_its_children(tmp_path: Path, site: str) -> None:
    # Long enough for a slow machine to start Python and reach the hanging code.
    ended = run("plugins", "doctor", "--timeout=8", "hangs", cwd=tmp_path, PYTHONPATH=site)

    assert ended.returncode == 1
    assert "  broken: importing it did not end within 8 s" in ended.stdout
    assert "  warning: its last output: waiting" in ended.stdout


def test_settings_schemas_duplicate_names_and_doctor_hooks_are_checked(tmp_path: Path, site: str) -> None:
    (tmp_path / "mcptrio.toml").write_text("[plugins.settings]\nsise = 2\n[plugins.odd]\nsize = 4\n[plugins.gone]\n")
    (tmp_path / "twin.py").write_text(one_tool("odd"))
    findings = examined(tmp_path, site, "settings", "odd", "ill", "twin.py")

    assert findings["settings"]["problems"] == [
        "mcptrio.toml:2: plugins.settings.sise: there is no setting `sise`; did you mean `size`?"
    ]
    assert findings["odd"]["problems"] == ["the well is dry", "the size is 4"]
    assert findings["odd"]["warnings"] == [
        "tool odd has no description: a model has to guess what it does",
        "tool odd: no description of a, c",
        "tool odd: its input schema has a list of types, which some models' APIs refuse",
        "tool odd: its input schema has exclusiveMinimum, which some models' APIs refuse",
        "tool odd: its input schema has exclusiveMaximum, which some models' APIs refuse",
    ]
    assert findings["ill"]["problems"] == ["doctor failed: expected sentences, got int"]
    assert findings[""]["problems"] == ["tool odd is offered by odd and twin; twin would be left out"]
    assert findings[""]["warnings"] == ["mcptrio.toml:5: plugins.gone: no such plugin is installed"]


def test_modules_that_a_plugin_imports_later_are_checked(tmp_path: Path) -> None:
    site = tmp_path / "site"
    lazy = one_tool("lazy") + "\n\ndef later():\n    from . import part\n"
    install(
        site,
        "doc-lazy",
        modules={
            "doc_lazy/__init__": lazy,
            "doc_lazy/part": "import no_such_library_here\n",
            "doc_lazy/whole": "",
            "doc_lazy/__main__": "raise SystemExit(7)\n",
        },
        lazy="doc_lazy",
    )
    findings = examined(tmp_path, str(site), "lazy")

    assert findings["lazy"]["problems"] == [
        "its module doc_lazy.part cannot be imported: ModuleNotFoundError: No module named 'no_such_library_here'"
    ]


def test_parameter_that_should_be_the_context_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "garden.py").write_text(UNANNOTATED)
    result = run("plugins", "doctor", "garden.py", "--json", cwd=tmp_path)
    listed = run("list", "--plugin", "garden.py", cwd=tmp_path)

    report = json.loads(result.stdout)["plugins"][0]["warnings"]
    said = [
        "tool dig: ctx has no annotation, so clients pass it; expected `ctx: Context`",
        "prompt plan: context has no annotation, so clients pass it; expected `context: Context`",
    ]
    assert [each for each in report if "annotation" in each] == said
    assert all(f"garden: {each}" in listed.stderr for each in said)


def test_references_without_a_target_are_warnings(tmp_path: Path, site: str) -> None:
    findings = examined(tmp_path, site, "references", code=0)

    assert findings["references"]["warnings"] == [
        "a description contains {tool:digg}, but the plugin has no tool `digg`; did you mean `dig`?",
        "a completion is for the prompt `plna`, which does not exist; did you mean `plan`?",
        "a completion can never be requested: prompt `plan` has no argument `sesson`; did you mean `season`?",
        "a completion can never be requested: template `bed://{name}` has no variable `nam`; did you mean `name`?",
    ]


def test_misspelled_variable_of_a_plugin_is_a_warning(tmp_path: Path, site: str) -> None:
    environment = {"MCPTRIO_SETTINGS_SISE": "2", "MCPTRIO_SETTINGS_SIZE": "4", "MCPTRIO_SETTINGS_MORE_SIZE": "4"}
    install(tmp_path / "more", "doc-more", modules={"doc_more": one_tool("more")}, **{"settings-more": "doc_more"})
    environment["PYTHONPATH"] = os.pathsep.join((site, str(tmp_path / "more")))
    warning = "MCPTRIO_SETTINGS_SISE: the plugin has no such setting; did you mean `MCPTRIO_SETTINGS_SIZE`?"
    found = run("plugins", "doctor", "--json", "settings", cwd=tmp_path, **environment)
    started = run("list", "--plugin", "settings", cwd=tmp_path, **environment)

    assert json.loads(found.stdout)["plugins"][0]["warnings"] == [warning]
    assert f"settings (doc-settings 1.0): {warning}" in started.stderr


@pytest.mark.parametrize(("plugin", "setting"), [("git", "repositories"), ("fs", "folders"), ("documents", "folders")])
def test_missing_folder_of_a_plugin_is_broken(tmp_path: Path, plugin: str, setting: str) -> None:
    missing = tmp_path / "missing"
    (tmp_path / "mcptrio.toml").write_text(f'[plugins.{plugin}]\n{setting} = ["{missing}", "{tmp_path}"]\n')
    findings = examined(tmp_path, "", plugin)

    assert findings[plugin]["problems"] == [
        f"{setting} of [plugins.{plugin}]: there is no directory {missing}; create it or correct the setting"
    ]


def test_unknown_plugin_is_invalid_usage(tmp_path: Path) -> None:
    ended = run("plugins", "doctor", "everythin", cwd=tmp_path)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no plugin `everythin` is installed; did you mean `everything`?" in ended.stderr


@pytest.mark.parametrize("command", ["doctor", "show"])
def test_missing_file_error_names_what_the_user_typed(tmp_path: Path, command: str) -> None:
    (tmp_path / "garden.py").touch()
    ended = run("plugins", command, "gardn.py", cwd=tmp_path)

    assert ended.returncode == 2
    assert ended.stderr == "mcptrio: NAME: no such file: gardn.py; did you mean `garden.py`?\n"


def test_examples_of_read_only_tools_are_called_and_measured(tmp_path: Path, site: str) -> None:
    (tmp_path / "few.py").write_text(EXAMPLES.replace("EXAMPLE", "2"))
    (tmp_path / "many.py").write_text(EXAMPLES.replace("EXAMPLE", "1000"))
    findings = examined(tmp_path, site, "few.py", "many.py")

    assert findings["few"]["warnings"] == ["tool items: its example fails: not two"]
    assert findings["few"]["called"] == ["lines", "items"]
    assert findings["many"]["warnings"][0] == (
        "tool lines: the answer to its example has 100000 characters, more than 40000: return it in pages"
    )
    assert any(each.startswith("tool items: the structured content") for each in findings["many"]["warnings"])


def test_shipped_plugins_have_no_findings(tmp_path: Path) -> None:
    """Except the authorization server, which has no tools and needs an issuer, and the demonstration."""
    ended = run("plugins", "doctor", "--json", "--no-plugin=authserver", "--timeout=60", cwd=tmp_path)
    report = json.loads(ended.stdout)

    assert ended.returncode == 0
    # How long an import takes says something about the machine too, which runs other tests.
    found = [each for plugin in report["plugins"] for each in plugin["warnings"] if "importing it took" not in each]
    assert found == []
    assert len(report["plugins"]) >= 10
