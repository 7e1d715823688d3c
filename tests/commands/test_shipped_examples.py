"""The shipped plugins: the doctor calls their read-only tools, and finds no fault in their answers."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path

from mcptrio import Server
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.settings import PluginTables
from mcptrio.serving import ServerSettings
from tests.commands.processes import run_text as run
from tests.test_docs_shipped import EVERYTHING_ON, SHIPPED

__all__: list[str] = []

CONFIGURED = """
[plugins.fs]
folders = ["files"]

[plugins.git]
repositories = ["garden"]

[plugins.memory]
file = "memory.db"

[plugins.sqlite]
databases = { shop = "shop.db" }
"""
WITHOUT = {
    # They start a language server, which takes seconds.
    "code_definition",
    "code_diagnostics",
    "code_find_symbol",
    "code_outline",
    "code_references",
    # They need a document, whose conversion takes a process.
    "documents_describe_document",
    "documents_read_document",
    "documents_search_document",
    # They need the internet.
    "fetch",
    "fetch_head",
    "fetch_links",
    # They need the name of a file, table, process, sequence or skill, which no setting contains.
    "fs_read_media_file",
    "fs_read_multiple_files",
    "fs_read_text_file",
    "git_blame",
    "postgres_describe_tables",
    "shell_read_output",
    "skills_read_skill",
    "skills_read_skill_file",
    "sqlite_describe_table",
    "thinking_get_sequence",
    # An example would need the extension pg_stat_statements.
    "postgres_slow_queries",
}
"""Read-only tools without examples."""


def test_every_read_only_tool_has_examples(tmp_path: Path) -> None:
    """Except those of the demonstration, and of openapi, whose tools come from the operator's documents."""
    names = [name for name in SHIPPED if name not in ("authserver", "everything", "openapi")]
    manager = PluginManager(strict=True)
    manager.load_installed(only=names)
    tables = PluginTables(tables={name: EVERYTHING_ON.get(name, {}) for name in names}, folder=tmp_path)
    server = Server(plugins=manager, config=tables, settings=ServerSettings(strict=True))
    tools = list(server.catalog.tools.registry)

    assert {each.key for each in tools if each.mark.read_only and not each.mark.examples} == WITHOUT
    assert "examples" not in json.dumps([each.tool.input_schema for each in tools])


def test_doctor_calls_the_examples_of_configured_plugins(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text(CONFIGURED)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "beds.txt").write_text("beans\npeas\n")
    (tmp_path / "memory.db").touch()  # the doctor does not create it
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", "init", "-q", "garden"], cwd=tmp_path, check=True)
    subprocess.run(
        ["git", *identity, "commit", "-q", "--allow-empty", "-m", "Plant beans"], cwd=tmp_path / "garden", check=True
    )
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE items(name TEXT)")
    shop.close()
    names = ("fs", "git", "memory", "sqlite", "time")
    ended = run("plugins", "doctor", "--json", "--timeout=60", *names, cwd=tmp_path)
    told = {each["name"]: each for each in json.loads(ended.stdout)["plugins"]}

    assert ended.returncode == 0
    assert [told[name]["warnings"] for name in sorted(told)] == [[]] * 5
    assert {name: len(each["called"]) for name, each in told.items()} == {
        "fs": 7,
        "git": 14,
        "memory": 5,
        "sqlite": 5,
        "time": 6,
    }


def test_doctor_does_not_create_the_memory(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text(CONFIGURED)
    ended = run("plugins", "doctor", "--json", "--timeout=60", "memory", cwd=tmp_path)
    [memory] = json.loads(ended.stdout)["plugins"]

    assert (memory["called"], memory["warnings"]) == ([], [])
    assert not (tmp_path / "memory.db").exists()
