"""The states of a request, as a table that maps a state and an event to the next state and an action.

:class:`mcptrio.runtime.request.RequestScope` looks up each event in :data:`TRANSITIONS` and performs the action.

    WAITING ── begin ──▶ RUNNING ── finish ──▶ ANSWERING ── close ──▶ CLOSED
       │                  │  │ └─ keep_open ──▶ KEPT_OPEN ── finish ──▶ ANSWERING
       │                  │  └── fail ──▶ FAILING ── finish ──▶ ANSWERING
       ├── fail ──▶ FAILING
       └── cancel ──▶ CANCELLED ◀── cancel ── RUNNING, KEPT_OPEN, FAILING

- A request has at most one answer. It has none if it was cancelled before its handler ended, or if its session ended.
- After a cancellation no error is sent. A failing request can still be cancelled, because the client then no longer
  wants the error. While a request is being answered, cancel and fail have no effect.
- The handler is cancelled at most once, through the scope that was attached when it began.
- From CANCELLED on, no message of the handler is sent. In FAILING, it may still send messages while it cleans up.
- A request that is kept open has no task, so cancel and fail close it at once, without an error. In all other states
  the task of the handler closes the request.
- No event leaves CLOSED, and closing twice is harmless. A row lacks the events that cannot occur in its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, TypeAlias

__all__ = ["TRANSITIONS", "Action", "RequestEvent", "RequestState"]


class RequestState(IntEnum):
    """The state of a request. The order matters: from CANCELLED on, only the answer may be sent."""

    WAITING = 0
    """No task runs it yet."""
    RUNNING = 1
    KEPT_OPEN = 2
    """No task runs it any more; it stays open until its client disconnects or the server stops."""
    FAILING = 3
    """The server ends it with an error; its handler is being cancelled."""
    CANCELLED = 4
    """No answer will be sent; its handler is being cancelled, if it has begun."""
    ANSWERING = 5
    """The handler has ended; the response is being sent."""
    CLOSED = 6


class RequestEvent(IntEnum):
    BEGIN = 0
    """A task is about to run the handler."""
    KEEP_OPEN = 1
    """The handler wants the request to stay open without a task."""
    CANCEL = 2
    """The client has cancelled it or disconnected, or its session ends."""
    FAIL = 3
    """The server ends it with an error: its deadline has passed, its plugin is disabled, or the server stops."""
    FINISH = 4
    """The handler has ended."""
    CLOSE = 5


class Action(IntEnum):
    NONE = 0
    PROCEED = 1
    """The event takes place: run the handler, keep the request open, answer, or close."""
    CANCEL_HANDLER = 2
    CLOSE_NOW = 3


_S, _E, _A = RequestState, RequestEvent, Action
_Row: TypeAlias = dict[RequestEvent, tuple[RequestState, Action]]


def _unchanging_row(state: RequestState) -> _Row:
    """Return a row in which every event leads back to ``state``. The caller replaces the exceptions."""
    return dict.fromkeys(RequestEvent, (state, Action.NONE))


TRANSITIONS: Final[Mapping[RequestState, _Row]] = MappingProxyType(
    {
        _S.WAITING: {
            _E.BEGIN: (_S.RUNNING, _A.PROCEED),
            _E.CANCEL: (_S.CANCELLED, _A.NONE),
            _E.FAIL: (_S.FAILING, _A.NONE),
            _E.CLOSE: (_S.CLOSED, _A.PROCEED),
        },
        _S.RUNNING: {
            _E.KEEP_OPEN: (_S.KEPT_OPEN, _A.PROCEED),
            _E.CANCEL: (_S.CANCELLED, _A.CANCEL_HANDLER),
            _E.FAIL: (_S.FAILING, _A.CANCEL_HANDLER),
            _E.FINISH: (_S.ANSWERING, _A.PROCEED),
            _E.CLOSE: (_S.CLOSED, _A.PROCEED),
        },
        _S.KEPT_OPEN: {
            _E.CANCEL: (_S.CANCELLED, _A.CLOSE_NOW),
            _E.FAIL: (_S.CANCELLED, _A.CLOSE_NOW),
            _E.FINISH: (_S.ANSWERING, _A.PROCEED),
            _E.CLOSE: (_S.CLOSED, _A.PROCEED),
        },
        _S.FAILING: _unchanging_row(_S.FAILING)
        | {
            _E.CANCEL: (_S.CANCELLED, _A.NONE),
            _E.FINISH: (_S.ANSWERING, _A.PROCEED),
            _E.CLOSE: (_S.CLOSED, _A.PROCEED),
        },
        _S.CANCELLED: _unchanging_row(_S.CANCELLED) | {_E.CLOSE: (_S.CLOSED, _A.PROCEED)},
        _S.ANSWERING: _unchanging_row(_S.ANSWERING) | {_E.CLOSE: (_S.CLOSED, _A.PROCEED)},
        # Events may still occur, because a shielded handler may continue after its session has ended.
        _S.CLOSED: _unchanging_row(_S.CLOSED),
    }
)
