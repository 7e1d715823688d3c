"""Insights: what a model found out, gathered in a memo.

Marked for mcptrio, registered by the plugin. The one rule: the memo lives in this process, belongs to its caller, and
is bounded: when it is full its oldest insight goes, and when there are too many memos, the one unused for longest.

There is no lock: nothing is awaited while a memo is changed.

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
"""Memos that are kept, each of one caller."""


@frozen(kw_only=True)
class Appended:
    """What the memo is after an insight was added."""

    insights: Annotated[int, "How many there are now."]
    dropped: Annotated[int, "How many old ones made room."]
    uri: Annotated[str, "The memo as a resource."]


@frozen(eq=False)
class Insights:
    """The memos, the tool that adds to one and the resource that shows it."""

    config: Config
    _memos: OrderedDict[str, deque[str]] = field(init=False, factory=OrderedDict)

    @tool(title="Add Insight", read_only=False, destructive=False, idempotent=False, open_world=False)
    async def append_insight(
        self,
        ctx: Context,
        insight: Annotated[
            str, Meta(min_length=1, max_length=_MAX_INSIGHT_CHARS, description="One finding, in a sentence or two.")
        ],
    ) -> Appended:
        """Add a finding to the memo, which is the resource memo://insights. No database is changed; the memo is kept
        until the server ends.
        """
        memo = self._memo(ctx.caller)
        dropped = int(len(memo) == self.config.max_insights)
        memo.append(insight.strip())
        ctx.notify_resource_updated(MEMO)
        return Appended(insights=len(memo), dropped=dropped, uri=MEMO)

    @resource(MEMO, name="insights", title="Insights", mime_type="text/markdown")
    async def memo(self, ctx: Context) -> str:
        """What has been found out so far, one finding a line."""
        found = self._memos.get(ctx.caller, ())
        if not found:
            return "# Insights\n\nNone yet.\n"
        return "# Insights\n\n" + "".join(f"- {' '.join(insight.split())}\n" for insight in found)

    def _memo(self, owner: str) -> deque[str]:
        memo = self._memos.get(owner)
        if memo is None:
            memo = self._memos[owner] = deque(maxlen=self.config.max_insights)
            if len(self._memos) > _MAX_MEMOS:
                self._memos.popitem(last=False)
        self._memos.move_to_end(owner)
        return memo
