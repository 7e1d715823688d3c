"""Records the messages of a session in both directions, for documentation or for comparison in a test.

The fixture ``mcp_wire`` creates a :class:`Recording`, which can also wrap any channel of a client. It records decoded
messages, in the order in which the client sends and receives them. :mod:`mcptrio.testing.wire_text` formats them.
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
    """The recorded messages of one or more clients.

    Args:
        folder: The folder that paths of snapshots are relative to.
        update: Whether to write snapshots instead of comparing them (``--mcp-update-snapshots``).
    """

    def __init__(self, *, folder: Path | None = None, update: bool = False) -> None:
        self.messages: list[Recorded] = []
        self.rewritten: list[Path] = []
        """Snapshots that were missing or different and have been written."""
        self._folder = folder or Path()
        self._update = update
        self._connections = 0

    def of(self, channel: MessageChannel) -> MessageChannel:
        """Return a channel that records the messages of another channel."""
        self._connections += 1
        return RecordingChannel(channel, self, self._connections)

    def text(self, replace: Mapping[str, str] = _NOTHING) -> str:
        """Return the messages as text: ``-->`` marks messages to the server, ``<--`` messages to the client.

        Ids, tokens, cursors, sealed state, mcptrio's version, timestamps and UUIDs are replaced by names.

        Args:
            replace: Further texts to replace, and their replacements: ``{str(tmp_path): "<folder>"}``.
        """
        return as_text(self.messages, replace)

    def json(self, replace: Mapping[str, str] = _NOTHING) -> str:
        """Return the messages as a JSON array of ``{"from": ..., "message": ...}``. See :meth:`text`."""
        return as_json(self.messages, replace)

    def assert_wire(self, path: str | Path, *, replace: Mapping[str, str] = _NOTHING) -> None:
        """Compare the messages so far with a file, or write the file.

        Args:
            path: A file with JSON (``*.json``) or text (any other name).
            replace: Further texts to replace, and their replacements.

        Raises:
            AssertionError: The file is missing or different.
        """
        file = self._folder / path
        actual = self.json(replace) if file.suffix == ".json" else self.text(replace)
        expected = file.read_text("utf-8") if file.exists() else None
        if actual == expected:
            return
        if self._update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(actual, "utf-8")
            self.rewritten.append(file)
        elif expected is None:
            raise AssertionError(f"no such snapshot: {file}; pytest --mcp-update-snapshots writes it")
        else:
            lines = difflib.unified_diff(expected.splitlines(), actual.splitlines(), str(path), "the wire", lineterm="")
            difference = "\n".join(lines)
            raise AssertionError(
                f"the messages differ from {path}; --mcp-update-snapshots writes it again\n{difference}"
            )


class RecordingChannel:
    """A :class:`mcptrio.abc.MessageChannel` that records its messages. Made by :meth:`Recording.of`."""

    def __init__(self, channel: MessageChannel, recording: Recording, connection: int) -> None:
        self.name = channel.name
        self._channel = channel
        self._recording = recording
        self._connection = connection

    async def receive(self) -> Sequence[Incoming]:
        received = await self._channel.receive()
        self._recording.messages += (
            Recorded(sender="server", message=each, connection=self._connection) for each in received
        )
        return received

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        # Recorded before sending, because the answer may arrive before this task continues.
        self._recording.messages += (
            Recorded(sender="client", message=each, connection=self._connection) for each in messages
        )
        await self._channel.send(messages)

    async def aclose(self) -> None:
        await self._channel.aclose()
