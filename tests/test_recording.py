"""docs/terminal.svg shows the behaviour of the tutorial's plugin: its results, its progress and its form."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from mcptrio import Client
from mcptrio.testing import Script
from tests.test_readme import blocks

__all__: list[str] = []

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "terminal.svg"


@pytest.fixture
def mcp_plugins(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    [text] = [block.text for block in blocks("python") if block.text.startswith("# garden.py\nfrom dataclasses")]
    module = ModuleType("garden")
    monkeypatch.setitem(sys.modules, "garden", module)
    exec(text, module.__dict__)
    return [module]


def lines() -> list[str]:
    """The lines of all frames."""
    root = ET.parse(PICTURE).getroot()
    return ["".join(group.itertext()) for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("id")]


@pytest.mark.mcp(autojump=True)
async def test_recorded_progress_matches_the_tool(mcp_client: Client) -> None:
    result = await mcp_client.call_tool("water", {"beds": 4})

    assert "$ mcptrio call --plugin garden.py water beds=4" in lines()
    assert result.text in lines()
    assert [line for line in lines() if re.match(r"water \[[#.]+\] +50%", line)]


async def test_recorded_form_matches_the_tool(mcp_client: Client, mcp_script: Script) -> None:
    mcp_script.elicit({"plant": "peas", "rows": 3})
    result = await mcp_client.call_tool("sow", {"bed": "north"})

    assert "$ mcptrio call --plugin garden.py sow bed=north" in lines()
    assert any(line.endswith(mcp_script.asked[0].message) for line in lines())
    assert result.text in lines()
