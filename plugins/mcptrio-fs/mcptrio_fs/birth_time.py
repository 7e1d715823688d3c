"""Reads the time at which a file was created on Linux, where ``os.stat`` does not return it.

The tool ``get_file_info`` calls it through the sandbox. Python 3.15 has ``os.statx``.

Source: statx(2), ``struct statx`` and ``stx_btime``.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

__all__ = ["birth_time"]

_NO_FOLLOW = 0x100
"""AT_SYMLINK_NOFOLLOW"""
_BIRTH_TIME = 0x800
"""STATX_BTIME"""
_SIZE = 256
_MASK = struct.Struct("=I")
_TIME = struct.Struct("=qI")
_TIME_AT = 80

# glibc has statx since 2.28, musl since 1.2.3.
_statx = getattr(ctypes.CDLL(None), "statx", None) if sys.platform == "linux" else None
if _statx is not None:
    _statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)


def birth_time(directory: int, name: str) -> float | None:
    """Return when an entry of an opened directory was created, or None if the file system does not record it.

    A symbolic link is not followed.
    """
    if _statx is None:
        return None
    found = ctypes.create_string_buffer(_SIZE)
    if _statx(directory, os.fsencode(name), _NO_FOLLOW, _BIRTH_TIME, found) != 0:
        return None
    (mask,) = _MASK.unpack_from(found)
    seconds, nanoseconds = _TIME.unpack_from(found, _TIME_AT)
    return seconds + nanoseconds / 1e9 if mask & _BIRTH_TIME else None
