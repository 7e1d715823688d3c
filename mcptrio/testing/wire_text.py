"""Formats recorded messages as text or JSON that is the same in each run.

:mod:`mcptrio.testing.recording` uses this for display and for comparison. Values that differ from run to run are
replaced by names, equal values by equal names. Everything else is unchanged.

Source: JSON-RPC 2.0 section 7 (the arrows).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from mcptrio.ground.version import __version__
from mcptrio.protocol.envelope import CLIENT_INFO, SERVER_INFO, SUBSCRIPTION_ID
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import Batch, Incoming, Malformed, Message

__all__ = ["Recorded", "Sender", "as_json", "as_text"]

Sender: TypeAlias = Literal["client", "server"]

_WIDTH: Final = 88
"""Columns of formatted JSON, where it can be broken."""
_ARROWS: Final[dict[Sender, str]] = {"client": "-->", "server": "<--"}
# A date with a time, because a date alone may be a protocol revision.
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
# The random id of a failure in the message of an InternalError.
_FAILURE: Final = re.compile(r"\bsee id [0-9a-f]{8}\b")
# The key of a question, unless the author has set one: a digest.
_QUESTION: Final = re.compile(r"[0-9a-f]{24}(#\d+)?")


@frozen(kw_only=True)
class Recorded:
    """A message or batch, and its direction.

    Args:
        sender: The side that has sent it.
        message: The message or batch.
        connection: The number of the connection, from 1.
    """

    sender: Sender
    message: Incoming | Sequence[Message]
    connection: int = 1


def as_text(recorded: Iterable[Recorded], replace: Mapping[str, str]) -> str:
    """Return a paragraph for each message: an arrow, the method, and params or result as JSON.

    Args:
        replace: Texts to replace, and their replacements.
    """
    return "\n".join(_paragraphs(_normalize(recorded, replace)))


def as_json(recorded: Iterable[Recorded], replace: Mapping[str, str]) -> str:
    """Return a JSON array of objects with ``from``, ``message``, and ``connection`` if there are several."""
    objects: list[dict[str, Any]] = []
    for sender, connection, value in _normalize(recorded, replace):
        objects.append({"from": sender, **({"connection": connection} if connection else {}), "message": value})
    return _pretty(objects) + "\n"


_Normalized: TypeAlias = tuple[Sender, int, Any]
"""Sender, connection (0 if there is only one), and the message as JSON values."""


def _normalize(recorded: Iterable[Recorded], replace: Mapping[str, str]) -> list[_Normalized]:
    """Return the messages with names for the values that differ from run to run."""
    recorded = list(recorded)
    several = len({each.connection for each in recorded}) > 1
    names = _Names(dict(replace))
    return [
        (
            each.sender,
            each.connection if several else 0,
            names.apply(_as_value(each.message), each.sender, each.connection),
        )
        for each in recorded
    ]


def _as_value(message: Incoming | Sequence[Message]) -> Any:
    if isinstance(message, Malformed):
        return {"malformed": message.reply.message}
    if isinstance(message, Batch | Sequence):
        return [_as_value(each) for each in (message.messages if isinstance(message, Batch) else message)]
    return json.loads(encode(message))


# Names for values that differ


@define
class _Names:
    """Replaces the values that differ from run to run.

    Args:
        replace: Further texts to replace, and their replacements.
    """

    replace: dict[str, str]
    _names: dict[tuple[str, str], str] = field(factory=dict)
    """The names by kind and value."""
    _counts: dict[str, int] = field(factory=dict)
    """The numbers of names by kind."""

    def apply(self, value: Any, sender: Sender, connection: int) -> Any:
        """Replace the values in a message or batch."""
        if isinstance(value, list):
            return [self.apply(each, sender, connection) for each in value]
        other: Sender = "server" if sender == "client" else "client"
        # A response has the id of the other side's request.
        if "id" in value:
            value["id"] = self._request(sender if "method" in value else other, connection, value["id"])
        for member in ("params", "result"):
            if isinstance(value.get(member), dict):
                self._replace_in(value[member], sender, connection)
        data = value["error"].get("data") if "error" in value else None
        for elicitation in data.get("elicitations", ()) if isinstance(data, dict) else ():
            self._replace_member(elicitation, "elicitationId", "elicitation")
        return self._replace_texts(value)

    def _replace_in(self, part: dict[str, Any], sender: Sender, connection: int) -> None:
        """Replace the values in the params or the result of a message."""
        for member, kind in _OPAQUE.items():
            self._replace_member(part, member, kind)
        if "requestId" in part:
            part["requestId"] = self._request(sender, connection, part["requestId"])
        for member in ("inputRequests", "inputResponses"):
            if isinstance(part.get(member), dict):
                part[member] = {self._question(key): each for key, each in part[member].items()}
                for each in part[member].values():
                    if isinstance(each.get("params"), dict):
                        self._replace_member(each["params"], "elicitationId", "elicitation")
        meta = part.get("_meta")
        if isinstance(meta, dict):
            self._replace_member(meta, "progressToken", "progress token")
            if SUBSCRIPTION_ID in meta:
                meta[SUBSCRIPTION_ID] = self._request("client", connection, meta[SUBSCRIPTION_ID])
        for holder, member in ((part, "clientInfo"), (part, "serverInfo"), (meta, CLIENT_INFO), (meta, SERVER_INFO)):
            info = holder.get(member) if isinstance(holder, dict) else None
            # Only mcptrio's own version changes with each release. A server under test has a fixed version.
            if isinstance(info, dict) and info.get("name") == "mcptrio" and info.get("version") == __version__:
                info["version"] = "<version>"

    def _replace_member(self, holder: dict[str, Any], member: str, kind: str) -> None:
        if isinstance(holder.get(member), str | int):
            holder[member] = self._name_of(kind, str(holder[member]))

    def _request(self, sender: Sender, connection: int, id: Any) -> str:
        # Compared as texts, because some peers return a numeric id as a string.
        return self._name_of("request" if sender == "client" else "server request", f"{connection} {id}")

    def _question(self, key: str) -> str:
        return self._name_of("question", key) if _QUESTION.fullmatch(key) else key

    def _name_of(self, kind: str, value: str) -> str:
        """Return the name of a value: a new one, or that of an equal value of its kind."""
        if (kind, value) not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[kind, value] = f"<{kind} {self._counts[kind]}>"
        return self._names[kind, value]

    def _replace_texts(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._replace_texts(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._replace_texts(each) for each in value]
        if not isinstance(value, str):
            return value
        for text, name in self.replace.items():
            value = value.replace(text, name)
        value = _TIME.sub("<time>", value)
        value = _FAILURE.sub("see id <failure>", value)
        return _UUID.sub(lambda found: self._name_of("uuid", found[0].lower()), value)


# Members of params and results with opaque values, and the kinds of their names.
_OPAQUE: Final = {
    "cursor": "cursor",
    "nextCursor": "cursor",
    "requestState": "state",
    "progressToken": "progress token",
    "elicitationId": "elicitation",
}


# Text format


def _paragraphs(messages: Iterable[_Normalized]) -> Iterator[str]:
    methods: dict[tuple[int, str], str] = {}
    for sender, connection, value in messages:
        where = f"[{connection}] " if connection else ""
        for number, each in enumerate(value if isinstance(value, list) else [value]):
            batch = f" ({number + 1} of {len(value)} in a batch)" if isinstance(value, list) else ""
            title, body = _describe(each, methods, connection)
            yield f"{where}{_ARROWS[sender]} {title}{batch}\n{body}"


def _describe(value: dict[str, Any], methods: dict[tuple[int, str], str], connection: int) -> tuple[str, str]:
    """Return the title and the body of one message."""
    id = value.get("id", "")
    if "method" in value:
        if id:
            methods[connection, id] = value["method"]
        return f"{value['method']} {id}".rstrip(), _body(value.get("params"))
    request = f"{methods.get((connection, id), '')} {id}".strip()
    if "result" in value:
        return f"result of {request}", _body(value["result"])
    if "error" in value:
        error = value["error"]
        of = f" of {request}" if request else ""
        return f"error{of}: {error['code']} {error['message']}", _body(error.get("data"))
    return f"no message: {value['malformed']}", ""


def _body(value: Any) -> str:
    return "" if value is None else _pretty(value) + "\n"


def _pretty(value: Any, indent: str = "", label: str = "") -> str:
    """Format JSON, with each value on one line if it fits."""
    line = label + json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + "  "
    if isinstance(value, list):
        parts = [_pretty(each, inner) for each in value]
    else:
        parts = [_pretty(each, inner, json.dumps(key, ensure_ascii=False) + ": ") for key, each in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return label + opening + ",".join(f"\n{inner}{part}" for part in parts) + f"\n{indent}{closing}"
