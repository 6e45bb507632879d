"""A run with a recorder, found again by its folder from any process of its user: is it alive, signal it, how did it end."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Generator
from dataclasses import replace
from types import TracebackType
from typing import Self

from spurproc.core._native import lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.signal_report import SignalReport
from spurproc.core.exit_info import ExitInfo, ExitKind, ResourceUsage
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness, Observation
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import REAP_GRACE_S, Pidfd
from spurproc.core.recorded.folder import RunFolder
from spurproc.core.recorded.record import RunRecord, Started
from spurproc.core.recorded.watch import FolderWatch, Watch, wait_async_for, wait_for
from spurproc.core.tree.liveness import tree_liveness
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.signalling import signal_tree
from spurproc.core.tree.termination import KillPlan, Proof, TerminationReport, terminate_tree
from spurproc.errors import AlreadyGone, Busy, IdentityUnreadable, RecordInvalid, SystemCallError, WaitTimeout

__all__ = ["RecordedRun"]

_LOOK_S = 0.02  # where nothing can be polled: no pidfd_open, or no inotify instance left
_LOCK_HELD_S = 0.01  # another reader holds the lock for the moment of its own conclusion
_BACKSTOP_S = 1.0  # a launch in which launcher and recorder died before either could be named
_STILL_RUNS = "it still runs"


class RecordedRun:
    """One recorded run. Owns descriptors: `close()` it or use it as a context manager. Closing ends nothing.

    The job, its recorder and the record live on whatever becomes of this object or process.
    """

    def __init__(
        self, files: RunFolder, *, leader: Pidfd | None = None, recorder: Pidfd | None = None, launched: bool = False
    ) -> None:
        """Takes all three. For this package; others use `open` or `launch_recorded`."""
        self._files = files
        self._leader = leader
        self._recorder = recorder
        self._launched = launched  # seen by ourselves, even if the note of it was lost
        self._started = Started()
        self._cgroup = _open_cgroup(files.record)
        self._refresh()

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """The run recorded in `folder`, launched by whomever. Does not block.

        Raises AlreadyGone where there is no folder, NotPermitted where it is not private and ours, RecordInvalid where it holds
        no readable run.
        """
        return cls(RunFolder.open(folder))

    @property
    def record(self) -> RunRecord:
        """What was launched."""
        return self._files.record

    @property
    def folder(self) -> str:
        """Its absolute path."""
        return self._files.folder.path

    @property
    def leader(self) -> ProcessIdentity | None:
        """The process exec'd for the run; None until it stands at its gate."""
        return self._refresh().leader

    @property
    def recorder(self) -> ProcessIdentity | None:
        """Who writes the record; None until it has begun."""
        return self._refresh().recorder

    @property
    def containment(self) -> Containment:
        """What holds the tree together."""
        return self.record.containment

    def liveness(self) -> Liveness:
        """Whether anything of the tree lives; see `observe`."""
        return self.observe().liveness

    def observe(self) -> Observation:
        """Whether anything of the tree lives, with the evidence. UNKNOWN for a launch that is under way. Does not block."""
        started = self._refresh()
        if started.empty:
            return self._observe_empty()
        if started.leader is not None:
            seen = tree_liveness(self._tree(started))
            # Its subreaper may have noted the end of the last descendant, and ended, while we looked.
            return self._observe_empty() if seen.liveness is Liveness.UNKNOWN and self._refresh().empty else seen
        info = self.exit_info()
        if info.kind is ExitKind.NOT_STARTED:
            return Observation(liveness=Liveness.GONE, evidence="not-started", detail="no leader was ever started")
        return Observation(liveness=Liveness.UNKNOWN, evidence="launching", detail="no leader is recorded yet")

    @staticmethod
    def _observe_empty() -> Observation:
        return Observation(liveness=Liveness.GONE, evidence="empty", detail="the recorder saw the last descendant end")

    def signal(self, signal: int) -> SignalReport:
        """Send `signal` once to every member of the tree: `signal_tree`. Raises Busy while the launch is under way."""
        return signal_tree(self._begun_tree("signal"), signal)

    def terminate(self, kill_plan: KillPlan | None = None) -> TerminationReport:
        """End the tree by the steps of `kill_plan` and prove that it is empty: `terminate_tree`. Blocks until then.

        Raises Busy while the launch is under way.
        """
        report = terminate_tree(self._begun_tree("terminate"), kill_plan or KillPlan.default())
        if report.proof is Proof.NONE_FOUND and self._recorder is not None:
            # A subreaper ends with its last descendant, which it notes, and cannot be asked afterwards.
            wait_for(Watch(entries=((self._recorder.fileno(), select.POLLIN),), timeout_s=_BACKSTOP_S))
            if self._refresh().empty:
                return replace(report, proof=Proof.NO_DESCENDANTS)
        return report

    def exit_info(self) -> ExitInfo:
        """What can be known now about the leader's end; UNKNOWN, and why, while it runs or where it was lost. Does not block.

        Strongest first: the kernel's word through the leader's pidfd, if the leader is known to have been exec'd; the recorder's
        sentinel; the zombie. `trusted` is false where the sentinel is the source and the job could have written it.
        """
        return self._known() or self._conclude(final=True) or ExitInfo.unknown(_STILL_RUNS)

    def wait(self, timeout_s: float | None = None) -> ExitInfo:
        """Wait for the leader's end, and say how it was. Raises WaitTimeout if it is not known after `timeout_s`.

        Members of the tree may outlive the leader: see `liveness` and `terminate`. Wakes on the leader's and the recorder's
        pidfds.
        """
        steps = self._steps(timeout_s)
        try:
            while True:
                wait_for(next(steps))
        except StopIteration as end:
            result: ExitInfo = end.value
            return result

    async def wait_async(self, timeout_s: float | None = None) -> ExitInfo:
        """As `wait`, on the running asyncio loop. Cancelling leaks nothing."""
        steps = self._steps(timeout_s)
        try:
            while True:
                await wait_async_for(next(steps))
        except StopIteration as end:
            result: ExitInfo = end.value
            return result
        finally:
            steps.close()

    def usage(self) -> ResourceUsage | None:
        """What the leader and its reaped children used; None before its end, or where that was not recorded."""
        return self._files.usage()

    def remove(self, timeout_s: float = 2.0) -> None:
        """Remove the run's cgroup and its folder, once nothing of it lives.

        Raises Busy while the tree is not proven empty or somebody may still write the record; nothing is removed then. Waits at
        most `timeout_s` for the recorder, which ends right after the tree, and for the cgroup. A run removed before is success.
        """
        if not self._files.folder.is_named():
            return
        seen = self.observe()
        if seen.liveness is not Liveness.GONE:
            raise Busy(
                errno.EBUSY, f"cannot remove the run in {self.folder!r}: not proven empty ({seen.evidence}: {seen.detail})"
            )
        if self._recorder is not None and self._recorder.liveness() is Liveness.ALIVE:
            wait_for(Watch(entries=((self._recorder.fileno(), select.POLLIN),), timeout_s=timeout_s))
        lock = self._files.take_lock()
        if lock is None:
            raise Busy(errno.EBUSY, f"cannot remove the run in {self.folder!r}: its lock is held")
        with lock:
            if self._cgroup is not None:
                self._cgroup.remove(timeout_s)
            self._files.remove()

    def close(self) -> None:
        """Let go of everything held. May be called twice."""
        for part in (self._leader, self._recorder, self._cgroup, self._files):
            if part is not None:
                part.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RecordedRun {self.folder!r}: {self.liveness().value}>"

    # What is known

    def _refresh(self) -> Started:
        """The recorder's notes now; holds those that they name and that we do not hold yet."""
        try:
            started = self._files.started()
        except RecordInvalid:
            return self._started  # `exit_info` says so; what was read before still holds
        if self._leader is None and started.leader is not None:
            self._leader = _hold(started.leader)
        if self._recorder is None and started.recorder is not None:
            self._recorder = _hold(started.recorder)
        self._started = replace(started, launched=started.launched or self._launched)
        return self._started

    def _tree(self, started: Started) -> ProcessTree:
        """A leader is noted only once it has joined its cgroup."""
        descends = self.containment is Containment.DESCENDANTS
        return ProcessTree(
            leader=started.leader,
            leader_pidfd=self._leader,
            cgroup=self._cgroup,
            subreaper=started.recorder if descends else None,
        )

    def _begun_tree(self, verb: str) -> ProcessTree:
        started = self._refresh()
        if started.leader is None:
            raise Busy(errno.EBUSY, f"cannot {verb} the run in {self.folder!r}: no leader is recorded yet")
        return self._tree(started)

    def _complete(self, info: ExitInfo) -> ExitInfo:
        """With what the end itself does not say: resources, and how often the kernel killed for want of memory."""
        info = self._files.with_usage(info)
        if info.oom_kills is not None or self._cgroup is None or info.kind is ExitKind.NOT_STARTED:
            return info
        return replace(info, oom_kills=self._cgroup.oom_kills())

    def _known(self) -> ExitInfo | None:
        """The end, if it can be told from what is there, without any conclusion from what is not."""
        started = self._refresh()
        if started.launched and self._leader is not None and (_reaped(self._leader) or not self._recorder_lives()):
            seen = self._leader.exit_info()
            if seen.kind is not ExitKind.UNKNOWN:
                return self._complete(seen)
        recorded = self._files.recorded()
        return None if recorded is None else self._complete(recorded)

    def _kernel_will_tell(self) -> bool:
        """The recorder has written the end down and reaps the leader next, which makes the kernel's own word readable."""
        held = self._leader is not None and Facilities.current().pidfd_exit_info and self._started.launched
        return held and self._recorder_lives() and self._leader is not None and not _reaped(self._leader)

    def _recorder_lives(self) -> bool:
        return self._recorder is not None and self._recorder.liveness() is Liveness.ALIVE

    def _conclude(self, *, final: bool) -> ExitInfo | None:
        """The end of a run without its recorder; `final`: nobody will reap the leader while we wait."""
        concluded = self._files.conclude(lambda started: self._leader_end(started, final=final))
        return None if concluded is None else self._complete(concluded)

    def _leader_end(self, started: Started, *, final: bool) -> ExitInfo | None:
        if self._leader is None:
            if started.leader is not None and started.leader.liveness() is not Liveness.GONE:
                return None
            return ExitInfo.unknown("it was reaped before this process could hold it")
        if self._leader.liveness() is Liveness.ALIVE:
            return None
        seen = self._leader.exit_info()
        return seen if final or seen.kind is not ExitKind.UNKNOWN or _reaped(self._leader) else None

    # Waiting

    def _steps(self, timeout_s: float | None) -> Generator[Watch, None, ExitInfo]:
        """Yields what to wait for next, returns the end. Does no waiting of its own."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        grace_ends: float | None = None
        folder = _watch_folder(self._files) if self._recorder is None and self._leader is None else None
        try:
            while True:
                if folder is not None:
                    folder.clear()
                if not self._recorder_lives() and self._leader is not None and self._leader.liveness() is Liveness.GONE:
                    grace_ends = grace_ends or time.monotonic() + REAP_GRACE_S
                over = grace_ends is not None and time.monotonic() >= grace_ends
                info = None if self._kernel_will_tell() else self._known()
                if info is None and not self._recorder_lives():
                    info = self._conclude(final=over)
                if info is not None:
                    return info
                left_s = _until(deadline)
                if left_s == 0:
                    raise WaitTimeout(f"the run in {self.folder!r} has not ended after {timeout_s} s")
                yield self._watch(folder, _shortest(left_s, _until(grace_ends)))
        finally:
            if folder is not None:
                folder.close()

    def _watch(self, folder: FolderWatch | None, timeout_s: float | None) -> Watch:
        entries: list[tuple[int, int]] = [] if folder is None else [(folder.fileno(), select.POLLIN)]
        if not Facilities.current().pidfd_open:
            return Watch(entries=tuple(entries), timeout_s=_shortest(timeout_s, _LOOK_S))
        if self._leader is not None and not _reaped(self._leader):
            entries.append((self._leader.fileno(), select.POLLIN if self._leader.liveness() is Liveness.ALIVE else 0))
        if self._recorder_lives() and self._recorder is not None:
            entries.append((self._recorder.fileno(), select.POLLIN))
        if not entries:
            timeout_s = _shortest(timeout_s, _LOCK_HELD_S)
        elif self._recorder is None and self._leader is None:
            timeout_s = _shortest(timeout_s, _BACKSTOP_S)
        return Watch(entries=tuple(entries), timeout_s=timeout_s)


def _hold(identity: ProcessIdentity) -> Pidfd | None:
    try:
        return identity.open()
    except (AlreadyGone, IdentityUnreadable):
        return None


def _open_cgroup(record: RunRecord) -> Cgroup | None:
    """The run's cgroup, that very one; None where it has none or it was removed."""
    if record.cgroup is None:
        return None
    try:
        return Cgroup.open(record.cgroup.path, record.cgroup.inode)
    except SystemCallError:
        return None


def _watch_folder(files: RunFolder) -> FolderWatch | None:
    try:
        return FolderWatch(files.folder.fileno())
    except SystemCallError:
        return None


def _reaped(pidfd: Pidfd) -> bool:
    """POLLHUP says so from Linux 6.9 on; before, a signal 0 is refused."""
    poll = select.poll()
    poll.register(pidfd.fileno(), 0)
    return bool(poll.poll(0)) or int(lib.spur_pidfd_unreaped(pidfd.fileno(), pidfd.facilities)) == -errno.ESRCH


def _until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _shortest(*times_s: float | None) -> float | None:
    return min((time_s for time_s in times_s if time_s is not None), default=None)
