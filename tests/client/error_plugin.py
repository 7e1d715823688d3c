"""A plugin that raises each error class that the protocol transmits."""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import InvalidParams, MCPError, ResourceNotFound, resource, tool
from mcptrio.errors import (
    HeaderMismatch,
    InsufficientScope,
    InternalError,
    InvalidRequest,
    MethodNotFound,
    MissingClientCapability,
    Overloaded,
    ParseError,
    RateLimited,
    UnsupportedProtocolVersion,
    URLElicitationRequired,
)

__all__ = ["RAISED", "act", "note"]

_PAGE = {"mode": "url", "message": "Pay", "url": "https://pay.example.com/1", "elicitationId": "1"}
# The client sends a read again after at most 30 seconds; these errors ask for more.
RAISED: dict[str, Callable[[], MCPError]] = {
    "MCPError": lambda: MCPError("m", code=-32050, data=[1]),
    "ParseError": lambda: ParseError("m"),
    "InvalidRequest": lambda: InvalidRequest("m", data={"why": 1}),
    "MethodNotFound": lambda: MethodNotFound("m"),
    "InvalidParams": lambda: InvalidParams("m", data={"at": "a"}),
    "InternalError": lambda: InternalError("m"),
    "InsufficientScope": lambda: InsufficientScope("m", scopes=frozenset({"read", "write"})),
    "Overloaded": lambda: Overloaded("m", retry_after=90.5),
    "RateLimited": lambda: RateLimited("m", retry_after=60.0),
    "ResourceNotFound": lambda: ResourceNotFound("note://gone"),
    "HeaderMismatch": lambda: HeaderMismatch("m"),
    "MissingClientCapability": lambda: MissingClientCapability("m", required={"sampling": {}}),
    "UnsupportedProtocolVersion": lambda: UnsupportedProtocolVersion("2030-01-01", ["2026-07-28"]),
    "URLElicitationRequired": lambda: URLElicitationRequired("m", elicitations=[_PAGE]),
}


@resource("raise://{name}")
async def note(name: str) -> str:
    raise RAISED[name]()


@tool
async def act(name: str) -> str:
    raise RAISED[name]()
