"""The file of users: names, password hashes, and the scopes that users may grant.

The login page and ``user`` commands use it. A line is ``name:hash`` or ``name:hash:scope scope``, with a hash in
Argon2's encoded form. Lines that begin with ``#`` are comments.

Source: RFC 9106 section 4 (the second recommended option, which is the library's own choice); OWASP, "Password Storage
Cheat Sheet".
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from mcptrio.errors import ConfigError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = ["User", "check_name", "check_password", "hash_password", "read_users", "write_users"]

_USER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
# Largest file of users in bytes.
_MAX_FILE_BYTES: Final = 1024 * 1024
_MIN_PASSWORD_CHARS: Final = 8
# Longest password in characters; an attacker could keep the server busy with longer ones.
_MAX_PASSWORD_CHARS: Final = 1024


@frozen(kw_only=True)
class User:
    """One user.

    Args:
        name: The login name.
        hash: The Argon2 hash of the password.
        scopes: The scopes that the user may grant; ``None`` for all.
    """

    name: str
    hash: str = field(repr=False)
    scopes: tuple[str, ...] | None = None


def read_users(path: Path) -> Mapping[str, User]:
    """Return the users in a file by name; none if the file is missing. Blocks.

    Raises:
        ConfigError: The file is unreadable, accessible to other users of the machine, or malformed.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if os.name == "posix" and mode & 0o077:
        raise ConfigError(
            f"{path}: expected a file that only its owner may open (mode 600), got {stat.S_IMODE(mode):o}"
        )
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path}: expected at most {_MAX_FILE_BYTES} bytes, got more")
    users: dict[str, User] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        hashed, colon, scopes = rest.partition(":")
        if not _USER_NAME.fullmatch(name) or not hashed.startswith("$argon2") or name in users:
            raise ConfigError(f"{path}:{number}: expected NAME:HASH with an Argon2 hash, and each name once")
        users[name] = User(name=name, hash=hashed, scopes=tuple(scopes.split()) if colon else None)
    return users


def write_users(path: Path, users: Mapping[str, User]) -> None:
    """Replace the users in a file, which only its owner can read. Blocks.

    Raises:
        ValueError: A name is invalid.
        OSError: The file cannot be written.
    """
    lines = []
    for user in users.values():
        check_name(user.name)
        scopes = f":{' '.join(user.scopes)}" if user.scopes is not None else ""
        lines.append(f"{user.name}:{user.hash}{scopes}\n")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written to another file that then replaces it, because the server may read the file at any time.
    new_path = path.with_name(f"{path.name}.new")
    new_path.unlink(missing_ok=True)
    with os.fdopen(os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    new_path.replace(path)


def check_name(name: str) -> None:
    """Check a user name.

    Raises:
        ValueError: The name is invalid.
    """
    if not _USER_NAME.fullmatch(name):
        raise ValueError(
            f"expected a name of 1 to 64 characters a-z, 0-9, and after the first also . _ @ + -, got {name[:80]!r}"
        )


def hash_password(password: str) -> str:
    """Return the hash of a password. Takes about 50 ms and 64 MiB.

    Raises:
        ValueError: The password is too short or too long.
    """
    if not _MIN_PASSWORD_CHARS <= len(password) <= _MAX_PASSWORD_CHARS:
        raise ValueError(
            f"expected a password of {_MIN_PASSWORD_CHARS} to {_MAX_PASSWORD_CHARS} characters, got {len(password)}"
        )
    return _hasher().hash(password)


def check_password(user: User | None, password: str) -> bool:
    """Return True if a password is the user's. Takes as long as :func:`hash_password`, so call it in a thread."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        # A missing user is compared with a random hash, so the duration does not show which names exist.
        is_valid = _hasher().verify(user.hash if user is not None else _random_hash(), password[:_MAX_PASSWORD_CHARS])
    except (VerificationError, InvalidHashError):
        return False
    return is_valid and user is not None and len(password) <= _MAX_PASSWORD_CHARS


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _random_hash() -> str:
    """Return the hash of a random password."""
    return _hasher().hash(os.urandom(32).hex())
