"""The questions about 80 tables in the README, asked of this plugin by benchmarks/transcripts/database.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import trio

from benchmarks.transcripts.database import prepare, run_ours

README = Path(__file__).resolve().parent.parent / "README.md"


async def test_database_of_80_tables_takes_the_tokens_of_the_readme(own_shop: Any, tmp_path: Path) -> None:
    own_shop.ask("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP SCHEMA stock CASCADE")
    await trio.to_thread.run_sync(prepare, own_shop.url)
    with trio.fail_after(60):
        took = (await run_ours(own_shop.url, tmp_path)).total

    row = re.search(
        r"^\| \*\*all\*\* \| .* \| \*\*([\d,]+) in (\d+), (\d+) refused\*\* \|$", README.read_text(), re.MULTILINE
    )
    assert row is not None
    assert took.is_answered
    assert (took.calls, took.refused) == (int(row[2]), int(row[3]))
    known = int(row[1].replace(",", ""))
    assert known * 0.9 <= took.tokens <= known * 1.1
