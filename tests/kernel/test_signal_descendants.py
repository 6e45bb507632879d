"""One signal to a tree without a cgroup: a subreaper's descendants, and nobody else."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Callable

import pytest

from spurproc.core.cgroup.signal_report import Route
from spurproc.core.process.identity import ProcessIdentity, forget_reader
from spurproc.core.tree.liveness import tree_liveness
from spurproc.core.tree.members import Containment, ProcessTree, members
from spurproc.core.tree.process_walk import proc_shows_all, read_process
from spurproc.core.tree.signalling import signal_tree
from spurproc.core.tree.termination import KillPlan, terminate_tree
from spurproc.errors import SystemCallError
from tests.payload import Payload
from tests.relatives import NOBODY, Blocked, in_fork
from tests.trees import released

Start = Callable[..., Payload]
_CLONE_NEWUSER = 0x10000000
pytestmark = pytest.mark.needs_facility("pidfd_send_signal")


def test_descendants_of_a_subreaper(payload: Start) -> None:
    """The double fork re-parents to it; the subreaper itself is not in the tree, nor is its brother."""
    keeper = payload("subreaper")
    keeper.wait_ready(3)
    brother = payload("hold")
    brother.wait_ready()
    tree = ProcessTree(subreaper=ProcessIdentity.of(keeper.pid))
    assert tree.containment is Containment.DESCENDANTS
    assert len(members(tree)) == 2
    report = signal_tree(tree, signal.SIGKILL)
    assert (report.route, report.signalled, report.complete) == (Route.DESCENDANTS, 2, True)
    assert keeper.wait_ready() == b"e", "the subreaper did not see its last descendant end"
    assert released(brother) == 0


def test_caller_below_the_subreaper_is_named_and_spared() -> None:
    """It is a descendant like the others."""
    with Blocked() as brother:
        above = ProcessTree(subreaper=ProcessIdentity.of(os.getpid()))

        def ask() -> list[object]:
            report = signal_tree(above, signal.SIGKILL)
            return [report.signalled, [(refusal.pid == os.getpid(), refusal.reason.name) for refusal in report.refused]]

        assert in_fork(ask) == [1, [[True, "CALLER"]]]
        brother.end()


@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(mount=True)
def test_root_of_a_user_namespace_does_not_see_what_is_hidden() -> None:
    """It has every capability, but only there: /proc goes on hiding what stands outside."""
    subprocess.run(["mount", "-o", "remount,hidepid=2", "/proc"], check=True)
    assert proc_shows_all()

    def ask() -> bool:
        assert ctypes.CDLL(None).unshare(_CLONE_NEWUSER) == 0
        return proc_shows_all()

    assert not in_fork(ask)


@pytest.mark.needs_root
@pytest.mark.parametrize("hidepid", [1, 2, 4])
@pytest.mark.own_pid_namespace(mount=True)
def test_hidden_descendants_are_not_none(payload: Start, hidepid: int) -> None:
    """As another user behind hidepid: nobody is seen below the subreaper, and that proves nothing."""
    subprocess.run(["mount", "-t", "proc", "-o", f"hidepid={hidepid}", "proc", "/proc"], check=True)
    forget_reader()
    keeper = payload("subreaper")
    keeper.wait_ready(3)
    tree = ProcessTree(subreaper=ProcessIdentity.of(keeper.pid))

    def ask() -> list[object]:
        ended = terminate_tree(tree, KillPlan(steps=((signal.SIGTERM, 0.0),)))
        return [tree_liveness(tree).liveness.value, ended.empty, signal_tree(tree, signal.SIGTERM).complete]

    assert len(members(tree)) == 2
    assert in_fork(ask, uid=NOBODY) == ["unknown", False, False]
    assert tree_liveness(tree).liveness.value == "alive"


def test_walk_without_a_descriptor_left_proves_nothing(payload: Start) -> None:
    """Whoever cannot be read for want of descriptors is not nobody: another thread may take the last one for a moment."""
    keeper = payload("subreaper")
    keeper.wait_ready(3)
    tree = ProcessTree(subreaper=ProcessIdentity.of(keeper.pid))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(SystemCallError, match="Too many open files"):
            read_process(keeper.pid)
        with pytest.raises(SystemCallError, match="Too many open files"):
            terminate_tree(tree)
        assert tree_liveness(tree).liveness.value == "unknown"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(members(tree)) == 2


def test_descendants_of_a_dead_subreaper_are_nobodys(payload: Start) -> None:
    keeper = payload("subreaper")
    keeper.wait_ready(3)
    tree = ProcessTree(subreaper=ProcessIdentity.of(keeper.pid))
    keeper.kill()
    keeper.wait_exit()
    assert signal_tree(tree, signal.SIGKILL).route is Route.NOBODY
