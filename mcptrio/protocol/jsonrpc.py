"""Encodes and decodes JSON-RPC messages.

Every transport calls :func:`decode` for received bytes and :func:`encode` for messages to send. Neither fails, so
neither a hostile client nor a careless handler can end the task that reads or writes: invalid input becomes a
:class:`Malformed` with the reason, and a message that cannot be encoded is replaced by one that can.

Input is UTF-8 JSON; a byte order mark is ignored. The last of repeated members counts. An integer beyond 64 bits
becomes the nearest float, as in most JSON implementations (RFC 8259 section 6), so it is refused as an id. ``params``
that are null count as absent. Unknown members are ignored, but ``method`` together with ``result`` or ``error`` is
refused, because two readers could disagree on the kind of such a message.

Source: JSON-RPC 2.0 sections 4-6; MCP 2026-07-28, basic/index, "Messages"; MCP 2025-03-26, basic, "Batching".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import isfinite
from typing import Any

import orjson

from mcptrio.errors import Code, LocalProtocolError
from mcptrio.protocol.json_shape import HEAD_BYTES, LIGHT, TAIL_BYTES, Shape, identify, measure
from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
)
from mcptrio.protocol.revisions.mismatch import show_place

__all__ = [
    "decode",
    "encode",
    "encoded_size",
    "preencoded",
    "require_json",
]


_PARSE_ERROR = int(Code.PARSE_ERROR)
_INVALID = int(Code.INVALID_REQUEST)
_INTERNAL = int(Code.INTERNAL_ERROR)
_ENVELOPE = 256
"""Assumed bytes of a message whose size is unknown."""
_ENCODED_DEPTH = 200
"""Levels of nesting in a sent value. The encoder's limit is 254, including the levels of the message."""
_DEEP = f"expected at most {_ENCODED_DEPTH} levels of nesting"
_BOM = b"\xef\xbb\xbf"
_MESSAGES = (Response, Notification, Request, ErrorResponse)


def decode(
    data: bytes | bytearray | memoryview, limits: MessageLimits = DEFAULT, *, owner: Hashable = None
) -> Incoming:
    """Return the message in ``data``. Never raises.

    Args:
        owner: The client that sent it, if that is not the connection.

    Returns:
        A message; a :class:`Batch` if ``data`` is an array; or :class:`Malformed` with the response that gives the
        reason: -32700 if ``data`` is not JSON, -32600 if it is too large, too deep, or not a message. The response has
        the request's id if it can be read.
    """
    size = data.nbytes if type(data) is memoryview else len(data)
    if size > limits.bytes:
        return _malformed(f"message of {size} bytes: the limit is {limits.bytes} bytes")
    # Counted before parsing: see mcptrio.protocol.json_shape.
    # A short message cannot be expensive, so only its brackets are counted.
    shape = None if size <= LIGHT and _is_shallow(data, limits.depth) else measure(data, limits.values)
    if shape is not None and (problem := _too_many(shape, limits)) is not None:
        return _unparsed(data, problem)
    if data[:3] == _BOM:  # RFC 8259 section 8.1 lets us ignore it; .NET and PowerShell write one
        data = data[3:]
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "depth limit" in error.msg:  # orjson's own, 1024
            return _too_deep(limits)
        return Malformed(ErrorResponse(None, _PARSE_ERROR, f"not JSON: {error}"))
    if shape is not None and shape.is_deeper(limits.depth):
        return _too_deep(limits, value)
    # A request keeps its _meta as long as it runs, unlike its other parameters.
    # Measured only if the whole message is larger than the bound.
    if size > limits.meta_bytes and (refusal := _large_meta(value, limits.meta_bytes)) is not None:
        return refusal
    if type(value) is list:
        batch = _decode_batch(value, limits)
        for each in batch.messages if isinstance(batch, Batch) else ():
            if type(each) is Request:
                # Each request of a batch counts for itself, because they end at different times.
                each.weight, each.owner = measure(orjson.dumps(each.params), limits.values).weight, owner
        return batch
    message = _decode_object(value)
    if type(message) is Request:
        message.weight, message.owner = shape.weight if shape is not None else 0, owner
    return message


def _is_shallow(data: bytes | bytearray | memoryview, limit: int) -> bool:
    """Whether a short text has too few brackets for more than ``limit`` levels."""
    text = bytes(data) if isinstance(data, memoryview) else data
    return text.count(b"[") + text.count(b"{") <= limit


def _too_many(shape: Shape, limits: MessageLimits) -> str | None:
    if shape.commas > limits.values:
        return f"message of more than {limits.values} values: the limit is {limits.values}"
    if shape.containers > limits.containers:
        return f"message of {shape.containers} arrays and objects: the limit is {limits.containers}"
    return None


def encode(message: Message | Sequence[Message]) -> bytes:
    """Return one line of JSON without a line end; a sequence becomes a batch.

    NaN and infinity are written as null. Values that JSON, or other readers with 64-bit integers, do not support (a
    lone surrogate, an integer beyond 64 bits, a key that is not a string, more than 254 levels, any other object) do
    not stop the connection:

    - a Response becomes an ErrorResponse -32603 with the same id, which names the value;
    - an ErrorResponse loses its ``data``;
    - in a Request or Notification the values are replaced: lone surrogates by U+FFFD, keys by their ``str()``, all
      others by null.

    Raises:
        LocalProtocolError: The sequence is empty; an empty batch is not a message.
    """
    # By type: a message is not a sequence, and isinstance on a tuple of four classes is fast.
    if isinstance(message, _MESSAGES):
        return _encode_one(message)
    if not message:
        raise LocalProtocolError("a batch needs at least one message, got none")
    # A list and not a generator, which is slower for join.
    return b"[" + b",".join([_encode_one(each) for each in message]) + b"]"


def preencoded(value: Any) -> Any:
    """Return a value that is encoded once for several messages; the value itself if it cannot be encoded."""
    try:
        # orjson inserts a fragment without looking at it again.
        return orjson.Fragment(orjson.dumps(value))
    except TypeError:  # orjson.JSONEncodeError is one
        return value


def encoded_size(message: Message | Sequence[Message]) -> int:
    """Return the approximate bytes of a message as JSON: those of its parameters, result or error."""
    if not isinstance(message, _MESSAGES):
        return sum(encoded_size(each) for each in message)
    try:
        if isinstance(message, Response):
            return len(orjson.dumps(message.result))
        if isinstance(message, ErrorResponse):
            return len(message.message) + len(orjson.dumps(message.data))
        return len(orjson.dumps(message.params))
    except TypeError:  # it is sent as an error, or with null in place of these values
        return _ENVELOPE


def require_json(value: dict[str, Any], what: str) -> None:
    """Check that the peer will read the same value.

    Raises:
        LocalProtocolError: A value cannot be written as JSON, or only as another value; names its place.
    """
    try:
        # NaN and infinity are written as null. Few messages contain null, so the slow search is rare.
        if b"null" not in orjson.dumps(value):
            return
    except TypeError as error:  # orjson.JSONEncodeError is one
        where, why = _first_unwritable(value) or ("$", str(error))
    else:
        found = _first_unwritable(value)
        if found is None:
            return
        where, why = found
    raise LocalProtocolError(f"{what}: the parameters cannot be sent as JSON: {why}{show_place(where)}")


def _first_unwritable(value: Any, where: str = "$", depth: int = 0) -> tuple[str, str] | None:
    """Return the place of the first value that JSON cannot represent, and the reason."""
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                return where, f"expected a string as key, got {type(key).__name__}"
            found = _first_unwritable(item, f"{where}.{key}", depth + 1) if depth < _ENCODED_DEPTH else (where, _DEEP)
            if found is not None:
                return found
    elif type(value) is list or type(value) is tuple:
        for index, item in enumerate(value):
            found = (
                _first_unwritable(item, f"{where}[{index}]", depth + 1) if depth < _ENCODED_DEPTH else (where, _DEEP)
            )
            if found is not None:
                return found
    elif isinstance(value, float):
        if not isfinite(value):
            return where, f"expected a finite number, got {value}"
    elif value is not None:
        try:
            orjson.dumps(value)
        except TypeError as error:
            if isinstance(value, int):
                return where, f"expected an integer of 64 bits, got one of {value.bit_length()} bits; send it as text"
            if isinstance(value, str):
                return where, "expected a text without lone surrogates"
            return where, f"expected a JSON value, got {type(value).__name__} ({error})"
    return None


def _decode_object(value: Any) -> Message | Malformed:
    if type(value) is not dict:
        return _malformed(f"expected an object, got {_kind(value)}")
    # JSON-RPC 2.0 section 4: exactly "2.0".
    # Version 1.0 of JSON-RPC has no such member, and its messages mean something else.
    if value.get("jsonrpc") != "2.0":
        return _malformed('expected "jsonrpc": "2.0"', _readable_id(value))
    if "method" in value:
        return _decode_call(value)
    if "result" in value or "error" in value:
        return _decode_response(value)
    return _malformed("expected one of method, result, error; got none of them", _readable_id(value))


def _decode_call(value: dict[str, Any]) -> Request | Notification | Malformed:
    method = value["method"]
    params = value.get("params")
    if type(method) is not str:
        return _malformed(f"method: expected a string, got {_kind(method)}", _readable_id(value))
    if params is not None and type(params) is not dict:
        # JSON-RPC allows positional params, MCP does not.
        return _malformed(f"params: expected an object, got {_kind(params)}", _readable_id(value))
    # A reader that looks for `result` first would take such a call for a response.
    if "result" in value or "error" in value:
        return _malformed("expected one of method, result, error; got more than one of them", _readable_id(value))
    id = value.get("id")
    # By exact type, because bool is a subclass of int.
    if type(id) is int or type(id) is str:
        return Request(id, method, params)
    # "id": null is not a notification: MCP forbids null ids (basic/index, "Requests").
    if "id" not in value:
        return Notification(method, params)
    return _malformed(f"id: expected a string or an integer of 64 bits, got {_kind(id)}")


def _decode_response(value: dict[str, Any]) -> Response | ErrorResponse | Malformed:
    # A malformed response is reported without an id: the id of a response belongs to this side's request.
    id = value.get("id")
    has_id = type(id) is str or type(id) is int
    answers: RequestId | None = id if has_id else None
    if "result" in value:
        result = value["result"]
        if "error" in value:
            return _malformed("response: expected one of result, error; got both", answers=answers)
        if type(result) is not dict:
            return _malformed(f"result: expected an object, got {_kind(result)}", answers=answers)
        if not has_id:
            return _malformed(f"response: id: expected a string or an integer, got {_kind(id)}", answers=answers)
        return Response(id, result)  # type: ignore[arg-type]  # has_id is the check
    error = value["error"]
    if type(error) is not dict:
        return _malformed(f"error: expected an object, got {_kind(error)}", answers=answers)
    code, message = error.get("code"), error.get("message")
    if type(code) is not int:
        return _malformed(f"error.code: expected an integer, got {_kind(code)}", answers=answers)
    if type(message) is not str:
        return _malformed(f"error.message: expected a string, got {_kind(message)}", answers=answers)
    if not has_id and id is not None:
        return _malformed(f"response: id: expected a string or an integer, got {_kind(id)}", answers=answers)
    return ErrorResponse(id, code, message, error.get("data"))


def _decode_batch(values: list[Any], limits: MessageLimits) -> Batch | Malformed:
    if not values:
        return _malformed("empty batch: expected at least one message")
    # Before the messages are decoded.
    if len(values) > limits.batch:
        return _malformed(f"batch of {len(values)} messages: the limit is {limits.batch}")
    return Batch(tuple([_decode_object(value) for value in values]))


def _readable_id(value: dict[str, Any]) -> RequestId | None:
    """Return the id for the error response. Only the id of a call belongs to the peer."""
    if "method" not in value and ("result" in value or "error" in value):
        return None
    id = value.get("id")
    return id if type(id) is str or type(id) is int else None


def _malformed(message: str, id: RequestId | None = None, *, answers: RequestId | None = None) -> Malformed:
    return Malformed(ErrorResponse(id, _INVALID, message), answers)


def _too_deep(limits: MessageLimits, value: Any = None) -> Malformed:
    text = f"message nested more than {limits.depth} levels deep: the limit is {limits.depth}"
    if type(value) is not dict:
        return _malformed(text)
    id = value.get("id")
    is_answer = "method" not in value and ("result" in value or "error" in value)
    known = id if is_answer and (type(id) is str or type(id) is int) else None
    return _malformed(text, _readable_id(value), answers=known)


def _unparsed(data: bytes | bytearray | memoryview, problem: str) -> Malformed:
    # The body is refused for its size, so its id is looked for without parsing.
    """Return the refusal of a message that is not parsed, with its id if the first or last members contain it."""
    found = identify(bytes(data[:HEAD_BYTES]), bytes(data[-TAIL_BYTES:]))
    is_call, id = found if found is not None else (True, None)
    return _malformed(problem, id if is_call else None, answers=None if is_call else id)


def _large_meta(value: Any, limit: int) -> Malformed | None:
    for each in value if type(value) is list else [value]:
        params = each.get("params") if type(each) is dict else None
        meta = params.get("_meta") if type(params) is dict else None
        if meta is not None and (size := len(orjson.dumps(meta))) > limit:
            # A message of a batch is refused with the batch, which has no id.
            id = _readable_id(each) if each is value else None
            return _malformed(f"params._meta of {size} bytes: the limit is {limit} bytes", id)
    return None


def _kind(value: Any) -> str:
    """Return a JSON type's name for an error. Not the value, which may be large."""
    if value is None:
        return "null"
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer", float: "a number"}


def _encode_one(message: Message) -> bytes:
    try:
        return orjson.dumps(_as_object(message))
    except TypeError as error:  # orjson.JSONEncodeError is one
        return orjson.dumps(_as_object(_writable(message, str(error))))


def _as_object(message: Message) -> dict[str, Any]:
    if isinstance(message, Response):
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    if isinstance(message, ErrorResponse):
        return _error_as_object(message)
    value: dict[str, Any] = {"jsonrpc": "2.0"}
    if isinstance(message, Request):
        value["id"] = message.id
    value["method"] = message.method
    if message.params is not None:
        value["params"] = message.params
    return value


def _error_as_object(message: ErrorResponse) -> dict[str, Any]:
    error: dict[str, Any] = {"code": message.code, "message": message.message}
    if message.data is not None:
        error["data"] = message.data
    if message.id is None:
        # Without the member, as the schema of MCP has it; JSON-RPC would send null.
        return {"jsonrpc": "2.0", "error": error}
    return {"jsonrpc": "2.0", "id": message.id, "error": error}


def _writable(message: Message, problem: str) -> Message:
    match message:
        case Response(id=id):
            return ErrorResponse(_cleaned(id), _INTERNAL, f"the result cannot be written as JSON: {problem}")
        case ErrorResponse(id=id, code=code, message=text):
            return ErrorResponse(_cleaned(id), _cleaned(code), _cleaned(text))
        case Request(id=id, method=method, params=params):
            return Request(_cleaned(id), _cleaned(method), _cleaned(params))
        case Notification(method=method, params=params):
            return Notification(_cleaned(method), _cleaned(params))


def _cleaned(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Return the nearest value that can be written.

    Args:
        above: The ids of the containers around ``value``. A circular reference or too deep a value becomes null.
    """
    match value:
        case None | bool():
            return value
        case str():
            # Through UTF-16, so that a pair of surrogates becomes its character.
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case int():
            return int(value) if -(2**63) <= value < 2**64 else None
        case float():
            return float(value)
        case dict() | list() | tuple() if id(value) not in above and len(above) < DEFAULT.depth - 1:
            above = (*above, id(value))
            if isinstance(value, dict):
                return {_cleaned(str(key)): _cleaned(item, above) for key, item in value.items()}
            return [_cleaned(item, above) for item in value]
        case _:
            return None
