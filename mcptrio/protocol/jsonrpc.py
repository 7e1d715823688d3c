"""Encodes and decodes JSON-RPC messages.

Every transport calls :func:`decode` for received bytes and :func:`encode` for messages to send. Neither raises for a
message, so neither a hostile client nor a careless handler can end the task that reads or writes. Invalid input becomes
a :class:`Malformed` with the reason, and a message that cannot be encoded is replaced by one that can.

Input is UTF-8 JSON; a byte order mark is ignored. If a member is repeated, the last one counts. An integer beyond 64
bits becomes the nearest float, as in most JSON implementations (RFC 8259 section 6), so it is refused as an id.
``params`` that are null count as absent. Unknown members are ignored, but ``method`` together with ``result`` or
``error`` is refused, because two readers could disagree on the kind of such a message.

Source: JSON-RPC 2.0 sections 4-6; MCP 2026-07-28, basic/index, "Messages"; MCP 2025-03-26, basic, "Batching".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import isfinite
from typing import Any

import orjson

from mcptrio.errors import Code, LocalProtocolError
from mcptrio.protocol.json_shape import HEAD_BYTES, MAX_LIGHT_BYTES, TAIL_BYTES, Shape, identify, measure
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
_ASSUMED_BYTES = 256
"""The assumed size of a message that cannot be encoded."""
_ENCODED_DEPTH = 200
"""Levels of nesting in a sent value. The encoder's limit is 254, including the levels of the message."""
_TOO_DEEP = f"expected at most {_ENCODED_DEPTH} levels of nesting"
_BOM = b"\xef\xbb\xbf"
_MESSAGES = (Response, Notification, Request, ErrorResponse)


def decode(
    data: bytes | bytearray | memoryview, limits: MessageLimits = DEFAULT, *, owner: Hashable = None
) -> Incoming:
    """Return the message in ``data``. Never raises.

    Args:
        owner: The client that sent it; ``None`` if the transport knows only the connection.

    Returns:
        A message; a :class:`Batch` if ``data`` is an array; or :class:`Malformed` with the response that gives the
        reason: -32700 if ``data`` is not JSON, -32600 if it is too large, too deep, or not a message. The response has
        the request's id if it can be read.
    """
    size = data.nbytes if type(data) is memoryview else len(data)
    if size > limits.bytes:
        return _malformed_message(f"message of {size} bytes: the limit is {limits.bytes} bytes")
    # Measured before parsing: see mcptrio.protocol.json_shape. Of a short message, only the depth can be too large.
    shape = None if size <= MAX_LIGHT_BYTES and _is_shallow(data, limits.depth) else measure(data, limits.values)
    if shape is not None and (problem := _excess_message(shape, limits)) is not None:
        return _refuse_oversized(data, problem)
    if data[:3] == _BOM:  # RFC 8259 section 8.1 allows to ignore it; .NET and PowerShell write one
        data = data[3:]
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "depth limit" in error.msg:  # orjson's limit is 1024
            return _too_deep_message(limits)
        return Malformed(ErrorResponse(None, _PARSE_ERROR, f"not JSON: {error}"))
    if shape is not None and shape.is_deeper(limits.depth):
        return _too_deep_message(limits, value)
    # `_meta` has its own bound, because a request keeps it as long as it runs, unlike its other parameters.
    if size > limits.meta_bytes and (refusal := _check_meta_size(value, limits.meta_bytes)) is not None:
        return refusal
    if type(value) is list:
        batch = _decode_batch(value, limits)
        for each in batch.messages if isinstance(batch, Batch) else ():
            if type(each) is Request:
                # Each request of a batch has its own weight, because they end at different times.
                each.weight, each.owner = measure(orjson.dumps(each.params), limits.values).weight, owner
        return batch
    message = _decode_object(value)
    if type(message) is Request:
        message.weight, message.owner = shape.weight if shape is not None else 0, owner
    return message


def _is_shallow(data: bytes | bytearray | memoryview, limit: int) -> bool:
    """Return whether a short text has too few brackets for more than ``limit`` levels."""
    text = bytes(data) if isinstance(data, memoryview) else data
    return text.count(b"[") + text.count(b"{") <= limit


def _excess_message(shape: Shape, limits: MessageLimits) -> str | None:
    if shape.commas > limits.values:
        return f"message of too many values: the limit is {limits.values}"
    if shape.containers > limits.containers:
        return f"message of {shape.containers} arrays and objects: the limit is {limits.containers}"
    return None


def encode(message: Message | Sequence[Message]) -> bytes:
    """Return one line of JSON without a line end; a sequence becomes a batch.

    NaN and infinity are encoded as null. Some values cannot be encoded: a lone surrogate, an integer beyond 64 bits, a
    key that is not a string, more than 254 levels, an object that is no JSON value. They do not end the connection:

    - a Response becomes an ErrorResponse -32603 with the same id, which describes the value;
    - an ErrorResponse loses its ``data``;
    - in a Request or Notification the values are replaced: lone surrogates by U+FFFD, keys by their ``str()``, all
      others by null.

    Raises:
        LocalProtocolError: The sequence is empty, which JSON-RPC does not allow.
    """
    if isinstance(message, _MESSAGES):
        return _encode_one(message)
    if not message:
        raise LocalProtocolError("a batch needs at least one message, got none")
    # join() is faster with a list than with a generator.
    return b"[" + b",".join([_encode_one(each) for each in message]) + b"]"


def preencoded(value: Any) -> Any:
    """Return a value in encoded form, for several messages; the value itself if it cannot be encoded."""
    try:
        # orjson copies a Fragment without encoding it again.
        return orjson.Fragment(orjson.dumps(value))
    except TypeError:  # the base class of orjson.JSONEncodeError
        return value


def encoded_size(message: Message | Sequence[Message]) -> int:
    """Return the approximate size of a message as JSON: the bytes of its parameters, result or error."""
    if not isinstance(message, _MESSAGES):
        return sum(encoded_size(each) for each in message)
    try:
        if isinstance(message, Response):
            return len(orjson.dumps(message.result))
        if isinstance(message, ErrorResponse):
            return len(message.message) + len(orjson.dumps(message.data))
        return len(orjson.dumps(message.params))
    except TypeError:  # encode() replaces the message or these values
        return _ASSUMED_BYTES


def require_json(value: dict[str, Any], what: str) -> None:
    """Check that parameters can be encoded as JSON without changing a value.

    Args:
        what: The method, for the error.

    Raises:
        LocalProtocolError: A value cannot be encoded, or is NaN or infinite. The message has its place.
    """
    try:
        # orjson encodes NaN and infinity as null. Few messages contain null, so the slow search is rare.
        if b"null" not in orjson.dumps(value):
            return
    except TypeError as error:  # the base class of orjson.JSONEncodeError
        where, why = _first_unencodable(value) or ("$", str(error))
    else:
        problem = _first_unencodable(value)
        if problem is None:
            return
        where, why = problem
    raise LocalProtocolError(f"{what}: the parameters cannot be sent as JSON: {why}{show_place(where)}")


def _first_unencodable(value: Any, where: str = "$", depth: int = 0) -> tuple[str, str] | None:
    """Return the path of the first value that JSON cannot represent, and the reason."""
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                return where, f"expected a string as key, got {type(key).__name__}"
            problem = (
                _first_unencodable(item, f"{where}.{key}", depth + 1) if depth < _ENCODED_DEPTH else (where, _TOO_DEEP)
            )
            if problem is not None:
                return problem
    elif type(value) is list or type(value) is tuple:
        for index, item in enumerate(value):
            problem = (
                _first_unencodable(item, f"{where}[{index}]", depth + 1)
                if depth < _ENCODED_DEPTH
                else (where, _TOO_DEEP)
            )
            if problem is not None:
                return problem
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
                return where, "expected a string without lone surrogates"
            return where, f"expected a JSON value, got {type(value).__name__} ({error})"
    return None


def _decode_object(value: Any) -> Message | Malformed:
    if type(value) is not dict:
        return _malformed_message(f"expected an object, got {_kind(value)}")
    # JSON-RPC 2.0 section 4: exactly "2.0". Messages of JSON-RPC 1.0 lack the member and have another meaning.
    if value.get("jsonrpc") != "2.0":
        return _malformed_message('expected "jsonrpc": "2.0"', _readable_id(value))
    if "method" in value:
        return _decode_call(value)
    if "result" in value or "error" in value:
        return _decode_response(value)
    return _malformed_message("expected one of method, result, error; got none of them", _readable_id(value))


def _decode_call(value: dict[str, Any]) -> Request | Notification | Malformed:
    method = value["method"]
    params = value.get("params")
    if type(method) is not str:
        return _malformed_message(f"method: expected a string, got {_kind(method)}", _readable_id(value))
    if params is not None and type(params) is not dict:
        # JSON-RPC allows positional params, MCP does not.
        return _malformed_message(f"params: expected an object, got {_kind(params)}", _readable_id(value))
    # Another reader, which looks for `result` first, would read such a message as a response.
    if "result" in value or "error" in value:
        return _malformed_message(
            "expected one of method, result, error; got more than one of them", _readable_id(value)
        )
    id = value.get("id")
    # The exact types, because a bool is an int in Python, but not a valid id.
    if type(id) is int or type(id) is str:
        return Request(id, method, params)
    # "id": null is not a notification: MCP forbids null ids (basic/index, "Requests").
    if "id" not in value:
        return Notification(method, params)
    return _malformed_message(f"id: expected a string or an integer of 64 bits, got {_kind(id)}")


def _decode_response(value: dict[str, Any]) -> Response | ErrorResponse | Malformed:
    # A malformed response is answered without an id, because its id is that of a request of this side.
    id = value.get("id")
    has_id = type(id) is str or type(id) is int
    answers: RequestId | None = id if has_id else None
    if "result" in value:
        result = value["result"]
        if "error" in value:
            return _malformed_message("response: expected one of result, error; got both", answers=answers)
        if type(result) is not dict:
            return _malformed_message(f"result: expected an object, got {_kind(result)}", answers=answers)
        if not has_id:
            return _malformed_message(
                f"response: id: expected a string or an integer, got {_kind(id)}", answers=answers
            )
        return Response(id, result)  # type: ignore[arg-type]  # has_id is the check
    error = value["error"]
    if type(error) is not dict:
        return _malformed_message(f"error: expected an object, got {_kind(error)}", answers=answers)
    code, message = error.get("code"), error.get("message")
    if type(code) is not int:
        return _malformed_message(f"error.code: expected an integer, got {_kind(code)}", answers=answers)
    if type(message) is not str:
        return _malformed_message(f"error.message: expected a string, got {_kind(message)}", answers=answers)
    if not has_id and id is not None:
        return _malformed_message(f"response: id: expected a string or an integer, got {_kind(id)}", answers=answers)
    return ErrorResponse(id, code, message, error.get("data"))


def _decode_batch(values: list[Any], limits: MessageLimits) -> Batch | Malformed:
    if not values:
        return _malformed_message("empty batch: expected at least one message")
    # Checked before the messages are decoded.
    if len(values) > limits.batch:
        return _malformed_message(f"batch of {len(values)} messages: the limit is {limits.batch}")
    return Batch(tuple([_decode_object(value) for value in values]))


def _readable_id(value: dict[str, Any]) -> RequestId | None:
    """Return the id for the error response; ``None`` for a response, whose id is not the peer's."""
    if "method" not in value and ("result" in value or "error" in value):
        return None
    id = value.get("id")
    return id if type(id) is str or type(id) is int else None


def _malformed_message(message: str, id: RequestId | None = None, *, answers: RequestId | None = None) -> Malformed:
    return Malformed(ErrorResponse(id, _INVALID, message), answers)


def _too_deep_message(limits: MessageLimits, value: Any = None) -> Malformed:
    text = f"message nested too deeply: the limit is {limits.depth} levels"
    if type(value) is not dict:
        return _malformed_message(text)
    id = value.get("id")
    is_answer = "method" not in value and ("result" in value or "error" in value)
    known = id if is_answer and (type(id) is str or type(id) is int) else None
    return _malformed_message(text, _readable_id(value), answers=known)


def _refuse_oversized(data: bytes | bytearray | memoryview, problem: str) -> Malformed:
    """Return the refusal of a message that is too large to be parsed, with its id if that can be found."""
    kind_and_id = identify(bytes(data[:HEAD_BYTES]), bytes(data[-TAIL_BYTES:]))
    is_call, id = kind_and_id if kind_and_id is not None else (True, None)
    return _malformed_message(problem, id if is_call else None, answers=None if is_call else id)


def _check_meta_size(value: Any, limit: int) -> Malformed | None:
    for each in value if type(value) is list else [value]:
        params = each.get("params") if type(each) is dict else None
        meta = params.get("_meta") if type(params) is dict else None
        if meta is not None and (size := len(orjson.dumps(meta))) > limit:
            # The whole batch is refused, and a batch has no id.
            id = _readable_id(each) if each is value else None
            return _malformed_message(f"params._meta of {size} bytes: the limit is {limit} bytes", id)
    return None


def _kind(value: Any) -> str:
    """Return the name of a value's JSON type. Errors contain it instead of the value, which may be large."""
    if value is None:
        return "null"
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer", float: "a number"}


def _encode_one(message: Message) -> bytes:
    try:
        return orjson.dumps(_as_object(message))
    except TypeError as error:  # the base class of orjson.JSONEncodeError
        return orjson.dumps(_as_object(_to_encodable_message(message, str(error))))


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
        # The schema of MCP omits the member; JSON-RPC would send null.
        return {"jsonrpc": "2.0", "error": error}
    return {"jsonrpc": "2.0", "id": message.id, "error": error}


def _to_encodable_message(message: Message, problem: str) -> Message:
    match message:
        case Response(id=id):
            return ErrorResponse(_to_encodable(id), _INTERNAL, f"the result cannot be written as JSON: {problem}")
        case ErrorResponse(id=id, code=code, message=text):
            return ErrorResponse(_to_encodable(id), _to_encodable(code), _to_encodable(text))
        case Request(id=id, method=method, params=params):
            return Request(_to_encodable(id), _to_encodable(method), _to_encodable(params))
        case Notification(method=method, params=params):
            return Notification(_to_encodable(method), _to_encodable(params))


def _to_encodable(value: Any, containers: tuple[int, ...] = ()) -> Any:
    """Return the nearest value that can be encoded.

    Args:
        containers: The ``id()`` of each container around ``value``. A circular reference becomes null, and so does a
            container that is nested too deeply.
    """
    match value:
        case None | bool():
            return value
        case str():
            # UTF-16 turns a pair of surrogates into its character.
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case int():
            return int(value) if -(2**63) <= value < 2**64 else None
        case float():
            return float(value)
        case dict() | list() | tuple() if id(value) not in containers and len(containers) < DEFAULT.depth - 1:
            containers = (*containers, id(value))
            if isinstance(value, dict):
                return {_to_encodable(str(key)): _to_encodable(item, containers) for key, item in value.items()}
            return [_to_encodable(item, containers) for item in value]
        case _:
            return None
