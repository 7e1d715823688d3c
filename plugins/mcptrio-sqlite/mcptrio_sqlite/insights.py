"""Insights: findings of a model, collected in a memo.

Each caller has one memo, which is kept in memory. When a memo is full, its oldest insight is dropped. When there are
too many memos, the least recently used one is evicted.

Source: append_insight, ``memo://insights`` and the prompt ``mcp-demo`` of the archived reference SQLite server
(2025.4.25).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Annotated, Final

from attrs import field, frozen
from msgspec import Meta

from mcptrio import Context, resource, tool

from .config import Config

__all__ = ["MEMO", "Appended", "Insights"]

MEMO: Final = "memo://insights"
_MAX_INSIGHT_CHARS: Final = 4_000
_MAX_MEMOS: Final = 200
"""Maximum number of memos, one for each caller."""


@frozen(kw_only=True)
class Appended:
    """The memo after an insight was added."""

    insights: Annotated[int, "Number of insights in the memo."]
    dropped: Annotated[int, "Number of old insights that were dropped."]
    uri: Annotated[str, "URI of the memo."]


@frozen(eq=False)
class Insights:
    """The memos, the tool that adds to one, and the resource that shows it."""

    config: Config
    _memos: OrderedDict[str, deque[str]] = field(init=False, factory=OrderedDict)

    @tool(
        title="Add Insight",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
        text=lambda appended: f"{appended.insights} insights in {appended.uri}",
    )
    async def append_insight(
        self,
        ctx: Context,
        insight: Annotated[str, Meta(min_length=1, max_length=_MAX_INSIGHT_CHARS)],
    ) -> Appended:
        """Add a finding to the memo of this session, the resource memo://insights."""
        # No lock is needed: nothing is awaited while a memo is changed.
        memo = self._memo(ctx.caller)
        dropped = int(len(memo) == self.config.max_insights)
        memo.append(insight.strip())
        ctx.notify_resource_updated(MEMO)
        return Appended(insights=len(memo), dropped=dropped, uri=MEMO)

    @resource(MEMO, name="insights", title="Insights", mime_type="text/markdown")
    async def memo(self, ctx: Context) -> str:
        """The findings so far, one per line."""
        memo = self._memos.get(ctx.caller, ())
        if not memo:
            return "# Insights\n\nNone yet.\n"
        # An insight may contain line breaks, which would end its list item.
        return "# Insights\n\n" + "".join(f"- {' '.join(insight.split())}\n" for insight in memo)

    def _memo(self, owner: str) -> deque[str]:
        memo = self._memos.get(owner)
        if memo is None:
            memo = self._memos[owner] = deque(maxlen=self.config.max_insights)
            if len(self._memos) > _MAX_MEMOS:
                self._memos.popitem(last=False)
        self._memos.move_to_end(owner)
        return memo
