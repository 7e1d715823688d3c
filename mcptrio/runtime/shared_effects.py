"""The effects of ``ctx.once`` in the store that all replicas share.

:class:`mcptrio.runtime.effects.Effects` uses them if the server has such a store. The replica that claims an effect
runs it; the others wait until the store has the result. The bus only shortens this wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio
from attrs import frozen

from mcptrio.abc import Bus, EffectClaim, EffectState, EffectStore
from mcptrio.errors import InternalError, Overloaded, StoreFailed
from mcptrio.runtime.request_state import LIFETIME

__all__ = ["REPORT_SECONDS", "SharedEffects"]

_FIRST_WAIT: Final = 0.05
"""Seconds before the first repetition of a query to the store. The pause doubles each time."""
_MAX_WAIT: Final = 2.0
REPORT_SECONDS: Final = 2.5
"""Seconds for which a call waits until its result or the end of its claim is stored. The caller shields this wait,
because other replicas wait for the result even if the call has been cancelled."""
_MAX_UNSTORED: Final = 1000
"""Maximum number of results and releases that are kept because they could not be stored yet."""
_MAX_UNSTORED_BYTES: Final = 16 * 1024 * 1024
_TOPIC: Final = "effect:"

_log = logging.getLogger("mcptrio.effects")


@frozen
class _Result:
    """The result of an effect as JSON, and the seconds for which it is kept."""

    data: bytes
    keep: float


class SharedEffects:
    """The effects of ``ctx.once`` in the shared store: claims, results and waits.

    Args:
        bus: Wakes the calls on other replicas that wait for an effect. Without a bus they poll the store.
    """

    def __init__(self, store: EffectStore, bus: Bus | None) -> None:
        self._store = store
        self._bus = bus
        self._unstored: dict[tuple[str, str], _Result | None] = {}
        """Results that could not be stored yet, and ``None`` for each claim that could not be released yet."""
        self._unstored_bytes = 0
        self._changed = trio.Event()

    async def claim(
        self, call: str, key: str, *, repeatable: bool = False, waits: Callable[[], bool]
    ) -> tuple[str, bytes | None]:
        """Claim an effect, or return its result. Waits while another replica runs it.

        Args:
            repeatable: Whether the effect may run again if the replica that ran it has ended.
            waits: Returns True if the call must wait until a failed store works again, because no client repeats it.

        Returns:
            The key under which the effect is stored, and its result. If the result is ``None``, the caller must run the
            effect, and then call :meth:`finish` or :meth:`release` with this key.

        Raises:
            Overloaded: The store failed, and this call does not wait for it. The call has not run the effect.
            InternalError: The replica that ran the effect has ended. The effect may have happened, so it is not
                repeated.
        """
        effect = await self._until_ended(call, key, waits)
        while repeatable and effect.state is EffectState.LOST:
            # A new key, because the lost claim must stay in the store: its replica may continue later, and must not
            # replace the result of the repetition.
            key += "~"
            effect = await self._until_ended(call, key, waits)
        return key, self._result(effect.state, effect.result)

    async def finish(self, call: str, key: str, result: bytes, keep: float | None = None) -> None:
        """Store the result, now or as soon as the store works again.

        Args:
            keep: Seconds for which the result is kept; by default as long as a sealed state is accepted.
        """
        await self._report((call, key), _Result(result, LIFETIME if keep is None else keep))

    async def release(self, call: str, key: str) -> None:
        """Release the claim of an effect that has not happened, now or as soon as the store works again."""
        await self._report((call, key), None)

    async def run(self) -> None:
        """Retry results and releases that could not be stored. Runs until cancelled."""
        wait = _FIRST_WAIT
        while True:
            for name, result in list(self._unstored.items()):
                is_stored = False
                # Not logged: _report() has logged the first failure.
                with suppress(StoreFailed), trio.move_on_after(REPORT_SECONDS):
                    await self._store_now(name, result)
                    is_stored = True
                if is_stored:
                    wait = _FIRST_WAIT
                    del self._unstored[name]
                    self._unstored_bytes -= _size(result)
                    self._note_change()
                else:
                    await trio.sleep(wait)
                    wait = min(2 * wait, _MAX_WAIT)
            if not self._unstored:
                await self._changed.wait()

    # Private

    async def _until_ended(self, call: str, key: str, waits: Callable[[], bool]) -> EffectClaim:
        """Claim an effect, waiting while another replica runs it."""
        effect = await self._claim(call, key, waits)
        if effect.state is not EffectState.RUNNING:
            return effect
        signal = _Signal()
        stop_following = self._bus.follow(_TOPIC + call, signal.receive) if self._bus is not None else _do_nothing
        try:
            wait = _FIRST_WAIT
            # The deadline of the request ends this loop.
            while True:
                # Before the first wait too: the claim may have ended before this replica followed the topic.
                effect = await self._claim(call, key, waits)
                if effect.state is not EffectState.RUNNING:
                    return effect
                await signal.wait(wait)
                wait = min(2 * wait, _MAX_WAIT)
        finally:
            stop_following()

    async def _claim(self, call: str, key: str, waits: Callable[[], bool]) -> EffectClaim:
        wait = _FIRST_WAIT
        while True:
            try:
                return await self._claim_now(call, key)
            except Overloaded:
                if not waits():
                    raise
            await trio.sleep(wait)
            wait = min(2 * wait, _MAX_WAIT)

    async def _claim_now(self, call: str, key: str) -> EffectClaim:
        name = call, key
        # Waits for a pending release, because it would otherwise end the new claim later.
        while name in self._unstored:
            if (result := self._unstored[name]) is not None:
                return EffectClaim(EffectState.DONE, result.data)
            await self._changed.wait()
        is_known = False
        try:
            claim = await self._store.claim(call, key)
            is_known = True
        except StoreFailed as error:
            _log.error("%s", error)
            message = "the store of side effects failed, so this side effect was not begun; repeat the request"
            raise Overloaded(message) from error
        finally:
            if not is_known:
                # The claim may have been stored although the store failed.
                self._keep_for_retry(name, None)
        return claim

    @staticmethod
    def _result(state: EffectState, result: bytes) -> bytes | None:
        if state is EffectState.LOST:
            raise InternalError(
                "the process that ran a side effect of this call has ended; whether the side effect has happened is not"
                " known, and it is not repeated",
                data={"effect": "unknown"},
            )
        return result if state is EffectState.DONE else None

    async def _report(self, name: tuple[str, str], result: _Result | None) -> None:
        is_stored = False
        try:
            await self._store_now(name, result)
            is_stored = True
        except StoreFailed as error:
            _log.error("%s", error)
        finally:
            if not is_stored:
                self._keep_for_retry(name, result)

    async def _store_now(self, name: tuple[str, str], result: _Result | None) -> None:
        call, key = name
        if result is None:
            await self._store.release(call, key)
        else:
            await self._store.finish(call, key, result.data, result.keep)
        if self._bus is not None:
            self._bus.publish(_TOPIC + call, b"ended")

    def _keep_for_retry(self, name: tuple[str, str], result: _Result | None) -> None:
        size = _size(result)
        if len(self._unstored) >= _MAX_UNSTORED or self._unstored_bytes + size > _MAX_UNSTORED_BYTES:
            # The claim is held until this process ends, so the effect is not repeated.
            _log.error("result of a side effect dropped, too many could not be stored")
            return
        self._unstored[name] = result
        self._unstored_bytes += size
        self._note_change()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class _Signal:
    """Wakes a task that waits for a message of a bus."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def receive(self, _: bytes | None) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait until a message has arrived since the last call, at most ``seconds``."""
        with trio.move_on_after(seconds):
            await self._event.wait()
        self._event = trio.Event()


def _size(result: _Result | None) -> int:
    return len(result.data) if result is not None else 0


def _do_nothing() -> None:
    pass
