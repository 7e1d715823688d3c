"""The page about a run: machine, targets, tables, pictures, method.

The one rule: what a run did not measure, or missed, is on the page like everything else.
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
# Performance

How fast mcptrio is, beside the other SDKs, measured in one run of `benchmarks/run.py`, which writes this page.
"""

_READING = """\
A cell is the median, in brackets the lowest and the highest figure; after the comma is how many times that ours is.
Rates are better when they are higher, everything else when it is lower.
"""

_METHOD = """\
## Method

- Each server is measured in turn, round after round, the order shifting by one.
  So what else the machine does falls on all alike.
  Rounds: {rounds}; a rate is taken over {seconds:g} s, after a quarter of that to warm up.
- Each server runs in an environment with nothing but itself and what it needs, compiled beforehand.
  It logs warnings only, and is served as its documentation tells, with its defaults.
- No tool has structured content, but in the set of servers.
- The load generator is one process on the same machine, with blocking pipes, and with epoll on sockets.
  Requests are encoded beforehand, and answers are measured off and counted rather than decoded.
  An error in any answer ends the measurement.
- `{null}` is what the load generators reach against a process that gives constant answers without reading.
  That is their own ceiling: {ceiling}
- Memory is resident memory (RSS), shared libraries included; of the set of servers it is PSS.
  At rest is after the first call, before any load.
- `limit` is what Python can do at all: see each table.

Again, with the pictures:

```sh
pip install --group benchmarks
python benchmarks/run.py --write docs/performance.md
```

Some rows only: `--rows stdio,http`.
For hours of load with a look at memory and descriptors: `--soak 60`.
"""


@dataclass(frozen=True)
class Run:
    """
    Args:
        versions: of each server's distribution.
        load: the machine's load average before and after.
    """

    groups: Sequence[str]
    scale: Scale
    versions: Mapping[str, str]
    load: tuple[float, float]


def page(results: Results, run: Run, pictures: Mapping[str, str]) -> str:
    """
    Args:
        pictures: by name, the path as the page refers to it.
    """
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items() if version)
    parts = [
        _HEAD,
        f"Machine: {describe_machine()}.\n"
        f"Load average {run.load[0]:.1f} before and {run.load[1]:.1f} after.\n"
        f"Versions: {versions}.\n",
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
    """How far from it ours has stayed."""
    shares = {}
    for group in run.groups:
        for row in results.rows(group):
            ours, alone = results.figure(OURS.name, row), results.figure(NULL.name, row)
            if ours is not None and alone and row.endswith("/s"):
                shares[row] = ours / alone
    if not shares:
        return "it was not measured in this run."
    nearest = max(shares, key=shares.__getitem__)
    return f"ours came nearest to it in “{nearest}”, with {digits(shares[nearest])} of it."
