"""The recording of one session, which an operator starts and stops. It is kept until the next recording.

:meth:`mcptrio.Server.record_session` redacts and bounds it, and the page "Wire" shows it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import trio
from attrs import define, field

from mcptrio import Server
from mcptrio.serving import SessionRecording

from .text import cut

__all__ = ["WireRecorder", "WireRecording"]


@define(eq=False)
class WireRecording:
    """One recording.

    Args:
        subject: The recorded session, in words.
        at: The time at which the recording began.
    """

    subject: str
    recording: SessionRecording
    at: str = field(factory=lambda: datetime.now(UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00"))
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    is_running: bool = True
    was_stopped: bool = False

    @property
    def state(self) -> str:
        """The state of the recording in words: it is running, or why it has ended."""
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
        """The running recording, or the last one; ``None`` if there is none."""

    async def run(self) -> None:
        """Run the recordings, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    async def start(self, number: int | None, client: str | None) -> str:
        """Start recording a session. The new recording replaces the last one.

        Args:
            number: The number of the session.
            client: Without a number, the client or principal whose requests without a session are recorded.
        """
        if number is None and not client:
            return "Nothing is recorded: enter the number of a session, or the name of a client."
        assert self._nursery is not None, "run() has begun"
        subject = f"Session {number}" if number is not None else f"The requests without a session of {cut(client, 80)}"
        try:
            await self._nursery.start(partial(self._record, number, None if number is not None else client, subject))
        except LookupError:
            return f"{subject} has already ended."
        return f"{subject} {'is' if number is not None else 'are'} recorded from now on."

    def stop(self) -> str:
        """Stop the running recording."""
        recorded = self.recorded
        if recorded is None or not recorded.is_running:
            return "No recording runs."
        recorded.scope.cancel()
        recorded.is_running, recorded.was_stopped = False, True
        return f"The recording has stopped: {recorded.subject}."

    def discard(self) -> str:
        """Delete the recording."""
        self.stop()
        self.recorded = None
        return "The recording was deleted."

    async def _record(
        self, number: int | None, client: str | None, subject: str, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with self._server.record_session(number, client=client) as recording:
            self.stop()
            self.recorded = recorded = WireRecording(subject, recording)
            task_status.started()
            with recorded.scope:
                await recording.wait_ended()
        # Here, all messages are redacted and can be read.
        recorded.is_running = False
