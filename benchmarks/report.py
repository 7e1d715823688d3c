"""All figures of a run, ``benchmarks/RESULTS.md``: targets, tables, pictures and method.

Written by the command ``run.py --write``, also for rows that were not measured or missed their target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groups import MEASURED
from machine import describe_machine
from results import Results, digits
from scale import Scale
from servers import NULL, OURS
from tables import group_table, markdown, verdicts_table

__all__ = ["Run", "page"]

_HEAD = """\
# Benchmark results

All figures of one run of `benchmarks/run.py`, which writes this page.
[Performance](../docs/performance.md) is a summary.
"""

_READING = """\
A cell contains the median, the lowest and highest figure in brackets, and mcptrio's figure divided by this one.
Rates are better when they are higher, other figures when they are lower.
"""

_METHOD = """\
## Method

- The servers are measured in turn, round after round, and each round starts with another server.
  So other work of the machine affects all of them.
  Rounds: {rounds}. A rate is measured for {seconds:g} s, after a quarter of that to warm up.
- Each server runs in its own environment, with only its dependencies, compiled to bytecode beforehand.
  It logs warnings only, and is started as its documentation says, with default settings.
- Tools return no structured content, except in the set of servers.
- The load generator is one process on the same machine. It uses blocking pipes, and epoll for sockets.
  It encodes requests beforehand, and counts responses by their length without decoding them.
  An error in a response ends the measurement.
- `{null}` is the limit of the load generator: the rate with a process that sends constant responses without reading.
  {ceiling}
- Memory is resident memory (RSS) with shared libraries; for the set of servers it is PSS.
  Memory at rest is measured after the first call.
- `limit` is the limit of Python, as described above each table.

To run everything again and write the pages:

```sh
pip install --group benchmarks
python benchmarks/run.py --write
```

`--rows stdio,http` measures some groups only.
`--soak 60` runs an hour of load, and then checks memory and file descriptors.
`python -m benchmarks.tasks` measures what tasks cost, and `python benchmarks/telemetry.py` what telemetry costs.
`python benchmarks/console.py` measures what a viewer of the console costs.
"""


@dataclass(frozen=True)
class Run:
    """The circumstances of the figures.

    Attributes:
        versions: the version of each server's distribution.
        load: the load average of the machine before and after the run.
    """

    groups: Sequence[str]
    scale: Scale
    versions: Mapping[str, str]
    load: tuple[float, float]

    @property
    def described_versions(self) -> str:
        return ", ".join(f"{name} {version}" for name, version in self.versions.items() if version)


def page(results: Results, run: Run, pictures: Mapping[str, str]) -> str:
    """Return the page as Markdown.

    Args:
        pictures: for each picture, its path as seen from the page.
    """
    parts = [
        _HEAD,
        f"Machine: {describe_machine()}.\n"
        f"Load average {run.load[0]:.1f} before and {run.load[1]:.1f} after.\n"
        f"Versions: {run.described_versions}.\n",
        "## Targets\n",
        markdown(verdicts_table(results, run.groups), right=False) + "\n",
    ]
    if results.failures:
        parts.append("Could not be measured:\n")
        parts.append("".join(f"- {server}, {group}: {reason}\n" for group, server, reason in results.failures))
    for number, name in enumerate(run.groups):
        group = MEASURED[name]
        parts.append(f"## {group.title}\n")
        parts.append("\n".join(group.about) + "\n")
        if number == 0:
            parts.append(_READING)
        parts.append(markdown(group_table(results, name)) + "\n")
        if group.picture in pictures:
            parts.append(f"![{group.shows}]({pictures[group.picture]})\n")
    rounds = ", ".join(f"{name} {run.scale.rounds[name]}" for name in run.groups)
    method = _METHOD.format(rounds=rounds, seconds=run.scale.seconds, null=NULL.name, ceiling=_ceiling(results, run))
    return "\n".join([*parts, method])


def _ceiling(results: Results, run: Run) -> str:
    """Return how close our rates came to the limit of the load generator."""
    shares = {}
    for group in run.groups:
        for row in results.rows(group):
            ours, alone = results.figure(OURS.name, row), results.figure(NULL.name, row)
            if ours is not None and alone and row.endswith("/s"):
                shares[row] = ours / alone
    if not shares:
        return "It was not measured in this run."
    nearest = max(shares, key=shares.__getitem__)
    return f"Our highest share of it is {digits(shares[nearest])}, in “{nearest}”."
