"""Each row of docs/reference/fallbacks.md: with the facility masked, the same answers, and the weaker one where it is weaker.

Named test_without_<facility>, so that a row cannot be without its test: tests/meta/test_fallbacks.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.signal_report import RefusalReason, Route
from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import IdentityStrength, ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.spawn import SpawnPlan, spawn
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.signalling import signal_tree
from spurproc.errors import SpawnError, SystemCallError, Unsupported, WaitTimeout
from tests.descriptors import descriptors_left
from tests.interruption import interrupted
from tests.payload import Payload
from tests.relatives import NOBODY, Blocked, Foster, in_fork
from tests.rungs import environment, without
from tests.spawning import ROUTES, no_child_is_left, output_of
from tests.trees import listed, tree_of

Start = Callable[..., Payload]


def _reaped_by_another(payload: Start) -> ExitInfo:
    """What a holder of its pidfd learns of the end of a process that its own parent has reaped."""
    with Foster(payload, "exit", 9) as process, Pidfd.open(process.pid) as pidfd:
        process.end()
        process.reap()
        assert pidfd.liveness() is Liveness.GONE
        return pidfd.wait(timeout_s=5, reap_grace_s=0)


def test_without_pidfd_open(payload: Start) -> None:
    """The folder of the process is held: it answers the same, is no pidfd to poll, and the name is by start ticks alone."""
    with without("pidfd_open"):
        with Blocked(3) as child, Pidfd.open(child.pid) as held:
            name = ProcessIdentity.of(child.pid)
            assert (name.strength, name.pidfs_inode) == (IdentityStrength.START_TICKS, None)
            assert (name.liveness(), held.liveness()) == (Liveness.ALIVE, Liveness.ALIVE)
            assert os.readlink(f"/proc/self/fd/{held.fileno()}") == f"/proc/{child.pid}"
            child.release()
            assert (held.wait(timeout_s=5).code, held.wait().source) == (3, ExitSource.WAITED)
            assert (name.liveness(), held.liveness()) == (Liveness.GONE, Liveness.GONE)
        told = _reaped_by_another(payload)
    assert (told.kind, told.reason) == (ExitKind.UNKNOWN, "it was reaped by another and this kernel keeps no record of that")


def test_folder_of_a_process_without_a_descriptor_says_so() -> None:
    """Where the folder in /proc is held for want of pidfd_open: it is no foreign /proc that none is left to look with."""
    with without("pidfd_open"), descriptors_left(0), pytest.raises(SystemCallError, match="Too many open files"):
        Pidfd.open(os.getpid())


@pytest.mark.parametrize("mask", ["pidfd_open", "pidfd_open,pidfd_send_signal"])
def test_without_pidfd_open_what_cannot_be_looked_at_has_not_ended(mask: str) -> None:
    """No descriptor left to read its state with: that is UNKNOWN, nothing is said of an end, and it is waited for."""
    with without(mask), Pidfd.open(os.getppid()) as held, descriptors_left(0):
        liveness, end = held.liveness(), held.exit_info()
        with pytest.raises(WaitTimeout, match="still runs"):
            held.wait(timeout_s=0.1)
    assert (liveness, end.kind) == (Liveness.UNKNOWN, ExitKind.UNKNOWN)
    assert end.reason == "it cannot be told from here whether it still runs"


@pytest.mark.needs_facility("pidfd_open")
def test_without_a_descriptor_no_reap_is_made_up(payload: Start) -> None:
    """Where only /proc would show whether a zombie is one still: its end is known, and no more is said."""
    with without("pidfd_send_signal,pidfd_info"), Foster(payload, "exit", 9) as process, Pidfd.open(process.pid) as held:
        process.end()
        with descriptors_left(0):
            told = held.exit_info()
        assert (told.kind, told.reason) == (ExitKind.UNKNOWN, "it ended, and nothing is left to look with whether it was reaped")
        assert held.exit_info().code == 9


def test_without_pidfd_send_signal(tmp_path: Path) -> None:
    """Nobody is signalled, and that is said: by an error, and of a start that cannot be given up, that it lives on."""
    os.mkfifo(tmp_path / "fifo")
    with without("pidfd_send_signal"):
        with Blocked() as child, Pidfd.open(child.pid) as held:
            with pytest.raises(Unsupported, match=r"needs pidfd_send_signal\(2\)"):
                held.send_signal(signal.SIGKILL)
            assert held.liveness() is Liveness.ALIVE
        for fields in ROUTES:
            with pytest.raises(SpawnError, match="No such file"):
                spawn(SpawnPlan(argv=["/no/such/program"], **fields))
            no_child_is_left()
        with pytest.raises(SpawnError, match=r"no answer within 0.1 s; it lives on, for pidfd_send_signal\(2\) is refused"):
            spawn(SpawnPlan(argv=["/bin/true"], stdout=tmp_path / "fifo"), timeout_s=0.1)
        with interrupted(), pytest.raises(KeyboardInterrupt) as caught:
            spawn(SpawnPlan(argv=["/bin/true"], stdout=tmp_path / "fifo"))
    assert "lives on" in caught.value.__notes__[0]
    reader = os.open(tmp_path / "fifo", os.O_RDWR)  # both go on, and end: who has opened it already, and who has yet to
    for _ in range(2):
        os.waitid(os.P_ALL, 0, os.WEXITED)
    os.close(reader)


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("cgroup_kill")
def test_without_pidfd_send_signal_a_whole_cgroup_can_be_killed(cgroup_root: Path, payload: Start) -> None:
    """Any other signal is refused by each member by name."""
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    with without("pidfd_send_signal"), Cgroup.open(cgroup_root) as cgroup:
        report = cgroup.signal(signal.SIGTERM)
        assert (report.signalled, [refusal.reason for refusal in report.refused]) == (0, [RefusalReason.UNSUPPORTED])
        report = cgroup.kill()
    assert (report.signalled, report.refused) == (1, ())
    assert leader.reap() == -9


def test_without_pidfs_inode() -> None:
    """The name is by start ticks alone, and says so; an inode from before is not looked at."""
    before = ProcessIdentity.of(os.getpid())
    with without("pidfs_inode"):
        name = ProcessIdentity.of(os.getpid())
        assert (name.strength, name.pidfs_inode) == (IdentityStrength.START_TICKS, None)
        assert (name.observe().evidence, before.observe().evidence) == ("ticks", "ticks")
        assert before.strength is IdentityStrength.START_TICKS


_INNER = """
import os
from spurproc.core.process.identity import ProcessIdentity
print(ProcessIdentity.of(os.getpid()).to_text(), flush=True)
input()
"""


@pytest.mark.needs_root
def test_without_pidfs_handle() -> None:
    """Here the same; a process named in a pid namespace below is not found by its inode, and nothing is claimed of it."""
    with without("pidfs_handle"):
        own = ProcessIdentity.of(os.getpid())
        assert own.observe().liveness is Liveness.ALIVE
        assert own.observe().evidence != "handle"
        command = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL", sys.executable, "-c", _INNER]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as inner:
            assert inner.stdout is not None
            seen = ProcessIdentity.from_text(inner.stdout.readline().decode().strip()).observe()
            inner.communicate(b"\n", timeout=20)
    assert (seen.liveness, seen.evidence) == (Liveness.UNKNOWN, "pid-namespace")


_IN_FOREIGN_PROC = """
import sys
from spurproc.core.cgroup.cgroup import Cgroup
try:
    Cgroup.open(sys.argv[1]).signal(0)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_send_signal")
def test_without_pidfd_info(cgroup_root: Path, payload: Start) -> None:
    """Members are confirmed by the path in /proc: the same where /proc is ours, and an error where it shows another namespace."""
    leader = payload("session", cgroup=cgroup_root)
    leader.wait_ready(3)
    with without("pidfd_info"), Cgroup.open(cgroup_root) as cgroup:
        report = cgroup.signal(0)
    assert (report.signalled, report.refused, report.complete) == (3, (), True)
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", _IN_FOREIGN_PROC, str(cgroup_root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30, env=environment("pidfd_info"))
    assert done.stdout.startswith("Unsupported cannot signal a cgroup's members: /proc shows another pid namespace"), done.stderr


def test_without_pidfd_exit_info(payload: Start) -> None:
    """Of a child the same; the end of a process that another has reaped is UNKNOWN, with the reason."""
    with without("pidfd_exit_info"):
        with Blocked(3) as child, Pidfd.open(child.pid) as held:
            child.release()
            assert (held.wait(timeout_s=5).code, held.wait().source) == (3, ExitSource.WAITED)
        told = _reaped_by_another(payload)
    assert (told.kind, told.source) == (ExitKind.UNKNOWN, ExitSource.NONE)
    assert told.reason == "it was reaped by another and this kernel keeps no record of that"


@pytest.mark.needs_cgroup_v2
@pytest.mark.parametrize("mask", ["clone_into_cgroup", "clone3"])
def test_without_clone_into_cgroup(cgroup_root: Path, mask: str) -> None:
    """It joins by a write before its first own instruction, and that is said."""
    with without(mask), Cgroup.create(cgroup_root / "job") as cgroup:
        read_fd, write_fd = os.pipe()
        spawned = spawn(SpawnPlan(argv=["cat", "/proc/self/cgroup"], cgroup=cgroup, stdout=write_fd))
        os.close(write_fd)
        with open(read_fd, "rb") as output:
            assert output.read().rstrip().endswith(b"/job")
        assert not spawned.born_in_cgroup
        assert spawned.pidfd.wait(5).succeeded
        spawned.pidfd.close()


def test_without_clone3() -> None:
    """A start, a failure and what they say are the same."""
    with without("clone3"):
        for fields in ROUTES:
            assert output_of(["/bin/echo", "-n", "here"], **fields)[0] == b"here"
            with pytest.raises(SpawnError, match="No such file"):
                spawn(SpawnPlan(argv=["/no/such/program"], **fields))


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_send_signal")
def test_without_cgroup_kill(cgroup_root: Path, payload: Start) -> None:
    """SIGKILL goes by pidfd: all who may be signalled are, and another user's is named as refused."""
    for path in (cgroup_root, *(cgroup_root / name for name in ("cgroup.procs", "cgroup.kill"))):
        os.chown(path, NOBODY, NOBODY)
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()

    def kill() -> list[object]:
        with without("cgroup_kill"), Cgroup.open(cgroup_root) as cgroup:
            report = cgroup.kill()
            return [report.signalled, [[refusal.pid, refusal.reason.name] for refusal in report.refused]]

    assert in_fork(kill, uid=NOBODY) == [0, [[leader.pid, "NOT_PERMITTED"]]]
    assert listed(cgroup_root) == {leader.pid}
    assert kill() == [1, []]
    assert leader.reap() == -9


def test_without_close_range() -> None:
    """What is open is asked for: nothing leaks, whatever its number."""
    leaked = os.dup2(1, 700)
    with without("close_range"):
        for fields in ROUTES:
            assert output_of(["/bin/ls", "/proc/self/fd"], **fields)[0].split() == [b"0", b"1", b"2", b"3"]
    os.close(leaked)


@pytest.mark.needs_facility("pidfd_send_signal")
def test_without_pidfd_process_group(payload: Start) -> None:
    """A living leader's group is found by a walk; that of a reaped one has no name that is safe: nobody is signalled."""
    with without("pidfd_process_group"):
        living = payload("session")
        living.wait_ready(3)
        report = signal_tree(tree_of(living), signal.SIGTERM)
        assert (report.route, report.signalled) == (Route.PROCESS_GROUP, 3)
        leader = payload("session", "0", "leave")
        leader.wait_ready(3)
        with Pidfd.open(leader.pid) as pidfd:
            held = Leader(identity=ProcessIdentity.of(leader.pid), pidfd=pidfd)
            leader.wait_exit()
            leader.reap()
            report = signal_tree(ProcessTree(leader=held), signal.SIGTERM)
    assert (report.route, report.signalled) == (Route.NOBODY, 0)


def test_without_waitid_pidfd() -> None:
    """A child is waited for by its number, once that is seen to be its own still: the same answers, and none for a reaped one."""
    with without("waitid_pidfd"), Blocked(3) as child, Pidfd.open(child.pid) as held, Pidfd.open(child.pid) as second:
        child.release()
        assert (held.wait(timeout_s=5).code, held.wait().source) == (3, ExitSource.WAITED)
        assert second.wait(timeout_s=5, reap_grace_s=0).source is not ExitSource.WAITED
