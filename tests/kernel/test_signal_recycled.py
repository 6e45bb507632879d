"""One signal to a tree whose numbers change hands meanwhile: nobody who was not in it gets the signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spurproc.core._native import lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.signal_report import Route
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree import signalling
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.process_walk import Descent, read_process
from spurproc.core.tree.signalling import signal_tree
from tests.core_with import CoreWith
from tests.payload import Payload
from tests.relatives import Blocked, reborn
from tests.rungs import without
from tests.trees import tree_of

Start = Callable[..., Payload]
pytestmark = pytest.mark.needs_facility("pidfd_send_signal")


@pytest.fixture
def leader() -> Iterator[Blocked]:
    """Leads a group under its number."""
    with Blocked() as found:
        os.setpgid(found.pid, found.pid)
        yield found


def _stranger_in_place_of(leader: Blocked) -> Blocked:
    """Who has its number and leads a group under it, and began at another tick of the clock."""
    row = read_process(leader.pid)
    assert row is not None
    leader.reap()
    while True:
        stranger = reborn(row.pid)
        now = read_process(row.pid)
        if now is not None and now.start_ticks != row.start_ticks:
            os.setpgid(row.pid, row.pid)
            return stranger
        stranger.reap()


@pytest.mark.needs_root
@pytest.mark.own_pid_namespace
@pytest.mark.parametrize("mask", ["", "pidfs_inode"])
def test_number_that_changes_hands_before_it_is_held(leader: Blocked, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the walk, and reaped before it is opened: what is opened is the stranger."""
    strangers: list[Blocked] = []

    def open_late(pid: int, facilities: int, pidfd: Any) -> int:
        strangers.append(_stranger_in_place_of(leader))
        return lib.spur_member_open(pid, facilities, pidfd)

    with without(mask):
        tree = ProcessTree(leader=Leader(identity=ProcessIdentity.of(leader.pid)))
        monkeypatch.setattr(signalling, "lib", CoreWith(spur_member_open=open_late))
        report = signal_tree(tree, signal.SIGKILL)
    with Pidfd.open(strangers[0].pid) as pidfd:
        assert pidfd.liveness().value == "alive"
    strangers[0].reap()
    assert report.signalled == 0


def test_stranger_with_the_number_of_a_subreaper_has_no_descendants(payload: Start) -> None:
    """Its children are not the tree's."""
    keeper = payload("subreaper")
    keeper.wait_ready(3)
    identity = ProcessIdentity.of(keeper.pid)
    with Blocked() as gone:
        inode = ProcessIdentity.of(gone.pid).pidfs_inode
    earlier = replace(identity, start_ticks=identity.start_ticks - 1, pidfs_inode=inode)
    assert Descent(identity).find()
    assert Descent(earlier).find() == []


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfd_process_group")
@pytest.mark.parametrize("mask", ["", "pidfs_inode"])
def test_group_of_a_reaped_leader_is_reached_past_an_empty_cgroup(cgroup_root: Path, payload: Start, mask: str) -> None:
    """It is past being signalled, and its group is not: its pidfd from before still names that."""
    leader = payload("session", "0", "leave")
    leader.wait_ready(3)
    with Cgroup.open(cgroup_root) as cgroup, Pidfd.open(leader.pid) as pidfd:
        tree = tree_of(leader, pidfd=pidfd, cgroup=cgroup, joined=False)
        leader.wait_exit()
        leader.reap()
        with without(mask):
            report = signal_tree(tree, signal.SIGTERM)
    assert (report.route, report.signalled) == (Route.PROCESS_GROUP, 2)
