"""A strict server accepts every plugin in the docs unchanged, and opens."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import trio

from mcptrio import Server
from mcptrio.serving import ServerSettings
from tests.test_readme import Block, blocks

__all__: list[str] = []

SHOWN = [
    block for block in blocks("python") if re.search(r"^ *@(tool|resource|prompt|hookimpl)\b", block.text, re.MULTILINE)
]


def test_docs_contain_plugins() -> None:
    assert len(SHOWN) > 15


@pytest.mark.parametrize("block", SHOWN, ids=str)
async def test_plugin_of_the_docs_is_accepted(block: Block, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # because some blocks open files
    module = ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", module)
    # A page may continue with code that runs the plugin, which the tests of the examples cover.
    text = re.sub(r"^trio\.run\(.*$", "", block.text, flags=re.MULTILINE)
    exec(compile(text, block.where, "exec"), module.__dict__)

    server = Server(plugins=[module], settings=ServerSettings(strict=True))
    with trio.fail_after(60):
        async with server.open():
            assert [plugin.state for plugin in server.status.plugins] == ["running"]
