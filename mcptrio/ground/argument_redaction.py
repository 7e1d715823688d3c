"""Removes secrets from a request's arguments, by the operator's rules.

The audit log and the tracer use this. A secret is removed at any depth of objects and lists, and also from the message
of the request's error.

Source: fnmatch for names; re for values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any

from mcptrio.ground.redaction import REDACTED

__all__ = ["DEFAULT_SECRETS", "Redactor"]

DEFAULT_SECRETS = (
    "*password*",
    "*passphrase*",
    "*secret*",
    "*token*",
    "*key*",
    "*credential*",
    "*authorization*",
    "*cookie*",
)
"""Globs of names whose values are secret, unless the operator chooses others."""
_MIN_SECRET_CHARS = 4
"""Minimum characters of a value that is removed from other texts; a shorter one occurs in many texts by chance."""
_PREFIX_CHARS = 8
"""Characters at the beginning of a secret by which it is found in a text: errors shorten long values."""
_MAX_VALUES = 100
"""Secret values that are removed from other texts. If a request has more, its error is redacted completely."""


class Redactor:
    """The rules of one audit log.

    Args:
        names: Globs of the names of members whose values are secret. Case is ignored. A glob with a dot matches the
            path of a member, without positions in lists: ``login.pin``.
        values: Regular expressions of secret texts.

    Raises:
        ValueError: A regular expression is invalid.
    """

    def __init__(self, names: Iterable[str], values: Iterable[str]) -> None:
        lower = [name.lower() for name in names]
        self._names = [name for name in lower if "." not in name]
        self._paths = [name for name in lower if "." in name]
        self._values: list[re.Pattern[str]] = []
        for each in values:
            try:
                self._values.append(re.compile(each))
            except re.error as error:
                raise ValueError(f"expected a regular expression, got {each!r}: {error}") from error

    def text(self, text: str) -> str:
        """Return a text in which each match of the regular expressions is replaced."""
        for pattern in self._values:
            text = pattern.sub(REDACTED, text)
        return text

    def arguments(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[str], str]]:
        """Remove the secrets from arguments.

        Returns:
            The arguments, and a function that removes the same secrets from a text, because an error may repeat them.
        """
        secrets: set[str] = set()
        kept = self._redact(arguments, "", secrets)

        def redact_text(text: str) -> str:
            if len(secrets) > _MAX_VALUES:
                return REDACTED
            # The longest first, because a secret may contain a shorter one.
            for secret in sorted(secrets, key=len, reverse=True):
                text = _remove_secret(text, secret)
            return self.text(text)

        return kept, redact_text

    # Private

    def _redact(self, value: Any, path: str, secrets: set[str]) -> Any:
        # The recursion is bounded by the depth of a message.
        if isinstance(value, Mapping):
            kept: dict[str, Any] = {}
            for name, member in value.items():
                member_path = f"{path}.{name}" if path else name
                if self._is_secret(name, member_path):
                    _collect(member, secrets)
                    kept[name] = REDACTED
                else:
                    kept[name] = self._redact(member, member_path, secrets)
            return kept
        if isinstance(value, list | tuple):
            return [self._redact(item, path, secrets) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def _is_secret(self, name: str, path: str) -> bool:
        # Lower case on both sides: API keys are spelt in many ways.
        name, path = name.lower(), path.lower()
        return any(fnmatchcase(name, glob) for glob in self._names) or any(
            fnmatchcase(path, glob) for glob in self._paths
        )


def _remove_secret(text: str, secret: str) -> str:
    """Replace a secret, or as much of its beginning as the text contains."""
    start = 0
    while (start := text.find(secret[:_PREFIX_CHARS], start)) >= 0:
        pairs = zip(text[start : start + len(secret)], secret, strict=False)
        length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        text = text[:start] + REDACTED + text[start + length :]
        start += len(REDACTED)
    return text


def _collect(value: Any, secrets: set[str]) -> None:
    """Collect the strings and numbers in a secret value."""
    if isinstance(value, Mapping):
        for member in value.values():
            _collect(member, secrets)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, secrets)
    # true and false are not collected, because they occur in many texts by chance.
    elif value is not None and not isinstance(value, bool) and len(text := str(value)) >= _MIN_SECRET_CHARS:
        secrets.add(text)
