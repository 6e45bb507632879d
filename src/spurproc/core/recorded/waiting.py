"""What to wait for until the end of a run is known."""

from __future__ import annotations

import select
import time
from collections.abc import Generator

from spurproc.core.deadline import deadline_after, left_s, shortest_s
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import REAP_GRACE_S
from spurproc.core.recorded.end import NotYet, RunEnd, end_of, info_of
from spurproc.core.recorded.held import HeldRun
from spurproc.core.recorded.watch import FolderWatch, Watch
from spurproc.errors import SystemCallError, WaitTimeout

__all__ = ["wait_steps"]

_LOOK_S = 0.02  # where nothing can be polled: no pidfd_open, or no inotify instance left
_BACKSTOP_S = 1.0  # a recorder that stands still, or a lock that is held for good
_STRONGEST = (ExitSource.WAITED, ExitSource.PIDFD)


def wait_steps(run: HeldRun, timeout_s: float | None) -> Generator[Watch, None, ExitInfo]:
    """Yields what to wait for next, returns the end. Does no waiting of its own; close it if it is not walked to its end.

    An end that is known, or lost, while the leader is an unreaped zombie is kept back for a moment: its reap makes the kernel's
    own word readable, which is stronger.
    """
    deadline = deadline_after(timeout_s)
    reap_by: float | None = None
    pause = _Pause()
    folder = _watch_folder(run)
    try:
        while True:
            if folder is not None:
                folder.clear()
            unreaped = _reap_will_tell(run)  # asked first: it may be reaped while we look
            end = end_of(run)
            if not isinstance(end, NotYet):
                reap_by = reap_by or time.monotonic() + REAP_GRACE_S
                if not (unreaped and left_s(reap_by) and left_s(deadline) != 0) or info_of(end).source in _STRONGEST:
                    return info_of(end)
            elif left_s(deadline) == 0:
                raise WaitTimeout(f"the end of the run in {run.path!r} is not known after {timeout_s} s: {end.value}")
            yield _watch(run, folder, shortest_s(left_s(deadline), left_s(reap_by), pause.next_s(end)))
    finally:
        if folder is not None:
            folder.close()


class _Pause:
    """How long to wait where no descriptor tells of a change: longer each time."""

    def __init__(self) -> None:
        self._s = _LOOK_S / 2

    def next_s(self, end: RunEnd) -> float | None:
        """None where the leader or the recorder is polled."""
        if end in (NotYet.LOCK_HELD, NotYet.OUT_OF_SIGHT, NotYet.LAUNCHING, NotYet.UNNAMED):
            self._s = min(2 * self._s, _BACKSTOP_S)
            return self._s
        self._s = _LOOK_S / 2
        return _BACKSTOP_S if end is NotYet.BEING_RECORDED else None


def _reap_will_tell(run: HeldRun) -> bool:
    held = run.refresh().launched and run.leader is not None and Facilities.current().pidfd_exit_info
    return held and not run.leader_is_reaped()


def _watch(run: HeldRun, folder: FolderWatch | None, timeout_s: float | None) -> Watch:
    entries: list[tuple[int, int]] = [] if folder is None else [(folder.fileno(), select.POLLIN)]
    if not Facilities.current().pidfd_open:
        return Watch(entries=tuple(entries), timeout_s=shortest_s(timeout_s, _LOOK_S))
    if run.leader is not None and not run.leader_is_reaped():
        alive = run.leader.liveness() is Liveness.ALIVE
        entries.append((run.leader.fileno(), select.POLLIN if alive else 0))
    if run.recorder is not None and run.recorder_lives():
        entries.append((run.recorder.fileno(), select.POLLIN))
    return Watch(entries=tuple(entries), timeout_s=timeout_s if entries else shortest_s(timeout_s, _BACKSTOP_S))


def _watch_folder(run: HeldRun) -> FolderWatch | None:
    """For as long as no leader can be polled: its naming, or its record, is a change of the folder."""
    if run.leader is not None:
        return None
    try:
        return FolderWatch(run.files.folder.fileno())
    except SystemCallError:
        return None
