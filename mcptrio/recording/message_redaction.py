"""Removes secrets from recorded messages.

The recorder uses it for what it writes, and the replayed server for the requests that it looks up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from mcptrio.ground.guarded import Done, run_guarded_sync
from mcptrio.ground.redaction import REDACTED, is_secret_name, redact

__all__ = ["MessageRedactor", "hashed"]

_UNCHECKED = "[redaction failed]"
_SCHEMAS = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
"""Members whose member names describe values and have none: ``{"password": {"type": "string"}}``."""
# The names of the protocol's own members, which are not credentials. A replayed client must find them.
_OWN_NAMES = frozenset({"progressToken", "maxTokens"})
_STATE = "requestState"
_HASH_MARK = "sha256:"
_MAX_KNOWN = 2000
"""Texts, and names, whose result is remembered."""
_MAX_KNOWN_CHARS = 64


class MessageRedactor:
    """Removes secrets from JSON values.

    Args:
        redactions: Remove secrets from a text. The list may grow later. Called in a thread.
    """

    def __init__(self, redactions: Sequence[Callable[[str], str]] = (redact,)) -> None:
        self._redactions = redactions
        # Most short texts and names come again in each message.
        self._names: dict[str, bool] = {}
        self._known: dict[str, str] = {}
        self._known_by = 0

    def clean(self, value: Any, *, in_schema: bool = False) -> Any:
        """Return a JSON value without secrets. Its structure, numbers and the names of its members stay."""
        # The recursion is bounded by the depth of a message.
        if isinstance(value, dict):
            return {name: self._member(name, member, in_schema) for name, member in value.items()}
        if isinstance(value, list):
            return [self.clean(item, in_schema=in_schema) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _member(self, name: str, value: Any, in_schema: bool) -> Any:
        if name == _STATE and isinstance(value, str):
            # Sealed, but a reader of the file could repeat the request with it. The hash still pairs a result with the
            # next request.
            return value if value.startswith(_HASH_MARK) else f"{_HASH_MARK}{hashed(value)}"
        if not in_schema and self._is_secret(name):
            return _blank(value)
        return self.clean(value, in_schema=in_schema or name in _SCHEMAS)

    def _is_secret(self, name: str) -> bool:
        found = self._names.get(name)
        if found is None:
            found = name not in _OWN_NAMES and is_secret_name(name)
            if len(self._names) < _MAX_KNOWN and len(name) <= _MAX_KNOWN_CHARS:
                self._names[name] = found
        return found

    def _text(self, text: str) -> str:
        if len(text) > _MAX_KNOWN_CHARS:
            return self._redacted(text)
        if len(self._known) >= _MAX_KNOWN or self._known_by != len(self._redactions):
            self._known.clear()
            self._known_by = len(self._redactions)
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._redacted(text)
        return found

    def _redacted(self, text: str) -> str:
        for redaction in self._redactions:
            outcome = run_guarded_sync(redaction, text)
            # A text that could not be checked is not written.
            text = outcome.value if isinstance(outcome, Done) and isinstance(outcome.value, str) else _UNCHECKED
        return text


def hashed(text: str) -> str:
    """Return a short hash that names the same thing in every process."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _blank(value: Any) -> Any:
    """Replace all texts in a secret value. A number is a count of tokens, not a token."""
    if isinstance(value, dict):
        return {name: _blank(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return REDACTED if isinstance(value, str) else value
