"""The facilities of the kernel, and what is lost without each."""

from __future__ import annotations

from spurproc.core.facilities import Facilities
from spurproc.inspect.doctor.finding import Finding, Status

__all__ = ["LOST", "find_facilities"]

LOST = {
    "pidfd_open": "a process is held by its folder in /proc, which cannot be polled: waiters look every 20 ms",
    "pidfd_send_signal": "no process can be signalled: nothing is sent to a bare number; cgroup.kill still ends a whole cgroup",
    "pidfs_inode": "a process is known by its start ticks: a number given again within 10 ms is not told apart",
    "pidfs_handle": "a stored identity is looked up by its number, and the inode compared: one more system call",
    "pidfd_info": "a member's cgroup is read from /proc instead of asked of its pidfd",
    "pidfd_exit_info": "how a process ended that another reaped is known from a recorder alone, or while it is a zombie",
    "clone3": "a child is made by clone or fork, and joins its cgroup by a write before its exec",
    "clone_into_cgroup": "a child joins its cgroup by a write before its exec, which takes about 10 ms",
    "cgroup_kill": "a cgroup is ended by passes of SIGKILL over its members until it is empty, not at one blow",
    "close_range": "descriptors that a job must not have are closed one by one",
    "pidfd_process_group": "a leader's group is looked up in /proc, which hidepid may hide, and not reached through its pidfd",
    "waitid_pidfd": "a child is waited for by its number, which is its own until it is reaped",
}
"""One sentence a facility: what replaces it, and how that is weaker. docs/reference/fallbacks.md has the whole story."""

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
