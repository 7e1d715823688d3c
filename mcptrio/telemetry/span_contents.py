"""Arguments, results and error messages as spans record them, without secrets.

Arguments and results are recorded only if the operator asks for that. The audit log removes secrets in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from mcptrio.ground.argument_redaction import DEFAULT_SECRETS, Redactor
from mcptrio.ground.redaction import REDACTED, redact

__all__ = ["SpanContents"]

_MAX_BYTES: Final = 4 * 1024
"""Bytes of a recorded value. Of a larger value, only the size is recorded."""
_MAX_SEARCHED_BYTES: Final = 64 * 1024
"""Bytes of a value that is searched for secrets. A larger value is not recorded."""
_MAX_CHARS: Final = 512
"""Characters of an error message."""


class SpanContents:
    """Returns arguments, results and error messages for spans, without secrets.

    Args:
        content: True if arguments and results are recorded.
        redact: Removes secrets from a text. The function of a server includes the redactions of its plugins.
    """

    def __init__(self, *, content: bool, redact: Callable[[str], str] = redact) -> None:
        self.content = content
        self._redact = redact
        # An error message may repeat arguments. If arguments are not recorded, every argument is a secret.
        self._redactor = Redactor(DEFAULT_SECRETS if content else ("*",), ())

    def value(self, value: Any) -> str:
        """Return arguments or a result as JSON without secrets."""
        size = len(orjson.dumps(value, default=str))
        if size > _MAX_SEARCHED_BYTES:
            return _omission_note(size)
        redacted, _ = self._redactor.arguments({"": value})
        text = self._redact(orjson.dumps(redacted[""], default=str).decode())
        return text if len(text) <= _MAX_BYTES else _omission_note(len(text))

    def message(self, message: str, arguments: Any) -> str:
        """Return the message of an error, without secrets and without those of the arguments."""
        # The first cut may leave half a secret at the end, which is not recognized. The second cut removes that end.
        text = message[: 2 * _MAX_CHARS]
        if isinstance(arguments, Mapping):
            if len(orjson.dumps(arguments, default=str)) > _MAX_SEARCHED_BYTES:
                return REDACTED
            _, without_secrets = self._redactor.arguments(arguments)
            text = without_secrets(text)
        return self._redact(text)[:_MAX_CHARS]


def _omission_note(size: int) -> str:
    return f"[left out: {size} bytes]"
