"""Makes Markdown from rows of tables and from HTML.

All readers make their tables with it. EPUB, HTML and DOCX are converted from HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bs4 import BeautifulSoup, Tag
from markdownify import ATX, MarkdownConverter

__all__ = ["html_to_markdown", "split_sections", "table_text"]

_MAX_DEPTH = 200
"""Maximum depth of nested HTML elements, because the converter is recursive."""
_UNWANTED = ("head", "script", "style", "template", "noscript", "svg", "iframe", "object")
_BLANK_LINES = re.compile(r"\n{3,}")
_HEADING = re.compile(r"^(#{1,6})[ \t]+(\S.*)$", re.MULTILINE)


class _Converter(MarkdownConverter):  # type: ignore[misc, unused-ignore]
    """Converts HTML to Markdown without images, which a text cannot contain, and without links in the document."""

    def convert_img(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return str(el.get("alt") or "").strip()

    def convert_a(self, el: Any, text: str, parent_tags: set[str]) -> str:
        target = str(el.get("href") or "")
        if not target.startswith(("http:", "https:", "mailto:")):
            return text
        return f"[{text.strip()}]({target})" if text.strip() else ""


def html_to_markdown(html: str | bytes) -> tuple[str, str]:
    """Convert HTML.

    Returns:
        The title, which may be empty, and the Markdown.
    """
    soup = BeautifulSoup(html, "lxml")
    title = " ".join(soup.title.get_text().split()) if soup.title is not None else ""
    for element in soup.find_all(_UNWANTED):
        element.decompose()
    # The deepest elements become text, because each level takes several Python frames.
    for element in list(_too_deep(soup)):
        element.replace_with(element.get_text(" "))
    converter = _Converter(
        heading_style=ATX,
        bullets="-",
        table_infer_header=True,
        escape_misc=False,
        escape_asterisks=False,
        escape_underscores=False,
    )
    text = converter.convert_soup(soup)
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return title, _BLANK_LINES.sub("\n\n", lines).strip()


def table_text(rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; the first row becomes its header."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    width = max(map(len, cells), default=0)
    if not width:
        return ""
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])


def split_sections(text: str) -> list[tuple[str, str]]:
    """Split Markdown before each heading of the highest level that has several headings, and of higher levels.

    Returns:
        Titles and texts. The text before the first heading has an empty title.
    """
    headings = list(_HEADING.finditer(text))
    levels = [len(found[1]) for found in headings]
    split_at = next((level for level in range(1, 7) if levels.count(level) > 1), None)
    if split_at is None:
        return [(headings[0][2].strip() if headings else "", text)]
    starts = [found for found in headings if len(found[1]) <= split_at]
    sections = []
    if before := text[: starts[0].start()].strip():
        sections.append(("", before))
    for found, after in zip(starts, [*starts[1:], None], strict=True):
        body = text[found.start() : after.start() if after is not None else len(text)].strip()
        sections.append((found[2].strip(), body))
    return sections


def _too_deep(soup: BeautifulSoup) -> Iterator[Tag]:
    """Yield the elements that are just below the maximum depth."""
    waiting: list[tuple[Tag, int]] = [(soup, 0)]
    while waiting:
        element, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            yield element
        else:
            waiting += [(child, depth + 1) for child in element.children if isinstance(child, Tag)]
