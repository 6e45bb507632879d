"""How the leader of a recorded run ended: what can be known now, and what to wait for to know more."""

from __future__ import annotations

import select
import time
from collections.abc import Generator
from dataclasses import replace

from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import REAP_GRACE_S
from spurproc.core.recorded.held import HeldRun, is_reaped
from spurproc.core.recorded.record import Started
from spurproc.core.recorded.watch import FolderWatch, Watch, deadline_after
from spurproc.errors import SpurprocError, SystemCallError, WaitTimeout

__all__ = ["exit_info", "wait_steps"]

_LOOK_S = 0.02  # where nothing can be polled: no pidfd_open, or no inotify instance left
_LOCK_HELD_S = 0.01  # another reader holds the lock for the moment of its own conclusion
_BACKSTOP_S = 1.0  # nobody can be polled yet, or a recorder stands still with the end written down


def exit_info(run: HeldRun) -> ExitInfo:
    """See RecordedRun.exit_info."""
    return _known(run) or _conclude(run, final=True) or ExitInfo.unknown(_why_not_yet(run))


def _why_not_yet(run: HeldRun) -> str:
    if run.leader is not None and not run.leader_lives():
        return "it has ended, and its recorder has not said how yet"
    if run.leader is None and run.started.leader is not None and run.started.leader.liveness() is Liveness.UNKNOWN:
        return "whether it still runs cannot be told from here"
    return "it still runs"


def _known(run: HeldRun) -> ExitInfo | None:
    """The end, if it can be told from what is there, without any conclusion from what is not."""
    started = run.refresh()
    if run.leader_lives():
        return None  # whatever the folder says
    if started.launched and run.leader is not None and (is_reaped(run.leader) or not run.recorder_lives()):
        seen = run.leader.exit_info()
        if seen.kind is not ExitKind.UNKNOWN:
            return _complete(run, seen)
    recorded = run.files.recorded()
    # What may not be believed is replaced by the recorder, if that lives: its record takes the name, whatever stands there.
    return None if recorded is None or recorded.kind is ExitKind.UNKNOWN else _complete(run, recorded)


def _conclude(run: HeldRun, *, final: bool) -> ExitInfo | None:
    """The end of a run without its recorder; `final`: nobody will reap the leader while we wait."""
    concluded = run.files.conclude(lambda started: _leader_end(run, started, final=final))
    return None if concluded is None else _complete(run, concluded)


def _leader_end(run: HeldRun, started: Started, *, final: bool) -> ExitInfo | None:
    if run.leader is None:
        if started.leader is not None and started.leader.liveness() is not Liveness.GONE:
            return None
        return ExitInfo.unknown("it was reaped before this process could hold it")
    if run.leader_lives():
        return None
    seen = run.leader.exit_info()
    return seen if final or seen.kind is not ExitKind.UNKNOWN or is_reaped(run.leader) else None


def _complete(run: HeldRun, info: ExitInfo) -> ExitInfo:
    """With what the end itself does not say: resources, and how often the kernel killed for want of memory."""
    info = run.files.with_usage(info)
    if info.oom_kills is not None or info.kind is ExitKind.NOT_STARTED:
        return info
    try:
        cgroup = run.cgroup()
        return info if cgroup is None else replace(info, oom_kills=cgroup.oom_kills())
    except SpurprocError:
        return info  # the end counts, this is its trimming


def wait_steps(run: HeldRun, timeout_s: float | None) -> Generator[Watch, None, ExitInfo]:
    """Yields what to wait for next, returns the end. Does no waiting of its own; close it if it is not walked to its end."""
    deadline = deadline_after(timeout_s)
    reap_by: float | None = None
    folder = _watch_folder(run)
    try:
        while True:
            if folder is not None:
                folder.clear()
            if reap_by is None and run.leader is not None and not run.leader_lives():
                reap_by = time.monotonic() + REAP_GRACE_S
            patient = reap_by is None or time.monotonic() < reap_by
            info = _look(run, patient=patient)
            if info is not None:
                return info
            left_s = _until(deadline)
            if left_s == 0:
                raise WaitTimeout(f"the run in {run.path!r} has not ended after {timeout_s} s")
            yield _watch(run, folder, _shortest(left_s, _until(reap_by) if patient else _BACKSTOP_S))
    finally:
        if folder is not None:
            folder.close()


def _look(run: HeldRun, *, patient: bool) -> ExitInfo | None:
    """`patient`: the recorder reaps the leader right after it wrote the end down, and then the kernel's own word is readable."""
    if patient and _kernel_will_tell(run):
        return None
    info = _known(run)
    return _conclude(run, final=not patient) if info is None and not run.recorder_lives() else info


def _kernel_will_tell(run: HeldRun) -> bool:
    held = run.leader is not None and Facilities.current().pidfd_exit_info and run.refresh().launched
    return held and run.recorder_lives() and run.leader is not None and not is_reaped(run.leader)


def _watch(run: HeldRun, folder: FolderWatch | None, timeout_s: float | None) -> Watch:
    entries: list[tuple[int, int]] = [] if folder is None else [(folder.fileno(), select.POLLIN)]
    if not Facilities.current().pidfd_open:
        return Watch(entries=tuple(entries), timeout_s=_shortest(timeout_s, _LOOK_S))
    if run.leader is not None and not is_reaped(run.leader):
        entries.append((run.leader.fileno(), select.POLLIN if run.leader_lives() else 0))
    if run.recorder is not None and run.recorder_lives():
        entries.append((run.recorder.fileno(), select.POLLIN))
    if not entries or (run.leader is None and folder is None):
        timeout_s = _shortest(timeout_s, _LOCK_HELD_S)
    elif run.leader is None:
        timeout_s = _shortest(timeout_s, _BACKSTOP_S)
    return Watch(entries=tuple(entries), timeout_s=timeout_s)


def _watch_folder(run: HeldRun) -> FolderWatch | None:
    """For as long as no leader can be polled: its naming, or its record, is a change of the folder."""
    if run.leader is not None:
        return None
    try:
        return FolderWatch(run.files.folder.fileno())
    except SystemCallError:
        return None


def _until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _shortest(*times_s: float | None) -> float | None:
    return min((time_s for time_s in times_s if time_s is not None), default=None)
