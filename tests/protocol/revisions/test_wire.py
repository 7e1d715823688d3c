"""Every class in every revision, both ways: written values can be read again, and match the schema."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs
import mcp_types.methods as peer
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcptrio import types
from mcptrio.errors import LocalProtocolError
from mcptrio.protocol.model.fields import ABSENT, class_history, exists_in, field_history
from mcptrio.protocol.model.input_required import InputRequiredResult
from mcptrio.protocol.model.methods import INPUT_REQUESTS, METHODS, Method, Side
from mcptrio.protocol.model.sampling import SamplingContent
from mcptrio.protocol.model.tasks import CreateTaskResult, NestedTaskResult, UpdateTaskParams
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS
from mcptrio.protocol.revisions.revision import NegotiationStyle, Revision
from tests.protocol import model_classes

CLASSES = [cls for cls in model_classes.CLASSES if cls is not types.UnknownContent]
quick = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
every_revision = pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)

URIS = st.sampled_from(["file:///a", "https://example.org/b?c", "note:1"])
TEXTS = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=2)
PROPERTIES = st.dictionaries(st.sampled_from("abc"), st.just({"type": "string"}), max_size=2)
PRIMITIVES = st.sampled_from(
    [
        {"type": "string", "minLength": 1, "default": "x"},
        {"type": "string", "format": "email", "title": "Mail"},
        {"type": "integer", "minimum": 0, "default": 3},
        {"type": "number"},
        {"type": "boolean", "default": True},
        {"type": "string", "enum": ["a", "b"], "default": "a"},
        {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
        {"type": "string", "enum": ["a"], "enumNames": ["A"]},
    ]
)
MULTI_SELECTS = st.sampled_from(
    [
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["a"]},
        {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
    ]
)
FIELDS: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (types.Tool, "input_schema"): PROPERTIES.map(lambda p: {"type": "object", "properties": p}),
    (types.Tool, "output_schema"): st.none()
    | PROPERTIES.map(lambda p: {"type": "object", "properties": p})
    | st.sampled_from([{"type": "array", "items": {"type": "integer"}}, {}, {"anyOf": [{"type": "string"}]}]),
    (types.ElicitFormParams, "requested_schema"): st.dictionaries(
        st.sampled_from("abc"), PRIMITIVES | MULTI_SELECTS, max_size=3
    ).map(lambda p: {"type": "object", "properties": p, "required": sorted(p)}),
    (types.ElicitURLParams, "elicitation_id"): TEXTS,
    (types.ElicitURLParams, "url"): st.just("https://example.org/"),
    (types.ElicitResult, "content"): st.none() | st.dictionaries(TEXTS, TEXTS | st.integers() | st.booleans()),
    (types.CallToolResult, "structured_content"): st.just(ABSENT) | JSON,
    (types.ToolResultContent, "structured_content"): st.just(ABSENT) | JSON,
    (types.Annotations, "priority"): st.none() | st.floats(0, 1),
    (types.CacheableResult, "ttl_ms"): st.integers(0, 2**40),
    (types.Root, "uri"): st.just("file:///work"),
    (UpdateTaskParams, "input_responses"): st.dictionaries(TEXTS, OBJECTS, max_size=2),
    (types.SubscriptionFilter, "resource_subscriptions"): st.lists(URIS, max_size=2).map(tuple),
}
KNOWN = tuple(method for method in METHODS if "tasks" not in method.name)
"""The methods that the official Python SDK has types for."""
NAMES = {
    "input_responses": st.none() | st.dictionaries(TEXTS, st.just({"action": "decline"}), max_size=2),
    "experimental": st.none() | st.dictionaries(TEXTS, st.just({"a": {"b": 1}}), max_size=2),
    "uri": URIS,
    "src": URIS,
    "website_url": st.none() | URIS,
    "uri_template": st.just("file:///{path}"),
    "data": st.binary(max_size=6).map(lambda data: b64encode(data).decode()),
    "blob": st.binary(max_size=6).map(lambda data: b64encode(data).decode()),
}


@cache
def models(cls: type) -> st.SearchStrategy[Any]:
    """Any value of a class."""
    if cls is types.UnknownContent:
        return OBJECTS.map(lambda raw: types.UnknownContent(type="hologram", raw={**raw, "type": "hologram"}))
    members = {}
    for attribute in attrs.fields(attrs.resolve_types(cls)):
        special = [FIELDS[base, attribute.name] for base in cls.__mro__ if (base, attribute.name) in FIELDS]
        if not special and attribute.name in NAMES and attribute.type is not Any:
            special = [NAMES[attribute.name]]
        members[attribute.name] = special[0] if special else values(attribute.type)
    return st.builds(cls, **members)


def values(cls: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    plain = {str: TEXTS, int: st.integers(0, 2**53), bool: st.booleans(), Any: JSON, NoneType: st.none()}
    if cls is float:
        return st.floats(0, 1)
    if cls in plain:
        return plain[cls]
    origin, inner = get_origin(cls), get_args(cls)
    if cls == SamplingContent:
        return st.lists(values(inner[0]), min_size=1, max_size=2).map(tuple)
    if origin is tuple:
        return st.lists(values(inner[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXTS, values(inner[1]), max_size=2)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, UnionType):
        return st.one_of([values(member) for member in inner])
    return st.deferred(lambda: models(cls))


def as_represented(value: Any, version: str) -> Any:
    """A model without the fields that a revision does not have."""
    if isinstance(value, tuple):
        return tuple(as_represented(item, version) for item in value)
    if isinstance(value, dict):
        return {name: as_represented(member, version) for name, member in value.items()}
    if not attrs.has(type(value)):
        return value
    kept = {}
    for attribute in attrs.fields(type(value)):
        history = field_history(attribute)
        if exists_in(version, since=history.since, until=history.until):
            kept[attribute.name] = as_represented(getattr(value, attribute.name), version)
    return type(value)(**kept)


def written(revision: Revision, value: Any) -> Any:
    """Return the wire form; None if the revision cannot represent the value."""
    try:
        return revision.unstructure(value)
    except LocalProtocolError:
        return None


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@quick
@given(data=st.data())
def test_latest_revision_round_trips_values(cls: type, data: st.DataObject) -> None:
    value = data.draw(models(cls))

    assert LATEST.structure(LATEST.unstructure(value), cls) == as_represented(value, LATEST.version)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@quick
@given(data=st.data())
def test_lowered_value_is_written_unchanged_after_reading(cls: type, data: st.DataObject) -> None:
    """Lowering happens once: a value that was read from the wire is written unchanged."""
    value = data.draw(models(cls))
    for revision in REVISIONS.values():
        wire = written(revision, value)
        if wire is not None:
            lowered = "type" in wire and wire["type"] != getattr(cls, "type", wire["type"])
            nested = cls is CreateTaskResult and "task" in wire
            again = revision.structure(wire, types.TextContent if lowered else NestedTaskResult if nested else cls)

            assert revision.unstructure(again) == wire


def envelope(revision: Revision, method: Method, wire: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with the members that the connection adds, and with a ``_meta`` of only those."""
    params = {name: member for name, member in wire.items() if name != "_meta"}
    if revision.lifecycle is NegotiationStyle.PER_REQUEST and method.result is not None:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": revision.version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    return params


def rows(rows: tuple[Method, ...]) -> list[Any]:
    return [
        pytest.param(revision, row, id=f"{revision}-{row.name}-{row.to.value}")
        for revision in REVISIONS.values()
        for row in rows
        if exists_in(revision.version, since=row.since, until=row.until)
    ]


def has_known_members_only(wire: dict[str, Any]) -> bool:
    return "hologram" not in str(wire)


def check_params(revision: Revision, method: Method, params: dict[str, Any]) -> None:
    """Validate with the wire types of the official Python SDK."""
    parsers: list[Any] = []
    if method.to is not Side.CLIENT:
        parsers.append(peer.parse_client_request if method.result is not None else peer.parse_client_notification)
    if method.to is not Side.SERVER:
        parsers.append(peer.parse_server_request if method.result is not None else peer.parse_server_notification)
    for parse in parsers:
        parse(method.name, revision.version, params)


def check_result(revision: Revision, method: Method, result: dict[str, Any]) -> None:
    if method.to is not Side.CLIENT:
        peer.parse_server_result(method.name, revision.version, result)
    if method.to is not Side.SERVER:
        peer.parse_client_result(method.name, revision.version, result)


@pytest.mark.parametrize(("revision", "method"), rows(KNOWN))
@quick
@given(data=st.data())
def test_params_match_the_reference_peers(revision: Revision, method: Method, data: st.DataObject) -> None:
    wire = written(revision, data.draw(values(method.params)))
    if wire is not None and has_known_members_only(wire):
        check_params(revision, method, envelope(revision, method, wire))


@pytest.mark.parametrize(("revision", "method"), [row for row in rows(KNOWN) if row.values[1].result is not None])
@quick
@given(data=st.data())
def test_results_match_the_reference_peers(revision: Revision, method: Method, data: st.DataObject) -> None:
    assert method.result is not None
    wire = written(revision, data.draw(models(method.result)))
    if wire is not None and has_known_members_only(wire):
        wire.pop("_meta", None)
        if method.name == "subscriptions/listen":
            wire["_meta"] = {"io.modelcontextprotocol/subscriptionId": 1}
        check_result(revision, method, wire)


@quick
@given(result=models(InputRequiredResult))
def test_input_required_results_match_the_reference_peer(result: InputRequiredResult) -> None:
    wire = LATEST.unstructure(result)
    if has_known_members_only(wire) and (result.input_requests or result.request_state):
        wire.pop("_meta", None)

        assert type(peer.parse_server_result("tools/call", LATEST.version, wire)).__name__ == "InputRequiredResult"


def test_methods_match_the_reference_peers() -> None:
    """The tables have the same rows, except for tasks: they have an experiment of 2025-11-25, we have the extension."""
    ours = {
        (name, revision.version, side)
        for revision in REVISIONS.values()
        for side, methods in ((Side.SERVER, revision.server_methods), (Side.CLIENT, revision.client_methods))
        for name in methods
    }
    theirs = {(name, version, Side.SERVER) for name, version in [*peer.CLIENT_REQUESTS, *peer.CLIENT_NOTIFICATIONS]}
    theirs |= {(name, version, Side.CLIENT) for name, version in [*peer.SERVER_REQUESTS, *peer.SERVER_NOTIFICATIONS]}

    assert {row for row in ours if "task" not in row[0]} == {row for row in theirs if "task" not in row[0]}


def test_every_server_request_has_a_row() -> None:
    assert {question.method for question in get_args(types.InputRequest)} == {row.name for row in INPUT_REQUESTS}
    assert all(LATEST.client_methods.get(row.name) is None for row in INPUT_REQUESTS)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_histories_name_revisions(cls: type) -> None:
    dates = {class_history(cls).since, class_history(cls).tag_since}
    for attribute in attrs.fields(cls):
        dates |= {field_history(attribute).since, field_history(attribute).until}

    assert dates <= {None, *REVISIONS}
