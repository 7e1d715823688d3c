"""TLS contexts from certificate files, which are read again when they change.

The command line and embedding programs create :class:`Certificates`; its ``context`` is passed to the HTTP server and
selects the current files for each handshake. Open connections keep their certificate.

Source: RFC 8446; RFC 9325 (recommendations for TLS 1.2); OpenSSL, SSL_CTX_set_tlsext_servername_callback(3).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import trio
from attrs import field, frozen

from mcptrio.errors import ConfigError

__all__ = ["Certificates", "TLSFiles"]

_log = logging.getLogger("mcptrio.tls")

# Seconds between two checks of the files.
_POLL_INTERVAL: Final = 2.0
# Inode, size and modification time of each file; None for a missing file.
_State: TypeAlias = tuple[tuple[int, int, int] | None, ...]


@frozen(kw_only=True)
class TLSFiles:
    """The files of a TLS server, all in PEM.

    Args:
        certificate: The server's certificate, followed by the intermediate ones.
        key: The private key; may be in the same file.
        client_ca: Certificate authorities of clients. If set, every client needs a certificate of one of them.
        passphrase: Returns the passphrase of the key. Called each time the files are read.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    passphrase: Callable[[], bytes] | None = field(default=None, repr=False)


class Certificates:
    """A TLS context with the contents of files.

    Args:
        http2: True to offer HTTP/2 in the handshake, before HTTP/1.1.

    Raises:
        ConfigError: The files are unreadable, malformed, or do not match.
    """

    def __init__(self, files: TLSFiles, *, http2: bool = False) -> None:
        self._files = files
        self._protocols = ["h2", "http/1.1"] if http2 else ["http/1.1"]
        self._state = self._read_state()
        self._current = self._read()
        # The servername callback runs in every handshake, even if the client sends no name. It replaces the context.
        self.context: Final = self._read()
        self.context.sni_callback = self._select_context

    async def watch(self) -> None:
        """Read the files again when they change. Runs until cancelled."""
        failed: _State | None = None
        while True:
            await trio.sleep(_POLL_INTERVAL)
            state = self._read_state()
            if state == self._state:
                failed = None
            elif state == failed:
                # The files have not changed since the failed attempt, so no program is still writing them: report the
                # error.
                self._reload(state)
                failed = None
            else:
                failed = None if self._reload(state, quietly=True) else state

    def reload(self) -> bool:
        """Read the files now. Return True if that succeeded.

        The result is logged. After a failure the old certificate stays in use.
        """
        return self._reload(self._read_state())

    def _reload(self, state: _State, *, quietly: bool = False) -> bool:
        try:
            read = self._read()
        except ConfigError as error:
            if not quietly:
                self._state = state
                _log.error("certificate reload failed, the old one stays in use: %s", error)
            return False
        self._state = state
        self._current = read
        _log.info("certificate reloaded: %s", self._files.certificate)
        return True

    def _select_context(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _read_state(self) -> _State:
        files = self._files
        paths = (files.certificate, files.key, files.client_ca)
        return tuple(_state_of(path) for path in paths if path is not None)

    def _read(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Renegotiation costs the server far more than the client and no client needs it. Compression leaks secrets
        # (CRIME).
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_alpn_protocols(self._protocols)
        _check_readable(files.certificate, "certificate")
        _check_readable(files.key, "key")
        try:
            context.load_cert_chain(files.certificate, files.key, password=files.passphrase or _refuse_prompt)
        except _Encrypted as error:
            raise ConfigError(f"{files.key}: the key is encrypted: expected a passphrase, got none") from error
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{files.certificate}: expected a certificate in PEM, and its key in {files.key}: {_reason(error)}"
            ) from error
        if files.client_ca is not None:
            _check_readable(files.client_ca, "authority of clients")
            try:
                context.load_verify_locations(files.client_ca)
            except ssl.SSLError as error:
                raise ConfigError(f"{files.client_ca}: expected certificates in PEM: {_reason(error)}") from error
            context.verify_mode = ssl.CERT_REQUIRED
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            # No session tickets: OpenSSL accepts a resumed client as the one of the first handshake, even after its
            # authority was removed from the file. TLS 1.2 would allow resumption by session id too.
            context.num_tickets = 0
        return context


class _Encrypted(Exception):
    """The key is encrypted, and no passphrase is configured."""


def _refuse_prompt() -> bytes:
    """Refuse to decrypt the key."""
    # Without a password function OpenSSL prompts at the terminal and waits.
    raise _Encrypted


def _check_readable(path: Path, what: str) -> None:
    """Check that a file can be opened.

    Raises:
        ConfigError: The file cannot be opened.
    """
    # OpenSSL's own error does not name the file.
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{path}: the {what} cannot be read: {error.strerror}") from error


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _reason(error: Exception) -> str:
    """Return OpenSSL's reason in words, for example "key values mismatch"."""
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else "invalid contents"
