"""What went over the wire of a session, in both directions, for a page of documentation or a test.

Made by the fixture ``mcp_wire``, or by hand around any channel of a client.
The one rule: what is kept is what the client sent and what it received, as the codec reads it, in that order.

The text it becomes is made by :mod:`mcptrio.testing.wire_text`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mcptrio.abc import MessageChannel
from mcptrio.protocol.messages import Incoming, Message
from mcptrio.testing.wire_text import Recorded, as_json, as_text

__all__ = ["Recording", "RecordingChannel"]

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Recording:
    """The messages of one client, or of several, one after the other.

    Args:
        folder: what the paths of snapshots start from.
        update: whether a snapshot is written instead of compared (``--mcp-update-snapshots``).
    """

    def __init__(self, *, folder: Path | None = None, update: bool = False) -> None:
        self.messages: list[Recorded] = []
        self.rewritten: list[Path] = []
        """Snapshots that were not there, or said something else."""
        self._folder = folder or Path()
        self._update = update
        self._connections = 0

    def of(self, channel: MessageChannel) -> MessageChannel:
        """A channel to use in the place of a client's own; what goes over it is kept."""
        self._connections += 1
        return RecordingChannel(channel, self, self._connections)

    def text(self, replace: Mapping[str, str] = _NOTHING) -> str:
        """The messages for a reader: ``-->`` to the server, ``<--`` to the client.

        Ids, tokens, cursors, sealed state, our own version, dates with a time and UUIDs have names instead.

        Args:
            replace: texts that differ as well, and what to write in their place: ``{str(tmp_path): "<folder>"}``.
        """
        return as_text(self.messages, replace)

    def json(self, replace: Mapping[str, str] = _NOTHING) -> str:
        """The same as a JSON array of ``{"from": ..., "message": ...}``."""
        return as_json(self.messages, replace)

    def assert_wire(self, path: str | Path, *, replace: Mapping[str, str] = _NOTHING) -> None:
        """Compare what has gone over the wire so far with a file, or write it there.

        Args:
            path: ``*.json`` holds JSON, any other name text.

        Raises:
            AssertionError: the file says something else, or is not there.
        """
        file = self._folder / path
        found = self.json(replace) if file.suffix == ".json" else self.text(replace)
        expected = file.read_text("utf-8") if file.exists() else None
        if found == expected:
            return
        if self._update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found, "utf-8")
            self.rewritten.append(file)
        elif expected is None:
            raise AssertionError(f"no such snapshot: {file}; pytest --mcp-update-snapshots writes it")
        else:
            lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), str(path), "the wire", lineterm="")
            shown = "\n".join(lines)
            raise AssertionError(f"the wire is not what {path} says (mend it with --mcp-update-snapshots)\n{shown}")


class RecordingChannel:
    """A :class:`mcptrio.abc.MessageChannel` that notes what passes. Made by :meth:`Recording.of`."""

    def __init__(self, channel: MessageChannel, recording: Recording, connection: int) -> None:
        self.name = channel.name
        self._channel = channel
        self._recording = recording
        self._connection = connection

    async def receive(self) -> Sequence[Incoming]:
        """See :class:`mcptrio.abc.MessageChannel`."""
        received = await self._channel.receive()
        self._recording.messages += (
            Recorded(sender="server", message=each, connection=self._connection) for each in received
        )
        return received

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """See :class:`mcptrio.abc.MessageChannel`."""
        # Before it is sent: its answer may be here before this task goes on.
        self._recording.messages += (
            Recorded(sender="client", message=each, connection=self._connection) for each in messages
        )
        await self._channel.send(messages)

    async def aclose(self) -> None:
        """See :class:`mcptrio.abc.MessageChannel`."""
        await self._channel.aclose()
