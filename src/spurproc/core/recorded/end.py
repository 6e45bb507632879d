"""What is known about the end of a run. The only place that decides it.

In this order: a leader that is seen to live has not ended, whatever the folder says; the kernel's word through its pidfd, if it
is known to have been exec'd; the recorder's sentinel; while somebody may still write, no more than that; and once the lock is
ours, so that nobody does, the status of a zombie, or what the notes and their absence say.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from spurproc.core.durable.lock import FolderLock
from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource
from spurproc.core.observation import Liveness
from spurproc.core.recorded.held import HeldRun
from spurproc.core.vantage import Vantage
from spurproc.errors import AlreadyGone, SentinelRefused, SpurprocError

__all__ = ["Ended", "Lost", "NotYet", "RunEnd", "end_of", "info_of"]

_BY_KERNEL = (ExitSource.WAITED, ExitSource.PIDFD)


@dataclass(frozen=True, slots=True)
class Ended:
    """The run has ended, or never started; `info` says how."""

    info: ExitInfo


@dataclass(frozen=True, slots=True)
class Lost:
    """The run has ended, and nobody will ever say how."""

    reason: str


class NotYet(enum.Enum):
    """More may be known later; the value is the reason."""

    RUNNING = "it still runs"
    LAUNCHING = "no leader is recorded yet, and somebody may still record one"
    BEING_RECORDED = "it has ended, and its recorder has not said how yet"
    LOCK_HELD = "its recorder is not seen to live, but somebody holds the lock of its folder"
    OUT_OF_SIGHT = "its leader cannot be seen from here, and no end is recorded"
    UNNAMED = "no leader is recorded, but something lives in its cgroup"


RunEnd = Ended | Lost | NotYet


def end_of(run: HeldRun) -> RunEnd:
    """What is known now. Does not block."""
    started = run.refresh()
    if run.leader_liveness() is Liveness.ALIVE:
        return NotYet.RUNNING
    told = _told(run)
    if told is not None:
        return Ended(_complete(run, told))
    if run.recorder_lives():
        return NotYet.BEING_RECORDED if started.leader else NotYet.LAUNCHING
    try:
        lock = FolderLock.take(run.files.folder)
    except AlreadyGone:
        return Lost("the folder of the run was removed, or its lock")
    if lock is None:
        return NotYet.LOCK_HELD if started.leader else NotYet.LAUNCHING
    with lock:
        return _conclude(run)


def info_of(end: RunEnd) -> ExitInfo:
    """For the caller of a public method."""
    match end:
        case Ended(info):
            return info
        case Lost(reason):
            return ExitInfo.unknown(reason)
        case _:
            return ExitInfo.unknown(end.value)


def _told(run: HeldRun) -> ExitInfo | None:
    """The end by somebody's word: nothing is concluded from what is absent. A record that may not be believed is no word."""
    seen = _seen_by_kernel(run)
    if seen is not None and seen.source in _BY_KERNEL:
        return seen
    try:
        return run.files.recorded()
    except SentinelRefused:
        return None


def _seen_by_kernel(run: HeldRun) -> ExitInfo | None:
    """Of a leader whose exec is confirmed: before it, what ended was not the job.

    Who could rewrite the notes could have named another process there; a leader handed over by the recorder itself is the one.
    """
    if run.leader is None or not run.started.launched:
        return None
    seen = run.leader.exit_info()
    trusted = run.leader_was_handed_over or not run.record.job_may_forge
    return seen if seen.kind is ExitKind.UNKNOWN else replace(seen, trusted=trusted)


def _conclude(run: HeldRun) -> RunEnd:
    """The lock is ours: nobody writes any more, so what is not there will not come."""
    started = run.refresh()
    told = _told(run) or _zombie(run)
    if told is not None:
        return Ended(_complete(run, told))
    if run.notes_error:
        return Lost(run.notes_error)
    if run.record.boot_id != Vantage.read().boot_id:
        return Lost("the machine was restarted before the end was recorded")
    if started.leader is None:
        return NotYet.UNNAMED if run.cgroup_populated() else Ended(run.files.never_started())
    liveness = run.leader_liveness()
    if liveness is not Liveness.GONE:
        return NotYet.RUNNING if liveness is Liveness.ALIVE else NotYet.OUT_OF_SIGHT
    return Lost(_why_lost(run))


def _zombie(run: HeldRun) -> ExitInfo | None:
    seen = _seen_by_kernel(run)
    return None if seen is None or seen.kind is ExitKind.UNKNOWN else seen


def _why_lost(run: HeldRun) -> str:
    try:
        run.files.recorded()
    except SentinelRefused as error:
        return f"the exit record may not be believed: {error.reason}"
    if run.started.unrecorded:
        return f"the recorder could not write the exit record; {_why_unseen(run)}"
    if not run.started.launched:
        return "the recorder ended before it knew whether the job had started"
    return f"the recorder ended before the job did; {_why_unseen(run)}"


def _why_unseen(run: HeldRun) -> str:
    if run.leader is None:
        return "it was reaped before this process could hold it"
    return run.leader.exit_info().reason or "its exec was not confirmed"


def _complete(run: HeldRun, info: ExitInfo) -> ExitInfo:
    """With what the end itself does not say: resources, and how often the kernel killed for want of memory."""
    if info.kind is ExitKind.NOT_STARTED:
        return info
    info = run.files.with_usage(info)
    try:
        cgroup = run.cgroup()
        return info if cgroup is None else replace(info, oom_kills=cgroup.oom_kills())
    except SpurprocError:
        return info  # the end counts, this is its trimming
