"""Where this process stands: kernel, /proc, namespaces, sandbox, who adopts orphans, and whose unit it is."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable, Iterator
from contextlib import suppress

from spurproc.core.deadline import deadline_after, left_s, poll_ms
from spurproc.core.process.identity import procfs_is_ours
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.process_walk import proc_shows_all, read_processes
from spurproc.core.vantage import Vantage
from spurproc.errors import IdentityUnreadable, SpurprocError
from spurproc.inspect.doctor.cgroups import root_name
from spurproc.inspect.doctor.finding import Finding, Status, read_text, status_field

__all__ = ["find_surroundings"]

_OLDEST_KERNEL = (5, 14)
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, the same on every host
_FIRST_CGROUP_NAMESPACE = 0xEFFFFFFB
_REAP_S = 1.0  # for all of them together
_UNIT = re.compile(r"\.(service|scope)$")


def find_surroundings() -> Iterator[Callable[[], Finding]]:
    """One look each, so that one that fails does not hide the others."""
    yield from (_kernel, _procfs, _hidden, _pid_namespace, _user_namespace, _time_namespace, _seccomp, _no_new_privs, _init)
    yield lambda: _unit(root_name)


def _kernel() -> Finding:
    release = os.uname().release
    found = re.match(r"(\d+)\.(\d+)", release)
    old = found is None or (int(found[1]), int(found[2])) < _OLDEST_KERNEL
    meaning = "Linux 5.14 is the oldest on which anything here was made to work" if old else ""
    return _finding("kernel", Status.MISSING if old else Status.OK, release, meaning, "uname(2)")


def _procfs() -> Finding:
    try:
        Vantage.read()
    except IdentityUnreadable as error:
        meaning = "no identity can be taken and no launch be recorded"
        return _finding("/proc", Status.MISSING, str(error), meaning, "/proc/self/status")
    if not procfs_is_ours():
        meaning = "no identity can be taken and no launch be recorded: mount a /proc of this pid namespace"
        return _finding("/proc", Status.MISSING, "shows another pid namespace", meaning, "NSpid of /proc/self/status")
    return _finding("/proc", Status.OK, "shows our pid namespace", "", "NSpid of /proc/self/status")


def _hidden() -> Finding:
    source = "/proc/self/mountinfo, CapEff"
    if not procfs_is_ours():
        return _finding("hidepid", Status.UNKNOWN, "cannot be told without a /proc of ours", "", source)
    if proc_shows_all():
        return _finding("hidepid", Status.OK, "every process is seen", "", source)
    meaning = "of strangers neither names nor states are seen; without a cgroup nobody is proven to be the last of a tree"
    return _finding("hidepid", Status.WEAKER, "processes of other users are hidden", meaning, source)


def _pid_namespace() -> Finding:
    inode = _inode("pid")
    if inode is None:
        return _finding("pid namespace", Status.UNKNOWN, "cannot be read", "", "/proc/self/ns/pid")
    if inode == _FIRST_PID_NAMESPACE:
        return _finding("pid namespace", Status.OK, "that of the host", "", "/proc/self/ns/pid")
    meaning = "a container: when its process 1 ends, the kernel kills all in it, runs and their recorders too"
    return _finding("pid namespace", Status.LIMIT, str(inode), meaning, "/proc/self/ns/pid")


def _user_namespace() -> Finding:
    text = read_text("/proc/self/uid_map")
    if text is None:
        return _finding("user namespace", Status.UNKNOWN, "cannot be read", "", "/proc/self/uid_map")
    if text.split() == ["0", "0", "4294967295"]:
        return _finding("user namespace", Status.OK, "all users, as they are", "", "/proc/self/uid_map")
    value = "; ".join(" ".join(line.split()) for line in text.split("\n"))
    meaning = "root here is not root of the host: only users that are mapped can own jobs, and hidepid hides others' processes"
    return _finding("user namespace", Status.LIMIT, value or "no user is mapped", meaning, "/proc/self/uid_map")


def _time_namespace() -> Finding:
    source = "/proc/self/ns/time, time_for_children"
    mine, children = _inode("time"), _inode("time_for_children")
    if mine is None:
        without = _inode("pid") is not None  # that kind is older
        status, value = (Status.OK, "none: this kernel has none") if without else (Status.UNKNOWN, "cannot be read")
        return _finding("time namespace", status, value, "", source)
    if mine == children:
        return _finding("time namespace", Status.OK, str(mine), "start ticks compare within one time namespace alone", source)
    meaning = "children start in another one: identities by start ticks alone do not hold from here to there"
    return _finding("time namespace", Status.WEAKER, f"{mine}, children {children}", meaning, source)


def _seccomp() -> Finding:
    mode = status_field("Seccomp")
    if mode is None:
        return _finding("seccomp", Status.UNKNOWN, "not told by this kernel", "", "/proc/self/status")
    if mode == "0":
        return _finding("seccomp", Status.OK, "no filter", "", "/proc/self/status")
    count = status_field("Seccomp_filters")
    value = f"mode {mode}" if count is None else f"mode {mode}, {count} filters"
    meaning = "calls may be refused; the facilities above were tried under it, and every job inherits it"
    return _finding("seccomp", Status.LIMIT, value, meaning, "/proc/self/status")


def _no_new_privs() -> Finding:
    value = status_field("NoNewPrivs")
    if value != "1":
        status, text = (Status.UNKNOWN, "cannot be read") if value is None else (Status.OK, "not set")
        return _finding("no_new_privs", status, text, "", "/proc/self/status")
    meaning = "set-user-id programs (sudo, su) gain nothing; every job inherits that"
    return _finding("no_new_privs", Status.LIMIT, "set", meaning, "/proc/self/status")


def _init() -> Finding:
    """Zombies below process 1 that stay for a moment, though an init takes them at once."""
    source = "/proc/PID/stat of the children of process 1"
    if os.getpid() == 1:
        meaning = "orphans come to it and are never reaped: run an init (docker run --init)"
        return _finding("init", Status.LIMIT, "this program is process 1", meaning, source)
    name = read_text("/proc/1/comm")
    if name is None or not procfs_is_ours():
        return _finding("init", Status.UNKNOWN, "cannot be read", "", source)
    left = [row.pid for row in read_processes().values() if row.parent_pid == 1 and row.ended]
    deadline = deadline_after(_REAP_S)
    left = [pid for pid in left if not _is_reaped(pid, deadline)]
    if not left:
        return _finding("init", Status.OK, name, "none of its children is a zombie that stays", source)
    meaning = f"{len(left)} zombies of it stay: a run's recorder and orphans are not reaped, and keep numbers and cgroup counts"
    return _finding("init", Status.LIMIT, name, meaning, source)


def _is_reaped(pid: int, deadline: float | None) -> bool:
    with suppress(SpurprocError, OSError):
        with Pidfd.open(pid) as pidfd:
            poll = select.poll()
            poll.register(pidfd.fileno(), 0)
            poll.poll(poll_ms(left_s(deadline)))
        row = read_processes().get(pid)
        return row is None or not row.ended or row.parent_pid != 1
    return True


def _unit(find_root: Callable[[], str | None]) -> Finding:
    """The innermost unit in the name of our own cgroup, and whether runs would stand inside of it."""
    text = read_text("/proc/self/cgroup")
    if text is None:
        return _found_unit(Status.UNKNOWN, "cannot be read", "")
    lines = [line.split(":", 2) for line in text.split("\n")]
    named = {controllers: path for _, controllers, path in (line for line in lines if len(line) == 3)}
    unit, old_unit = _unit_of(named.get("", "/")), _unit_of(named.get("name=systemd", "/"))
    if unit is not None:
        return _in_unit(unit, find_root())
    if old_unit is not None:
        meaning = "tracked in a v1 hierarchy that a launch does not leave: stopping it with the default KillMode ends runs too"
        return _found_unit(Status.LIMIT, os.path.basename(old_unit), meaning)
    if _inode("cgroup") not in (None, _FIRST_CGROUP_NAMESPACE):
        return _found_unit(Status.UNKNOWN, "cannot be seen from a cgroup namespace", "")
    return _found_unit(Status.OK, "not in a service or scope", "")


def _in_unit(unit: str, cgroup_root: str | None) -> Finding:
    name = os.path.basename(unit)
    if cgroup_root is None:
        return _found_unit(
            Status.LIMIT, name, "runs stay in its cgroup: stopping it ends them too, unless it has KillMode=process"
        )
    if f"{cgroup_root}/".startswith(f"{unit}/"):
        meaning = "the cgroup root lies inside of it: stopping it ends every run, unless it has KillMode=process"
        return _found_unit(Status.LIMIT, name, meaning)
    return _found_unit(Status.OK, name, "the cgroup root lies outside: stopping it leaves runs alone")


def _found_unit(status: Status, value: str, meaning: str) -> Finding:
    return _finding("unit", status, value, meaning, "/proc/self/cgroup")


def _unit_of(path: str) -> str | None:
    """The path up to the innermost part that names a service or scope."""
    parts = path.split("/")
    for end in range(len(parts), 1, -1):
        if _UNIT.search(parts[end - 1]):
            return "/".join(parts[:end])
    return None


def _inode(kind: str) -> int | None:
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:
        return None


def _finding(name: str, status: Status, value: str, meaning: str, source: str) -> Finding:
    return Finding(area="host", name=name, status=status, value=value, meaning=meaning, source=source)
