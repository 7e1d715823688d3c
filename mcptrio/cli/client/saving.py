"""Saves bytes from a server to files: images, audio, blobs.

An existing file is overwritten only with the user's consent. File names contain no folders, no leading dot and only
safe characters, whatever the server sends.
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mcptrio.errors import ConfigError, RemoteProtocolError

__all__ = ["decode_base64", "file_name", "save_file", "write_file"]

_UNSAFE_CHARS = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS = 80
_MAX_NAME_TRIES = 1_000
"""Numbers tried for a free name."""
_EXTENSIONS = {"text/plain": ".txt", "image/jpeg": ".jpg", "audio/mpeg": ".mp3", "audio/wav": ".wav"}
"""Extensions of types for which the system has several or none."""


def save_file(folder: Path, name: str, data: bytes) -> Path:
    """Write a file of this name, or with a number in its name if the name is taken. Creates the folder."""
    stem, dot, extension = name.rpartition(".")
    stem, extension = (stem, f"{dot}{extension}") if stem else (name, "")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MAX_NAME_TRIES):
            path = folder / (name if number == 1 else f"{stem}-{number}{extension}")
            try:
                # "x" fails for an existing file, even one that another program has just created.
                with path.open("xb") as file:
                    file.write(data)
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise ConfigError(f"--output: {folder}: {error.strerror or error}") from error
    raise ConfigError(f"--output: {folder}: expected a free name like {name}, got {_MAX_NAME_TRIES} that are taken")


def write_file(path: Path, data: bytes, *, overwrite: bool) -> None:
    try:
        with path.open("wb" if overwrite else "xb") as file:
            file.write(data)
    except FileExistsError as error:
        raise ConfigError(f"--output: {path} exists; --force overwrites it") from error
    except OSError as error:
        raise ConfigError(f"--output: {path}: {error.strerror or error}") from error


def decode_base64(text: str, what: str) -> bytes:
    """Decode Base64.

    Raises:
        RemoteProtocolError: The text is not Base64.
    """
    try:
        # Without `validate`, Python skips other characters, and returns different bytes.
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RemoteProtocolError(f"{what}: expected Base64, got other characters: {error}") from error


def file_name(suggested: str, mime_type: str | None) -> str:
    """Return a harmless name for a file, with the extension of its type.

    Args:
        suggested: A URI, whose last part is used, or a word.
    """
    try:
        path = unquote(urlsplit(suggested).path) or suggested
    except ValueError:
        path = suggested
    # The last part only, so that a server cannot choose a folder.
    # Other programs hide a file with a leading dot, and read a leading hyphen as an option.
    name = _UNSAFE_CHARS.sub("_", path.rstrip("/").rpartition("/")[2]).strip("._-")[:_MAX_NAME_CHARS] or "file"
    kind = (mime_type or "").partition(";")[0].strip().lower()
    extension = _EXTENSIONS.get(kind) or mimetypes.guess_extension(kind) or ""
    # A name such as photo.jpeg keeps its extension, although it is not the usual one of its type.
    has_extension = mimetypes.guess_type(name)[0] is not None
    return name if has_extension or not extension or name.lower().endswith(extension) else f"{name}{extension}"
