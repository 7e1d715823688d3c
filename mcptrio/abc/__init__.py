"""The ports: interfaces between the engines, below both who calls them and who implements them.

The one rule: nothing here does anything. Values are frozen; protocols are small.
"""

from __future__ import annotations

from mcptrio.abc.authorization import (
    AuthMethod,
    ClientAuth,
    Fetch,
    FetchRequest,
    FetchResponse,
    Guard,
    OwnIssuer,
    Principal,
    RequestHead,
    TokenStore,
    TokenVerifier,
)
from mcptrio.abc.channels import MessageChannel, Outlet, PromptChannel
from mcptrio.abc.engine import ASGIApp, Engine, PeerSession, StateSealer
from mcptrio.abc.stores import Bus, EventStore, SessionRecord, SessionStore, StoredEvent

__all__ = [
    "ASGIApp",
    "AuthMethod",
    "Bus",
    "ClientAuth",
    "Engine",
    "EventStore",
    "Fetch",
    "FetchRequest",
    "FetchResponse",
    "Guard",
    "MessageChannel",
    "Outlet",
    "OwnIssuer",
    "PeerSession",
    "Principal",
    "PromptChannel",
    "RequestHead",
    "SessionRecord",
    "SessionStore",
    "StateSealer",
    "StoredEvent",
    "TokenStore",
    "TokenVerifier",
]
