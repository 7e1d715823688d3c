"""TLS for our own sockets: certificate, key and client authority from files, read again when they change.

Made by the command line and by embedders; its :attr:`Certificates.context` goes to the HTTP server, and stays the same.
Each handshake asks it for the newest context, so new connections have the new certificate and open ones go on.
The one rule: what cannot be used changes nothing. A pair that does not match, or is half written, is reported, and the
one before it stays.

With a client authority TLS 1.3 is required, and no session is resumed: OpenSSL takes who resumed one for who he was
then, and would let him in after his authority was taken away.

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

_POLL_INTERVAL: Final = 2.0
"""Seconds between two looks at the files."""
_State: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""Of each file what changes with it: inode, size and time of the last change; ``None`` where there is no file."""


@frozen(kw_only=True)
class TLSFiles:
    """Where things are. All in PEM.

    Args:
        certificate: the server's, followed by those that lead to its authority.
        key: of the certificate; it may be in the same file.
        client_ca: authorities of clients. With it, every client has to show a certificate of one of them.
        passphrase: of the key, if it has one; called at each reading.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    passphrase: Callable[[], bytes] | None = field(default=None, repr=False)


class Certificates:
    """A context for a server whose contents are those of files.

    Args:
        http2: whether HTTP/2 is offered in the handshake, before HTTP/1.1.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, files: TLSFiles, *, http2: bool = False) -> None:
        self._files = files
        self._protocols = ["h2", "http/1.1"] if http2 else ["http/1.1"]
        self._state = self._look()
        self._current = self._read()
        self.context: Final = self._read()
        """For the server. What a handshake uses is decided in the middle of it, whether the client names one or not."""
        self.context.sni_callback = self._choose

    async def watch(self) -> None:
        """Read the files again when they change. Runs until cancelled."""
        failed: _State | None = None
        while True:
            await trio.sleep(_POLL_INTERVAL)
            state = self._look()
            if state == self._state:
                failed = None
            elif state == failed:
                # The same as at the last look, so nobody is in the middle of writing it.
                self._reload(state)
                failed = None
            else:
                failed = None if self._reload(state, quietly=True) else state

    def reload(self) -> bool:
        """Read the files now, changed or not; whether that was possible. Says so in the log."""
        return self._reload(self._look())

    def _reload(self, state: _State, *, quietly: bool = False) -> bool:
        try:
            read = self._read()
        except ConfigError as error:
            if not quietly:
                self._state = state
                _log.error("the certificate stays as it was: %s", error)
            return False
        self._state = state
        self._current = read
        _log.info("new connections have the certificate that is in %s now", self._files.certificate)
        return True

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _look(self) -> _State:
        files = self._files
        paths = (files.certificate, files.key, files.client_ca)
        return tuple(_state_of(path) for path in paths if path is not None)

    def _read(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Renegotiation costs us much and a client little, and nobody needs it.
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_alpn_protocols(self._protocols)
        _check_readable(files.certificate, "certificate")
        _check_readable(files.key, "key")
        try:
            context.load_cert_chain(files.certificate, files.key, password=files.passphrase or _refuse_prompt)
        except _Encrypted as error:
            raise ConfigError(f"{files.key}: the key is encrypted, and no passphrase is given") from error
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
            context.num_tickets = 0
        return context


class _Encrypted(Exception):
    """The key has a passphrase, and there is none."""


def _refuse_prompt() -> bytes:
    """Without a function OpenSSL asks at the terminal, and waits."""
    raise _Encrypted


def _check_readable(path: Path, what: str) -> None:
    """
    Raises:
        ConfigError: naming the file, which OpenSSL would not.
    """
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{path}: the {what} cannot be read: {error.strerror}") from error


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _reason(error: Exception) -> str:
    """What OpenSSL says, in words: KEY_VALUES_MISMATCH is one of its reasons."""
    said = getattr(error, "reason", None)
    return str(said).lower().replace("_", " ") if said else "it is something else"
