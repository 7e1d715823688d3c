"""Fingerprints of the plugins' definitions at the time when the operator locked them.

``mcptrio lock`` writes them to a file (:mod:`mcptrio.cli.server.lock_file`). The policy compares each tool with the
file, because an upgrade can change a description, which models read as an instruction. Equal definitions have the same
fingerprint on every machine, with every Python version and in every revision.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import ResourceTemplate
from mcptrio.protocol.model.tools import Tool

__all__ = ["KINDS", "Fingerprint", "Kind", "LockedPlugin", "ToolLock", "fingerprint", "in_words"]

Kind: TypeAlias = Literal["tools", "prompts", "templates"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "templates")
"""The kinds of entries in a lock, in this order."""

_PART_DIGITS = 16
"""Hexadecimal digits of the digest of a part. These digests only show which part has changed; definitions are compared
by the whole digest."""


@frozen(kw_only=True)
class Fingerprint:
    """Digests of one definition of a plugin, for comparison with a later definition.

    Args:
        sha256: Digest of the whole definition.
        parts: Digests by part, which show the part that has changed.
        hints: The hints as words.
    """

    sha256: str
    parts: Mapping[str, str] = field(factory=dict)
    hints: tuple[str, ...] = ()

    def differences(self, other: Fingerprint) -> list[str]:
        """Return the parts that differ; empty if none do."""
        if self.sha256 == other.sha256:
            return []
        parts = [name for name in {**self.parts, **other.parts} if self.parts.get(name) != other.parts.get(name)]
        # The parts do not contain the hints.
        if self.hints != other.hints:
            parts.append("hints")
        return parts or ["fingerprint"]


def fingerprint(offered: Tool | Prompt | ResourceTemplate) -> Fingerprint:
    """Return the fingerprint of a tool, a prompt or a resource template."""
    entry: Any = offered
    described = {"title": entry.title, "description": entry.description}
    hints: tuple[str, ...] = ()
    whole: dict[str, Any] = {"name": entry.name, "description": described}
    if hasattr(entry, "input_schema"):
        whole |= {"input schema": entry.input_schema, "output schema": entry.output_schema}
        hints = tuple(_hints(entry.annotations))
    elif hasattr(entry, "uri_template"):
        whole["template"] = [entry.uri_template, entry.mime_type]
    else:
        whole["arguments"] = [[each.name, each.description, bool(each.required)] for each in entry.arguments or ()]
    # The name is only in the whole digest, because another name means another entry.
    parts = {
        part: _digest(value)[:_PART_DIGITS] for part, value in whole.items() if part != "name" and value is not None
    }
    return Fingerprint(sha256=_digest([whole, hints]), parts=parts, hints=hints)


@frozen(kw_only=True)
class LockedPlugin:
    """A locked plugin: its version, and the fingerprints of its entries by kind and name."""

    version: str | None = None
    distribution: str | None = None
    offers: Mapping[Kind, Mapping[str, Fingerprint]] = field(factory=dict)

    def of(self, kind: Kind) -> Mapping[str, Fingerprint]:
        """Return the fingerprints of the entries of one kind, by name."""
        return self.offers.get(kind, {})


@frozen(kw_only=True)
class ToolLock:
    """The contents of a lock file: the fingerprints of the plugins' definitions.

    Args:
        plugins: The locked plugins by name.
    """

    plugins: Mapping[str, LockedPlugin] = field(factory=dict)

    def refuses(self, plugin: str, tool: Tool) -> str | None:
        """Return how a tool differs from the locked one; ``None`` if it does not."""
        locked = self.plugins.get(plugin, LockedPlugin()).of("tools").get(tool.name)
        if locked is None:
            return "it is not in the lock file"
        different = locked.differences(fingerprint(tool))
        if not different:
            return None
        return f"its {in_words(different)} {'differs' if len(different) == 1 else 'differ'} from the lock file"


def _hints(annotations: Any) -> Iterator[str]:
    if annotations is None:
        return
    for hint in ("destructive", "idempotent", "open_world", "read_only"):
        value = getattr(annotations, f"{hint}_hint")
        if value is not None:
            yield f"{hint}={str(value).lower()}"


def _digest(value: Any) -> str:
    # Sorted and compact, so that the digest does not depend on the order of keys.
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def in_words(names: list[str]) -> str:
    """Return the names as ``a, b and c``."""
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
