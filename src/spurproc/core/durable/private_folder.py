"""Files that must be true after a crash: a private folder held by a descriptor, and atomic replacement in it.

Every access goes through the held descriptor, so a folder that was removed is never made again (mkdir and open(O_CREAT) in it
say ENOENT) and one that was put in its place is never mistaken for it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Self

from spurproc.errors import InvalidArgument, NotPermitted, SystemCallError, from_errno

__all__ = ["PASSABLE", "PRIVATE", "PrivateFolder", "named_errors"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a FIFO under the name of a record must not block its reader. O_NOCTTY: nor may a terminal become ours.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE_FILE = 0o600

PRIVATE = 0o700
"""The mode of a folder that nobody else may enter."""
PASSABLE = 0o711
"""The mode of one that others pass through, to what they know by its name; they can neither list it nor put anything there."""


@contextmanager
def named_errors(verb: str, noun: str) -> Iterator[None]:
    """Turns an OSError of the body into ours, with what was being done."""
    try:
        yield
    except SystemCallError:
        raise
    except OSError as error:
        raise from_errno(error.errno or 0, verb, noun) from error


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _distrust(path: str, reason: str) -> NotPermitted:
    return NotPermitted(errno.EPERM, f"cannot trust the folder {path!r}: {reason}")


def _absolute(path: str | os.PathLike[str]) -> str:
    with named_errors("find", "the current folder"):  # it may have been removed
        return os.path.abspath(path)


def _open_parent(path: str) -> int:
    """An O_PATH descriptor of the folder above `path`, reached without following one symbolic link. The caller owns it.

    Opened at once, it is that where the kernel names it by the very path: behind a link it has another. proc_pid_fd(5)
    """
    above = os.path.dirname(path)
    with suppress(OSError):  # whatever is wrong is named part by part
        fd = os.open(above, _STEP)
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}") == above:
                return fd
        os.close(fd)
    return _walk_to_parent(path)


def _walk_to_parent(path: str) -> int:
    """The same, part by part."""
    fd = os.open("/", _STEP)
    try:
        for part in path.split("/")[1:-1]:
            try:
                below = os.open(part, _STEP, dir_fd=fd)
            except NotADirectoryError:
                if stat.S_ISLNK(os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode):
                    raise _distrust(path, f"a symbolic link stands on the way, {part!r}") from None
                raise
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


class PrivateFolder:
    """A folder of ours, mode 0700, reached through no symbolic link, and held by a descriptor.

    The folders above are not judged: a private folder may stand in /tmp. Methods take plain names inside the folder.
    What opens or makes one takes the `mode` that it may have at most: PRIVATE, or PASSABLE where that is meant.
    """

    def __init__(self, path: str, fd: int, parent_fd: int) -> None:
        self.path = path
        self._fd = fd
        self._parent_fd = parent_fd

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, mode: int = PRIVATE) -> Self:
        """Open an existing private folder; the caller owns it.

        Raises NotPermitted where it is not ours, not private, or behind a symbolic link; AlreadyGone where there is none.
        """
        where = _absolute(path)
        return cls._obtained(where, "open", lambda: _open_parent(where), partial(cls._open_checked, mode=mode))

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, mode: int = PRIVATE) -> Self:
        """Make the folder, of `mode` whatever the umask, and open it. Raises SystemCallError (EEXIST) where the name is taken."""
        where = _absolute(path)
        return cls._obtained(where, "make", lambda: _open_parent(where), partial(cls._make, mode=mode))

    def open_folder(self, name: str, *, mode: int = PRIVATE) -> Self:
        """An existing private folder in this one, as `open`; the caller owns it."""
        return self._obtained(self._below(name), "open", self._open_again, partial(self._open_checked, mode=mode))

    def create_folder(self, name: str, *, mode: int = PRIVATE) -> Self:
        """Make a private folder in this one, as `create`; the caller owns it."""
        return self._obtained(self._below(name), "make", self._open_again, partial(self._make, mode=mode))

    def _below(self, name: str) -> str:
        if "/" in name or name in ("", ".", ".."):
            raise InvalidArgument(f"cannot use the folder {name!r} in {self.path!r}: not a plain name")
        return self._noun(name)

    def _open_again(self) -> int:
        """Not a copy of our descriptor: closing one ends what fcntl(2) F_NOTIFY had set up on the other."""
        return os.open(".", _STEP, dir_fd=self.fileno())

    @classmethod
    def _obtained(cls, where: str, verb: str, open_parent: Callable[[], int], get: Callable[[str, int], int]) -> Self:
        with named_errors(verb, f"the folder {where!r}"):
            parent_fd = open_parent()
            try:
                fd = get(where, parent_fd)
            except BaseException:
                os.close(parent_fd)
                raise
        return cls(where, fd, parent_fd)

    @classmethod
    def _make(cls, path: str, parent_fd: int, *, mode: int) -> int:
        os.mkdir(os.path.basename(path), PRIVATE, dir_fd=parent_fd)
        return cls._open_made(path, parent_fd, mode)

    @classmethod
    def _open_made(cls, path: str, parent_fd: int, mode: int) -> int:
        """The folder just made, if it is still that: in a parent that others may write, another may stand there by now."""
        fd = -1
        try:
            fd = cls._open_checked(path, parent_fd, mode=PRIVATE)
            os.fchmod(fd, mode)
        except BaseException:
            if fd >= 0:
                os.close(fd)
            with suppress(OSError):
                os.rmdir(os.path.basename(path), dir_fd=parent_fd)
            raise
        return fd

    @staticmethod
    def _open_checked(path: str, parent_fd: int, *, mode: int) -> int:
        name = os.path.basename(path)
        try:
            fd = os.open(name, _FOLDER, dir_fd=parent_fd)
        except NotADirectoryError:
            if stat.S_ISLNK(os.stat(name, dir_fd=parent_fd, follow_symlinks=False).st_mode):
                raise _distrust(path, "it is a symbolic link") from None
            raise
        facts = os.fstat(fd)
        reason = ""
        if facts.st_uid != os.geteuid():
            reason = f"it belongs to user {facts.st_uid}"
        elif facts.st_mode & 0o077 & ~mode:
            reason = f"its mode is {stat.S_IMODE(facts.st_mode):04o}, not {mode:04o} (chmod it, or let it be made here)"
        if reason:
            os.close(fd)
            raise _distrust(path, reason)
        return fd

    def fileno(self) -> int:
        """The descriptor; borrowed. Raises InvalidArgument when closed."""
        return self._open(self._fd)

    def filenos(self) -> tuple[int, int]:
        """Its descriptor and that of the folder above: what a fork has to keep open to go on using it."""
        return self.fileno(), self._above()

    def _above(self) -> int:
        return self._open(self._parent_fd)

    def _open(self, fd: int) -> int:
        if fd < 0:
            raise InvalidArgument(f"cannot use the folder {self.path!r}: it is closed")
        return fd

    def close(self) -> None:
        """Let go of the folder. May be called twice."""
        for fd in (self._fd, self._parent_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._parent_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def is_named(self) -> bool:
        """Whether the path still leads to this folder: false once it was removed, renamed or replaced."""
        try:
            there = os.stat(os.path.basename(self.path), dir_fd=self._above(), follow_symlinks=False)
        except FileNotFoundError:
            return False
        here = os.fstat(self.fileno())
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    def names(self) -> list[str]:
        """The names in the folder."""
        with named_errors("list", f"the folder {self.path!r}"):
            return os.listdir(self.fileno())

    def has(self, name: str) -> bool:
        """Whether anything has this name. Takes no descriptor."""
        with named_errors("look at", self._noun(name)):
            try:
                os.stat(name, dir_fd=self.fileno(), follow_symlinks=False)
            except FileNotFoundError:
                return False
        return True

    def create_file(self, name: str, content: bytes = b"") -> int:
        """A new file, mode 0600, holding `content`; its descriptor, which the caller owns. Not fsynced."""
        with named_errors("create", self._noun(name)):
            fd = os.open(name, _CREATE, _PRIVATE_FILE, dir_fd=self.fileno())
            try:
                _write_all(fd, content)
            except BaseException:
                os.close(fd)
                os.unlink(name, dir_fd=self.fileno())
                raise
        return fd

    def open_file(self, name: str) -> int:
        """The file opened for reading, never blocking and never through a link; the caller owns it and judges what it is."""
        with named_errors("open", self._noun(name)):
            return os.open(name, _READ, dir_fd=self.fileno())

    def read_file(self, name: str, limit_bytes: int) -> bytes:
        """The content of a regular file of ours. Raises NotPermitted where it is something else, or longer than `limit_bytes`."""
        try:
            fd = self.open_file(name)
        except SystemCallError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise NotPermitted(errno.EPERM, f"cannot trust {self._noun(name)}: a symbolic link, or a socket") from error
            raise
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_size > limit_bytes:
                raise NotPermitted(
                    errno.EPERM, f"cannot trust {self._noun(name)}: not a file of ours of at most {limit_bytes} bytes"
                )
            with named_errors("read", self._noun(name)):
                return os.pread(fd, facts.st_size, 0)
        finally:
            os.close(fd)

    def replace_file(self, name: str, content: bytes, *, sync: bool = True) -> None:
        """Put `content` under `name`; a crash leaves the old content or the new: write, fsync, rename, fsync the folder.

        `sync` false leaves out both fsyncs: for what dies with the boot, and is only to be seen whole by other processes.
        """
        temporary = f".{name}.{os.urandom(4).hex()}"
        fd = self.create_file(temporary, content)
        try:
            with named_errors("replace", self._noun(name)):
                if sync:
                    os.fsync(fd)
                os.rename(temporary, name, src_dir_fd=self.fileno(), dst_dir_fd=self.fileno())
                if sync:
                    os.fsync(self.fileno())
        except BaseException:
            self.discard_file(temporary)
            raise
        finally:
            os.close(fd)

    def discard_file(self, name: str) -> None:
        """Unlink `name`; one that is not there is fine."""
        with named_errors("remove", self._noun(name)):
            try:
                os.unlink(name, dir_fd=self.fileno())
            except FileNotFoundError:
                return

    def sync_above(self) -> None:
        """Make the folder's own name durable: fsync the folder above."""
        with named_errors("fsync", f"the folder above {self.path!r}"):
            fd = os.open(".", _FOLDER, dir_fd=self._above())
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def remove(self) -> None:
        """Remove the empty folder, if its name still leads to it. Raises SystemCallError (ENOTEMPTY) where it is not empty."""
        if self.is_named():
            with named_errors("remove", f"the folder {self.path!r}"):
                os.rmdir(os.path.basename(self.path), dir_fd=self._above())

    def _noun(self, name: str) -> str:
        return f"{self.path}/{name}"
