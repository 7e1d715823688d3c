"""A PDF of 40 pages questioned by a scripted client: ``python -m benchmarks.transcripts.document``.

The script asks the same eight questions of mcptrio-documents and of markitdown-mcp, and prints the table of
plugins/mcptrio-documents/README.md. Per answer it has a budget of 10,000 tokens: it discards a longer answer, as host
applications do, which counts as a refused call. For each question it writes the calls that a model would write for that
server, stops at the answer with the fact, and counts what the model writes and reads.

markitdown-mcp returns the whole document for each call and cannot return less. So the script also counts what its
answers would cost without the budget. It needs PyPI the first time.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson
import trio
from attrs import define, frozen
from reportlab.lib import colors
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Table

from mcptrio import Client, Command, MCPTrioError, connect
from mcptrio.types import TextContent
from tests.servers.environment import install as install_python

__all__ = ["QUESTIONS", "Tally", "main", "make_pdf", "serve", "talk", "total"]

_BUDGET: Final = 10_000
"""Tokens of one answer."""
_BYTES_PER_TOKEN: Final = 4
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

Call = tuple[str, dict[str, Any]]


@frozen
class Question:
    """A question, the calls for mcptrio-documents, and a text that the answers must contain."""

    title: str
    fact: str
    ours: Sequence[Call]


def _search(query: str) -> Call:
    return "search_document", {"path": "voyage.pdf", "query": query}


def _read(pages: str) -> Call:
    return "read_document", {"path": "voyage.pdf", "pages": pages}


QUESTIONS: Final = (
    Question("What is the document about?", "25 Galapagos", [("describe_document", {"path": "voyage.pdf"})]),
    Question("When was the survey of Chiloe completed?", "14 January 1835", [_search("survey of Chiloe")]),
    Question("What did the specimens of Station 19 weigh?", "412 pounds", [_search("Station 19")]),
    Question("How many finches are from Albemarle?", "| Albemarle | 45 | 9 |", [_search("Albemarle"), _read("27")]),
    Question("By how much did the chronometers differ?", "33 seconds", [_search("chronometers differed")]),
    Question("What is on the page about the northern shore?", "[page 23]", [_search("northern shore"), _read("23")]),
    Question("How does the chapter on Patagonia begin?", "Patagonia", [_read("9-10")]),
    Question("Is the ship's cat mentioned?", "no hits", [_search("ship's cat")]),
)


@define
class Tally:
    """The calls and tokens of a question on one side."""

    calls: int = 0
    refused: int = 0
    tokens: int = 0
    is_answered: bool = False

    def __str__(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{self.tokens:,} in {self.calls}{refused}{'' if self.is_answered else ', not answered'}"


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


def tokens_of(text: bytes) -> int:
    return -(-len(text) // _BYTES_PER_TOKEN)


async def ask(client: Client, prefix: str, calls: Sequence[Call], fact: str, budget: int) -> Tally:
    """Make the calls until one answer contains the fact; count what the model writes and reads."""
    tally = Tally()
    for tool, arguments in calls:
        tally.calls += 1
        tally.tokens += tokens_of(orjson.dumps(arguments))
        try:
            result = await client.call_tool(prefix + tool, arguments)
        except MCPTrioError as error:
            tally.refused += 1
            tally.tokens += tokens_of(str(error).encode())
            continue
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        size = tokens_of(text.encode())
        if result.is_error or size > budget:
            tally.refused += 1
        # A client that discards an answer for its size gives the model a sentence instead.
        tally.tokens += min(size, 30) if size > budget else size
        if fact in text and not result.is_error and size <= budget:
            tally.is_answered = True
            break
    return tally


async def talk(
    command: Sequence[str], prefix: str, sides: Sequence[tuple[str, Sequence[Call]]], budget: int = _BUDGET
) -> tuple[int, list[Tally]]:
    """Ask all questions of one server. Return the tokens of its definitions, and what each question took."""
    async with connect(Command(args=command, stderr="drop")) as client:
        size = 0
        async for tool in client.tools():
            size += len(f"{tool.name}{tool.description or ''}".encode()) + len(orjson.dumps(tool.input_schema))
        return size // _BYTES_PER_TOKEN, [await ask(client, prefix, calls, fact, budget) for fact, calls in sides]


def serve(folder: Path) -> tuple[str, ...]:
    """Return the command that serves mcptrio-documents with this folder."""
    config = folder / "mcptrio.toml"
    config.write_text(f'[plugins.documents]\nfolders = ["{folder}"]\n', "utf-8")
    return (sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "documents", f"--config={config}")


def main() -> int:
    """Print the table, and return 1 if mcptrio-documents does not answer a question."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "voyage.pdf").write_bytes(make_pdf())
        python = install_python(Path(__file__).parent / "references" / "markitdown.txt", ["markitdown_mcp.__main__"])
        call = ("convert_to_markdown", {"uri": (folder / "voyage.pdf").as_uri()})
        # The whole document has each fact, or shows that there is none; its table has other spaces.
        their_sides = [("Beagle", [call])] * len(QUESTIONS)
        theirs = (str(python), "-m", "markitdown_mcp")
        their_size, their_tallies = trio.run(talk, theirs, "", their_sides)
        _, whole = trio.run(talk, theirs, "", their_sides, 10**9)
        our_sides = [(each.fact, each.ours) for each in QUESTIONS]
        our_size, our_tallies = trio.run(talk, serve(folder), "documents_", our_sides)
    print("| tokens in calls | `markitdown-mcp` 0.0.1a8 | the same without a bound | `mcptrio-documents` |")
    print("|---|---|---|---|")
    print(f"| definitions of the tools | {their_size:,} | {their_size:,} | {our_size:,} |")
    for question, *tallies in zip(QUESTIONS, their_tallies, whole, our_tallies, strict=True):
        print(f"| {question.title} | {' | '.join(map(str, tallies))} |")
    sums = [total(their_size, their_tallies), total(their_size, whole), total(our_size, our_tallies)]
    print(f"| **all** | {' | '.join(f'**{each}**' for each in sums)} |")
    return int(not all(each.is_answered for each in our_tallies))


def total(size: int, tallies: Sequence[Tally]) -> Tally:
    """Return the sum of the questions and of the tokens of the definitions."""
    return Tally(
        calls=sum(each.calls for each in tallies),
        refused=sum(each.refused for each in tallies),
        tokens=size + sum(each.tokens for each in tallies),
        is_answered=all(each.is_answered for each in tallies),
    )


if __name__ == "__main__":
    raise SystemExit(main())
