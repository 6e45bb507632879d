"""A run with a recorder, found again by its folder from any process of its user: is it alive, signal it, how did it end."""

from __future__ import annotations

import errno
import os
import select
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import Self

from spurproc.core.cgroup.signal_report import SignalReport
from spurproc.core.deadline import deadline_after, has_passed, left_s
from spurproc.core.durable.lock import FolderLock
from spurproc.core.exit_info import ExitInfo, ExitKind, ResourceUsage
from spurproc.core.observation import Liveness, Observation
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.recorded.end import Ended, NotYet, RunEnd, end_of, info_of
from spurproc.core.recorded.held import HeldRun
from spurproc.core.recorded.record import RunRecord
from spurproc.core.recorded.waiting import wait_steps
from spurproc.core.recorded.watch import wait_async_for, wait_end, wait_for
from spurproc.core.tree.liveness import tree_liveness
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.signalling import signal_tree
from spurproc.core.tree.termination import KillPlan, Proof, TerminationReport, terminate_tree
from spurproc.core.vantage import Vantage
from spurproc.errors import AlreadyGone, Busy, NotCgroup2, SystemCallError, Unsupported

__all__ = ["RecordedRun"]

_RECORDER_END_S = 1.0  # it ends with its last descendant
_LAUNCHING = "launching"
_LOOK_MS = 10


class RecordedRun:
    """One recorded run. Owns descriptors: `close()` it or use it as a context manager. Closing ends nothing.

    The job, its recorder and the record live on whatever becomes of this object or process.
    """

    def __init__(self, held: HeldRun) -> None:
        """Takes `held`. For this package; others use `open` or `launch_recorded`."""
        self._held = held

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """The run recorded in `folder`, launched by whomever. Does not block.

        Raises AlreadyGone where there is no folder, NotPermitted where it is not private and ours, RecordInvalid where it holds
        no readable run.
        """
        return cls(HeldRun.open(folder))

    @property
    def record(self) -> RunRecord:
        """What was launched."""
        return self._held.record

    @property
    def folder(self) -> str:
        """Its absolute path."""
        return self._held.path

    @property
    def leader(self) -> ProcessIdentity | None:
        """The process exec'd for the run; None until it stands at its gate."""
        return self._held.refresh().leader

    @property
    def recorder(self) -> ProcessIdentity | None:
        """Who writes the record; None until it has begun."""
        return self._held.refresh().recorder

    @property
    def containment(self) -> Containment:
        """What holds the tree together."""
        return self.record.containment

    def liveness(self) -> Liveness:
        """Whether anything of the tree lives; see `observe`."""
        return self.observe().liveness

    def observe(self) -> Observation:
        """Whether anything of the tree lives, with the evidence. Does not block.

        UNKNOWN for a launch that is under way, for a cgroup that cannot be looked at from here, and under DESCENDANTS when nobody
        is seen and the recorder has not noted yet that nobody is left: looking alone proves nothing of who forks fast.
        """
        started = self._held.refresh()
        if self.record.boot_id != Vantage.read().boot_id:
            return Observation(liveness=Liveness.GONE, evidence="boot", detail="it was launched in another boot")
        if started.leader is None:
            return self._observe_unnamed()
        try:
            seen = tree_liveness(self._held.tree())
        except (SystemCallError, NotCgroup2, Unsupported) as error:
            alive = self._held.leader_liveness() is Liveness.ALIVE
            liveness = Liveness.ALIVE if alive else Liveness.UNKNOWN
            return Observation(liveness=liveness, evidence="no cgroup", detail=str(error))
        if not self._held.descends or seen.liveness is Liveness.ALIVE:
            return seen
        if self._held.refresh().empty:
            return Observation(liveness=Liveness.GONE, evidence="empty", detail="the recorder saw the last descendant end")
        detail = f"{seen.detail}; the recorder has not noted the last one's end"
        return replace(seen, liveness=Liveness.UNKNOWN, detail=detail)

    def _observe_unnamed(self) -> Observation:
        """The notes name nobody. That is no proof where the job may have cut them: its cgroup is asked, where it has one."""
        end = end_of(self._held)
        if end is NotYet.LAUNCHING:
            return Observation(liveness=Liveness.UNKNOWN, evidence=_LAUNCHING, detail=end.value)
        cgroup = self._held.observe_cgroup()
        if cgroup is not None and cgroup.liveness is not Liveness.GONE:
            return cgroup
        if isinstance(end, Ended) and end.info.kind is ExitKind.NOT_STARTED:
            return Observation(liveness=Liveness.GONE, evidence="not-started", detail="no leader was ever started")
        detail = "the notes of its recorder are cut short, or cannot be read"
        return cgroup or Observation(liveness=Liveness.UNKNOWN, evidence="notes", detail=detail)

    def signal(self, signal: int) -> SignalReport:
        """Send `signal` once to every member of the tree: `signal_tree`. Raises Busy while the launch is under way.

        Raises Unsupported where its cgroup cannot be reached from here.
        """
        return signal_tree(self._begun_tree("signal"), signal)

    def terminate(self, kill_plan: KillPlan | None = None) -> TerminationReport:
        """End the tree by the steps of `kill_plan` and prove that it is empty: `terminate_tree`. Blocks until then.

        Where it is empty, its recorder is waited for too (it ends right after, so for a second at most): `exit_info` then has the
        end. Under DESCENDANTS the proof is the recorder's note that nobody is left. Raises Busy while the launch is under way,
        Unsupported where its cgroup cannot be reached from here.
        """
        report = terminate_tree(self._begun_tree("terminate"), kill_plan or KillPlan.default())
        if report.proof is not Proof.NOT_EMPTY:
            self._await_recorder(_RECORDER_END_S)
        if not self._held.descends or report.proof is Proof.NOT_EMPTY:
            return report
        noted = self._held.refresh().empty
        return replace(report, proof=Proof.NO_DESCENDANTS if noted else Proof.NONE_FOUND)

    def _begun_tree(self, verb: str) -> ProcessTree:
        """The tree as it is now. One whose leader nobody will name any more is reached by its cgroup."""
        end = self._settled_end()
        if end is None:
            return self._held.tree()
        if end is NotYet.UNNAMED or not isinstance(end, NotYet):
            if (cgroup := self._held.cgroup()) is not None:
                return ProcessTree(cgroup=cgroup)
            raise AlreadyGone(errno.ESRCH, f"cannot {verb} the run in {self.folder!r}: no leader is recorded, and no cgroup left")
        raise Busy(errno.EBUSY, f"cannot {verb} the run in {self.folder!r}: {end.value}")

    def _settled_end(self) -> RunEnd | None:
        """None for one whose leader is named. Who has the lock without a recorder may be a reader: that one is waited for."""
        deadline = deadline_after(_RECORDER_END_S)
        while self._held.refresh().leader is None:
            end = end_of(self._held)
            if end is not NotYet.LAUNCHING or self._held.recorder_lives() or has_passed(deadline):
                return end
            select.poll().poll(_LOOK_MS)
        return None

    def _await_recorder(self, timeout_s: float) -> None:
        if self._held.recorder is not None:
            wait_end(self._held.recorder, timeout_s)

    def exit_info(self) -> ExitInfo:
        """What can be known now about the leader's end; UNKNOWN, and why, while it runs or where it was lost. Does not block.

        Strongest first: the kernel's word through the leader's pidfd, if the leader is known to have been exec'd; the recorder's
        sentinel; the zombie. `trusted` is false where the job could have written what that rests on: the sentinel, or the notes
        by which another process than the launcher found the leader.
        """
        return info_of(end_of(self._held))

    def wait(self, timeout_s: float | None = None) -> ExitInfo:
        """Wait for the leader's end, and say how it was. Raises WaitTimeout if it is not known after `timeout_s`.

        Members of the tree may outlive the leader: see `liveness` and `terminate`. Wakes on the leader's and the recorder's
        pidfds.
        """
        with closing(wait_steps(self._held, timeout_s)) as steps:
            try:
                while True:
                    wait_for(next(steps))
            except StopIteration as end:
                result: ExitInfo = end.value
                return result

    async def wait_async(self, timeout_s: float | None = None) -> ExitInfo:
        """As `wait`, on the running asyncio loop. Cancelling leaks nothing."""
        with closing(wait_steps(self._held, timeout_s)) as steps:
            try:
                while True:
                    await wait_async_for(next(steps))
            except StopIteration as end:
                result: ExitInfo = end.value
                return result

    def usage(self) -> ResourceUsage | None:
        """What the leader and its reaped children used; None before its end, or where that was not recorded."""
        return self._held.files.usage()

    def remove(self, timeout_s: float = 2.0) -> None:
        """Remove the run's cgroup and its folder, once nothing of it lives.

        Raises Busy while the tree is not proven empty, somebody may still write the record, or the folder holds files of others;
        nothing is removed then. Waits at most `timeout_s` for the recorder, which ends right after the tree, for the lock and for
        the cgroup. A run removed before, or by another at the same time, is success.
        """
        deadline = deadline_after(timeout_s)
        if not self._held.files.folder.is_named():
            return
        self._prove_empty(deadline)
        try:
            lock = FolderLock.take_within(self._held.files.folder, left_s(deadline) or 0.0)
        except AlreadyGone:
            return
        if lock is None:
            raise self._busy("its lock is held")
        with lock:
            others = self._held.files.foreign_names()
            if others:
                raise self._busy(f"it holds {others[0]!r}, which is none of its records")
            cgroup = self._held.cgroup()
            if cgroup is not None:
                cgroup.remove(left_s(deadline) or 0.0)
            self._held.files.remove()

    def _prove_empty(self, deadline: float | None) -> None:
        seen = self.observe()
        if seen.liveness is not Liveness.ALIVE:
            self._await_recorder(left_s(deadline) or 0.0)
            seen = self._observe_settled(deadline)
        if seen.liveness is not Liveness.GONE and self._held.files.folder.is_named():
            raise self._busy(f"not proven empty ({seen.evidence}: {seen.detail})")

    def _observe_settled(self, deadline: float | None) -> Observation:
        """As `observe`. What looks like a launch under way may be a reader, who holds the lock for the moment of a conclusion."""
        while (seen := self.observe()).evidence == _LAUNCHING and not has_passed(deadline):
            select.poll().poll(_LOOK_MS)
        return seen

    def _busy(self, reason: str) -> Busy:
        return Busy(errno.EBUSY, f"cannot remove the run in {self.folder!r}: {reason}")

    def close(self) -> None:
        """Let go of everything held. May be called twice."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RecordedRun {self.folder!r}>"
