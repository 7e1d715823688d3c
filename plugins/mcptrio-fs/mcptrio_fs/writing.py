"""Writes and moves files atomically.

The changing tools call it in a worker thread. A file is written under a temporary name in its opened directory and then
renamed relative to that directory, so a reader never sees half of it, and a symbolic link in its place is replaced and
not followed. A replaced file loses its owner if we may not set it, its access control lists and its hard links.

Source: create, replace and move as in the reference filesystem server; link(2) and mkdir(2) decide atomically whether
the destination exists.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mcptrio.errors import ToolError

from .errors import explain, printable
from .reading import Checkpoint
from .sandbox import Sandbox, Spot

__all__ = ["append", "move", "replace", "write"]

_SLICE = 1024 * 1024
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
"""Errors of link(2) on file systems without hard links."""


def write(
    sandbox: Sandbox, path: str, data: bytes, *, create_only: bool, durable: bool = False, checkpoint: Checkpoint
) -> None:
    """Create a file, or replace all of it; the mode bits of a replaced file are kept.

    Args:
        create_only: fail if something exists already.
        durable: return when the data is on the disk.

    Raises:
        ToolError: the directory does not exist, or something else than a writable regular file has this path.
    """
    with _translated(path), sandbox.open_parent(path) as spot:
        before = _existing(spot, path)
        if create_only and before is not None:
            raise ToolError(f"already exists: {printable(path)}")
        _put(spot, data, before, only_new=create_only, path=path, durable=durable, checkpoint=checkpoint)


def append(
    sandbox: Sandbox, path: str, data: bytes, *, limit: int, durable: bool = False, checkpoint: Checkpoint
) -> None:
    """Add to the end of a file, which is created if it does not exist.

    Args:
        limit: maximum bytes of the file afterwards.
        durable: as for ``write``.

    Raises:
        ToolError: as ``write``; or the file would be too large, or has another hard link, which may be outside.
    """
    with _translated(path), sandbox.open_parent(path) as spot:
        before = _existing(spot, path)
        if before is None:
            _put(spot, data, None, only_new=True, path=path, durable=durable, checkpoint=checkpoint)
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(spot.name, flags, dir_fd=spot.directory)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise ToolError(
                    f"expected a file without other hard links to append to, got {status.st_nlink} links: "
                    f"{printable(path)}"
                )
            if status.st_size + len(data) > limit:
                raise ToolError(
                    f"expected a file of at most {limit} bytes after appending, got {status.st_size + len(data)}: "
                    f"{printable(path)}"
                )
            checkpoint()
            try:
                # Without a checkpoint in between, so that a cancelled call has appended all or nothing.
                _write_all(descriptor, data, _go_on)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, status.st_size)
                raise
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def replace(
    sandbox: Sandbox, path: str, data: bytes, read: os.stat_result, *, durable: bool = False, checkpoint: Checkpoint
) -> None:
    """Replace a file that was read before.

    Args:
        read: the fstat when it was read.
        durable: as for ``write``.

    Raises:
        ToolError: it has changed; nothing is written.
    """
    with _translated(path), sandbox.open_parent(path) as spot:
        before = _existing(spot, path)
        if before is None or _identity(before) != _identity(read):
            raise ToolError(f"{printable(path)} changed on disk during the edit; read it again")
        _put(spot, data, before, only_new=False, path=path, durable=durable, checkpoint=checkpoint)


def move(sandbox: Sandbox, source: str, destination: str, *, checkpoint: Checkpoint) -> None:
    """Move a file, directory or symbolic link to a path that does not exist.

    Raises:
        ToolError: the source does not exist, the destination does, or a directory would have to be copied to another
            file system.
    """
    with (
        _translated(source),
        sandbox.open_parent(source, follow=False) as old,
        sandbox.open_parent(destination, follow=False) as new,
    ):
        status = os.stat(old.name, dir_fd=old.directory, follow_symlinks=False)
        try:
            if stat.S_ISDIR(status.st_mode):
                _move_directory(old, new)
            else:
                _move_entry(old, new, status, checkpoint)
        except FileExistsError as error:
            raise ToolError(f"destination already exists: {printable(destination)}") from error
        except FileNotFoundError as error:
            raise explain(error, source) from error


def _move_directory(old: Spot, new: Spot) -> None:
    """An empty directory made first reserves the name, and rename(2) replaces an empty directory in one step."""
    os.mkdir(new.name, dir_fd=new.directory)
    try:
        os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)
    except OSError as error:
        with suppress(OSError):
            os.rmdir(new.name, dir_fd=new.directory)
        if error.errno == errno.EXDEV:
            raise ToolError(
                "expected a destination on the same file system, got one on another, to which only files can be moved"
            ) from error
        if error.errno == errno.EINVAL:
            raise ToolError(
                f"expected a destination outside {printable(old.place.typed)}, got one inside it"
            ) from error
        raise


def _move_entry(old: Spot, new: Spot, status: os.stat_result, checkpoint: Checkpoint) -> None:
    try:
        os.link(
            old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory, follow_symlinks=False
        )  # fails where something exists, which rename(2) does not
    except OSError as error:
        if error.errno == errno.EXDEV and stat.S_ISREG(status.st_mode):
            _copy(old, new, status, checkpoint)
        elif error.errno in _NO_LINKS:
            _rename_where_nothing_is(old, new)
            return
        else:
            raise
    try:
        os.unlink(old.name, dir_fd=old.directory)
    except OSError:
        with suppress(OSError):  # a move that cannot take the source away must not leave two
            os.unlink(new.name, dir_fd=new.directory)
        raise


def _rename_where_nothing_is(old: Spot, new: Spot) -> None:
    """Rename if the destination does not exist. Without hard links, another program may create it in between."""
    with suppress(FileNotFoundError):
        os.stat(new.name, dir_fd=new.directory, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)


def _copy(old: Spot, new: Spot, status: os.stat_result, checkpoint: Checkpoint) -> None:
    source = os.open(old.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=old.directory)
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            raise ToolError(f"expected a file, got something else: {printable(old.place.typed)}")
        with _temporary(new) as (name, target):
            while piece := os.read(source, _SLICE):
                checkpoint()
                _write_all(target, piece, checkpoint)
            os.fchmod(target, status.st_mode & 0o777)
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.fsync(target)
            _publish_new(new, name)
    finally:
        os.close(source)


def _put(
    spot: Spot,
    data: bytes,
    before: os.stat_result | None,
    *,
    only_new: bool,
    path: str,
    durable: bool,
    checkpoint: Checkpoint,
) -> None:
    with _temporary(spot) as (name, descriptor):
        _write_all(descriptor, data, checkpoint)
        if before is not None:
            # Before the rename, so that a secret is not readable for all even for a moment; a file system that
            # has no modes must not fail the write.
            with suppress(OSError):
                os.fchown(descriptor, before.st_uid, before.st_gid)
            with suppress(OSError):
                os.fchmod(descriptor, before.st_mode & 0o777)
        if durable:
            os.fsync(descriptor)  # or a power failure may leave the new name with nothing in it
        checkpoint()
        if only_new:
            try:
                _publish_new(spot, name)
            except FileExistsError as error:
                raise ToolError(f"already exists: {printable(path)}") from error
        else:
            os.rename(name, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)
        if durable:
            _sync_directory(spot.directory)


def _sync_directory(directory: int) -> None:
    """Write the names of a directory to the disk. The sandbox's descriptor only passes through it."""
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _publish_new(spot: Spot, temporary: str) -> None:
    try:
        os.link(temporary, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with suppress(FileNotFoundError):
            os.stat(spot.name, dir_fd=spot.directory, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.rename(temporary, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)


@contextmanager
def _temporary(spot: Spot) -> Iterator[tuple[str, int]]:
    """Yield a new file next to the intended one; it is removed unless it was renamed."""
    name = f".{secrets.token_hex(12)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=spot.directory)
    try:
        yield name, descriptor
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=spot.directory)


def _go_on() -> None:
    """The checkpoint of a write that must not stop in the middle."""


def _write_all(descriptor: int, data: bytes, checkpoint: Checkpoint) -> None:
    view = memoryview(data)
    while view:
        checkpoint()
        view = view[os.write(descriptor, view[:_SLICE]) :]


def _existing(spot: Spot, path: str) -> os.stat_result | None:
    """Return the status of an existing file, which must be regular and writable; ``None`` if there is none."""
    try:
        status = os.stat(spot.name, dir_fd=spot.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None  # put there since the path was resolved; the rename replaces it
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
        raise ToolError(f"expected a file, got {kind}: {printable(path)}")
    # A rename needs no permission on the file itself, but a read-only file must not be replaced.
    if not os.access(spot.name, os.W_OK, dir_fd=spot.directory, effective_ids=os.access in os.supports_effective_ids):
        raise ToolError(f"permission denied by the operating system: {printable(path)} is read-only")
    return status


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error
