"""The agent's state folder: what stands in it, who may pass, and that nothing in it is anybody else's.

It is opened once, by descriptors, before the agent owns it; from then on nothing that was removed is made again: whoever writes
goes through these descriptors, for which a removed folder stays removed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from spurproc.core.durable.private_folder import PASSABLE, PRIVATE, PrivateFolder, named_errors
from spurproc.errors import NotPermitted, SystemCallError

__all__ = [
    "AGENT_DATABASE_NAME",
    "AGENT_MARK_NAME",
    "CONTROLLER_DATABASE_NAME",
    "CONTROLLER_MARK_NAME",
    "OWNER_NAME",
    "QUARANTINE_NAME",
    "READY_NAME",
    "SOCKET_NAME",
    "StateDir",
]

OWNER_NAME = "owner"
READY_NAME = "ready.json"
QUARANTINE_NAME = "quarantine.json"
AGENT_DATABASE_NAME = "agent.db"
CONTROLLER_DATABASE_NAME = "controller.db"
AGENT_MARK_NAME = "agent.mark"
CONTROLLER_MARK_NAME = "controller.mark"
SOCKET_NAME = "control.sock"

# Passable: a job runs as its user, and has to get at its own script and its own scratch folder by their names.
_STEPS, _SPOOL, _SCRATCH, _HOOKS = "steps", "spool", "scratch", "hooks"
_SQLITE_SUFFIXES = ("", "-wal", "-shm", "-journal")
_FILES = (
    OWNER_NAME,
    READY_NAME,
    QUARANTINE_NAME,
    AGENT_MARK_NAME,
    CONTROLLER_MARK_NAME,
    *(f"{name}{suffix}" for name in (AGENT_DATABASE_NAME, CONTROLLER_DATABASE_NAME) for suffix in _SQLITE_SUFFIXES),
)
_OTHERS_WRITE = 0o022


class StateDir:
    """The state folder, open. Owns its descriptors; close-on-exec, all of them.

    `folder` itself and `spool` and `scratch` are passable (0711), `steps`, the client's state folder, and `hooks` private (0700).
    """

    def __init__(
        self, folder: PrivateFolder, steps: PrivateFolder, spool: PrivateFolder, scratch: PrivateFolder, hooks: PrivateFolder
    ) -> None:
        """Takes all of them. See `open`."""
        self.folder = folder
        self.steps = steps
        self.spool = spool
        self.scratch = scratch
        self.hooks = hooks

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = True, parents: bool = False) -> Self:
        """Open it and all that belongs in it; `create`: make what is missing, `parents`: the folders above it too, as 0700.

        Raises NotPermitted, which names every part that is somebody else's, that others may write, or that is a link;
        AlreadyGone where it is missing; SystemCallError. Does not block.
        """
        if create and parents:
            with named_errors("make", f"the folders above {os.fspath(path)!r}"):
                _make_above(os.path.abspath(path))
        with ExitStack() as opened:
            folder = opened.enter_context(_root_folder(path, create=create))
            _check_parts(folder)
            modes = {_STEPS: PRIVATE, _SPOOL: PASSABLE, _SCRATCH: PASSABLE, _HOOKS: PRIVATE}
            below = [opened.enter_context(_folder_in(folder, name, mode, create=create)) for name, mode in modes.items()]
            opened.pop_all()
        return cls(folder, *below)

    @property
    def path(self) -> str:
        """Absolute."""
        return self.folder.path

    @property
    def socket_path(self) -> str:
        """Where others find the agent's socket."""
        return f"{self.path}/{SOCKET_NAME}"

    @property
    def socket_address(self) -> str:
        """The same through the held descriptor, however long the path; in a removed folder nothing can be bound."""
        return f"/proc/self/fd/{self.folder.fileno()}/{SOCKET_NAME}"

    @property
    def removed(self) -> bool:
        """Whether the folder itself was removed, wherever its path leads now. Source: inode(7), st_nlink."""
        return os.fstat(self.folder.fileno()).st_nlink == 0

    def close(self) -> None:
        """Let go. May be called twice."""
        for folder in (self.hooks, self.scratch, self.spool, self.steps, self.folder):
            folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _make_above(path: str) -> None:
    """XDG Base Directory Specification, "Referencing this specification": as 0700."""
    missing = []
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each, PRIVATE)


def _root_folder(path: str | os.PathLike[str], *, create: bool) -> PrivateFolder:
    if not create:
        return PrivateFolder.open(path, mode=PASSABLE)
    return _made_or_opened(lambda: PrivateFolder.create(path, mode=PASSABLE), lambda: PrivateFolder.open(path, mode=PASSABLE))


def _folder_in(folder: PrivateFolder, name: str, mode: int, *, create: bool) -> PrivateFolder:
    if not create:
        return folder.open_folder(name, mode=mode)
    return _made_or_opened(lambda: folder.create_folder(name, mode=mode), lambda: folder.open_folder(name, mode=mode))


def _made_or_opened(make: Callable[[], PrivateFolder], open_: Callable[[], PrivateFolder]) -> PrivateFolder:
    try:
        return make()
    except SystemCallError as error:
        if error.errno != errno.EEXIST:
            raise
    return open_()


def _check_parts(folder: PrivateFolder) -> None:
    """Before anything in it is opened. What does not stand there is fine; the folders are judged where they are opened."""
    problems = list(_problems(folder))
    if problems:
        raise NotPermitted(errno.EPERM, f"cannot trust the state folder {folder.path!r}: {'; '.join(problems)}")


def _problems(folder: PrivateFolder) -> Iterator[str]:
    if os.geteuid() == 0 and os.fstat(folder.fileno()).st_mode & 0o011 != 0o011:
        yield "others may not pass through it, so no job of another user could run (chmod it to 0711)"
    kinds = dict.fromkeys(_FILES, stat.S_IFREG) | {SOCKET_NAME: stat.S_IFSOCK}
    for name, kind in kinds.items():
        with named_errors("look at", f"{folder.path}/{name}"):
            try:
                facts = os.stat(name, dir_fd=folder.fileno(), follow_symlinks=False)
            except FileNotFoundError:
                continue
        problem = _problem(facts, kind)
        if problem:
            yield f"{name} {problem}"


def _problem(facts: os.stat_result, kind: int) -> str:
    if stat.S_ISLNK(facts.st_mode):
        return "is a symbolic link"
    if stat.S_IFMT(facts.st_mode) != kind:
        return "is no regular file" if kind == stat.S_IFREG else "is no socket"
    if facts.st_uid != os.geteuid():
        return f"belongs to user {facts.st_uid}"
    if kind == stat.S_IFREG and facts.st_nlink != 1:
        return f"has {facts.st_nlink} names"
    if kind == stat.S_IFREG and facts.st_mode & _OTHERS_WRITE:
        return f"may be written by others: its mode is {stat.S_IMODE(facts.st_mode):04o}"
    return ""
