"""The behaviour of plugin.py that every client must see, by revision and transport, in one table.

The tests of the clients use it; a client's script tries each behaviour and reports it. The expectation does not depend
on the client, so a difference between two clients is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

__all__ = ["HANDSHAKE", "MODERN", "REVISIONS", "SSE", "Run", "behaviours_of", "expected", "runs_of"]

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
REVISIONS = (*HANDSHAKE, MODERN)
TRANSPORTS = ("stdio", "http")
SSE = (HANDSHAKE[0], HANDSHAKE[-1])
"""The revisions that are tested over HTTP with SSE: the one that defines it, and the one with the most features."""

INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
RESOURCE_NOT_FOUND = -32002


@frozen(kw_only=True)
class Run:
    """One client with one revision over one transport, on one connection."""

    client: str
    revision: str
    transport: str
    routed: bool = False
    """Whether a proxy sends each request to any of several replicas."""

    def __str__(self) -> str:
        return f"{self.client}-{self.revision}-{self.transport}"

    def since(self, revision: str) -> bool:
        return self.revision >= revision

    @property
    def modern(self) -> bool:
        return self.revision == MODERN


def runs_of(client: str, revisions: Sequence[str], *, sse: Sequence[str] = (), routed: bool = False) -> list[Run]:
    """Return each revision over each transport (but stdio if routed), and those of ``sse`` over HTTP with SSE."""
    transports = TRANSPORTS[1:] if routed else TRANSPORTS
    return [
        Run(client=client, revision=revision, transport=transport, routed=routed)
        for revision in revisions
        for transport in (*transports, *(("sse",) if revision in sse else ()))
    ]


def expected(behaviour: str, run: Run) -> Any:
    """Return the result that the client must see."""
    return _EXPECTED[behaviour](run)


def behaviours_of(run: Run) -> list[str]:
    """Return the behaviours that a run can try."""
    left_out: set[str] = set()
    if run.transport in ("stdio", "sse"):
        left_out |= {"mirrored"}  # parameter headers are sent over HTTP only
    if run.modern:
        left_out |= {"pinged"}
    if run.modern or run.transport != "http":
        left_out |= {"released", "resumed", "ended"}
    if run.routed:
        left_out |= {"list_changed"}  # a tool that is added at run time exists on one replica only
    if run.client == "typescript-2" and not run.modern:
        left_out |= {"missing"}  # the SDK replaces the code of every revision with that of 2026-07-28
    if run.client == "fastmcp":
        # Its client does not cache by default, resumes no request from an event id, and has no subscriptions/listen. It
        # knows that an argument belongs into a header only after it has listed the tools.
        left_out |= {"cached", "resumed", *(["mirrored", "updated", "list_changed"] if run.modern else [])}
    return [behaviour for behaviour in _EXPECTED if behaviour not in left_out]


# Results that depend on the run


def _negotiated(run: Run) -> Any:
    capabilities = ["logging", "prompts", "resources", "tools"]
    return {
        "revision": run.revision,
        "server": "mcptrio-clients",
        "instructions": "Greet first.",
        "capabilities": ["completions", *capabilities] if run.since("2025-03-26") else capabilities,
    }


def _described(run: Run) -> Any:
    return {
        "title": "Greeting" if run.since("2025-06-18") else None,
        "description": "Greet a person.",
        "required": ["name"],
        "argument": {"type": "string", "description": "The name to greet."},
        "read_only": True if run.since("2025-03-26") else None,
        "icon": "https://example.com/wave.png" if run.since("2025-11-25") else None,
    }


def _structured(run: Run) -> Any:
    area = {"value": 3, "unit": "m²"}
    return {"text": area, "structured": area if run.since("2025-06-18") else None}


def _contents(run: Run) -> Any:
    audio = "audio" if run.since("2025-03-26") else "text"
    link = "resource_link" if run.since("2025-06-18") else "text"
    return ["text", "image", audio, link, "resource"]


def _failed(run: Run) -> Any:
    wrong_type = 'error: invalid arguments: expected a number at `width`, got "wide"'
    return {
        "refused": "error: not today",
        "crashed": "error: error executing tool crash: see id … in the server's log",
        "wrong type": wrong_type if run.since("2025-11-25") else f"error {INVALID_PARAMS}",
        "unknown tool": f"error {INVALID_PARAMS}",
        "unknown prompt": INVALID_PARAMS,
        "bad cursor": INVALID_PARAMS,
    }


def _progressed(run: Run) -> Any:
    return [[[step, 3, f"{step} of 3" if run.since("2025-03-26") else None] for step in (1, 2, 3)], "3"]


def _asked(run: Run) -> Any:
    if not run.since("2025-06-18"):
        return {"answers": [f"error {INVALID_REQUEST}"] * 3, "asked": []}
    fields = ["size", "sugar", "to_go"]
    return {
        "answers": ["large, sugar 2, here", "decline", "cancel"],
        "asked": [{"message": message, "fields": fields} for message in ("Which coffee?", "decline", "cancel")],
    }


def _opened(run: Run) -> Any:
    if not run.since("2025-11-25"):
        return {"answer": f"error {INVALID_REQUEST}", "asked": []}
    id = None if run.modern else "sign-in-1"
    return {"answer": "accept", "asked": [{"url": "https://example.com/sign-in", "id": id}]}


def _with_forms(answer: Any) -> Callable[[Run], Any]:
    return lambda run: answer if run.since("2025-06-18") else f"error {INVALID_REQUEST}"


def _completed(run: Run) -> Any:
    return [["rust"], ["cats", "cars"], ["dogs"] if run.since("2025-06-18") else ["cats", "cars"]]


def _always(value: Any) -> Callable[[Run], Any]:
    return lambda run: value


_EXPECTED: Mapping[str, Callable[[Run], Any]] = {
    "negotiated": _negotiated,
    "lists": _always(
        {
            "tools": [
                *("greet", "area", "media", "locate", "refuse", "crash", "count", "hold", "let_go", "watch_cancelled"),
                *("meet", "break_off", "chat", "order", "sign_in", "think", "roots", "everything", "checkout"),
                *("touch", "extend", "shrink"),
            ],
            "resources": ["note://asked", "note://today", "note://logo", "note://pair"],
            "templates": ["note://{day}/{topic}", "log://{name}", "user://{name}"],
            "prompts": ["interview", "review", "plain"],
        }
    ),
    "described": _described,
    "called": _always("Hello, Zoë 🌊!"),
    "structured": _structured,
    "contents": _contents,
    "mirrored": _always(["in Zürich", "in Oslo"]),
    "failed": _failed,
    "missing": lambda run: INVALID_PARAMS if run.modern else RESOURCE_NOT_FOUND,
    "concurrent": _always(True),
    "progressed": _progressed,
    "cancelled": _always([True, " was cancelled", "Hello, after!"]),
    "asked": _asked,
    "opened": _opened,
    "sampled": _always(
        {
            "answer": "a-model: tea!",
            "asked": [{"text": "tea", "max_tokens": 50, "system_prompt": "Be brief."}],
        }
    ),
    "rooted": _always('["file:///srv/data"]'),
    "asked_together": _with_forms("large, a-model, data"),
    "asked_twice": _with_forms("charged 1 time(s), large, True"),
    "asked_elsewhere": _with_forms(["Serve a large coffee.", "a large note"]),
    "read": _always(
        [
            [{"uri": "note://logo", "mimeType": "image/png", "blob": "iVBORw=="}],
            [
                {"uri": "note://pair/1", "text": "one"},
                {"uri": "note://pair", "mimeType": "application/x-two", "blob": "dHdv"},
            ],
            [{"uri": "note://monday/a%20b", "mimeType": "text/plain", "text": "a b on monday"}],
        ]
    ),
    "cached": lambda run: run.modern,
    "prompted": _always([["user", "Review this rust: 1 + 1"], ["user", "Just do it."]]),
    "completed": _completed,
    "logged": _always(
        [
            {"level": "error", "data": "an error message", "logger": None},
            {"level": "warning", "data": {"text": "a warning"}, "logger": "chat"},
        ]
    ),
    "updated": _always([True, "note://monday/cats"]),
    "list_changed": _always(
        [
            ["prompts", "resources", "tools"],
            ["extra_tool", "note://extra", "extra_prompt"],
            ["prompts", "resources", "tools"],
            [],
        ]
    ),
    "pinged": _always({}),
    "released": lambda run: ["the rest", [True] if run.since("2025-11-25") else []],
    "resumed": _always(" was let go"),
    "ended": _always([204, 404]),
}
