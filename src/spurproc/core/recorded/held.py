"""One recorded run as a process holds it: its records, and the processes and the cgroup that they name."""

from __future__ import annotations

import errno
import os
import select
import time
from dataclasses import replace
from typing import Self

from spurproc.core._native import lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.folder import RunFolder
from spurproc.core.recorded.record import RunRecord, Started
from spurproc.core.recorded.watch import Watch, wait_for
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.errors import AlreadyGone, Busy, IdentityUnreadable, RecordInvalid, Unsupported

__all__ = ["HeldRun", "is_reaped"]

_LOOK_S = 0.02  # where pidfd_open is refused, what is held cannot be polled


class HeldRun:
    """The parts of one run. Owns all of them: `close()` it.

    `leader` and `recorder` are held as soon as they are named and can be; None before, or where they had ended and were reaped.
    """

    def __init__(
        self,
        files: RunFolder,
        *,
        leader: Pidfd | None = None,
        recorder: Pidfd | None = None,
        cgroup: Cgroup | None = None,
        was_launched: bool = False,
    ) -> None:
        """Takes what it is given. `was_launched`: seen by ourselves, even if the note of it is lost."""
        self.files = files
        self.leader = leader
        self.recorder = recorder
        self.started = Started(launched=was_launched)
        self._cgroup = cgroup
        self._was_launched = was_launched

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """See RecordedRun.open."""
        held = cls(RunFolder.open(folder))
        try:
            held.refresh()
        except BaseException:
            held.close()
            raise
        return held

    @property
    def record(self) -> RunRecord:
        """What was launched."""
        return self.files.record

    @property
    def path(self) -> str:
        """Of its folder."""
        return self.files.folder.path

    @property
    def descends(self) -> bool:
        """Whether the recorder is the subreaper that holds the tree together."""
        return self.record.containment is Containment.DESCENDANTS

    def refresh(self) -> Started:
        """The recorder's notes now; holds those that they name and that are not held yet."""
        try:
            started = self.files.started()
        except RecordInvalid:
            return self.started  # the end says so; what was read before still holds
        if self.leader is None and started.leader is not None:
            self.leader = _hold(started.leader)
        if self.recorder is None and started.recorder is not None:
            self.recorder = _hold(started.recorder)
        self.started = replace(started, launched=started.launched or self._was_launched)
        return self.started

    def recorder_lives(self) -> bool:
        """Whether it is seen to."""
        return self.recorder is not None and self.recorder.liveness() is Liveness.ALIVE

    def await_recorder(self, timeout_s: float) -> None:
        """Block until it is not seen to live, at most so long. It ends right after the tree that it watches."""
        deadline = time.monotonic() + timeout_s
        pollable = Facilities.current().pidfd_open
        while self.recorder is not None and self.recorder_lives() and (left_s := deadline - time.monotonic()) > 0:
            entries = ((self.recorder.fileno(), select.POLLIN),) if pollable else ()
            wait_for(Watch(entries=entries, timeout_s=left_s if pollable else min(left_s, _LOOK_S)))

    def leader_lives(self) -> bool:
        """Whether it is held and seen to."""
        return self.leader is not None and self.leader.liveness() is Liveness.ALIVE

    def cgroup(self) -> Cgroup | None:
        """The run's own cgroup; None where it has none or it was removed. Borrowed.

        Raises Unsupported where that cannot be told from here, and whatever else keeps us from opening it.
        """
        record = self.record.cgroup
        if record is not None and self._cgroup is None:
            try:
                self._cgroup = Cgroup.open(record.path, record.inode)
            except AlreadyGone as error:
                seen = record.observe()
                if seen.liveness is not Liveness.GONE:
                    raise Unsupported(f"cannot reach the cgroup of the run in {self.path!r} from here: {seen.detail}") from error
        return self._cgroup

    def tree(self) -> ProcessTree:
        """A leader is noted only once it has joined its cgroup."""
        return ProcessTree(
            leader=None if self.started.leader is None else Leader(identity=self.started.leader, pidfd=self.leader),
            cgroup=self.cgroup(),
            subreaper=self.started.recorder if self.descends else None,
        )

    def begun_tree(self, verb: str) -> ProcessTree:
        """The tree as it is now. Raises Busy while the launch is under way."""
        if self.refresh().leader is None:
            raise Busy(errno.EBUSY, f"cannot {verb} the run in {self.path!r}: no leader is recorded yet")
        return self.tree()

    def close(self) -> None:
        """Let go of everything. May be called twice."""
        for part in (self.leader, self.recorder, self._cgroup, self.files):
            if part is not None:
                part.close()


def _hold(identity: ProcessIdentity) -> Pidfd | None:
    try:
        return identity.open()
    except (AlreadyGone, IdentityUnreadable):
        return None


def is_reaped(pidfd: Pidfd) -> bool:
    """Whether its parent has taken its status. POLLHUP says so from Linux 6.9 on; before, a signal 0 is refused."""
    poll = select.poll()
    poll.register(pidfd.fileno(), 0)
    return bool(poll.poll(0)) or int(lib.spur_pidfd_unreaped(pidfd.fileno(), pidfd.facilities)) == -errno.ESRCH
