"""The facilities of the kernel, and what is lost without each."""

from __future__ import annotations

from spurproc.core.facilities import Facilities
from spurproc.inspect.doctor.finding import Finding, Status

__all__ = ["LOST", "find_facilities"]

LOST = {
    "pidfd_open": "a process is held by its folder in /proc: it is named by start ticks, and waiters look every 20 ms",
    "pidfd_send_signal": "no process can be signalled: nothing is sent to a bare number; cgroup.kill still ends a whole cgroup",
    "pidfs_inode": "a process is named by its number and start ticks: a number given again within 10 ms is not told apart",
    "pidfs_handle": "a process that was named in a pid namespace below ours is not found: its liveness is UNKNOWN",
    "pidfd_info": "a member's cgroup is read from /proc; where that shows another pid namespace, no cgroup can be signalled",
    "pidfd_exit_info": "how a process ended that another reaped is known from a recorder alone, or while it is a zombie",
    "clone3": "a child is made in copied memory: a start takes longer the larger the launcher is",
    "clone_into_cgroup": "a new process joins its cgroup by a write before it runs the job: a start takes some 10 ms longer",
    "cgroup_kill": "members are killed one by one, in passes: a tree that forks faster is not ended at one blow",
    "close_range": "descriptors that a job must not have are listed and closed one by one: nothing but time",
    "pidfd_process_group": "the group of a leader that was reaped has no safe name: nobody of it is signalled",
    "waitid_pidfd": "a child is waited for by its number: where a thread reaps with wait(-1), another may be reaped instead",
}
"""One sentence a facility: how that is weaker. docs/reference/fallbacks.md has the whole story."""

_PRESENT = "there"
_NEEDED = frozenset(("pidfd_send_signal",))


def find_facilities(here: Facilities) -> list[Finding]:
    """Each was tried, under whatever filters this process runs."""
    refusals = dict(here.refusals)
    return [_finding(name, refusals.get(name)) for name in LOST]


def _finding(name: str, refusal: str | None) -> Finding:
    lacking = Status.MISSING if name in _NEEDED else Status.WEAKER
    return Finding(
        area="facility",
        name=name,
        status=Status.OK if refusal is None else lacking,
        value=_PRESENT if refusal is None else f"absent ({refusal})",
        meaning="" if refusal is None else LOST[name],
        source="tried",
    )
