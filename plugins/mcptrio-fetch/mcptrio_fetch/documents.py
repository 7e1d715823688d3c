"""Converts PDF, Office and EPUB files to Markdown with mcptrio-documents, if it is installed.

The renderer calls it. mcptrio-documents converts each file in a process of its own, with limits of memory and time.
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
from .rendered import Rendered

if TYPE_CHECKING:
    from mcptrio_documents import DocumentConverter

__all__ = ["DOCUMENTS", "INSTALL", "DocumentRenderer"]

DOCUMENTS: Final = ("pdf", "document")
"""Kinds of pages that are documents."""
INSTALL: Final = "to read it as Markdown, install mcptrio-fetch[documents]"

_MAX_NAME_CHARS = 100


class DocumentRenderer:
    """
    Attributes:
        is_installed: False without mcptrio-documents.
    """

    def __init__(self, config: Config) -> None:
        self.is_installed = find_spec("mcptrio_documents") is not None
        self._timeout = config.convert_timeout
        self._converter: DocumentConverter | None = None

    async def render(self, page: FetchedPage) -> Rendered:
        """Return a file as Markdown, with a line before each page.

        Raises:
            ToolError: it is damaged, protected, of another kind, or needs more than the limits.
        """
        if self._converter is None:
            # The import takes a tenth of a second, so it happens in a thread and only for the first document.
            self._converter = await trio.to_thread.run_sync(_open_converter, self._timeout)
        name = urlsplit(page.url).path.rpartition("/")[2][-_MAX_NAME_CHARS:]
        try:
            document = await self._converter.convert(page.body, name)
        except ToolError as error:
            raise ToolError(f"{printable(page.url)}: {error}") from error
        from mcptrio_documents import document_text, omissions  # see above

        return Rendered(text=document_text(document), title=document.title or None, notes=tuple(omissions(document)))


def _open_converter(timeout: float) -> DocumentConverter:
    from mcptrio_documents import Config, DocumentConverter  # see render

    return DocumentConverter(Config(convert_timeout=timeout))
