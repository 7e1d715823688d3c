"""A text that never appears in logs, tracebacks or pickles.

Settings of plugins and credentials use it.
"""

from __future__ import annotations

from hmac import compare_digest

__all__ = ["Secret"]


class Secret:
    """Text that only :meth:`mcptrio.Secret.reveal` returns. ``repr``, ``str``, tracebacks and pickle do not show it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        # In constant time, because a server may compare a client's credentials with this secret.
        return isinstance(other, Secret) and compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")
