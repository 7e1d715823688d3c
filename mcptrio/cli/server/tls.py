"""Makes the TLS settings from the keys of ``[http]``.

:mod:`mcptrio.cli.serve` uses it for HTTP. A passphrase comes from a file or the environment; a command line is visible
in ``ps``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from mcptrio.errors import ConfigError
from mcptrio.serve.config import ServeConfig
from mcptrio.serve.tls import Certificates, TLSFiles

__all__ = ["PASSPHRASE", "certificates_of"]

PASSPHRASE: Final = "MCPTRIO_TLS_PASSPHRASE"
"""The variable that holds the passphrase of the key."""
_MAX_PASSPHRASE_BYTES: Final = 1024
"""Maximum length that OpenSSL accepts."""


def certificates_of(config: ServeConfig, *, http2: bool) -> Certificates | None:
    """Return the certificates of the configuration; ``None`` if it names none."""
    http = config.http
    certificate, key, client_ca, passphrase = http.tls_cert, http.tls_key, http.tls_client_ca, http.tls_passphrase_file
    if certificate is None and key is None:
        for name, path in (("tls_client_ca", client_ca), ("tls_passphrase_file", passphrase)):
            if path is not None:
                raise config.error(("http", name), "expected tls_cert and tls_key with it, got neither")
        return None
    if certificate is None or key is None:
        raise config.error(
            ("http", "tls_cert" if key is None else "tls_key"), "expected both tls_cert and tls_key, got one of them"
        )
    files = TLSFiles(certificate=certificate, key=key, client_ca=client_ca, passphrase=_passphrase(passphrase))
    return Certificates(files, http2=http2)


def _passphrase(path: Path | None) -> Callable[[], bytes] | None:
    if path is None:
        # Removed from the environment, so neither plugins nor their child processes receive it.
        value = os.environ.pop(PASSPHRASE, None)
        return None if value is None else value.encode
    # Called at each reload of the certificates, so the passphrase may change together with the key.
    return partial(_read_passphrase, path)


def _read_passphrase(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # Editors end a file with a line break.
            return file.read(_MAX_PASSPHRASE_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"{path}: the passphrase cannot be read: {error.strerror}") from error
