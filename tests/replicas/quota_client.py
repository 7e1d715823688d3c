"""A client of revision 2026-07-28 that asks for more than the plugin ``rate_limit`` allows."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Final

import trio

from tests.replicas.history import LimitedRequest, LocalQuota
from tests.replicas.modern_client import modern_headers, modern_message
from tests.replicas.raw_http import Broken, request
from tests.replicas.trial import REPLY_SECONDS, ROUTER_STATUSES, Trial

__all__ = ["QUOTA_CLIENTS", "QuotaClient", "read_limited", "read_local_quotas"]

QUOTA_CLIENTS: Final = 3
_PAUSE: Final = 0.1
"""Seconds between two requests of one client, on average. Together they ask for six times what is allowed."""
_MAX_REQUESTS: Final = 50
# Log lines have milliseconds.
_ROUNDING: Final = 0.002
_LINE: Final = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \w+ +"
    r"(?:trial: loaded"
    r"|mcptrio\.rate_limit: quotas are (?:(?P<failed>not shared .* each of (?P<replicas>\d+))|shared again))"
)


class QuotaClient:
    def __init__(self, trial: Trial, name: str, random: Random) -> None:
        self._trial = trial
        self._name = name
        self._random = random
        self._ids = 0

    async def run(self) -> None:
        """Ask until the trial stops, also while earlier requests wait for a store that does not answer."""
        async with trio.open_nursery() as nursery:
            while not self._trial.is_stopping:
                if len(nursery.child_tasks) < _MAX_REQUESTS:
                    nursery.start_soon(self._ask)
                await self._trial.pause(self._random, _PAUSE)

    async def _ask(self) -> None:
        self._ids += 1
        limited = LimitedRequest(self._trial.token(self._name), self._trial.now())
        self._trial.history.limited.append(limited)
        params = {"name": "limited", "arguments": {"token": limited.token}}
        message = modern_message(self._ids, "prompts/get", params)
        try:
            with trio.fail_after(REPLY_SECONDS):
                async with request(self._trial.port, "POST", modern_headers(message), message) as reply:
                    if reply.status in ROUTER_STATUSES:
                        self._trial.counts[f"limited: {reply.status}"] += 1
                        return
                    answer = await reply.message()
        except (Broken, trio.TooSlowError) as error:
            self._trial.failed("limited", error)
            return
        if answer is None:
            self._trial.counts["limited: uncertain"] += 1
        elif "retryAfter" in answer.get("error", {}).get("data", {}):
            limited.refused = self._trial.now()
            self._trial.counts["limited: refused"] += 1
        else:
            self._trial.counts["limited: " + ("error" if "error" in answer else "allowed")] += 1


def read_limited(folder: Path, trial: Trial) -> None:
    """Note when each limited request has run, as the prompt has recorded it."""
    path = folder / "limited"
    sent = {limited.token: limited for limited in trial.history.limited}
    # The prompt has the monotonic clock of the machine; Trio's has another zero.
    offset = trial.now() - time.monotonic()
    for line in path.read_text().splitlines() if path.exists() else []:
        token, ran = line.split()
        sent[token].ran.append(float(ran) + offset)


def read_local_quotas(log: Path, trial: Trial) -> Iterator[LocalQuota]:
    """Yield the times in which a replica has counted for itself, because its store failed: from its log."""
    offset = trial.now() - time.time()
    since: tuple[float, int] | None = None
    for found in _LINE.finditer(log.read_text(errors="replace")):
        # In the local time zone, as the log has it.
        when = datetime.fromisoformat(found["time"]).timestamp() + offset
        if since is not None:
            yield LocalQuota(log.stem, since[1], since[0], when + _ROUNDING)
        since = (when - _ROUNDING, int(found["replicas"])) if found["failed"] else None
    if since is not None:
        yield LocalQuota(log.stem, since[1], since[0], trial.now())
