"""A target, held: the process by its pidfd and its identity, or the recorded run by its folder."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from spurproc.core.facilities import Facilities
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.held import HeldRun
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from spurproc.errors import AlreadyGone, Unsupported
from spurproc.inspect.target import FolderTarget, InodeTarget, PidTarget

__all__ = ["HeldFolder", "HeldProcess", "open_folder", "open_process"]


@dataclass(frozen=True, slots=True)
class HeldProcess:
    """One process and its name. Owns `pidfd`: use it as a context manager."""

    identity: ProcessIdentity
    pidfd: Pidfd

    def tree(self) -> ProcessTree:
        """What a number alone leads to: its process group and session, where it leads them."""
        return ProcessTree(leader=Leader(identity=self.identity, pidfd=self.pidfd))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.pidfd.close()


def open_process(target: PidTarget | InodeTarget) -> HeldProcess:
    """Hold it first, and then name what is held: the identity of a bare number is taken at this moment.

    Raises AlreadyGone where there is none, or another process has the number by now; Unsupported for an inode that this kernel
    does not have; IdentityUnreadable.
    """
    if isinstance(target, InodeTarget):
        _need_inodes(target)
    pidfd = Pidfd.open(target.pid)
    try:
        identity = ProcessIdentity.of_pidfd(pidfd)
        _need_same(target, identity)
    except BaseException:
        pidfd.close()
        raise
    return HeldProcess(identity, pidfd)


def _need_same(target: PidTarget | InodeTarget, found: ProcessIdentity) -> None:
    if isinstance(target, InodeTarget) and found.pidfs_inode != target.inode:
        other = f"{found.pid}:{found.pidfs_inode}"
        raise AlreadyGone(errno.ESRCH, f"cannot open {target}: it is gone, its number is now that of process {other}")


def _need_inodes(target: InodeTarget) -> None:
    here = Facilities.current()
    if not here.pidfs_inode:
        why = dict(here.refusals).get("pidfs_inode", "refused")
        raise Unsupported(f"cannot open {target}: pidfds have no inodes of their own here ({why}); they need Linux 6.9")


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """A recorded run, and the parts that its public face does not show. Owns both: use it as a context manager."""

    run: RecordedRun
    parts: HeldRun

    def tree(self) -> ProcessTree | None:
        """What holds it together; None where nobody of it is named. Raises Unsupported and others as HeldRun.cgroup does."""
        if self.run.leader is None and self.parts.cgroup() is None:
            return None
        return self.parts.tree()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.run.close()


def open_folder(target: FolderTarget) -> HeldFolder:
    """The run recorded there. Raises AlreadyGone, NotPermitted, RecordInvalid as RecordedRun.open does."""
    parts = HeldRun.open(target.path)
    return HeldFolder(RecordedRun(parts), parts)
