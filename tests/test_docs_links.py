"""Every link between the pages has a target, headings included; README links to each page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), *ROOT.glob("plugins/*/README.md")]
LINKED = ("tutorial", "plugins", "hooks", "supervision", "revisions", "deployment", "security", "design")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)", page.read_text("utf-8"))
    results = []
    for path, anchor in links:
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor[1:] not in anchors(target)):
            results.append(path + anchor)
    return results


@pytest.mark.parametrize("page", sorted(set(PAGES)), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    assert broken(page) == []


def test_readme_links_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    assert [name for name in LINKED if f"(docs/{name}.md)" not in readme] == []


def test_index_links_to_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    pages = [page.name for page in ROOT.glob("docs/*.md") if page.name != "index.md"]

    assert [name for name in pages if f"({name})" not in index] == []


def test_pages_named_in_docstrings_exist() -> None:
    named = {
        page
        for module in ROOT.glob("mcptrio/**/*.py")
        for page in re.findall(r"\bdocs/(\w[\w-]*\.md)", module.read_text("utf-8"))
    }

    assert "testing.md" in named
    assert [page for page in named if not (ROOT / "docs" / page).is_file()] == []


def test_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `heading`\n[a](#a-heading) [b](#none) [c](gone.md) [d](https://example.com/x)\n")

    assert broken(page) == ["#none", "gone.md"]
