"""The questions about a PDF of 40 pages in the README, asked of this plugin by benchmarks/transcripts/document.py."""

from __future__ import annotations

import re
from pathlib import Path

import trio

from benchmarks.transcripts.document import make_pdf, run_ours

README = Path(__file__).resolve().parent.parent / "README.md"


async def test_pdf_of_40_pages_takes_the_tokens_of_the_readme(tmp_path: Path) -> None:
    await trio.to_thread.run_sync((tmp_path / "voyage.pdf").write_bytes, make_pdf())
    with trio.fail_after(60):
        took = (await run_ours(tmp_path)).total

    row = re.search(r"^\| \*\*all\*\* \| .* \| \*\*([\d,]+) in (\d+)\*\* \|$", README.read_text(), re.MULTILINE)
    assert row is not None
    assert took.is_answered
    assert (took.calls, took.refused) == (int(row[2]), 0)
    known = int(row[1].replace(",", ""))
    assert known * 0.9 <= took.tokens <= known * 1.1
