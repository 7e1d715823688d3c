"""The messages between the server and a child process, and their encoding.

A frame is the length of its body in four bytes, followed by the body. The child trusts the server, so orders are
pickled. The server does not trust the child, which runs SQL of the model on databases of unknown origin, so its
messages are MessagePack of known types and limited size.
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
    "JobDone",
    "JobFailed",
    "JobProgress",
    "JobStopped",
    "Message",
    "Order",
    "Ready",
    "StatementEnded",
    "Stop",
    "decode_answer",
    "decode_message",
    "encode_answer",
    "max_message_bytes",
    "message_frame",
    "order_frame",
]

LENGTH: Final = struct.Struct("!I")
_EXTRA_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""Bytes of an answer in addition to its rows, for schemas with long names and defaults."""


@frozen(kw_only=True)
class Order:
    """The order to run ``job``, one of :mod:`.jobs`."""

    number: int
    database: DatabaseFile
    job: Any


@frozen(kw_only=True)
class Stop:
    """The order to stop the job with this number."""

    number: int


class Ready(Struct, frozen=True, tag=True):
    """The child has started."""


class JobProgress(Struct, frozen=True, tag=True):
    """The progress of the current job."""

    steps: int
    rows: int


class StatementEnded(Struct, frozen=True, tag=True):
    """The statement has ended; only COMMIT, ROLLBACK and closing are left."""


class JobDone(Struct, frozen=True, tag=True):
    """The job succeeded."""

    answer: Raw


class JobFailed(Struct, frozen=True, tag=True):
    """The job failed."""

    message: str
    """Error message for the model."""
    is_unusable: bool = False
    """True if the child cannot be used again."""


class JobStopped(Struct, frozen=True, tag=True):
    """The job was stopped and has changed nothing."""


Message = Ready | JobProgress | StatementEnded | JobDone | JobFailed | JobStopped
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def order_frame(order: Config | Order | Stop) -> bytes:
    """Encode an order to the child."""
    body = pickle.dumps(order, protocol=5)
    return LENGTH.pack(len(body)) + body


def message_frame(message: Message) -> bytes:
    """Encode a message to the server."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


def encode_answer(answer: object) -> Raw:
    """Encode the result of a job for :class:`JobDone`."""
    return Raw(msgspec.msgpack.encode(answer))


def decode_message(body: bytes) -> Message:
    """Decode a message of the child.

    Raises:
        msgspec.MsgspecError: The message is invalid.
    """
    return _decoder.decode(body)


def decode_answer(result: JobDone, kind: Any) -> Any:
    """Decode the result of a job as an instance of ``kind``.

    Raises:
        msgspec.MsgspecError: The answer has another type.
    """
    return msgspec.msgpack.decode(result.answer, type=kind)


def max_message_bytes(config: Config) -> int:
    """Return the maximum size of a message in bytes."""
    # Twice the limit, because a single row with very many columns may be longer than the limit.
    return 2 * max(config.max_result_bytes, config.max_export_bytes) + _EXTRA_ANSWER_BYTES
