"""docs/revisions.md: its tables equal the code."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any

import attrs
import pytest

from mcptrio import errors
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.revisions.revision import HTTPFeatures
from tests.protocol.revisions.test_losses import LACKS

__all__: list[str] = []

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "revisions.md").read_text("utf-8")


def row(first: str) -> list[str]:
    match = re.search(rf"^\| `{re.escape(first)}`[^|]* \|(.*)\|$", PAGE, re.MULTILINE)
    assert match, f"no row for {first}"
    return [cell.strip() for cell in match[1].split("|")]


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    return ", ".join(sorted(value)) or "none"


@pytest.mark.parametrize(
    "feature",
    [
        *("lifecycle", "inputs", "log_level", "changes", "batches", "elicitation_modes", "url_elicitation_error"),
        *("sampling_context", "bad_arguments", "http.sessions", "http.get_stream", "http.resumable", "http.priming"),
        *("http.version_header", "http.mirrored_headers"),
    ],
)
def test_documented_feature_matches_the_code(feature: str) -> None:
    def of(revision: Any) -> Any:
        for name in feature.split("."):
            revision = getattr(revision, name)
        return revision

    assert row(feature) == [shown(of(revision)) for revision in REVISIONS.values()]


def test_every_feature_of_http_is_documented() -> None:
    assert set(re.findall(r"`http\.(\w+)`", PAGE)) == set(attrs.fields_dict(HTTPFeatures))


def test_every_loss_is_documented() -> None:
    losses = {name for names in LACKS.values() for name in names}
    documented = set(re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", PAGE[PAGE.index("And these members") :].split("\n## ")[0]))

    assert documented == losses


@pytest.mark.parametrize(
    "name", [name for name in errors.__all__ if "code" in vars(getattr(errors, name)) and name != "MCPError"]
)
def test_every_error_code_is_documented(name: str) -> None:
    error = getattr(errors, name)
    cells = [
        cell for line in PAGE.split("## Error codes")[1].splitlines() if f"`{name}`" in line for cell in line.split("|")
    ]
    handshake, modern = (
        REVISIONS[version].codes.get(error.code, error.code) for version in ("2025-11-25", "2026-07-28")
    )

    assert cells, f"no row for {name}"
    assert any(str(int(handshake)) in cell for cell in cells) or not cells[2].strip()
    assert str(int(modern)) in cells[3] or "round trip" in cells[3]
