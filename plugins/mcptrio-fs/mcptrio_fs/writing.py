"""Writes and moves files atomically.

The tools that change files call it in a worker thread. A file is written under a temporary name in its opened directory
and then renamed relative to that directory. So a reader never sees an incomplete file, and a symbolic link at the path
is replaced without being followed. A replaced file loses its access control lists, its hard links, and its owner if the
server may not set it.

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
from .sandbox import OpenedParent, Sandbox

__all__ = ["append", "move", "replace", "write"]

_CHUNK_BYTES = 1024 * 1024
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
"""Errors of link(2) on file systems without hard links."""


def write(
    sandbox: Sandbox, path: str, data: bytes, *, create_only: bool, durable: bool = False, checkpoint: Checkpoint
) -> None:
    """Create a file, or replace all of it. The mode bits of a replaced file are kept.

    Args:
        create_only: Fail if the path exists.
        durable: Return after the data is on the disk.

    Raises:
        ToolError: The directory does not exist, or the path exists but is not a writable regular file.
    """
    with _translate_errors(path), sandbox.open_parent(path) as parent:
        before = _existing_status(parent, path)
        if create_only and before is not None:
            raise ToolError(f"already exists: {printable(path)}")
        _write_and_rename(
            parent, data, before, must_not_exist=create_only, path=path, durable=durable, checkpoint=checkpoint
        )


def append(
    sandbox: Sandbox, path: str, data: bytes, *, limit: int, durable: bool = False, checkpoint: Checkpoint
) -> None:
    """Add to the end of a file, which is created if it does not exist.

    Args:
        limit: Maximum bytes of the file afterwards.
        durable: As for ``write``.

    Raises:
        ToolError: As ``write``; or the file would be too large; or it has another hard link, which may be outside the
            allowed folders.
    """
    with _translate_errors(path), sandbox.open_parent(path) as parent:
        before = _existing_status(parent, path)
        if before is None:
            _write_and_rename(
                parent, data, None, must_not_exist=True, path=path, durable=durable, checkpoint=checkpoint
            )
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(parent.name, flags, dir_fd=parent.directory)
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
                # Without a checkpoint, so that a cancelled call appends either all of the data or nothing.
                _write_all(descriptor, data, _no_checkpoint)
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
        read: The status of the file when it was read.
        durable: As for ``write``.

    Raises:
        ToolError: The file has changed since then, and nothing is written.
    """
    with _translate_errors(path), sandbox.open_parent(path) as parent:
        before = _existing_status(parent, path)
        if before is None or _identity(before) != _identity(read):
            raise ToolError(f"{printable(path)} changed on disk during the edit; read it again")
        _write_and_rename(parent, data, before, must_not_exist=False, path=path, durable=durable, checkpoint=checkpoint)


def move(sandbox: Sandbox, source: str, destination: str, *, checkpoint: Checkpoint) -> None:
    """Move a file, directory or symbolic link to a path that does not exist.

    Raises:
        ToolError: The source does not exist, the destination does, or a directory would have to be copied to another
            file system.
    """
    with (
        _translate_errors(source),
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


def _move_directory(old: OpenedParent, new: OpenedParent) -> None:
    # mkdir(2) fails if the name exists, and so reserves it. rename(2) then replaces the empty directory atomically.
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
                f"expected a destination outside {printable(old.location.typed)}, got one inside it"
            ) from error
        raise


def _move_entry(old: OpenedParent, new: OpenedParent, status: os.stat_result, checkpoint: Checkpoint) -> None:
    try:
        # link(2) fails if the destination exists; rename(2) would replace it.
        os.link(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.EXDEV and stat.S_ISREG(status.st_mode):
            _copy(old, new, status, checkpoint)
        elif error.errno in _NO_LINKS:
            _rename_to_free_name(old, new)
            return
        else:
            raise
    try:
        os.unlink(old.name, dir_fd=old.directory)
    except OSError:
        with suppress(OSError):  # a move that cannot remove the source must not leave a second file
            os.unlink(new.name, dir_fd=new.directory)
        raise


def _rename_to_free_name(old: OpenedParent, new: OpenedParent) -> None:
    """Rename if the destination does not exist. Without hard links, another program may create it in between."""
    with suppress(FileNotFoundError):
        os.stat(new.name, dir_fd=new.directory, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)


def _copy(old: OpenedParent, new: OpenedParent, status: os.stat_result, checkpoint: Checkpoint) -> None:
    source = os.open(old.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=old.directory)
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            raise ToolError(f"expected a file, got something else: {printable(old.location.typed)}")
        with _temporary(new) as (name, target):
            while piece := os.read(source, _CHUNK_BYTES):
                checkpoint()
                _write_all(target, piece, checkpoint)
            os.fchmod(target, status.st_mode & 0o777)
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.fsync(target)
            _publish_new(new, name)
    finally:
        os.close(source)


def _write_and_rename(
    parent: OpenedParent,
    data: bytes,
    before: os.stat_result | None,
    *,
    must_not_exist: bool,
    path: str,
    durable: bool,
    checkpoint: Checkpoint,
) -> None:
    with _temporary(parent) as (name, descriptor):
        _write_all(descriptor, data, checkpoint)
        if before is not None:
            # Set before the rename, so that a secret is never readable for other users. A file system without owners
            # or modes must not make the write fail.
            with suppress(OSError):
                os.fchown(descriptor, before.st_uid, before.st_gid)
            with suppress(OSError):
                os.fchmod(descriptor, before.st_mode & 0o777)
        if durable:
            os.fsync(descriptor)  # otherwise a power failure could leave an empty file under the new name
        checkpoint()
        if must_not_exist:
            try:
                _publish_new(parent, name)
            except FileExistsError as error:
                raise ToolError(f"already exists: {printable(path)}") from error
        else:
            os.rename(name, parent.name, src_dir_fd=parent.directory, dst_dir_fd=parent.directory)
        if durable:
            _sync_directory(parent.directory)


def _sync_directory(directory: int) -> None:
    """Write the names of a directory to the disk."""
    # The sandbox's descriptor may be O_PATH, which fsync(2) does not accept.
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _publish_new(parent: OpenedParent, temporary: str) -> None:
    try:
        os.link(temporary, parent.name, src_dir_fd=parent.directory, dst_dir_fd=parent.directory)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with suppress(FileNotFoundError):
            os.stat(parent.name, dir_fd=parent.directory, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.rename(temporary, parent.name, src_dir_fd=parent.directory, dst_dir_fd=parent.directory)


@contextmanager
def _temporary(parent: OpenedParent) -> Iterator[tuple[str, int]]:
    """Yield the name and descriptor of a new file in the directory. The file is removed if it was not renamed."""
    name = f".{secrets.token_hex(12)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=parent.directory)
    try:
        yield name, descriptor
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent.directory)


def _no_checkpoint() -> None:
    """Do nothing: the checkpoint of a write that must not be interrupted."""


def _write_all(descriptor: int, data: bytes, checkpoint: Checkpoint) -> None:
    view = memoryview(data)
    while view:
        checkpoint()
        view = view[os.write(descriptor, view[:_CHUNK_BYTES]) :]


def _existing_status(parent: OpenedParent, path: str) -> os.stat_result | None:
    """Return the status of an existing file, which must be regular and writable; ``None`` if there is none."""
    try:
        status = os.stat(parent.name, dir_fd=parent.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None  # the link has appeared since the path was resolved, and the rename replaces it
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
        raise ToolError(f"expected a file, got {kind}: {printable(path)}")
    # A rename needs no permission on the file itself, but a read-only file must not be replaced.
    if not os.access(
        parent.name, os.W_OK, dir_fd=parent.directory, effective_ids=os.access in os.supports_effective_ids
    ):
        raise ToolError(f"permission denied by the operating system: {printable(path)} is read-only")
    return status


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error
