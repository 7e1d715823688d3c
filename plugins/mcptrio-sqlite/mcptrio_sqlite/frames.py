"""What the server and a child say to each other, and how that is written into a pipe.

Used at both ends. The one rule: the child trusts what the server sends, which is pickled; the server does not trust the
child, that runs anybody's SQL over anybody's file: what it says is MessagePack, of known types and bounded size.

A frame is four bytes with its length, and as many bytes.
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
    "message_of",
    "order_frame",
    "packed",
    "said_frame",
]

LENGTH: Final = struct.Struct("!I")
_ROOM: Final = 16 * 1024 * 1024
"""Bytes of an answer beyond its rows: a schema whose names and defaults are long."""


@frozen(kw_only=True)
class Order:
    """Do this. ``job`` is one of :mod:`.jobs`."""

    number: int
    database: DatabaseFile
    job: Any


@frozen(kw_only=True)
class Stop:
    """Stop doing what has this number."""

    number: int


class Ready(Struct, frozen=True, tag=True):
    """The child has started."""


class CallProgress(Struct, frozen=True, tag=True):
    """How far it is."""

    steps: int
    rows: int


class Turn(Struct, frozen=True, tag=True):
    """The statement is at its end, and nothing of a model's is computed any more."""


class CallDone(Struct, frozen=True, tag=True):
    """It is done."""

    answer: Raw


class Failed(Struct, frozen=True, tag=True):
    """It could not be done."""

    message: str
    """For the model."""
    is_spent: bool = False
    """The child is of no more use."""


class Undone(Struct, frozen=True, tag=True):
    """It was stopped, and nothing is changed."""


Message = Ready | CallProgress | Turn | CallDone | Failed | Undone
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def order_frame(order: Config | Order | Stop) -> bytes:
    """To the child."""
    body = pickle.dumps(order, protocol=5)
    return LENGTH.pack(len(body)) + body


def said_frame(message: Message) -> bytes:
    """To the server."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


def packed(answer: object) -> Raw:
    """An answer, for :class:`CallDone`."""
    return Raw(msgspec.msgpack.encode(answer))


def message_of(body: bytes) -> Message:
    """
    Raises:
        msgspec.MsgspecError: it is none.
    """
    return _decoder.decode(body)


def answer_of(done: CallDone, kind: Any) -> Any:
    """The answer, which has to be of this kind.

    Raises:
        msgspec.MsgspecError: it is of another.
    """
    return msgspec.msgpack.decode(done.answer, type=kind)


def largest(config: Config) -> int:
    """Bytes of the longest message; one row is as long as its answer may be, or its very many columns make it."""
    return 2 * max(config.max_result_bytes, config.max_export_bytes) + _ROOM
