"""Finds texts of a server that seem to deceive: invisible characters, and instructions to the model.

``inspect`` uses it. A finding is a hint for the user: it may be harmless, and harmful texts may be missed.

Source: Unicode Technical Report 36, section 3.6; OWASP, "MCP Tool Poisoning"; MCP 2026-07-28, basic/index, "Security
and Trust & Safety".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from mcptrio.ground.quoting import printable

__all__ = ["suspicious_parts"]

_MAX_TEXT_CHARS = 200_000
"""Characters of a text that are searched."""
_CONTEXT_CHARS = 20
"""Characters shown on each side of a match."""
_MAX_QUOTED_CHARS = 80
_MAX_NAMED_CHARACTERS = 4
"""Kinds of hidden characters that are named."""

# Categories without a visible glyph: format, private use, surrogates, unassigned, line and paragraph separators.
_HIDDEN = ("Cf", "Co", "Cs", "Cn", "Zl", "Zp")
# Selectors and the joiner can encode hidden text, but many emoji contain one.
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (what, re.compile(pattern, re.IGNORECASE))
    for what, pattern in (
        ("has an HTML comment, which is not shown everywhere", r"<!--"),
        # A chat that shows the image requests its URL, which can carry data of the conversation.
        ("has an image from the web, which is requested when it is displayed", r"!\[[^\]\n]{0,200}\]\(\s*https?:"),
        ("has a long piece in Base64", r"[A-Za-z0-9+/]{200}"),
        # Gaps between words are bounded ({0,40}): an unbounded gap takes quadratic time on a long text.
        (
            "looks like an instruction to the model",
            r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|other|all|any"
            r"|system|safety)\b[^.\n]{0,30}\b(?:instruction|prompt|rule|message|context|guideline|directive)s?\b",
        ),
        (
            "looks like an instruction to keep something from the user",
            r"\b(?:do not|don't|never|must not|without)\b[^.\n]{0,40}\b(?:tell|inform|notify|mention|reveal|alert|warn"
            r"|telling|informing|notifying|mentioning)\w*\b[^.\n]{0,30}\b(?:user|human|anyone|anybody|person)\b",
        ),
        (
            "has a tag that imitates a system message",
            r"<\s*/?\s*(?:important|system|secret|hidden|admin|instructions?)\s*>",
        ),
        ("imitates a system message", r"\b(?:system prompt|new instructions?|you are now|developer mode)\b"),
        (
            "instructs the model how to use other tools",
            r"\b(?:before|after|instead of|when(?:ever)?)\s+(?:you\s+)?(?:use|using|call|calling|invok\w+)\s+"
            r"(?:any|other|another|every|all)\b",
        ),
        (
            "names files that contain secrets",
            r"(?:~|\$HOME|/root|/home/\w+)?/?\.(?:ssh|aws|gnupg|netrc|kube|docker)\b|\bid_(?:rsa|ed25519)\b|/etc/(?:passwd"
            r"|shadow)\b|(?<![\w])\.env\b|\bclaude_desktop_config\b|\bmcp\.json\b",
        ),
        (
            "mentions sending private data",
            r"\b(?:send|post|forward|upload|exfiltrat\w*|include|pass)\b[^.\n]{0,50}\b(?:conversation|chat history"
            r"|credentials?|passwords?|private keys?|api[ _-]?keys?|environment variables?)\b",
        ),
    )
)


def suspicious_parts(text: str) -> Iterator[str]:
    """Yield the findings in a text as printable lines: ``has invisible characters: U+200B ZERO WIDTH SPACE``."""
    text = text[:_MAX_TEXT_CHARS]
    if hidden := _hidden_characters(text):
        names = ", ".join(_character_name(character) for character in hidden[:_MAX_NAMED_CHARACTERS])
        yield f"has invisible characters: {names}{', …' if len(hidden) > _MAX_NAMED_CHARACTERS else ''}"
    for what, pattern in _PATTERNS:
        if match := pattern.search(text):
            yield f'{what}: "{_excerpt(text, match)}"'


def _hidden_characters(text: str) -> list[str]:
    # Nearly all texts are plain ASCII, for which no category has to be looked up.
    if text.isascii() and text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable():
        return []
    return list(dict.fromkeys(each for index, each in enumerate(text) if _is_hidden(text, index, each)))


def _is_hidden(text: str, index: int, character: str) -> bool:
    if character in "\n\r\t":
        return False
    category = unicodedata.category(character)
    before = unicodedata.category(text[index - 1]) if index else ""
    if _SELECTORS.match(character) or character == _JOINER:
        # Emoji contain these characters: a single one after a picture, not several in a row.
        return not (before in ("So", "Sk") or (character == _JOINER and text[index - 1 : index] == _EMOJI_STYLE))
    return category in _HIDDEN or category == "Cc"


def _character_name(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, 'without a name')}"


def _excerpt(text: str, match: re.Match[str]) -> str:
    begin = max(match.start() - _CONTEXT_CHARS, 0)
    end = min(match.end() + _CONTEXT_CHARS, match.start() + _MAX_QUOTED_CHARS, len(text))
    part = " ".join(text[begin:end].split())
    return f"{'…' if begin else ''}{printable(part)}{'…' if end < len(text) else ''}"
