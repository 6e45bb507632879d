"""One signal to a whole tree and to nobody else."""

from __future__ import annotations

import errno
import os

from spurproc.core._native import ffi, lib
from spurproc.core.cgroup.signal_report import Refusal, RefusalReason, Route, SignalReport
from spurproc.core.cgroup.sweep import MAX_PASSES, CgroupSweep, SeenTable, Swept, check_signal
from spurproc.core.facilities import Facilities
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.process_walk import Descent, GroupOf, ProcessRow, Rule, proc_shows_all, read_process
from spurproc.errors import AlreadyGone, SignalRefused, SystemCallError

__all__ = ["signal_tree"]

_REASONS = {
    errno.EPERM: RefusalReason.NOT_PERMITTED,
    errno.EACCES: RefusalReason.NOT_PERMITTED,
    errno.ENOSYS: RefusalReason.UNSUPPORTED,
}
_NOTHING = Swept(signalled=0, refused=(), passes=0, complete=True, unreadable=0)


def signal_tree(tree: ProcessTree, signal: int) -> SignalReport:
    """Send `signal` (0 only asks) once to every member of the tree; report how, to how many, and who refused and why.

    The members of the cgroup and its sub-cgroups come first, then the descendants of a living subreaper. The leader's process
    group and session are the fallback: on no cgroup, on one that cannot be read, on an empty one (nobody has joined it yet), and
    for a leader that was moved out of it. Everybody is opened as a pidfd, shown to be a member and signalled
    through it, in passes until one finds nobody new; pid <= 1 and the caller never are. "Already gone" is success. SIGKILL goes
    to all of a cgroup at once first, by cgroup.kill. Where a sandbox refuses pidfd_send_signal(2), that file is all there is: for
    any other signal every member is in `refused` as UNSUPPORTED, for nothing is ever sent to a bare number.

    Thaws and continues nobody: see `terminate_tree`. Raises InvalidArgument, and SignalRefused, before anybody is signalled, when
    the cgroup, group or session holds the caller. Blocks as long as the passes take; for SIGKILL also while those whom
    cgroup.kill has reached die one after the other, at most two seconds.
    """
    check_signal(signal)
    seen = SeenTable(Facilities.current().bits)
    if tree.leader is None:
        _refuse_cgroup(tree)
        return _report(signal, _sweep_strong(tree, signal, seen))
    with GroupOf(tree.leader.identity, tree.leader.pidfd) as group:
        _refuse_cgroup(tree)
        if group.holds_caller():
            raise SignalRefused(
                f"cannot signal the tree of process {tree.leader.identity.pid}: the caller is in its group or session"
            )
        parts = _sweep_strong(tree, signal, seen)
        found = any(swept.signalled or swept.refused for swept in parts.values())
        if not found or not group.leader_in(seen):
            parts[Route.PROCESS_GROUP] = _sweep_group(group, signal, seen)
    return _report(signal, parts)


def _refuse_cgroup(tree: ProcessTree) -> None:
    if tree.cgroup is not None and tree.cgroup.holds_caller():
        raise SignalRefused(f"cannot signal cgroup {tree.cgroup.path!r}: the caller lives in it")


def _sweep_strong(tree: ProcessTree, signal: int, seen: SeenTable) -> dict[Route, Swept]:
    parts = {}
    if tree.cgroup is not None:
        try:
            parts[Route.CGROUP] = CgroupSweep(tree.cgroup.fileno(), signal, seen).run()
        except AlreadyGone:
            parts[Route.CGROUP] = _NOTHING
        except SystemCallError as error:
            parts[Route.CGROUP] = Swept(signalled=0, refused=(), passes=0, complete=False, unreadable=error.errno or errno.EIO)
    if tree.subreaper is not None:
        parts[Route.DESCENDANTS] = _sweep_walked(Descent(tree.subreaper), signal, seen)
    return parts


def _sweep_group(group: GroupOf, signal: int, seen: SeenTable) -> Swept:
    """By a walk; where /proc hides processes, at once through the leader's pidfd, unless some were signalled already."""
    if seen.native.used == 0 and not proc_shows_all() and group.signal_group(signal):
        # The kernel says that one took it, not how many did: some may have refused it.
        return Swept(signalled=1, refused=(), passes=1, complete=False, unreadable=0)
    return _sweep_walked(group, signal, seen)


def _sweep_walked(rule: Rule, signal: int, seen: SeenTable) -> Swept:
    signalled = passes = 0
    while True:
        passes += 1
        outcomes = [_signal_row(row, signal, seen) for row in rule.find()]
        new = outcomes.count(True)
        signalled += new
        if not new or passes == MAX_PASSES:
            refused = tuple(outcome for outcome in outcomes if isinstance(outcome, Refusal))
            complete = not new and proc_shows_all()
            return Swept(signalled=signalled, refused=refused, passes=passes, complete=complete, unreadable=0)


def _signal_row(row: ProcessRow, signal: int, seen: SeenTable) -> bool | Refusal:
    """Whether it was signalled now; false for one that was before, is gone, or is no member any more."""
    if row.pid <= 1 or row.pid == os.getpid():
        reason = RefusalReason.INIT if row.pid <= 1 else RefusalReason.CALLER
        return Refusal(pid=row.pid, errno=errno.EINVAL, reason=reason)
    pidfd = ffi.new("int *")
    error = lib.spur_member_open(row.pid, seen.facilities, pidfd)
    if error < 0:
        return _outcome(row.pid, -error)
    try:
        key = seen.key(pidfd[0], row.pid)
        now = read_process(row.pid)
        # Opened before `now` was read: if the pidfd takes the signal, `now` is the process that it holds, and the one found.
        if key in seen or now is None or now.start_ticks != row.start_ticks:
            return False
        error = lib.spur_pidfd_send_signal(pidfd[0], row.pid, signal, seen.facilities)
        if error == 0:
            seen.add(key)
        return _outcome(row.pid, -error)
    except AlreadyGone:
        return False
    finally:
        os.close(pidfd[0])


def _outcome(pid: int, error: int) -> bool | Refusal:
    if error in (0, errno.ESRCH, errno.ENOENT, errno.EINVAL):  # EINVAL: the number is a thread's by now
        return error == 0
    return Refusal(pid=pid, errno=error, reason=_REASONS.get(error, RefusalReason.ERROR))


def _report(signal: int, parts: dict[Route, Swept]) -> SignalReport:
    route = Route.NOBODY
    refused: dict[tuple[int, int], Refusal] = {}
    for way, swept in parts.items():
        if swept.signalled or swept.refused:
            route |= way
        # Numbers name one process each; the members that no number names are told apart by their place.
        refused.update({(refusal.pid, place if refusal.pid == 0 else 0): refusal for place, refusal in enumerate(swept.refused)})
    return SignalReport(
        signal=int(signal),
        route=route,
        signalled=sum(swept.signalled for swept in parts.values()),
        refused=tuple(refused.values()),
        passes=max(swept.passes for swept in parts.values()),
        complete=all(swept.complete for swept in parts.values()),
    )
