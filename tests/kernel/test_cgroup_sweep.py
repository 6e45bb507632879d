"""A signal on its way through a cgroup: who moves meanwhile is found, and who could not be looked at is not passed over."""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spurproc.core._native import lib
from spurproc.core.cgroup import kill as kill_module
from spurproc.core.cgroup import sweep as sweep_module
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.sweep import CgroupSweep, SeenTable
from spurproc.core.cgroup.walk import walk
from spurproc.core.facilities import Facilities
from spurproc.core.process.identity import forget_reader
from spurproc.errors import SystemCallError
from tests.core_with import CoreWith
from tests.descriptors import descriptors_left
from tests.payload import Payload
from tests.trees import inside, move

pytestmark = pytest.mark.needs_cgroup_v2
Start = Callable[..., Payload]


def test_member_that_no_descriptor_is_left_for_is_not_passed_over(
    cgroup: Cgroup, cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread has the last one while the listed ones are looked at: it is told that the pass ended early."""
    payload("hold", cgroup=cgroup_root).wait_ready()

    def signal_without_descriptors(*arguments: Any) -> int:
        with descriptors_left(0):
            return int(lib.spur_members_signal(*arguments))

    monkeypatch.setattr(sweep_module, "lib", CoreWith(spur_members_signal=signal_without_descriptors))
    swept = CgroupSweep(cgroup.fileno(), signal.SIGCONT, SeenTable(Facilities.current().bits)).run()
    assert (swept.signalled, swept.complete, swept.unreadable) == (0, False, errno.EMFILE)


def test_sweep_without_a_descriptor_says_so(cgroup: Cgroup) -> None:
    """At its first look at /proc: that none is left to look with is not that /proc shows another pid namespace."""
    seen = SeenTable(Facilities.current().bits & ~lib.SPUR_FACILITY_PIDFD_INFO)
    forget_reader()
    with descriptors_left(0), pytest.raises(SystemCallError, match="Too many open files") as caught:
        CgroupSweep(cgroup.fileno(), signal.SIGCONT, seen)
    assert caught.value.errno == errno.EMFILE
    CgroupSweep(cgroup.fileno(), signal.SIGCONT, seen)


@pytest.mark.needs_facility("pidfd_send_signal")
def test_one_quiet_pass_over_several_cgroups_proves_nothing(
    cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that is always in the other cgroup is missed by a pass; here by two that find nobody new, and then it stays."""
    doors = [inside(cgroup_root, name) for name in ("a", "b")]
    steady, restless = (payload("hold", cgroup=doors[0]) for _ in range(2))
    for member in (steady, restless):
        member.wait_ready()
    passes = []

    def walk_and_be_dodged(folder_fd: int, refused: list[int]) -> Iterator[int]:
        passes.append(folder_fd)
        for fd in walk(folder_fd, refused):
            here = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if here in doors and len(passes) <= 3:  # the first of them finds the steady one
                move(restless.pid, doors[doors.index(here) - 1])
            yield fd

    monkeypatch.setattr(sweep_module, "walk", walk_and_be_dodged)
    with Cgroup.open(cgroup_root) as cgroup:
        report = cgroup.signal(signal.SIGCONT)
    assert (report.signalled, report.complete) == (2, True)


@pytest.mark.needs_facility("pidfd_send_signal")
@pytest.mark.needs_root
def test_member_that_moves_to_and_fro_is_not_overlooked(cgroup_root: Path, payload: Start) -> None:
    """It can be in the other cgroup whenever one is read: then nobody was seen, which is not that there is nobody."""
    doors = [inside(cgroup_root, name) / "cgroup.procs" for name in ("a", "b")]
    leader = payload("mover", str(doors[0]), str(doors[1]), cgroup=cgroup_root / "a")
    leader.wait_ready()
    with Cgroup.open(cgroup_root) as cgroup:
        reports = [cgroup.signal(0) for _ in range(400)]
    assert [report for report in reports if report.complete and not report.signalled] == []
    assert max(report.signalled for report in reports) == 1


@pytest.mark.needs_facility("cgroup_kill")
def test_who_is_killed_at_once_is_counted_and_waits_for_no_pass(
    cgroup: Cgroup, cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passes are there for whom cgroup.kill misses: here they do nothing, and all are dead before the first of them."""
    leader = payload("many", "3", cgroup=cgroup_root)
    leader.wait_ready()
    ended: list[bool] = []

    def signal_nobody(*_: Any) -> int:
        end = select.poll()
        end.register(leader.pidfd, select.POLLIN)
        ended.append(bool(end.poll(20_000)))
        return 0

    monkeypatch.setattr(sweep_module, "lib", CoreWith(spur_members_signal=signal_nobody))
    report = cgroup.kill()
    assert (report.signalled, report.refused, report.complete) == (4, (), True)
    assert all(ended)
    assert leader.reap() == -signal.SIGKILL


def test_who_is_in_two_places_during_a_listing_counts_once(
    cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves between two cgroups behind the reader."""
    doors = [inside(cgroup_root, name) for name in ("a", "b")]
    member = payload("hold", cgroup=doors[0])
    member.wait_ready()
    listings: list[int] = []

    def walk_ahead_of_it(folder_fd: int, refused: list[int]) -> Iterator[int]:
        listings.append(folder_fd)
        for fd in walk(folder_fd, refused):
            here = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if here in doors and len(listings) == 1:
                move(member.pid, here)
            yield fd

    monkeypatch.setattr(kill_module, "walk", walk_ahead_of_it)
    with Cgroup.open(cgroup_root) as cgroup:
        report = cgroup.kill()
    assert (report.signalled, report.complete) == (1, True)
    assert member.reap() == -signal.SIGKILL
