"""The messages between the server and a child process, and their encoding.

A frame is its length in four bytes, followed by the body. The child trusts the server, whose orders are pickled. The
server does not trust the child, which runs any SQL on any file: its messages are MessagePack of known types and limited
size.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, Final

import msgspec
from attrs import frozen
from msgspec import Raw, Struct

from .config import Config
from .databases import DatabaseFile

__all__ = [
    "LENGTH",
    "CallDone",
    "CallProgress",
    "Failed",
    "Message",
    "Order",
    "Ready",
    "Stop",
    "Turn",
    "Undone",
    "answer_of",
    "largest",
    "message_frame",
    "message_of",
    "order_frame",
    "packed",
]

LENGTH: Final = struct.Struct("!I")
_ROOM: Final = 16 * 1024 * 1024
"""Bytes of an answer in addition to its rows, for schemas with long names and defaults."""


@frozen(kw_only=True)
class Order:
    """Run ``job``, one of :mod:`.jobs`."""

    number: int
    database: DatabaseFile
    job: Any


@frozen(kw_only=True)
class Stop:
    """Stop the job with this number."""

    number: int


class Ready(Struct, frozen=True, tag=True):
    """The child has started."""


class CallProgress(Struct, frozen=True, tag=True):
    """The progress of the current job."""

    steps: int
    rows: int


class Turn(Struct, frozen=True, tag=True):
    """The statement has ended; only COMMIT, ROLLBACK and closing are left."""


class CallDone(Struct, frozen=True, tag=True):
    """The job succeeded."""

    answer: Raw


class Failed(Struct, frozen=True, tag=True):
    """The job failed."""

    message: str
    """Error message for the model."""
    is_spent: bool = False
    """True if the child cannot be used again."""


class Undone(Struct, frozen=True, tag=True):
    """The job was stopped and has changed nothing."""


Message = Ready | CallProgress | Turn | CallDone | Failed | Undone
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def order_frame(order: Config | Order | Stop) -> bytes:
    """Encode an order to the child."""
    body = pickle.dumps(order, protocol=5)
    return LENGTH.pack(len(body)) + body


def message_frame(message: Message) -> bytes:
    """Encode a message to the server."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


def packed(answer: object) -> Raw:
    """Encode an answer for :class:`CallDone`."""
    return Raw(msgspec.msgpack.encode(answer))


def message_of(body: bytes) -> Message:
    """Decode a message of the child.

    Raises:
        msgspec.MsgspecError: The message is invalid.
    """
    return _decoder.decode(body)


def answer_of(done: CallDone, kind: Any) -> Any:
    """Decode the answer as an instance of ``kind``.

    Raises:
        msgspec.MsgspecError: The answer has another type.
    """
    return msgspec.msgpack.decode(done.answer, type=kind)


def largest(config: Config) -> int:
    """Return the maximum size of a message in bytes."""
    # Twice, because a single row may be longer than the limit, for example with very many columns.
    return 2 * max(config.max_result_bytes, config.max_export_bytes) + _ROOM
