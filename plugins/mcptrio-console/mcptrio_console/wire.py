"""The recording of one session: started and stopped by an operator, and kept until the next one.

:meth:`mcptrio.Server.record_session` redacts it and bounds it. The page of it is in :mod:`.views`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import trio
from attrs import define, field

from mcptrio import Server
from mcptrio.serving import SessionRecording

from .words import cut

__all__ = ["WireRecorder", "WireRecording"]


@define(eq=False)
class WireRecording:
    """
    Args:
        what: the session, in words.
        at: the time when it began.
    """

    what: str
    recording: SessionRecording
    at: str = field(factory=lambda: datetime.now(UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00"))
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    is_running: bool = True
    was_stopped: bool = False

    @property
    def state(self) -> str:
        """Whether it runs; otherwise why it has ended."""
        if self.is_running:
            return "is being recorded"
        # A session may end before its recording has noticed that it was stopped.
        if self.recording.has_session_ended and not self.was_stopped:
            return "was recorded until the session ended"
        return (
            "was recorded until the recording was full"
            if self.recording.is_full
            else "was recorded until it was stopped"
        )


class WireRecorder:
    """Records one session at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._nursery: trio.Nursery | None = None
        self.recorded: WireRecording | None = None
        """The recording that runs, or the last one."""

    async def run(self) -> None:
        """Run the recordings, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    async def start(self, number: int | None, client: str | None) -> str:
        """Record a session from now on, in place of the last recording.

        Args:
            number: The session's number.
            client: The client or principal whose requests have no session, if there is no number.
        """
        if number is None and not client:
            return "Nothing is recorded: enter the number of a session, or the name of a client."
        assert self._nursery is not None, "run() has begun"
        what = f"Session {number}" if number is not None else f"The requests without a session of {cut(client, 80)}"
        try:
            await self._nursery.start(partial(self._record, number, None if number is not None else client, what))
        except LookupError:
            return f"{what} has already ended."
        return f"{what} {'is' if number is not None else 'are'} recorded from now on."

    def stop(self) -> str:
        """End the recording that runs."""
        recorded = self.recorded
        if recorded is None or not recorded.is_running:
            return "No recording runs."
        recorded.scope.cancel()
        recorded.is_running, recorded.was_stopped = False, True
        return f"The recording has stopped: {recorded.what}."

    def discard(self) -> str:
        """Delete the recording."""
        self.stop()
        self.recorded = None
        return "The recording was deleted."

    async def _record(
        self, number: int | None, client: str | None, what: str, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with self._server.record_session(number, client=client) as recording:
            self.stop()
            self.recorded = recorded = WireRecording(what, recording)
            task_status.started()
            with recorded.scope:
                await recording.wait_ended()
        # Now all messages were redacted and can be read.
        recorded.is_running = False
