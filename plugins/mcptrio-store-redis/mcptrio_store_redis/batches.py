"""Sends a batch of operations in the batch writer's thread, in one round trip for each node.

A command is sent a second time only if the engine certainly has not executed it: the engine did not know its script, or
answered that another node has the key.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import outcome
from attrs import define
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from mcptrio.errors import StoreFailed
from mcptrio.stores import StoreSettings
from mcptrio_store_redis.commands import RedisCommand, RedisFull, RedisOperation, RedisRefused
from mcptrio_store_redis.links import ERRORS, RedisLink, RedisNode

__all__ = ["RedisBatches", "failure", "is_final"]

# Errors of a server that is the wrong one, or that is not ready.
_WRONG_SERVER: Final = (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    TryAgainError,
)
# Part of the error of a script with a command that its user may not run.
_SCRIPT_FORBIDDEN: Final = "user executing the script"
# OpenSSL's reason for not trusting a certificate. redis-py keeps only the text of the error.
_UNTRUSTED: Final = re.compile(r"certificate verify failed: (.+?)\.?(?: \(_ssl|$)")
# The share of the timeout in which replicas of the engine have to confirm a write.
_CONFIRM_SHARE: Final = 0.5


@define(eq=False)
class _Item:
    """A command of a batch, and its answer."""

    command: RedisCommand
    work: RedisOperation
    answer: Any = None


class RedisBatches:
    """Executes batches of operations, for :class:`mcptrio.stores.BatchWriter`.

    Args:
        link: The connections, which only the thread of the batch writer uses.
        settings: Timeouts, and the number of replicas of the engine that have to confirm a write.
        on_lost_message: A function called in the thread when a message could not be published.
    """

    def __init__(
        self, link: RedisLink, settings: StoreSettings, on_lost_message: Callable[[], None] = lambda: None
    ) -> None:
        self.link = link
        self.failing_since: float | None = None
        """The monotonic time at which the engine became unreachable; ``None`` while it answers."""
        self._timeout = settings.timeout
        self._confirm = settings.confirm
        self._on_lost_message = on_lost_message

    def __call__(self, works: Sequence[RedisOperation]) -> list[outcome.Value[Any] | outcome.Error]:
        """Execute operations. The result of each is the list of its answers, or StoreFailed."""
        rows = [[_Item(command, work) for command in work.commands] for work in works]
        if self.link.is_single_node:
            self._send([item for row in rows for item in row])
        else:
            for stage in range(max(map(len, rows), default=0)):
                # A command needs the earlier ones of its operation, which may go to another node.
                self._send([row[stage] for row in rows if len(row) > stage and not _first_error(row[:stage])])
        return [self._result(work, row) for work, row in zip(works, rows, strict=True)]

    def _send(self, items: list[_Item]) -> None:
        retried = self._send_once(items)
        if retried:
            retried = self._send_once(retried)
        if retried or any(_is_unreachable(item.answer) for item in items):
            # The sentinels or the cluster may name another server now.
            self.link.fail()

    def _send_once(self, items: list[_Item]) -> list[_Item]:
        """Send commands to their nodes. Return those that certainly were not executed, so they may be sent again."""
        groups: dict[RedisNode, list[_Item]] = defaultdict(list)
        for item in items:
            try:
                groups[self.link.node(item.command.key)].append(item)
            except ERRORS as error:
                item.answer = failure(self.link.label, error, self._timeout)
                self._note_reached(is_reached=False)
        retried: list[_Item] = []
        for node, group in groups.items():
            retried += self._send_to(node, group)
        return retried

    def _send_to(self, node: RedisNode, items: list[_Item]) -> list[_Item]:
        words = [item.command.words for item in items]
        is_confirmed = self._confirm > 0 and any(item.work.is_write for item in items)
        if is_confirmed:
            words.append(("WAIT", self._confirm, int(self._timeout * 1000 * _CONFIRM_SHARE)))
        try:
            answers = node.send(words)
            if any(isinstance(answer, NoScriptError) for answer in answers):
                node.load_scripts()
        except ERRORS as error:
            for item in items:
                item.answer = failure(node.label, error, self._timeout)
            self._note_reached(is_reached=False)
            return []
        self._note_reached(is_reached=not any(isinstance(answer, _WRONG_SERVER) for answer in answers[: len(items)]))
        for item, answer in zip(items, answers[: len(items)], strict=True):
            item.answer = failure(node.label, answer, self._timeout) if isinstance(answer, Exception) else answer
        if is_confirmed:
            self._check_confirmed(node, items, answers[-1])
        if any(isinstance(answer, MovedError) for answer in answers):
            self.link.reset()
        retried = (NoScriptError, MovedError)
        return [item for item, answer in zip(items, answers[: len(items)], strict=True) if isinstance(answer, retried)]

    def _check_confirmed(self, node: RedisNode, items: list[_Item], confirmed: Any) -> None:
        if isinstance(confirmed, int) and confirmed >= self._confirm:
            return
        for item in items:
            if item.work.is_write and not isinstance(item.answer, Exception):
                item.answer = StoreFailed(
                    f"{node.label}: expected {self._confirm} replicas of the engine to confirm a write within"
                    f" {self._timeout * _CONFIRM_SHARE:g} s, got {confirmed}"
                )

    def _note_reached(self, *, is_reached: bool) -> None:
        if is_reached:
            self.failing_since = None
        elif self.failing_since is None:
            self.failing_since = time.monotonic()

    def _result(self, work: RedisOperation, row: list[_Item]) -> outcome.Value[Any] | outcome.Error:
        failed = _first_error(row)
        if failed is None:
            return outcome.Value([item.answer for item in row])
        if work.is_message:
            self._on_lost_message()
        return outcome.Error(failed)


def failure(label: str, error: Exception, timeout: float) -> StoreFailed:
    """Return StoreFailed for an exception of redis-py, with a message for operators."""
    if isinstance(error, OutOfMemoryError):
        failed: StoreFailed = RedisFull(f"{label}: the engine has reached its maxmemory")
    elif isinstance(error, NoPermissionError) or _SCRIPT_FORBIDDEN in str(error):
        failed = RedisRefused(f"{label}: the user of the engine lacks a right: {error}")
    elif isinstance(error, RedisTimeoutError | TimeoutError):
        failed = StoreFailed(f"{label}: expected an answer within {timeout:g} s, got none")
    elif isinstance(error, _WRONG_SERVER):
        failed = StoreFailed(f"{label}: the engine is not ready: {type(error).__name__.removesuffix('Error')}: {error}")
    elif isinstance(error, ResponseError):
        failed = RedisRefused(f"{label}: the engine refuses a command: {error}")
    elif isinstance(error, AuthenticationError):
        failed = StoreFailed(f"{label}: the engine refuses the user or the password: {error}")
    elif untrusted := _UNTRUSTED.search(str(error)):
        failed = StoreFailed(f"{label}: the engine's certificate is not trusted: {untrusted[1]}{_fix(untrusted[1])}")
    else:
        failed = StoreFailed(f"{label}: not reachable: {error}")
    failed.__cause__ = error
    return failed


def _fix(reason: str) -> str:
    if "mismatch" in reason:
        return "; use a host name that it contains"
    if "issuer" in reason or "self-signed" in reason or "self signed" in reason:
        return "; set stores.ca_file to the authority that has signed it"
    return ""


def is_final(error: Exception) -> bool:
    """Return True if another attempt to connect fails too, until an operator changes the configuration."""
    return isinstance(error, AuthenticationError | NoPermissionError) or _UNTRUSTED.search(str(error)) is not None


def _first_error(row: Sequence[_Item]) -> Exception | None:
    return next((item.answer for item in row if isinstance(item.answer, Exception)), None)


def _is_unreachable(answer: Any) -> bool:
    return isinstance(answer, StoreFailed) and not isinstance(answer, RedisRefused)
