"""One recorded run as a process holds it: its records, and the processes and the cgroup that they name."""

from __future__ import annotations

import errno
import os
import select
from typing import Self

from spurproc.core._native import lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.observation import Liveness, Observation
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.folder import RunFolder
from spurproc.core.recorded.record import RunRecord, Started
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.errors import AlreadyGone, IdentityUnreadable, RecordInvalid, Unsupported

__all__ = ["HeldRun"]


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
        """Takes what it is given. `leader`: as its recorder handed it over. `was_launched`: seen, even if its note is lost."""
        self.files = files
        self.leader = leader
        self.leader_was_handed_over = leader is not None
        self.recorder = recorder
        self.started = Started(launched=was_launched)
        self.notes_error = ""
        self._cgroup = cgroup

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
        """The recorder's notes now; holds those that they name and that are not held yet.

        What was noted once stays known, whatever becomes of the file: `notes_error` says what is wrong with that.
        """
        try:
            noted, self.notes_error = self.files.started(), ""
        except RecordInvalid as error:
            self.notes_error = str(error)
            return self.started
        known = self.started
        self.started = Started(
            recorder=known.recorder or noted.recorder,
            leader=known.leader or noted.leader,
            launched=known.launched or noted.launched,
            unrecorded=known.unrecorded or noted.unrecorded,
            empty=known.empty or noted.empty,
        )
        if self.leader is None and self.started.leader is not None:
            self.leader = _hold(self.started.leader)
        if self.recorder is None and self.started.recorder is not None:
            self.recorder = _hold(self.started.recorder)
        return self.started

    def recorder_lives(self) -> bool:
        """Whether it is seen to."""
        return self.recorder is not None and self.recorder.liveness() is Liveness.ALIVE

    def leader_liveness(self) -> Liveness:
        """By the held pidfd, else by what was noted; UNKNOWN where it is not named, or cannot be seen from here."""
        if self.leader is not None:
            return self.leader.liveness()
        return Liveness.UNKNOWN if self.started.leader is None else self.started.leader.liveness()

    def leader_is_reaped(self) -> bool:
        """Whether it is held, and its parent has taken its status: POLLHUP from Linux 6.9 on; before, signal 0 is refused."""
        if self.leader is None:
            return False
        poll = select.poll()
        poll.register(self.leader.fileno(), 0)
        return bool(poll.poll(0)) or lib.spur_pidfd_unreaped(self.leader.fileno(), self.leader.facilities) == -errno.ESRCH

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

    def observe_cgroup(self) -> Observation | None:
        """Whether anything lives in the run's own cgroup; None where it never had one."""
        return None if self.record.cgroup is None else self.record.cgroup.observe()

    def cgroup_populated(self) -> bool:
        """Whether something is seen to live in it."""
        seen = self.observe_cgroup()
        return seen is not None and seen.liveness is Liveness.ALIVE

    def tree(self) -> ProcessTree:
        """All that is known of it. A leader is noted only once it has joined its cgroup."""
        return ProcessTree(
            leader=None if self.started.leader is None else Leader(identity=self.started.leader, pidfd=self.leader),
            cgroup=self.cgroup(),
            subreaper=self.started.recorder if self.descends else None,
        )

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
