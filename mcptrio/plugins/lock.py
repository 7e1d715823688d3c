"""Fingerprints of the plugins' definitions at the time when the operator locked them.

``mcptrio lock`` writes them to a file (:mod:`mcptrio.cli.server.lock_file`), and the policy compares each tool with it,
because an upgrade can change a description, which is an instruction to a model. Equal definitions have the same
fingerprint on every machine, with every Python and in every revision.
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

_PART = 16
"""Hexadecimal digits of a part's digest, which only shows which part has changed. The whole digest decides."""


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
        found = [name for name in {**self.parts, **other.parts} if self.parts.get(name) != other.parts.get(name)]
        # Hints are compared apart from the digests, so that a change to a hint is named as such.
        if self.hints != other.hints:
            found.append("hints")
        return found or ["fingerprint"]


def fingerprint(offered: Tool | Prompt | ResourceTemplate) -> Fingerprint:
    """Return the fingerprint of a tool, a prompt or a resource template."""
    given: Any = offered
    described = {"title": given.title, "description": given.description}
    hints: tuple[str, ...] = ()
    whole: dict[str, Any] = {"name": given.name, "description": described}
    if hasattr(given, "input_schema"):
        whole |= {"input schema": given.input_schema, "output schema": given.output_schema}
        hints = tuple(_hints(given.annotations))
    elif hasattr(given, "uri_template"):
        whole["template"] = [given.uri_template, given.mime_type]
    else:
        whole["arguments"] = [[each.name, each.description, bool(each.required)] for each in given.arguments or ()]
    # The name is only in the whole digest, because another name means another entry.
    parts = {name: _digest(value)[:_PART] for name, value in whole.items() if name != "name" and value is not None}
    return Fingerprint(sha256=_digest([whole, hints]), parts=parts, hints=hints)


@frozen(kw_only=True)
class LockedPlugin:
    """A locked plugin: its version, and its entries by kind and name."""

    version: str | None = None
    distribution: str | None = None
    offers: Mapping[Kind, Mapping[str, Fingerprint]] = field(factory=dict)

    def of(self, kind: Kind) -> Mapping[str, Fingerprint]:
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
    # Sorted and compact: the digest must not depend on the order of keys or on the Python version.
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def in_words(names: list[str]) -> str:
    """Return the names as ``a, b and c``."""
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
