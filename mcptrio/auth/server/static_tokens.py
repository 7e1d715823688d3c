"""Access tokens in a file, for teams without an identity provider.

``mcptrio token`` writes the file, and :class:`StaticTokens` verifies tokens with it. The file is JSON and contains
hashes only: ``{"format": 1, "tokens": [{"name", "hash", "subject", "scopes", "created", "expires"}]}``. Times are in
seconds since 1970, and ``hash`` is the SHA-256 of the token in hexadecimal.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final

import trio
from attrs import asdict, field, frozen

from mcptrio.abc import Principal
from mcptrio.auth.claims import EXPIRED
from mcptrio.auth.scopes import check_scope
from mcptrio.auth.server.verification_cache import hash_of
from mcptrio.errors import AuthorizationError, ConfigError, Overloaded

__all__ = ["PREFIX", "StaticToken", "StaticTokens", "make_token", "parse_tokens", "read_tokens", "tokens_text"]

PREFIX: Final = "mcptrio_"
"""The prefix of all these tokens, by which secret scanners find leaked ones."""

_FORMAT: Final = 1
# Largest file in bytes: room for _MAX_TOKENS entries.
_MAX_FILE_BYTES: Final = 4 * 1024 * 1024
_MAX_TOKENS: Final = 5000
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
# Seconds between two checks of the file. A revoked token is accepted for at most this time.
_CHECK_INTERVAL: Final = 1.0
# Write permission of group and others.
_OTHERS_WRITE: Final = 0o022

_log = logging.getLogger("mcptrio.auth")


@frozen(kw_only=True)
class StaticToken:
    """One entry of the file.

    Args:
        name: The unique name of the token, for lists and revocation.
        hash: The SHA-256 of the token in hexadecimal.
        subject: The user or program that owns the token.
        created: Seconds since 1970.
        expires: Seconds since 1970; ``None`` for never.
    """

    name: str
    hash: str = field(repr=False)
    subject: str
    scopes: tuple[str, ...] = ()
    created: int = 0
    expires: int | None = None

    def __attrs_post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name: expected up to 100 letters, digits and . _ @ + -, got {self.name[:40]!r}")
        if not _HASH.fullmatch(self.hash):
            raise ValueError(f"hash: expected SHA-256 as 64 hexadecimal digits, got {len(self.hash)} characters")
        if not self.subject or len(self.subject) > 255 or not self.subject.isprintable():
            raise ValueError(f"subject: expected 1 to 255 printable characters, got {self.subject[:40]!r}")
        for scope in self.scopes:
            check_scope(scope)


def make_token(
    name: str, *, subject: str, scopes: Iterable[str] = (), created: float, expires: float | None = None
) -> tuple[str, StaticToken]:
    """Return a new token and its entry. The token cannot be recovered from the entry.

    Raises:
        ValueError: The name, the subject or a scope is invalid.
    """
    # 256 random bits cannot be guessed, so a plain hash protects the token as well as a slow one.
    token = PREFIX + secrets.token_urlsafe(32)
    kept = StaticToken(
        name=name,
        hash=hash_of(token).hex(),
        subject=subject,
        scopes=tuple(scopes),
        created=int(created),
        expires=None if expires is None else int(expires),
    )
    return token, kept


def read_tokens(path: Path) -> list[StaticToken]:
    """Return the entries of a file.

    Raises:
        ConfigError: The file is unreadable, writable by other users, or malformed.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: the tokens cannot be read: {error.strerror}") from error
    if os.name == "posix" and mode & _OTHERS_WRITE:
        raise ConfigError(
            f"{path}: expected a file that only its owner may write, got mode {mode:o}: anyone who can write it "
            f"can add a token; run chmod go-w {path}"
        )
    return parse_tokens(path, data)


def parse_tokens(path: Path, data: bytes) -> list[StaticToken]:
    """Return the entries in the contents of a file.

    Raises:
        ConfigError: The contents are malformed.
    """
    if len(data) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path}: expected a file of tokens of at most {_MAX_FILE_BYTES} bytes, got more")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected JSON, as mcptrio token writes it: {error}") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ConfigError(f"{path}: expected a file of tokens of format {_FORMAT}, as mcptrio token writes it")
    entries = document.get("tokens")
    if not isinstance(entries, list) or len(entries) > _MAX_TOKENS:
        got = len(entries) if isinstance(entries, list) else type(entries).__name__
        raise ConfigError(f"{path}: tokens: expected a list of at most {_MAX_TOKENS}, got {got}")
    tokens = [_read_entry(path, number, entry) for number, entry in enumerate(entries)]
    for what in ("name", "hash"):
        values = [getattr(token, what) for token in tokens]
        if len(set(values)) != len(values):
            raise ConfigError(f"{path}: tokens: expected each {what} once, got one of them twice")
    return tokens


def tokens_text(tokens: Sequence[StaticToken]) -> str:
    """Return the contents of a file with these entries.

    Raises:
        ConfigError: The entries are more than a file may have.
    """
    if len(tokens) > _MAX_TOKENS:
        raise ConfigError(f"expected at most {_MAX_TOKENS} tokens, got {len(tokens)}: revoke some that have expired")
    entries = [asdict(each) for each in tokens]
    text = json.dumps({"format": _FORMAT, "tokens": entries}, indent=2) + "\n"
    if len(text) > _MAX_FILE_BYTES:
        raise ConfigError(f"expected a file of tokens of at most {_MAX_FILE_BYTES} bytes, got {len(text)}")
    return text


class StaticTokens:
    """The tokens in a file, as a :class:`mcptrio.abc.TokenVerifier`.

    The file is checked at most once a second and read again after a change. If it is missing or malformed, every token
    is rejected and the log has the reason.

    Args:
        path: The path of the file, which is read again when it changes.
        clock: Returns seconds since 1970.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = Path(path)
        self._clock = clock
        self._tokens: Mapping[str, StaticToken] | None = None
        # Names by hash of entries that this process has seen and that were removed, for the log.
        self._revoked: dict[str, str] = {}
        self._seen: tuple[int, ...] | None = None
        self._next_check = float("-inf")
        self._reload_lock = trio.Lock()

    def recognizes(self, token: str, issuer: str | None) -> bool | None:
        """Return whether the token has the prefix. See :class:`mcptrio.abc.TokenVerifier`."""
        return token.startswith(PREFIX)

    async def verify(self, token: str) -> Principal | None:
        """See :class:`mcptrio.abc.TokenVerifier`."""
        if not token.startswith(PREFIX):
            return None
        if trio.current_time() >= self._next_check:
            await self._reload_if_changed()
        if self._tokens is None:
            raise Overloaded("tokens cannot be verified now", retry_after=_CHECK_INTERVAL)
        digest = hash_of(token).hex()
        # The lookup is by hash, so its duration tells an attacker nothing about tokens that exist.
        entry = self._tokens.get(digest)
        if entry is None or not compare_digest(entry.hash, digest):
            name = self._revoked.get(digest)
            self._log_refusal(
                "not in the file: never issued, or revoked earlier" if name is None else f"{name}: revoked"
            )
            return None
        if entry.expires is not None and entry.expires <= self._clock():
            self._log_refusal(f"{entry.name}: expired")
            raise AuthorizationError(EXPIRED)
        claims: dict[str, Any] = {"token_name": entry.name}
        if entry.expires is not None:
            claims["exp"] = entry.expires
        return Principal(subject=entry.subject, scopes=frozenset(entry.scopes), claims=claims)

    # Private

    async def _reload_if_changed(self) -> None:
        """Read the file again if it has changed. One task reads; the others wait for it."""
        async with self._reload_lock:
            if trio.current_time() < self._next_check:
                return
            # A file system may be slow or remote, so do not block the event loop.
            await trio.to_thread.run_sync(self._read_if_changed, abandon_on_cancel=False)
            self._next_check = trio.current_time() + _CHECK_INTERVAL

    def _read_if_changed(self) -> None:
        try:
            seen = _identity(self._path.stat())
        except OSError as error:
            if self._seen != (0,):
                _log.error("%s: cannot read the token file, rejecting all tokens: %s", self._path, error.strerror)
            self._tokens, self._seen = {}, (0,)
            return
        if seen == self._seen:
            return
        before = self._tokens or {}
        try:
            self._tokens = {each.hash: each for each in read_tokens(self._path)}
            gone = {hash: each.name for hash, each in before.items() if hash not in self._tokens}
            self._revoked = dict([*self._revoked.items(), *gone.items()][-_MAX_TOKENS:])
        except ConfigError as error:
            _log.error("%s; rejecting all tokens", error)
            self._tokens = None
        self._seen = seen

    def _log_refusal(self, why: str) -> None:
        """Log why a token was rejected. The sender receives the same error for all reasons."""
        _log.info("token refused: file=%s: %s", self._path, why)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    # The inode differs after an atomic replacement even if time and size are the same; the mode, after a chmod.
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev, status.st_mode


def _read_entry(path: Path, number: int, entry: object) -> StaticToken:
    where = f"{path}: tokens[{number}]"
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: expected an object, got {type(entry).__name__}")
    kinds: dict[str, tuple[type, ...]] = {
        "name": (str,),
        "hash": (str,),
        "subject": (str,),
        "scopes": (list,),
        "created": (int,),
        "expires": (int, type(None)),
    }
    for key, kind in kinds.items():
        if not isinstance(entry.get(key), kind) or isinstance(entry.get(key), bool):
            got = type(entry[key]).__name__ if key in entry else "nothing"
            raise ConfigError(f"{where}.{key}: expected {kind[0].__name__}, as mcptrio token writes it, got {got}")
    if not all(isinstance(scope, str) for scope in entry["scopes"]):
        raise ConfigError(f"{where}.scopes: expected a list of strings")
    values: dict[str, Any] = {key: entry[key] for key in kinds}
    try:
        return StaticToken(**{**values, "scopes": tuple(entry["scopes"])})
    except ValueError as error:
        raise ConfigError(f"{where}.{error}") from error
