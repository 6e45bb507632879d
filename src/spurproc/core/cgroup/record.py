"""A cgroup written down: what is needed to ask after it later, from another process."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TypeGuard

from spurproc.core._native import ffi, lib
from spurproc.core.cgroup.events import CgroupEvents, open_events
from spurproc.core.cgroup.folder import folder_inode, open_folder
from spurproc.core.mountinfo import read_cgroup2_mounts
from spurproc.core.observation import Liveness, Observation
from spurproc.core.process.pidfd import SUBJECT
from spurproc.core.vantage import boot_id_valid, read_boot_id
from spurproc.errors import AlreadyGone, IdentityUnreadable, InvalidArgument, NotCgroup2, SystemCallError

__all__ = ["CgroupRecord"]

_TOP_INODE = 1  # of the cgroup at the top of the hierarchy, whatever a namespace shows as its root


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupRecord:
    """Where a cgroup was, and what makes it that one.

    `inode` is the cgroup's id, unique for the boot; `above_inode` that of the cgroup above, by which its absence can be proven.
    """

    path: str
    inode: int
    above_inode: int
    boot_id: str

    @classmethod
    def of_folder(cls, folder_fd: int, path: str) -> CgroupRecord:
        """The record of an open cgroup folder. Raises AlreadyGone when it was removed."""
        above_fd = open_folder("..", dir_fd=folder_fd)
        try:
            above_inode = folder_inode(above_fd, f"the cgroup above {path!r}")
        finally:
            os.close(above_fd)
        inode = folder_inode(folder_fd, f"cgroup {path!r}")
        return cls(path=path, inode=inode, above_inode=above_inode, boot_id=read_boot_id())

    @property
    def packed(self) -> bytes:
        """For `liveness_many`: nothing that one call could look at, so it is asked by itself."""
        return SUBJECT.pack(lib.SPUR_SUBJECT_NONE, -1, 0, 0, 0, 0, b"")

    def to_json(self) -> dict[str, str | int]:
        """A flat object of strings and integers."""
        return {"path": self.path, "inode": self.inode, "above_inode": self.above_inode, "boot_id": self.boot_id}

    @classmethod
    def from_json(cls, value: object) -> CgroupRecord:
        """Undo `to_json`. Raises InvalidArgument; nothing is filled in."""
        if not isinstance(value, dict):
            raise InvalidArgument(f"cannot read a cgroup record: not an object: {value!r:.200}")
        path, boot_id = value.get("path"), value.get("boot_id")
        inode, above_inode = value.get("inode"), value.get("above_inode")
        if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
            raise InvalidArgument(f"cannot read a cgroup record: path {path!r}")
        if not isinstance(boot_id, str) or not boot_id_valid(boot_id):
            raise InvalidArgument(f"cannot read a cgroup record: boot_id {boot_id!r}")
        if not _is_inode(inode) or not _is_inode(above_inode):
            raise InvalidArgument("cannot read a cgroup record: inode and above_inode must be positive integers")
        return cls(path=path, inode=inode, above_inode=above_inode, boot_id=boot_id)

    def liveness(self) -> Liveness:
        """ALIVE, GONE or UNKNOWN; see `observe`."""
        return self.observe().liveness

    def observe(self) -> Observation:
        """Whether something lives in that cgroup or below, with the evidence. Does not block.

        GONE: another boot, empty, or removed. Removed is proven by the inode's handle (root), or by the absence of the name in
        the very cgroup that was above it. Another cgroup at the path proves nothing: this may be another mount or namespace.
        """
        try:
            if read_boot_id() != self.boot_id:
                return self._gone("boot", "was recorded in another boot")
        except IdentityUnreadable as error:
            return self._unknown("vantage", str(error))
        return self._observe_path()

    def _observe_path(self) -> Observation:
        try:
            folder_fd = open_folder(self.path)
        except NotCgroup2 as error:
            return self._unknown("not cgroup2", str(error))
        except AlreadyGone:
            return self._observe_absent()
        except SystemCallError as error:
            return self._observe_handle() or self._unknown("unreadable", str(error))
        try:
            same = folder_inode(folder_fd, "a cgroup") == self.inode
        except BaseException:
            os.close(folder_fd)
            raise
        if same:
            return self._observe_opened(folder_fd)
        os.close(folder_fd)
        return self._observe_handle() or self._unknown("inode", "another cgroup stands at its path")

    def _observe_folder(self, folder_fd: int) -> Observation:
        try:
            events = CgroupEvents(open_events(folder_fd))
        except AlreadyGone:  # it went away since it was opened
            return self._gone("removed", "was removed")
        except SystemCallError as error:
            return self._unknown("unreadable", str(error))
        try:
            populated = events.read().populated
        except AlreadyGone:
            return self._gone("removed", "was removed")
        except SystemCallError as error:
            return self._unknown("unreadable", str(error))
        finally:
            events.close()
        if populated:
            return Observation(liveness=Liveness.ALIVE, evidence="cgroup.events", detail=f"{self.path} is populated")
        return self._gone("cgroup.events", "is empty")

    def _observe_absent(self) -> Observation:
        """No such path: the handle decides where we may use one, else the cgroup above, if it is the one that was recorded."""
        by_handle = self._observe_handle()
        if by_handle is not None:
            return by_handle
        try:
            above_fd = open_folder(os.path.dirname(self.path))
        except (NotCgroup2, SystemCallError) as error:
            return self._unknown("no parent", str(error))
        try:
            if folder_inode(above_fd, "a cgroup") != self.above_inode:
                return self._unknown("parent", "another cgroup stands above its path")
            os.stat(os.path.basename(self.path), dir_fd=above_fd, follow_symlinks=False)
        except FileNotFoundError:
            return self._gone("absent", "is not in the cgroup that was above it")
        except OSError as error:
            return self._unknown("unreadable", str(error))
        finally:
            os.close(above_fd)
        return self._unknown("changing", "came and went while we looked")

    def _observe_handle(self) -> Observation | None:
        """By inode, whatever the path leads to; None where we may not. Source: open_by_handle_at(2), CAP_DAC_READ_SEARCH.

        Only through a mount that shows the top: from a cgroup namespace's own mount a live cgroup outside may be ESTALE too.
        """
        folder = ffi.new("int *")
        try:
            mounts = read_cgroup2_mounts()
        except OSError:
            return None
        for mount in mounts:
            try:
                mount_fd = open_folder(mount.point)
            except (NotCgroup2, SystemCallError):
                continue
            try:
                if folder_inode(mount_fd, "a cgroup mount") != _TOP_INODE:
                    continue
                error = lib.spur_cgroup_open_handle(mount_fd, self.inode, folder)
            finally:
                os.close(mount_fd)
            if error == -errno.ESTALE:
                return self._gone("handle", "was removed: its inode exists no more")
            if error == 0:
                return self._observe_opened(folder[0])
        return None

    def _observe_opened(self, folder_fd: int) -> Observation:
        try:
            return self._observe_folder(folder_fd)
        finally:
            os.close(folder_fd)

    def _gone(self, evidence: str, detail: str) -> Observation:
        return Observation(liveness=Liveness.GONE, evidence=evidence, detail=f"{self.path} {detail}")

    def _unknown(self, evidence: str, detail: str) -> Observation:
        return Observation(liveness=Liveness.UNKNOWN, evidence=evidence, detail=f"{self.path}: {detail}")


def _is_inode(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and _TOP_INODE <= value < 2**64
