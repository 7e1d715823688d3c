"""Removes secrets from recorded messages.

The recorder redacts each message that it writes. The replay server redacts each request before it looks the request up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from mcptrio.ground.guarded import Done, run_guarded_sync
from mcptrio.ground.redaction import REDACTED, is_secret_name, redact

__all__ = ["MessageRedactor", "short_hash"]

_UNCHECKED = "[redaction failed]"
_SCHEMAS = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
"""Members with a JSON Schema. There, a name describes a value without containing it, as in
``{"password": {"type": "string"}}``."""
# Members of the protocol whose names look like credentials. A replayed client needs their values.
_PROTOCOL_NAMES = frozenset({"progressToken", "maxTokens"})
_STATE = "requestState"
_HASH_MARK = "sha256:"
_MAX_CACHED = 2000
"""Texts, and member names, whose redaction is cached."""
_MAX_CACHED_CHARS = 64
"""Characters of a cached text or member name."""


class MessageRedactor:
    """Removes secrets from JSON values.

    Args:
        redactions: Remove secrets from a text. The list may grow later. Called in a thread.
    """

    def __init__(self, redactions: Sequence[Callable[[str], str]] = (redact,)) -> None:
        self._redactions = redactions
        # Most short texts and names are repeated in each message.
        self._secret_names: dict[str, bool] = {}
        self._redacted_texts: dict[str, str] = {}
        # The number of redactions that the cached texts have passed.
        self._cached_redactions = 0

    def clean(self, value: Any, *, in_schema: bool = False) -> Any:
        """Return a JSON value without secrets. Its structure, numbers and member names are kept."""
        # The recursion is bounded by the depth of a message.
        if isinstance(value, dict):
            return {name: self._member(name, member, in_schema) for name, member in value.items()}
        if isinstance(value, list):
            return [self.clean(item, in_schema=in_schema) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _member(self, name: str, value: Any, in_schema: bool) -> Any:
        if name == _STATE and isinstance(value, str):
            # The state is sealed, but a reader of the file could repeat the request with it. Its hash still shows which
            # result belongs to the next request.
            return value if value.startswith(_HASH_MARK) else f"{_HASH_MARK}{short_hash(value)}"
        if not in_schema and self._is_secret(name):
            return _blank(value)
        return self.clean(value, in_schema=in_schema or name in _SCHEMAS)

    def _is_secret(self, name: str) -> bool:
        is_secret = self._secret_names.get(name)
        if is_secret is None:
            is_secret = name not in _PROTOCOL_NAMES and is_secret_name(name)
            if len(self._secret_names) < _MAX_CACHED and len(name) <= _MAX_CACHED_CHARS:
                self._secret_names[name] = is_secret
        return is_secret

    def _text(self, text: str) -> str:
        if len(text) > _MAX_CACHED_CHARS:
            return self._redact_text(text)
        if len(self._redacted_texts) >= _MAX_CACHED or self._cached_redactions != len(self._redactions):
            self._redacted_texts.clear()
            self._cached_redactions = len(self._redactions)
        redacted = self._redacted_texts.get(text)
        if redacted is None:
            redacted = self._redacted_texts[text] = self._redact_text(text)
        return redacted

    def _redact_text(self, text: str) -> str:
        for redaction in self._redactions:
            outcome = run_guarded_sync(redaction, text)
            # A text that could not be checked is not written.
            text = outcome.value if isinstance(outcome, Done) and isinstance(outcome.value, str) else _UNCHECKED
        return text


def short_hash(text: str) -> str:
    """Return a short hash of a text, which is equal in every process."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _blank(value: Any) -> Any:
    """Replace all texts in a secret value. A number is a count of tokens, not a token."""
    if isinstance(value, dict):
        return {name: _blank(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return REDACTED if isinstance(value, str) else value
