"""The tool that lists the errors and warnings of a file."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from mcptrio import tool

from .code_lines import CodeLine, CodeLines, Limit, Offset, Path, lines_text, shorten
from .messages import Diagnostic
from .servers import LanguageServers
from .session import LanguageSession

__all__ = ["DiagnosticsTool"]

_SEVERITIES: Final = {1: "error", 2: "warning", 3: "information", 4: "hint"}


@frozen(eq=False)
class DiagnosticsTool:
    """The tool ``diagnostics``."""

    servers: LanguageServers

    @tool(title="Diagnostics", read_only=True, destructive=False, idempotent=True, open_world=False, text=lines_text)
    async def diagnostics(self, path: Path, limit: Limit = 100, offset: Offset = 0) -> CodeLines:
        """List the errors and warnings in a file. Use it after a change."""
        real = await self.servers.resolve(path)
        name = self.servers.folders.display_path(real)

        async def work(session: LanguageSession) -> list[Diagnostic]:
            document = await session.sync(real)
            assert document is not None  # a path was given
            return await session.diagnose(document)

        diagnostics = sorted(
            await self.servers.use_server_of(real, work), key=lambda each: (each.range.start.line, each.severity)
        )
        items = tuple(
            CodeLine(path=name, line=each.range.start.line + 1, text=_text(each))
            for each in diagnostics[offset : offset + limit]
        )
        end = offset + len(items)
        return CodeLines(
            items=items, total=len(diagnostics), next_offset=end if items and end < len(diagnostics) else None
        )


def _text(diagnostic: Diagnostic) -> str:
    code = "" if diagnostic.code is None else f" [{diagnostic.code}]"
    return f"{_SEVERITIES.get(diagnostic.severity, 'error')}: {shorten(diagnostic.message)}{code[:100]}"
