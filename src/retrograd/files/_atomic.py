"""Files that are written whole or not at all.

What is written goes to a temporary file in the same folder, which then takes the place of the old
file in one step. Whoever is interrupted before that has changed nothing. A writer holds a lock on
its temporary file, which the system takes away when the writer dies, however it does: so the next
writer in the folder can tell what was left behind, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any

try:
    import fcntl
except ImportError:  # on Windows, where nobody can remove a file that somebody has open
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".retrograd-partial"


@contextlib.contextmanager
def written_whole(path: str) -> Iterator[Any]:
    """A file to write to, which takes the place of ``path`` when the block ends without an error.
    On any error the old file is as it was, and the temporary one is gone."""
    target = os.path.realpath(path)  # a link stays one; what it leads to is replaced
    before = _check(target, path)
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(target, "wb", buffering=0) as file:  # a device or a pipe cannot be replaced
            yield file
        return
    folder = os.path.dirname(target)
    remove_left_behind(folder)
    try:
        file, temporary = _temporary(folder)
    except OSError as error:
        raise _explained(error, path) from error
    try:
        with file:
            if before is not None:
                os.chmod(temporary, stat.S_IMODE(before.st_mode))
            yield file
            os.fsync(file.fileno())
            if fcntl is not None:  # with the lock held: nobody takes it for left behind
                os.replace(temporary, target)
        if fcntl is None:
            os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise _explained(error, path) from error
        raise
    _sync_folder(folder)


def _check(target: str, path: str) -> os.stat_result | None:
    """What is there now, if it may be replaced."""
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            errno.ENOENT, f"Parent directory {folder} does not exist. Make it first", path
        )
    try:
        result = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(result.st_mode):
        raise IsADirectoryError(errno.EISDIR, "this is a folder; give the name of a file", path)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is there and is write-protected", path)
    return result


def _explained(error: OSError, path: str) -> OSError:
    """The error with the user's path and the state of the file."""
    if error.errno is None:
        return error
    outcome = "what was there before is unchanged" if os.path.exists(path) else "no file was made"
    return OSError(error.errno, f"{error.strerror}; {outcome}", path)


def _temporary(folder: str) -> tuple[Any, str]:
    """A new file with a lock on it."""
    while True:
        name = os.path.join(folder, f".{secrets.token_hex(8)}{SUFFIX}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(name, flags, 0o666), "wb", buffering=0)
        # Before it had its lock, another writer may have taken it for left behind.
        if _lock(file, wait=True) is not False and os.path.exists(name):
            return file, name
        file.close()


def _lock(file: Any, wait: bool) -> bool | None:
    """Whether the lock was free; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def remove_left_behind(folder: str) -> None:
    """Remove the temporary files of writers that were killed."""
    try:
        names = os.listdir(folder)
    except PermissionError:  # one can write in a folder that one cannot list
        return
    for name in names:
        if name.startswith(".") and name.endswith(SUFFIX):
            path = os.path.join(folder, name)
            # Gone already, or not ours to remove: then it is no matter of this write.
            with contextlib.suppress(OSError):
                if fcntl is None:
                    os.unlink(path)
                    continue
                with open(path, "rb") as file:
                    if _lock(file, wait=False):
                        os.unlink(path)


def _sync_folder(folder: str) -> None:
    """Let the new name survive a loss of power, where folders can be asked for that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:  # folders cannot be opened on Windows, nor those that are not readable
        if error.errno in (errno.EACCES, errno.EISDIR):
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def write_all(file: Any, data: Any) -> None:
    """Write all of ``data``. Files without a buffer may take less at a time."""
    rest = memoryview(data)
    while rest:
        taken = file.write(rest)
        if taken is None or taken >= len(rest):  # those with a buffer take all, or do not say
            return
        if taken <= 0:
            raise OSError(errno.EIO, "the file object takes no more bytes")
        rest = rest[taken:]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all."""
    with written_whole(os.fspath(path)) as file:
        write_all(file, data)


def write_as(
    path: str | os.PathLike[str], formats: Mapping[str, Callable[[], str | bytes]]
) -> None:
    """Write a file in the format that its extension names."""
    name = os.fspath(path)
    extension = os.path.splitext(name)[1].lower()
    if extension not in formats:
        raise ValueError(
            f"cannot tell from {name!r} what to write: the name must end in one of "
            f"{', '.join(formats)}"
        )
    content = formats[extension]()
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")  # lone surrogates, as in JSON
    write_whole(name, content)
