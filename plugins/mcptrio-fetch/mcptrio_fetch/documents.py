"""Converts PDF, Office and EPUB files to Markdown with mcptrio-documents, if it is installed.

The renderer calls it. mcptrio-documents converts each file in a separate process, with limits on memory and time.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio

from mcptrio import ToolError

from .config import Config
from .errors import printable
from .page import FetchedPage
from .rendered_page import RenderedPage

if TYPE_CHECKING:
    from mcptrio_documents import DocumentConverter

__all__ = ["DOCUMENT_KINDS", "INSTALL_ADVICE", "DocumentRenderer"]

DOCUMENT_KINDS: Final = ("pdf", "document")
"""Kinds of pages that are documents."""
INSTALL_ADVICE: Final = "to read it as Markdown, install mcptrio-fetch[documents]"

_MAX_NAME_CHARS = 100


class DocumentRenderer:
    """Converts documents, if mcptrio-documents is installed.

    Attributes:
        is_installed: False without mcptrio-documents.
    """

    def __init__(self, config: Config) -> None:
        self.is_installed = find_spec("mcptrio_documents") is not None
        self._timeout = config.convert_timeout
        self._converter: DocumentConverter | None = None

    async def render(self, page: FetchedPage) -> RenderedPage:
        """Return a file as Markdown, with a marker line before each page.

        Raises:
            ToolError: The file is damaged, protected, of another kind, or exceeds the limits.
        """
        if self._converter is None:
            # The import takes 100 ms, so it runs in a thread, and only for the first document.
            self._converter = await trio.to_thread.run_sync(_open_converter, self._timeout)
        name = urlsplit(page.url).path.rpartition("/")[2][-_MAX_NAME_CHARS:]
        try:
            document = await self._converter.convert(page.body, name)
        except ToolError as error:
            raise ToolError(f"{printable(page.url)}: {error}") from error
        from mcptrio_documents import document_text, omissions  # see above

        return RenderedPage(
            text=document_text(document), title=document.title or None, notes=tuple(omissions(document))
        )


def _open_converter(timeout: float) -> DocumentConverter:
    from mcptrio_documents import Config, DocumentConverter  # see render

    return DocumentConverter(Config(convert_timeout=timeout))
