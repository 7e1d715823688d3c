"""The entry of a server in each host application's format.

Only the members that say how to reach the server are ours. The user's additions (``disabled``, ``alwaysAllow``,
``timeout``) stay when the entry is written again.

Source: VS Code, "MCP configuration reference"; Claude Code, Cursor, Windsurf, Gemini CLI, Cline: their pages on MCP
servers; Zed, "Model Context Protocol"; Codex, "config.toml"; Goose, "Configuration files".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from mcptrio.connecting.targets import Command, Endpoint

__all__ = ["EntryShape", "is_ours"]

_PROGRAM = re.compile(r"(?:^|[\\/])mcptrio(?:\.exe)?\Z", re.IGNORECASE)


@frozen(kw_only=True)
class EntryShape:
    """How a host writes an entry.

    Args:
        command, args, env: The names of these members.
        url: The name of this member; ``None`` if the host application's file has no servers with a URL.
        headers: The name of this member.
        command_members: Further members of an entry with a command.
        url_members: Further members of an entry with a URL.
        has_name: True if the entry contains its own name.
    """

    command: str = "command"
    args: str = "args"
    env: str = "env"
    url: str | None = "url"
    headers: str = "headers"
    command_members: Mapping[str, Any] = field(factory=dict)
    url_members: Mapping[str, Any] = field(factory=dict)
    has_name: bool = False

    def write(self, target: Command | Endpoint, name: str, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry.

        Args:
            before: The existing entry. Its other members are kept, and its variables unless they are set again.
        """
        # Members of both kinds of entries: an entry may change from a command to a URL.
        managed = {self.command, self.args, self.env, self.url, self.headers, "type", "source", "name"}
        other_members = {key: value for key, value in before.items() if key not in managed}
        name_member = {"name": name} if self.has_name else {}
        if isinstance(target, Endpoint):
            assert self.url is not None
            entry = {**self.url_members, **name_member, self.url: target.url}
            pairs, key = dict(target.headers), self.headers
        else:
            entry = {
                **self.command_members,
                **name_member,
                self.command: target.args[0],
                self.args: list(target.args[1:]),
            }
            pairs, key = dict(target.env), self.env
        existing = before.get(key)
        pairs = {**(existing if isinstance(existing, Mapping) else {}), **pairs}
        if pairs:
            entry[key] = pairs
        # The existing members come last: `enabled` and `timeout` of a new entry are only defaults.
        return {**entry, **other_members}

    def read(self, entry: Any) -> Command | Endpoint | None:
        """Return the target of an entry; ``None`` if it is unknown."""
        if not isinstance(entry, Mapping):
            return None
        url = entry.get(self.url) if self.url else None
        if isinstance(url, str):
            return Endpoint(url=url, headers=_string_members(entry.get(self.headers)))
        command, args = entry.get(self.command), entry.get(self.args) or []
        if isinstance(command, str) and isinstance(args, list) and all(isinstance(each, str) for each in args):
            return Command(args=(command, *args), env=_string_members(entry.get(self.env)))
        return None

    @staticmethod
    def is_off(entry: Any) -> bool:
        """Return whether the host application ignores the entry."""
        # Cline and Windsurf write `disabled`, Codex and Goose write `enabled`.
        return isinstance(entry, Mapping) and (entry.get("disabled") is True or entry.get("enabled") is False)


def is_ours(target: Command | Endpoint | None) -> bool:
    """Return whether an entry starts mcptrio. For a URL this is unknown."""
    if not isinstance(target, Command):
        return False
    # `install` writes `python -m mcptrio`; a user may have written the program.
    return tuple(target.args[1:3]) == ("-m", "mcptrio") or _PROGRAM.search(target.args[0]) is not None


def _string_members(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {key: each for key, each in value.items() if isinstance(key, str) and isinstance(each, str)}
