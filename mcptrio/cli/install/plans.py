"""Plans an installation or removal, and carries it out.

``mcptrio host`` uses it. A plan is made first, and is carried out completely or not at all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from mcptrio.cli.install.documents import entry_at, parse, put, remove
from mcptrio.cli.install.edits import Keys, Uneditable, Unreadable
from mcptrio.cli.install.entries import is_ours
from mcptrio.cli.install.files import Original, backups, decode_text, encode_text, read
from mcptrio.cli.install.hosts import HostKind
from mcptrio.connecting.targets import Command, Endpoint
from mcptrio.errors import ConfigError

__all__ = ["InstallPlan", "plan_install", "plan_uninstall", "snippet"]

# Hosts prefix the names of tools with the name of the entry. OpenAI's API accepts only these characters in a tool's
# name, at most 64.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@frozen(kw_only=True)
class InstallPlan:
    """One change to a file.

    Args:
        host: The host application.
        original: The current file.
        after: The new content; ``None`` deletes the file.
        outcome: The change in one word, such as ``added``.
        obsolete: Copies that are no longer needed: the restored one, and those of our own earlier entry.
        makes_backup: True to copy the current file first.
        others: The names of other entries that start mcptrio, for a removal.
    """

    host: HostKind
    original: Original
    after: bytes | None = field(repr=False)
    outcome: str
    obsolete: tuple[Path, ...] = ()
    makes_backup: bool = True
    others: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return self.original.path

    @property
    def changes(self) -> bool:
        return self.after != self.original.data

    def diff(self) -> str:
        """Return a unified diff of the file; empty if nothing changes."""
        sides = [(data or b"").decode("utf-8", "replace") for data in (self.original.data, self.after)]
        old, new = (side.splitlines(keepends=True) for side in sides)
        name = str(self.path)
        before = "/dev/null" if self.original.data is None else name
        after = "/dev/null" if self.after is None else name
        lines = difflib.unified_diff(old, new, before, after)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def carry_out(self) -> Path | None:
        """Write the file.

        Returns:
            The copy that was made.
        """
        if not self.changes:
            return None
        # The copy is made first, so that the old content exists at any moment.
        backup = self.original.back_up() if self.makes_backup else None
        try:
            self.original.replace(self.after)
        except ConfigError:
            # The file has not changed, so its copy is not needed.
            if backup is not None:
                backup.unlink(missing_ok=True)
            raise
        # Only after the file has been replaced: a failure keeps every copy.
        for copy in self.obsolete:
            copy.unlink(missing_ok=True)
        return backup


def plan_install(
    host: HostKind, path: Path, name: str, target: Command | Endpoint, *, force: bool = False
) -> InstallPlan:
    """Plan the change that adds or replaces a server's entry in a host application's file.

    Args:
        path: The path of the host application's file.
        name: The name of the entry.
        force: Replace an entry of this name that is not ours.
    """
    file = _File.read(host, path, name)
    _check(target, host)
    existing = file.entry
    if existing is not None and not force:
        installed = host.shape.read(existing)
        # A URL does not show whose entry it is. The same URL can be written again without --force.
        is_same_url = isinstance(installed, Endpoint) and isinstance(target, Endpoint) and installed.url == target.url
        if not is_ours(installed) and not is_same_url:
            raise ConfigError(
                f"{path}: the server {name} exists and is not mcptrio's; choose another name with --name,"
                " or replace it with --force"
            )
    before: Mapping[str, Any] = {}
    # Variables and headers of another server are not passed to mcptrio.
    if isinstance(existing, Mapping) and (is_ours(host.shape.read(existing)) or not force):
        before = existing
    entry = host.shape.write(target, name, before)
    # The style of an equal entry does not matter: the file is not changed.
    after = file.text if existing == entry else file.edit_text(entry)
    return InstallPlan(
        host=host,
        original=file.original,
        after=file.original.data if after == file.text else encode_text(file.mark, after),
        outcome="unchanged" if existing == entry else "added" if existing is None else "changed",
    )


def plan_uninstall(host: HostKind, path: Path, name: str, *, force: bool = False) -> InstallPlan:
    """Plan a removal. If the file has not changed since the installation, it is restored byte for byte."""
    file = _File.read(host, path, name)
    entry, others = file.entry, tuple(each for each in file.our_entries() if each != name)
    if entry is None:
        return InstallPlan(
            host=host, original=file.original, after=file.original.data, outcome="not found", others=others
        )
    installed = host.shape.read(entry)
    earlier = next(file.find_earlier_content(), None) if is_ours(installed) or isinstance(installed, Endpoint) else None
    if earlier is not None:
        data, obsolete = earlier
        # The user may have created a file that contains only an entry with this URL, so keep a copy.
        makes_backup = data is None and not is_ours(installed)
        return InstallPlan(
            host=host,
            original=file.original,
            after=data,
            outcome="removed",
            obsolete=obsolete,
            makes_backup=makes_backup,
            others=others,
        )
    if not force and not is_ours(installed):
        what = "has a URL, and may not be mcptrio's" if isinstance(installed, Endpoint) else "is not mcptrio"
        raise ConfigError(f"{path}: the server {name} {what}; --force removes it")
    after = encode_text(file.mark, file.edit_text(None))
    return InstallPlan(host=host, original=file.original, after=after, outcome="removed", others=others)


def snippet(host: HostKind, name: str, target: Command | Endpoint) -> str:
    """Return a file that contains only the entry."""
    _check(target, host)
    return put(host.format, "", (host.key, name), host.shape.write(target, name, {}))


@frozen(kw_only=True)
class _File:
    """A readable file, and the entry of the requested name."""

    original: Original
    keys: Keys
    mark: str
    text: str
    entry: Any
    host: HostKind

    @classmethod
    def read(cls, host: HostKind, path: Path, name: str) -> _File:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"--name: expected at most 64 letters, digits, - and _, got {name!r}")
        original = read(path)
        mark, text = decode_text(path, original.data)
        keys = (host.key, name)
        try:
            entry = entry_at(parse(host.format, text), keys)
        except Unreadable as problem:
            raise ConfigError(f"{path}:{problem.line}:{problem.column}: {problem}; nothing was written") from None
        return cls(original=original, keys=keys, mark=mark, text=text, entry=entry, host=host)

    def our_entries(self) -> tuple[str, ...]:
        """Return the names of the entries that start mcptrio."""
        servers = entry_at(parse(self.host.format, self.text), self.keys[:-1])
        if not isinstance(servers, Mapping):
            return ()
        return tuple(str(key) for key, entry in servers.items() if is_ours(self.host.shape.read(entry)))

    def edit_text(self, entry: Mapping[str, Any] | None) -> str:
        """Return the text with the entry, or without one."""
        try:
            if entry is None:
                return remove(self.host.format, self.text, self.keys)
            return put(self.host.format, self.text, self.keys, entry)
        except Uneditable as problem:
            raise ConfigError(
                f"{self.original.path}: {problem}; nothing was written: edit it by hand, --print shows the entry"
            ) from None

    def find_earlier_content(self) -> Iterator[tuple[bytes | None, tuple[Path, ...]]]:
        """Find the content before the installation, if the file has not changed since.

        Yields:
            The content, ``None`` if the file did not exist; and the copies that are not needed after it is restored.
        """
        our_copies: dict[Path, bytes] = {}
        for copy in backups(self.original.path):
            try:
                data = read(copy).data or b""
                mark, text = decode_text(copy, data)
                entry = self._entry(text)
            except (ConfigError, Unreadable):
                # A damaged copy cannot be restored, but an older one may be intact.
                continue
            if self._is_ours(entry):
                our_copies[copy] = data
            elif self._would_produce(mark, text, self.original.data):
                yield data, (copy, *(each for each in our_copies if self._would_produce(mark, text, our_copies[each])))
        # The entry alone makes the whole file, so the installation created it.
        if self._would_produce("", "", self.original.data):
            yield None, tuple(each for each in our_copies if self._would_produce("", "", our_copies[each]))

    # Private

    def _entry(self, text: str) -> Any:
        return entry_at(parse(self.host.format, text), self.keys)

    def _is_ours(self, entry: Any) -> bool:
        """Return whether mcptrio wrote an entry of an earlier file, given that it wrote the current one."""
        then, now = self.host.shape.read(entry), self.host.shape.read(self.entry)
        is_same_url = isinstance(then, Endpoint) and isinstance(now, Endpoint) and then.url == now.url
        return is_ours(then) or is_same_url or entry == self.entry

    def _would_produce(self, mark: str, text: str, data: bytes | None) -> bool:
        """Return whether installing this file's entry into a text would produce the same bytes."""
        try:
            entry = self._entry(decode_text(self.original.path, data)[1])
            return (
                isinstance(entry, Mapping) and encode_text(mark, put(self.host.format, text, self.keys, entry)) == data
            )
        except (Unreadable, Uneditable):
            return False


def _check(target: Command | Endpoint, host: HostKind) -> None:
    if isinstance(target, Endpoint) and host.shape.url is None:
        raise ConfigError(
            f"{host.id}: expected a server to start, got a URL, which its file cannot contain; add it in its settings"
        )
    texts = (
        [target.url, *target.headers.values()] if isinstance(target, Endpoint) else [*target.args, *target.env.values()]
    )
    # Undecodable bytes of the command line arrive as lone surrogates (PEP 383), and no program can be started with NUL.
    for text in texts:
        if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
            raise ConfigError(f"{host.id}: expected UTF-8 text without NUL, got other bytes")
