"""Converts HTML to Markdown and to a list of links, in threads.

The renderer imports it with the first page, because importing the libraries is slow. Trafilatura finds the article of a
page and writes it as Markdown; lxml parses the page, to a depth of 256 elements. A thread cannot be killed, so the code
checks at intervals whether it was cancelled; the work between two checks is linear in a bounded input.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from urllib.parse import urldefrag

import lxml.html  # type: ignore[import-untyped]
import trafilatura
from attrs import frozen
from lxml.etree import LxmlError  # type: ignore[import-untyped]
from trio.from_thread import check_cancelled

from .results import PageLink

__all__ = ["Article", "find_links", "write_markdown"]

_CALLS_PER_CHECK = 64
"""Python calls between two checks: less than a millisecond. The checks take a few percent of the time."""

_MAX_TITLE_CHARS = 300
_MAX_LABEL_CHARS = 200

# Trafilatura logs problems of individual pages, which do not help an operator.
logging.getLogger("trafilatura").setLevel(logging.CRITICAL)


@frozen
class Article:
    """The text of a page in Markdown."""

    text: str
    """Empty if nothing was found."""
    title: str | None


def write_markdown(html: str, url: str) -> Article:
    """Return the article of a page as Markdown with absolute links; all of its text if no article is found.

    Raises:
        trio.Cancelled: The call was cancelled.
    """
    with _cancellable():
        tree = _parse(html, url)
        if tree is None:
            return Article("", None)
        title = _title(tree)
        _drop_anchors(tree, url)
        text = trafilatura.extract(
            tree,
            output_format="markdown",
            include_comments=True,
            include_formatting=True,
            include_images=True,
            include_links=True,
            include_tables=True,
            favor_recall=True,
        )
        if not text:
            # The first attempt has modified the tree.
            again = _parse(html, url)
            text = trafilatura.html2txt(again) if again is not None else ""
        return Article(text.strip(), title)


def find_links(html: str, url: str) -> list[PageLink]:
    """Return the http and https links of a page, absolute, each once, in the order of the page.

    Raises:
        trio.Cancelled: The call was cancelled.
    """
    with _cancellable():
        tree = _parse(html, url)
        if tree is None:
            return []
        links: dict[str, str] = {}
        for element in tree.iter("a", "area"):
            check_cancelled()
            target = urldefrag(element.get("href") or "")[0]
            if not target.startswith(("http://", "https://")):
                continue
            label = _collapse(
                element.text_content() or element.get("alt") or element.get("title") or "", _MAX_LABEL_CHARS
            )
            links[target] = links.get(target) or label
        return [PageLink(url=target, text=label) for target, label in links.items()]


def _parse(html: str, url: str) -> Any:
    """Return the tree of a page; ``None`` if it is empty."""
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        tree = lxml.html.document_fromstring(html.encode("utf-8", "replace"), parser=parser)
    except (LxmlError, ValueError):
        return None
    tree.make_links_absolute(url, handle_failures="ignore")
    return tree


def _drop_anchors(tree: Any, url: str) -> None:
    """Remove links within the page, which many sites put around each heading. They have no target in Markdown."""
    for element in list(tree.iter("a")):
        target, anchor = urldefrag(element.get("href") or "")
        if anchor and target == url:
            # Removing many elements would take quadratic time; renaming them takes linear time.
            element.tag = "span"


def _title(tree: Any) -> str | None:
    element = tree.find(".//title")
    return (_collapse(element.text_content(), _MAX_TITLE_CHARS) or None) if element is not None else None


def _collapse(text: str, limit: int) -> str:
    return " ".join(text[: limit * 8].split())[:limit]


@contextmanager
def _cancellable() -> Iterator[None]:
    """Check at intervals whether this thread was cancelled."""
    calls = 0

    def trace(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += 1
        if calls % _CALLS_PER_CHECK == 0:
            check_cancelled()

    before: Callable[..., Any] | None = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
