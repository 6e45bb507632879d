"""Identities seen from elsewhere: other namespaces, a foreign /proc or none, a number that has a new owner."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.exit_info import ExitKind
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity, forget_reader
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.liveness import liveness_many, tree_liveness
from spurproc.core.tree.members import ProcessTree, members
from spurproc.core.tree.signalling import signal_tree
from spurproc.core.tree.termination import KillPlan, terminate_tree
from spurproc.core.vantage import Vantage
from spurproc.errors import AlreadyGone, Unsupported
from tests.payload import Payload
from tests.relatives import Blocked, in_fork, reborn
from tests.rungs import RUNGS, environment, without

ALIVE, GONE, UNKNOWN = Liveness.ALIVE, Liveness.GONE, Liveness.UNKNOWN
_TIMEOUT_S = 30
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNS = 0x20000
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x4000, 0x40000, 2

_UNDER_A_FOREIGN_PROC = """
import os, subprocess
from spurproc.core.process.identity import ProcessIdentity, forget_reader
identity = ProcessIdentity.of(os.getpid())
subprocess.run(["umount", "--lazy", "/proc"], check=True)
forget_reader()
seen = identity.observe()
print(seen.liveness.value, seen.evidence)
"""
_NUMBER_BEHIND = """
import os, signal
from spurproc.core.process.pidfd import Pidfd
if (child := os.fork()) == 0:
    signal.pause()
with Pidfd.take_fd(os.pidfd_open(child)) as pidfd:
    print(pidfd.pid == child)
"""
_OF_A_NUMBER_THAT_PROC_HAS_NOT = """
import os, signal
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import IdentityUnreadable
free = next(pid for pid in range(int(open("/proc/sys/kernel/pid_max").read()) - 2, 0, -1) if not os.path.exists(f"/proc/{pid}"))
open("/proc/sys/kernel/ns_last_pid", "w").write(str(free - 1))
if (child := os.fork()) == 0:
    signal.pause()
assert child == free
try:
    print(ProcessIdentity.of(child))
except IdentityUnreadable as error:
    print(error)
"""
_OBSERVE = """
import sys
from spurproc.core.process.identity import ProcessIdentity
seen = ProcessIdentity.from_text(sys.argv[1]).observe()
print(seen.liveness.value, seen.evidence)
"""
_OF_SELF = """
import os
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import IdentityUnreadable
try:
    print(ProcessIdentity.of(os.getpid()))
except IdentityUnreadable as error:
    print(error)
"""


@pytest.fixture(params=RUNGS, ids=lambda mask: f"without({mask})")
def rung(request: pytest.FixtureRequest) -> Iterator[Facilities]:
    """Each rung of the ladder in turn."""
    with without(request.param) as facilities:
        yield facilities


def _elsewhere(where: list[str], program: str, *arguments: str, mask: str = "", fd: int | None = None) -> str:
    """What `program` prints when it runs under unshare(1) with the options `where`."""
    command = ["unshare", *where, "--fork", "--kill-child=SIGKILL", sys.executable, "-c", program, *arguments]
    kept = () if fd is None else (fd,)
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT_S, env=environment(mask), pass_fds=kept
    )
    return done.stdout.strip()


@pytest.mark.needs_root
@pytest.mark.parametrize("mask", RUNGS)
def test_from_a_child_pid_namespace_nothing_outside_is_gone(mask: str) -> None:
    """The kernel says ESTALE and ESRCH there for live processes, and the number may be someone else's."""
    outside = ProcessIdentity.of(os.getpid()).to_text()
    assert _elsewhere(["--pid", "--mount-proc"], _OBSERVE, outside, mask=mask) == "unknown pid-namespace"
    assert _elsewhere(["--pid"], _OBSERVE, outside, mask=mask) == "unknown pid-namespace"


@pytest.mark.needs_root
@pytest.mark.parametrize("mask", RUNGS)
def test_foreign_procfs_names_nobody(mask: str) -> None:
    """A new pid namespace under the old /proc: our own number there is a stranger's."""
    assert "/proc shows another pid namespace" in _elsewhere(["--pid"], _OF_SELF, mask=mask)
    assert _elsewhere(["--pid", "--mount-proc"], _OF_SELF, mask=mask).startswith("spurproc-id 1 1 ")


@pytest.mark.needs_root
@pytest.mark.parametrize("mask", ["", "pidfd_open"])
def test_a_number_that_a_foreign_procfs_has_not_is_not_hidden(mask: str) -> None:
    """It is there, and no hidepid veils it: that /proc shows others is what is said."""
    assert "/proc shows another pid namespace" in _elsewhere(["--pid"], _OF_A_NUMBER_THAT_PROC_HAS_NOT, mask=mask)


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_info")
def test_a_number_is_told_by_the_kernel_where_procfs_is_foreign() -> None:
    """What is shown there is no number of ours; the pidfd itself knows."""
    assert _elsewhere(["--pid"], _NUMBER_BEHIND) == "True"


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_open")
def test_ticks_in_a_foreign_procfs_are_a_strangers() -> None:
    """The namespace's own /proc is taken off, and the outer one comes to light: what has our number there is another."""
    where = ["--pid", "--mount-proc"]
    assert _elsewhere(where, _UNDER_A_FOREIGN_PROC, mask="pidfs_inode") == "unknown procfs"


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfs_handle")
def test_from_the_parent_pid_namespace_an_inner_process_is_alive() -> None:
    """Its inode finds it; its number there is translated to ours; once it has ended nothing is claimed."""
    program = _OF_SELF + "print(flush=True); input()"
    inner = subprocess.Popen(
        ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL", sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert inner.stdout is not None
    identity = ProcessIdentity.from_text(inner.stdout.readline().strip())
    assert (identity.pid, identity.liveness()) == (1, ALIVE)
    with identity.open() as pidfd:
        assert pidfd.pid != identity.pid
        assert ProcessIdentity.of(pidfd.pid).pidfs_inode == identity.pidfs_inode
        with without("pidfs_handle"):
            assert identity.observe().evidence == "pid-namespace"
        signal.pidfd_send_signal(pidfd.fileno(), signal.SIGKILL)
        inner.communicate(timeout=_TIMEOUT_S)
    assert (identity.liveness(), identity.observe().evidence) == (UNKNOWN, "pid-namespace")


_GROUP_OF_OUTSIDER = """
import sys
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.process_walk import GroupOf
with Pidfd.take_fd(int(sys.argv[2])) as pidfd, GroupOf(ProcessIdentity.from_text(sys.argv[1]), pidfd) as group:
    print(pidfd.pid, group.pinned(), group.holds_caller(), group.find())
"""


@pytest.mark.needs_root
def test_group_of_an_outsider_is_not_that_of_all_without_a_number() -> None:
    """0 is shown for every group and session that leads outside: the init of the namespace stands in such a one."""
    with Blocked() as outsider:
        text = ProcessIdentity.of(outsider.pid).to_text()
        where = ["--pid", "--mount-proc"]
        found = _elsewhere(where, _GROUP_OF_OUTSIDER, text, str(outsider.pidfd), fd=outsider.pidfd)
    assert found == "0 False False []"


_INNER_TREE = """
import os, sys
from spurproc.core.process.identity import ProcessIdentity
open("/proc/sys/kernel/ns_last_pid", "w").write(str(int(sys.argv[1]) - 1))
leader = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 1000 & wait"], os.environ, setsid=True)
while not open(f"/proc/{leader}/task/{leader}/children").read():
    os.sched_yield()
print(ProcessIdentity.of(leader), flush=True)
input()
"""


@pytest.mark.own_pid_namespace
@pytest.mark.needs_facility("pidfd_send_signal")
@pytest.mark.needs_facility("pidfs_handle")
def test_the_number_of_an_inner_leader_is_a_strangers_here() -> None:
    """A tree named in a child pid namespace, reached from the parent: whoever has its number here is left alone."""
    with Blocked() as stranger:
        where = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL"]
        inner = subprocess.Popen(
            [*where, sys.executable, "-c", _INNER_TREE, str(stranger.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert inner.stdout is not None
        identity = ProcessIdentity.from_text(inner.stdout.readline().strip())
        assert identity.pid == stranger.pid
        with identity.open() as held:
            tree = ProcessTree(leader=Leader(identity=identity, pidfd=held))
            assert {row.pid for row in members(tree)}.isdisjoint({stranger.pid})
            assert signal_tree(ProcessTree(subreaper=identity), 0).signalled == 1
            assert signal_tree(tree, signal.SIGKILL).signalled == 2
            select.select([held], [], [], _TIMEOUT_S)
            assert held.liveness() is GONE
            with Pidfd.open(stranger.pid) as other:
                assert other.liveness() is ALIVE
        inner.communicate(timeout=_TIMEOUT_S)


_SIGNAL_OUTSIDER = """
import sys
from spurproc.core.process.pidfd import Pidfd
from spurproc.errors import SignalRefused
with Pidfd.take_fd(int(sys.argv[1])) as pidfd:
    print(pidfd.pid, pidfd.liveness().value)
    try:
        pidfd.send_signal(9)
    except SignalRefused:
        print("refused")
"""


@pytest.mark.needs_root
@pytest.mark.parametrize("mask", ["", "pidfd_info", "pidfd_send_signal"])
def test_outsider_has_no_number_and_gets_no_signal(mask: str) -> None:
    """A pidfd that came in from outside the pid namespace: alive, without a number, out of reach."""
    with Blocked() as child:
        os.set_inheritable(child.pidfd, True)
        seen = _elsewhere(["--pid", "--mount-proc"], _SIGNAL_OUTSIDER, str(child.pidfd), mask=mask, fd=child.pidfd)
        assert seen.split() == ["0", "alive", "refused"]
        assert ProcessIdentity.of(child.pid).liveness() is ALIVE


@pytest.mark.needs_root
def test_ticks_of_another_time_namespace_prove_nothing() -> None:
    """The same process shows other ticks there; the inode does not care."""
    text = ProcessIdentity.of(os.getpid()).to_text()
    where = ["--time", "--boottime", "100000"]
    assert _elsewhere(where, _OBSERVE, text, mask="pidfs_inode") == "unknown time-namespace"
    assert _elsewhere(where, _OBSERVE, text, mask="pidfd_open") == "unknown time-namespace"
    if Facilities.current().pidfs_inode:
        assert _elsewhere(where, _OBSERVE, text).split()[0] == "alive"
    there = ProcessIdentity.from_text(_elsewhere(where, _OF_SELF))
    assert there.time_namespace != Vantage.read().time_namespace


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfd_send_signal")
@pytest.mark.parametrize("how", ["unmounted", "another namespace's"])
def test_without_a_proc_that_shows_us_nothing_is_gone(cgroup_root: Path, payload: Callable[..., Payload], how: str) -> None:
    """In a mount namespace without /proc, or with a container's: what is held still answers, and no identity is told."""
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    identity = ProcessIdentity.of(leader.pid)

    def ask() -> list[object]:
        with Pidfd.open(leader.pid) as before:
            _take_proc_away(how)
            forget_reader()
            if Facilities.current().pidfd_open:
                with Pidfd.open(leader.pid) as pidfd:
                    return asked(pidfd)
            with pytest.raises(Unsupported, match="pidfd_open is refused, and"):
                Pidfd.open(leader.pid)
            return asked(before)

    def asked(pidfd: Pidfd) -> list[object]:
        with Cgroup.open(cgroup_root) as cgroup:
            told = [found.value for found in liveness_many([identity, pidfd, cgroup])]
            tree = ProcessTree(leader=Leader(identity=identity, pidfd=pidfd), cgroup=cgroup)
            alone = terminate_tree(ProcessTree(leader=Leader(identity=identity)), KillPlan(steps=((signal.SIGKILL, None),)))
            found: list[object] = [*told, identity.liveness().value, tree_liveness(tree).liveness.value, alone.proof.name]
            if Facilities.current().pidfd_info and Facilities.current().pidfs_inode:
                found += [signal_tree(tree, 0).signalled, terminate_tree(tree).empty]
            return found

    found = in_fork(ask)
    assert found[:6] == ["unknown", "alive", "alive", "unknown", "alive", "NONE_FOUND"]
    assert found[6:] in ([], [1, True])


def _take_proc_away(how: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(_CLONE_NEWNS) == 0
    assert libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0
    if how == "unmounted":
        assert libc.umount2(b"/proc", _MNT_DETACH) == 0
        return
    assert libc.unshare(_CLONE_NEWPID) == 0  # of our children
    if (child := os.fork()) == 0:
        os._exit(libc.mount(b"proc", b"/proc", b"proc", 0, None) != 0)
    assert os.waitpid(child, 0)[1] == 0
    assert not os.path.exists("/proc/self")


@pytest.mark.own_pid_namespace
def test_reused_number_is_a_stranger_on_every_rung() -> None:
    """Same number forced; with an inode, the same start tick too. Nothing of ours reaches the new owner."""
    for mask in RUNGS:
        with without(mask):
            _reused(same_tick=Facilities.current().pidfs_inode)


def _reused(*, same_tick: bool) -> None:
    while True:
        first = Blocked(3)
        identity = ProcessIdentity.of(first.pid)
        with Pidfd.open(first.pid) as pidfd:
            first.reap()
            with reborn(identity.pid, code=9) as second:
                stranger = ProcessIdentity.of(second.pid)
                if (stranger.start_ticks == identity.start_ticks) is same_tick:
                    _nothing_reaches(stranger, identity, pidfd)
                    second.end()
                    _not_the_strangers_end(pidfd)
                    return


def _nothing_reaches(stranger: ProcessIdentity, identity: ProcessIdentity, pidfd: Pidfd) -> None:
    assert identity.pid == stranger.pid
    assert identity != stranger
    assert (identity.liveness(), pidfd.liveness(), stranger.liveness()) == (GONE, GONE, ALIVE)
    assert liveness_many([identity, pidfd, stranger]) == [GONE, GONE, ALIVE]
    refused = AlreadyGone if Facilities.current().pidfd_send_signal else Unsupported
    with pytest.raises(refused):
        pidfd.send_signal(signal.SIGKILL)
    for refuse in (identity.open, lambda: ProcessIdentity.of_pidfd(pidfd)):
        with pytest.raises(AlreadyGone):
            refuse()
    assert stranger.liveness() is ALIVE


def _not_the_strangers_end(pidfd: Pidfd) -> None:
    """The zombie under the number is our child too, with code 9: it is neither read nor reaped for the one that was held."""
    for info in (pidfd.exit_info(), pidfd.wait(timeout_s=10)):
        assert info.code in (3, None)
        assert (info.kind is ExitKind.EXITED) is (Facilities.current().pidfd_exit_info)
    assert os.waitid(os.P_PID, pidfd.pid, os.WEXITED | os.WNOWAIT) is not None


@pytest.mark.own_pid_namespace
def test_a_fork_into_a_new_namespace_looks_again() -> None:
    """What the parent knows about where it stands is not the child's truth: both are number 1 here."""
    parent = os.getpid()
    before = ProcessIdentity.of(parent)
    assert ctypes.CDLL(None).unshare(_CLONE_NEWPID) == 0
    seen = in_fork(lambda: [os.getpid(), before.observe().evidence, before.liveness().value])
    assert seen == [1, "pid-namespace", "unknown"] or seen[1:] == ["handle", "alive"]


def test_own_vantage() -> None:
    here = Vantage.read()
    assert here.procfs_is_ours
    assert here.pid_namespace == os.stat("/proc/self/ns/pid").st_ino
