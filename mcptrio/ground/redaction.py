"""Finds secrets in texts and in the names of members.

Log messages for clients, audit records of a host, and recordings use this.

Source: RFC 6750 and RFC 9449 (Authorization headers); the token formats of GitHub, OpenAI, AWS and Slack.
"""

from __future__ import annotations

import re

__all__ = ["REDACTED", "is_secret_name", "redact"]

REDACTED = "[redacted]"
"""Written in place of a secret."""

_SECRETS = (
    # RFC 6750 and RFC 9449: an Authorization header, anywhere in a text.
    re.compile(r"(?i)\b(bearer|basic|dpop)\s+[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(
        r"(?i)\b(pass(?:word|wd|phrase)?|secret|token|api[_-]?key|access[_-]?key|authorization|client[_-]?secret)"
        r"(\"?\s*[:=]\s*\"?)[^\s\",;&]{3,}"
    ),
    # The end line is optional, because the text may have been cut.
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
    # The token formats of GitHub, OpenAI, AWS and Slack, which have no name next to them.
    re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,})"),
    # JSON Web Tokens. A \b would match after each hyphen too, and each match would be tried to the end of the text.
    re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    # User and password in a URL.
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)
_SECRET_NAME = re.compile(r"(?i)pass(word|wd|phrase)|secret|token|api[_-]?key|authorization|cookie|credential")


def redact(text: str) -> str:
    """Replace texts that look like secrets: bearer tokens, passwords, keys, JSON Web Tokens, credentials in URLs."""
    text = _SECRETS[0].sub(lambda match: f"{match[1]} [redacted]", text)
    text = _SECRETS[1].sub(lambda match: f"{match[1]}{match[2]}[redacted]", text)
    for pattern in _SECRETS[2:]:
        text = pattern.sub(REDACTED, text)
    return text


def is_secret_name(name: str) -> bool:
    """Return whether a member with this name contains a secret: a password, a token, a key."""
    return _SECRET_NAME.search(name) is not None
