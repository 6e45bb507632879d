"""Whether this agent owns its state folder: one lock, on one open file, to which the path has to go on leading.

A lock keeps a second agent out of the folder. It says nothing of a folder that was removed, moved or put elsewhere meanwhile:
there the lock is still held, and excludes nobody. So who owns looks again, each turn and before each act that others see.
"""

from __future__ import annotations

import enum
import errno
import fcntl
import os
import select
import stat
import time
from contextlib import suppress
from types import TracebackType
from typing import Self
from weakref import WeakSet

import msgspec

from spurproc.agent.node.state_dir import OWNER_NAME, StateDir
from spurproc.core.durable.private_folder import named_errors
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import AlreadyOwned, InvalidArgument, OwnershipLost, SpurprocError
from spurproc.proto.codec import Record, decode, encode, version_of
from spurproc.version import VERSION

__all__ = ["OwnerRecord", "Ownership", "OwnershipState"]

_OWNER = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_PRIVATE_FILE = 0o600
_LIMIT_BYTES = 4096
_IN_TRANSIT_S = 2.0
_LOOK_MS = 10


class OwnershipState(enum.Enum):
    """What became of the state folder of an agent."""

    HELD = "held"
    REPLACED = "replaced"
    """Its path leads elsewhere, or nowhere; the folder itself still stands somewhere."""
    REMOVED = "removed"
    """The folder itself was removed: nothing can be made in it any more."""


class OwnerRecord(Record, frozen=True, kw_only=True):
    """Who has the lock, for whoever is refused. Written in place, for the file is the lock; it dies with the boot."""

    identity_text: str = msgspec.field(name="identity")
    version: str
    started_at_s: float

    def __post_init__(self) -> None:
        ProcessIdentity.from_text(self.identity_text)

    @property
    def identity(self) -> ProcessIdentity:
        """Of the agent."""
        return ProcessIdentity.from_text(self.identity_text)


class Ownership:
    """The lock on a state folder, held. Owns its descriptor, which no child has; borrows the folder.

    Once lost, it is never held again, even if the folder comes back: another agent may have owned what stood there meanwhile.
    """

    def __init__(self, state_dir: StateDir, fd: int) -> None:
        """Takes `fd`, which holds the lock. See `take`."""
        self._state_dir = state_dir
        self._fd = fd
        self._file = _key(os.fstat(fd))
        self._path = f"{state_dir.path}/{OWNER_NAME}"
        self._state = OwnershipState.HELD
        self.reason = ""
        """How it was lost, as a sentence; empty while it is held."""
        _close_in_forks(self)

    @classmethod
    def take(cls, state_dir: StateDir, *, timeout_s: float = _IN_TRANSIT_S) -> Self:
        """Own the folder. Raises AlreadyOwned, with the owner's identity, where another agent does.

        Waits, up to `timeout_s`, only where the file names an owner that is gone: its lock may be on its way out, with a child
        that had not reached its exec, or the next owner may not have written its name yet. flock(2)
        """
        deadline = time.monotonic() + timeout_s
        while True:
            fd = _locked(state_dir)
            if fd is not None:
                break
            owner = _read_owner(state_dir)
            gone = owner is None or owner.identity.liveness() is Liveness.GONE
            if not gone or time.monotonic() >= deadline:
                raise _refusal(state_dir, owner)
            select.poll().poll(_LOOK_MS)
        try:
            _write_owner(fd)
            return cls(state_dir, fd)
        except BaseException:
            os.close(fd)
            raise

    def check(self) -> OwnershipState:
        """Look again: a few system calls, none of which takes a descriptor or blocks.

        Raises SystemCallError where it cannot be told, which is neither held nor lost: whoever asks does nothing that others see.
        """
        if self._fd < 0:
            raise InvalidArgument(f"cannot check the ownership of {self._state_dir.path!r}: it was given up")
        with named_errors("check the ownership of", repr(self._state_dir.path)):
            if self._state is OwnershipState.HELD and self._is_plainly_there():
                return self._state
            if self._state_dir.removed:
                self._lose(OwnershipState.REMOVED, "the folder was removed")
            elif self._state is OwnershipState.HELD:
                reason = self._strayed()
                if reason:
                    self._lose(OwnershipState.REPLACED, reason)
        return self._state

    def require(self) -> None:
        """Right before an act that others see. Raises OwnershipLost where it is not held, and as `check`."""
        if self.check() is not OwnershipState.HELD:
            raise OwnershipLost(self.reason)

    def _lose(self, state: OwnershipState, reason: str) -> None:
        self.reason = f"the state folder {self._state_dir.path!r} is not owned any more: {reason}"
        self._state = state  # last: whoever asks on another thread finds the reason

    def _strayed(self) -> str:
        """Why the path does not lead to our file; empty where it does. Links are not followed: a restart would not follow one."""
        path = self._path
        parts = path.split("/")
        try:
            for end in range(2, len(parts)):
                above = "/".join(parts[:end])
                if stat.S_ISLNK(os.stat(above, follow_symlinks=False).st_mode):
                    return f"{above!r} is a symbolic link now"
            there = os.stat(path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return f"nothing stands at {path!r}"
        except OSError as error:
            if error.errno == errno.ESTALE:
                return f"nothing stands at {path!r}: {error.strerror}"
            raise
        return "" if _key(there) == self._file else f"{path!r} is another file now"

    def _is_plainly_there(self) -> bool:
        """The kernel names our file by this very path, so no link is on the way, and the path leads to it, so nothing hides it.

        Then neither the file nor a folder above it was removed. What is not so is looked at part by part. proc_pid_fd(5)
        """
        try:
            return os.readlink(f"/proc/self/fd/{self._fd}") == self._path and _key(os.stat(self._path)) == self._file
        except OSError:
            return False

    def close(self) -> None:
        """Give it up; another agent may own the folder from then on. May be called twice.

        Unlocked, for a child that another thread has cloned has a copy until its exec.
        """
        if self._fd >= 0:
            with suppress(OSError):  # a file system may refuse it; then the lock is free with the last copy
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """In a fork: close this descriptor alone, and leave the lock to whom it belongs. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _key(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def _locked(state_dir: StateDir) -> int | None:
    """The file under its lock, which the caller owns; None where another has that."""
    with named_errors("own", f"the state folder {state_dir.path!r}"):
        fd = os.open(OWNER_NAME, _OWNER, _PRIVATE_FILE, dir_fd=state_dir.folder.fileno())
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _check_named(state_dir, fd)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
    return fd


def _check_named(state_dir: StateDir, fd: int) -> None:
    """Opened, then replaced, then locked: such a lock excludes nobody."""
    there = os.stat(OWNER_NAME, dir_fd=state_dir.folder.fileno(), follow_symlinks=False)
    if _key(there) != _key(os.fstat(fd)) or not state_dir.folder.is_named():
        raise FileNotFoundError(errno.ENOENT, "it was replaced")


def _write_owner(fd: int) -> None:
    identity = ProcessIdentity.of(os.getpid())
    content = encode(OwnerRecord(identity_text=identity.to_text(), version=VERSION, started_at_s=time.time()))
    with named_errors("write", "the owner of the state folder"):
        os.ftruncate(fd, 0)
        os.pwrite(fd, content, 0)


def _read_owner(state_dir: StateDir) -> OwnerRecord | None:
    """What stands in the file; None where that is nothing that can be read (yet)."""
    with suppress(SpurprocError):
        content = state_dir.folder.read_file(OWNER_NAME, _LIMIT_BYTES)
        version_of(content, OWNER_NAME)
        return decode(content, OwnerRecord, OWNER_NAME)
    return None


def _refusal(state_dir: StateDir, owner: OwnerRecord | None) -> AlreadyOwned:
    what = f"cannot own the state folder {state_dir.path!r}"
    if owner is None:
        return AlreadyOwned(f"{what}: another process holds {OWNER_NAME!r}, which does not say who", None)
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner.started_at_s))
    text = owner.identity_text
    return AlreadyOwned(f"{what}: process {owner.identity.pid}, spurd {owner.version}, has it since {since} ({text})", text)


_held: WeakSet[Ownership] = WeakSet()
_hooked: list[bool] = []


def _close_in_forks(ownership: Ownership) -> None:
    """A fork without an exec shares the open file, and so the lock: it would outlive us there. What we spawn is close-on-exec."""
    _held.add(ownership)
    if not _hooked:
        _hooked.append(True)
        os.register_at_fork(after_in_child=_close_held)


def _close_held() -> None:
    for ownership in list(_held):
        ownership.forget()
