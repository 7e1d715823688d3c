"""A PDF of 40 pages questioned by a scripted client: ``python -m benchmarks.transcripts.document``.

The script asks the same eight questions of mcptrio-documents and of markitdown-mcp, with the calls that a model would
make of each, and prints the table of plugins/mcptrio-documents/README.md.

markitdown-mcp returns the whole document for each call and cannot return less. So the script also counts what its
answers would cost without the budget. It needs PyPI the first time.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio
from reportlab.lib import colors
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Table

from benchmarks.transcripts.scripted_client import BUDGET, FOLDER, Call, Task, Transcript, table, talk
from tests.servers.environment import install as install_python

__all__ = ["QUESTIONS", "main", "make_pdf", "run_ours"]

_PAGES: Final = 40
_PARAGRAPH: Final = (
    "When on board H.M.S. Beagle, as naturalist, I was much struck with certain facts in the distribution of "
    "the inhabitants of South America, and in the geological relations of the present to the past inhabitants "
    "of that continent. These facts seemed to me to throw some light on the origin of species, that mystery of "
    "mysteries, as it has been called by one of our greatest philosophers. On my return home, it occurred to "
    "me, in 1837, that something might perhaps be made out on this question by patiently accumulating and "
    "reflecting on all sorts of facts."
)
_FACTS: Final = {
    7: "The survey of Chiloe was completed on 14 January 1835.",
    19: "The specimens of Station 19 weighed 412 pounds in all.",
    23: "No tortoise was found on the northern shore.",
    38: "The chronometers differed by 33 seconds after five years.",
}
_CHAPTERS: Final = {1: "Departure", 9: "Patagonia", 17: "Chiloe", 25: "Galapagos", 33: "Homeward"}
_TABLE: Final = (
    ("Island", "Finches", "Tortoises"),
    ("Chatham", "31", "4"),
    ("Charles", "27", "0"),
    ("Albemarle", "45", "9"),
)


def _describe() -> Call:
    return "documents_describe_document", {"path": "voyage.pdf"}


def _search(query: str) -> Call:
    return "documents_search_document", {"path": "voyage.pdf", "query": query}


def _read(pages: str) -> Call:
    return "documents_read_document", {"path": "voyage.pdf", "pages": pages}


def _question(title: str, fact: str, *ours: Call) -> Task:
    theirs = "convert_to_markdown", {"uri": f"file://{FOLDER}/voyage.pdf"}
    # The whole document has each fact, or shows that there is none; its table has other spaces.
    return Task(title, [fact], ours, [theirs], their_facts=["Beagle"])


QUESTIONS: Final = (
    _question("What is the document about?", "25 Galapagos", _describe()),
    _question("When was the survey of Chiloe completed?", "14 January 1835", _search("survey of Chiloe")),
    _question("What did the specimens of Station 19 weigh?", "412 pounds", _search("Station 19")),
    _question("How many finches are from Albemarle?", "| Albemarle | 45 | 9 |", _search("Albemarle"), _read("27")),
    _question("By how much did the chronometers differ?", "33 seconds", _search("chronometers differed")),
    _question("What is on the page about the northern shore?", "[page 23]", _search("northern shore"), _read("23")),
    _question("How does the chapter on Patagonia begin?", "Patagonia", _read("9-10")),
    _question("Is the ship's cat mentioned?", "no hits", _search("ship's cat")),
)


def make_pdf() -> bytes:
    """A report of 40 pages with an outline, facts on single pages, and a table on page 27."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(595, 842), invariant=True)
    canvas.setTitle("Voyage of the Beagle: a report")
    for page in range(1, _PAGES + 1):
        if page in _CHAPTERS:
            canvas.bookmarkPage(str(page))
            canvas.addOutlineEntry(_CHAPTERS[page], str(page))
        lines = [_CHAPTERS.get(page, f"Station {page}")]
        for text in (_PARAGRAPH, _FACTS.get(page, ""), *[_PARAGRAPH] * 5):
            lines += ["", *_wrapped(text)]
        for number, line in enumerate(lines):
            canvas.drawString(50, 800 - 14 * number, line)
        if page == 27:
            table = Table(_TABLE, style=[("GRID", (0, 0), (-1, -1), 0.5, colors.black)])
            table.wrapOn(canvas, 400, 200)
            table.drawOn(canvas, 50, 40)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def _wrapped(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 95:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines if text else []


async def run_ours(folder: Path) -> Transcript:
    """Ask mcptrio-documents about ``voyage.pdf`` in this folder."""
    config = folder / "mcptrio.toml"
    config.write_text(f'[plugins.documents]\nfolders = ["{folder}"]\n', "utf-8")
    command = (sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "documents", f"--config={config}")
    return await talk([command], [each.our_script for each in QUESTIONS])


async def _run_theirs(python: Path, folder: Path, budget: int) -> Transcript:
    command = (str(python), "-m", "markitdown_mcp")
    return await talk([command], [each.their_script for each in QUESTIONS], folder=folder, budget=budget)


def main() -> int:
    """Print the table, and return 1 if mcptrio-documents does not answer a question."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "voyage.pdf").write_bytes(make_pdf())
        python = install_python(Path(__file__).parent / "references" / "markitdown.txt", ["markitdown_mcp.__main__"])
        columns = {
            "`markitdown-mcp` 0.0.1a8": trio.run(_run_theirs, python, folder, BUDGET),
            "the same without a bound": trio.run(_run_theirs, python, folder, 10**9),
            "`mcptrio-documents`": trio.run(run_ours, folder),
        }
    print("\n".join(table(QUESTIONS, columns)))
    return int(not columns["`mcptrio-documents`"].total.is_answered)


if __name__ == "__main__":
    raise SystemExit(main())
