"""A session with one process of a language server: the handshake, the open documents, and the requests.

``LanguageServer`` starts the process and opens the session; the tools send requests through it. ``sync`` compares the
documents with the files before a request, so that results refer to the current texts.

Source: LSP 3.17.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio
from attrs import define, field, frozen

from mcptrio import ToolError

from .config import Config, ServerConfig
from .connection import LanguageConnection, RequestRefused, ServerEnded
from .folders import CodeFolders, SourceText
from .messages import Diagnostic, read_result
from .positions import ENCODINGS, split_lines
from .published_diagnostics import PublishedDiagnostics
from .source_files import SourceFiles, changes_between, list_sources

__all__ = ["LanguageSession", "OpenDocument"]

_LANGUAGE_IDS: Final = {
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "typescriptreact",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascriptreact",
}
"""LSP language identifiers by suffix, for servers with several languages."""

_MAX_NEW_DOCUMENTS: Final = 8
"""Maximum new files that are opened in one call."""

_TYPESCRIPT: Final = "typescript-language-server"
_PYRIGHT: Final = "pyright-langserver"
_PYRIGHT_SCANNED: Final = re.compile(r"Found \d+ source file|No source files found")
_SCAN_TIMEOUT: Final = 10.0
"""Seconds for pyright to find the files of a folder; it takes less than one for a thousand files."""

_CAPABILITIES: Final[dict[str, Any]] = {
    "general": {"positionEncodings": list(ENCODINGS)},
    "window": {"workDoneProgress": True},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "symbol": {},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceEdit": {"documentChanges": True},
    },
    "textDocument": {
        "synchronization": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "definition": {"linkSupport": True},
        "references": {},
        "rename": {},
        "diagnostic": {},
        "publishDiagnostics": {"versionSupport": True},
    },
}


@frozen(eq=False)
class OpenDocument:
    """A document that is open in the server, with its last sent text."""

    path: str
    uri: str
    version: int
    source: SourceText
    lines: list[str]


@define(eq=False)
class LanguageSession:
    """A process of a language server and its documents.

    Attributes:
        folder: The resolved path of the workspace.
    """

    name: str
    spec: ServerConfig
    config: Config
    folders: CodeFolders
    folder: str
    connection: LanguageConnection
    encoding: str = "utf-16"
    capabilities: dict[str, Any] = field(factory=dict)

    _documents: OrderedDict[str, OpenDocument] = field(init=False, factory=OrderedDict)
    _files: SourceFiles | None = field(init=False, default=None)
    _versions: int = field(init=False, default=0)
    _diagnostics: PublishedDiagnostics = field(init=False, factory=PublishedDiagnostics)
    _sync_lock: trio.Lock = field(init=False, factory=trio.Lock)
    _scanned: trio.Event = field(init=False, factory=trio.Event)

    async def open(self) -> None:
        """Initialize the server.

        Raises:
            RequestRefused: The server refuses, or takes too long.
            ServerEnded: The server exits.
        """
        uri = Path(self.folder).as_uri()
        params: dict[str, Any] = {
            "processId": os.getpid(),
            "clientInfo": {"name": "mcptrio-code"},
            "rootUri": uri,
            "rootPath": self.folder,
            "workspaceFolders": [{"uri": uri, "name": Path(self.folder).name}],
            "capabilities": _CAPABILITIES,
        }
        if any(_TYPESCRIPT in argument for argument in self.spec.command):
            # By default, the server uses only the open files while it loads a project.
            params["initializationOptions"] = {"tsserver": {"useSyntaxServer": "never"}}
        result = await self.request("initialize", params, seconds=self.config.start_timeout)
        capabilities = result.get("capabilities") if isinstance(result, dict) else None
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        encoding = self.capabilities.get("positionEncoding")
        self.encoding = encoding if encoding in ENCODINGS else "utf-16"
        await self.connection.notify("initialized", {})

    async def request(self, method: str, params: Any, *, seconds: float | None = None) -> Any:
        """Send a request and return its result.

        Raises:
            RequestRefused: The server refuses, or takes too long.
            ServerEnded: The server exits.
        """
        return await self.connection.request(method, params, seconds=seconds or self.config.request_timeout)

    async def sync(self, path: str | None = None) -> OpenDocument | None:
        """Notify the server of all changed files, and open a document.

        Args:
            path: The resolved path of the document to open. By default, the document that was used last, or else any
                file of the folder.

        Returns:
            The document; ``None`` if the folder has no file for the server.

        Raises:
            ToolError: The file cannot be read.
            ServerEnded: The server exits.
        """
        async with self._sync_lock:
            new = await trio.to_thread.run_sync(
                partial(list_sources, self.folder, self.spec.globs, limit=self.config.max_files), abandon_on_cancel=True
            )
            old, self._files = self._files, new
            if old is not None:
                await self._report_changes(old, new)
            for document in list(self._documents.values()):
                if document.path != path:
                    await self._update(document, new)
            if path is None:
                # Some servers load a project only once one of its files is open.
                path = next(reversed(self._documents), None) or next(iter(new.signatures), None)
            opened = None if path is None else await self._open(path)
        if opened is not None and any(_PYRIGHT in argument for argument in self.spec.command):
            # pyright searches for files once a document is open. Until then, it answers from the open documents alone.
            with trio.move_on_after(_SCAN_TIMEOUT):
                await self._scanned.wait()
            self._scanned.set()
        return opened

    def is_responsible_for(self, path: str) -> bool:
        """Return True if the name of a file matches the globs of the server."""
        return any(fnmatchcase(os.path.basename(path), glob) for glob in self.spec.globs)

    async def _report_changes(self, old: SourceFiles, new: SourceFiles) -> None:
        """Notify the server of the files that have changed between two calls."""
        if changes := changes_between(old, new):
            await self.connection.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        # pyright searches for new files only after a pause, but considers open documents at once.
        created = [path for path in new.signatures if path not in old.signatures]
        for path in created[: min(_MAX_NEW_DOCUMENTS, self.config.max_open_documents // 2)]:
            with suppress(ToolError):  # the file is not UTF-8, or was deleted again
                await self._open(path)

    async def _update(self, document: OpenDocument, files: SourceFiles) -> None:
        signature = files.signatures.get(document.path)
        if signature == document.source.signature:
            return
        try:
            await self._open(document.path)
        except ToolError:
            await self._close(document)

    async def _open(self, path: str) -> OpenDocument:
        source = await trio.to_thread.run_sync(self.folders.read, path, abandon_on_cancel=True)
        open_document = self._documents.get(path)
        if open_document is not None and open_document.source.data == source.data:
            self._documents.move_to_end(path)
            return open_document
        self._versions += 1
        document = OpenDocument(path, Path(path).as_uri(), self._versions, source, split_lines(source.text))
        self._diagnostics.expect(document.uri)
        identity = {"uri": document.uri, "version": document.version}
        if open_document is None:
            while len(self._documents) >= self.config.max_open_documents:
                await self._close(next(iter(self._documents.values())))
            language = _LANGUAGE_IDS.get(os.path.splitext(path)[1], self.spec.language or self.name)
            await self.connection.notify(
                "textDocument/didOpen",
                {"textDocument": {**identity, "languageId": language, "text": source.text}},
            )
        else:
            await self.connection.notify(
                "textDocument/didChange",
                {"textDocument": identity, "contentChanges": [{"text": source.text}]},
            )
        self._documents[path] = document
        self._documents.move_to_end(path)
        return document

    async def _close(self, document: OpenDocument) -> None:
        del self._documents[document.path]
        self._diagnostics.remove(document.uri)
        await self.connection.notify("textDocument/didClose", {"textDocument": {"uri": document.uri}})

    def answer_request(self, method: str, params: Any) -> Any:
        """Return the result of a request from the server.

        Raises:
            LookupError: The client does not support the method.
        """
        if method == "workspace/configuration":
            items = params.get("items") if isinstance(params, dict) else None
            return [None] * len(items) if isinstance(items, list) else []
        if method == "workspace/workspaceFolders":
            return [{"uri": Path(self.folder).as_uri(), "name": Path(self.folder).name}]
        if method == "workspace/applyEdit":
            return {"applied": False, "failureReason": "only the tools change files"}
        if method in _ACKNOWLEDGED:
            return None
        raise LookupError(method)

    def handle_notification(self, method: str, params: Any) -> None:
        """Handle a notification from the server."""
        if method == "textDocument/publishDiagnostics":
            self._diagnostics.store(params)
            return
        message = params.get("message") if method == "window/logMessage" and isinstance(params, dict) else None
        if isinstance(message, str) and _PYRIGHT_SCANNED.match(message):
            self._scanned.set()

    async def diagnose(self, document: OpenDocument) -> list[Diagnostic]:
        """Return the errors and warnings of a document.

        Raises:
            RequestRefused: The server refuses, or reports nothing in time.
            ServerEnded: The server exits.
        """
        if self.capabilities.get("diagnosticProvider"):
            result = await self.request("textDocument/diagnostic", {"textDocument": {"uri": document.uri}})
            items = result.get("items") if isinstance(result, dict) else None
        else:
            items = await self._diagnostics.wait(document.uri, seconds=self.config.request_timeout)
            if self.connection.ended is not None:
                raise ServerEnded(self.connection.ended)
            if items is None:
                seconds = self.config.request_timeout
                raise RequestRefused(f"the language server has reported no diagnostics within {seconds:g} seconds")
        return read_result(items or [], list[Diagnostic])


_ACKNOWLEDGED: Final = frozenset(
    {
        "client/registerCapability",
        "client/unregisterCapability",
        "window/workDoneProgress/create",
        "window/showMessageRequest",
        "workspace/diagnostic/refresh",
        "workspace/semanticTokens/refresh",
        "workspace/inlayHint/refresh",
        "workspace/codeLens/refresh",
    }
)
