"""The probe: what it finds, what is taken away, and that it leaves nothing."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spurproc.core import facilities
from spurproc.core._native import lib
from spurproc.core.facilities import MASK_VARIABLE, Facilities
from spurproc.errors import InvalidArgument
from tests import sandbox, seccomp
from tests.rungs import probe_again
from tests.spawning import in_child


def test_names_are_the_bits_of_the_c_core() -> None:
    """In the same order, none missing."""
    assert len(facilities.NAMES) == lib.SPUR_FACILITY_COUNT
    for index, name in enumerate(facilities.NAMES):
        assert getattr(lib, f"SPUR_FACILITY_INDEX_{name.upper()}") == index
        assert getattr(lib, f"SPUR_FACILITY_{name.upper()}") == 1 << index


@pytest.mark.parametrize("name", facilities.NAMES)
def test_mask_takes_one_away(name: str) -> None:
    whole, masked = Facilities.probe(), Facilities.probe(name)
    assert not getattr(masked, name)
    assert dict(masked.refusals)[name] == "masked"
    assert masked.bits & getattr(lib, f"SPUR_FACILITY_{name.upper()}") == 0
    lost = _lost_with(name)
    assert not any(getattr(masked, other) for other in lost)
    kept = [other for other in facilities.NAMES if other not in lost]
    assert [getattr(masked, other) for other in kept] == [getattr(whole, other) for other in kept]


def _lost_with(*names: str) -> set[str]:
    """These, and what cannot be without them."""
    lost = set(names)
    for other, needed in facilities._NEEDS:
        lost |= {other} if needed in lost else set()
    return lost


@pytest.mark.parametrize("mask", ["pidfd", "clone3,nosuch", "PIDFD_OPEN", "bits", "controllers"])
def test_unknown_name_in_the_mask_is_an_error(mask: str) -> None:
    """A run that was meant to be masked must not pass unmasked."""
    with pytest.raises(InvalidArgument, match="cannot mask"):
        Facilities.probe(mask)


def test_mask_comes_from_the_environment() -> None:
    program = "from spurproc.core.facilities import Facilities as F; print(F.current().clone3, F.current() is F.current())"
    environment = {**os.environ, MASK_VARIABLE: " clone3 ,close_range"}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["False", "True"]


def test_probe_is_always_the_same_and_leaves_nothing() -> None:
    """No child, no descriptor, no SIGCHLD, no changed mask; hundreds of times, for the probe's own child is a race."""
    received: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, _frame: received.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    descriptors = os.listdir("/proc/self/fd")
    try:
        assert len({Facilities.probe() for _ in range(300)}) == 1
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert received == []
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    assert os.listdir("/proc/self/fd") == descriptors
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG | 0x40000000)  # __WALL


@pytest.mark.needs_kernel(6, 15)
def test_a_current_kernel_has_them_all() -> None:
    """The probe asks rightly: what this kernel is known to have, it finds, but for what the run is refused."""
    found = Facilities.probe()
    expected = set(facilities.NAMES) - ({"pidfs_handle"} if not _handle_root() else set()) - _lost_with(*sandbox.refused())
    assert {name for name in facilities.NAMES if getattr(found, name)} >= expected - {"cgroup_kill"}


def _handle_root() -> bool:
    """FD_PIDFS_ROOT came after the handles; before it the weaker rung is as good."""
    version = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return version >= (6, 17)


@pytest.mark.needs_facility("pidfd_process_group")
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EINVAL])
def test_group_signal_that_a_sandbox_refuses_is_not_there(number: int) -> None:
    """A process may signal itself: EPERM is no word of the kernel's about rights."""

    def body() -> None:
        seccomp.refuse(sandbox.NUMBERS["pidfd_send_signal"], number, hit=(3, 4))
        found = probe_again()
        assert (found.pidfd_send_signal, found.pidfd_process_group) == (True, False)
        assert dict(found.refusals)["pidfd_process_group"] == errno.errorcode[number]

    in_child(body)


@pytest.mark.needs_cgroup_v2
def test_probe_without_a_descriptor_left_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process would stay on the lowest rung for good, long after it has descriptors again."""
    monkeypatch.setattr(facilities, "_current", None)
    whole = Facilities.probe(os.environ.get(MASK_VARIABLE, ""))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        starved = Facilities.current()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not starved.settled
    assert "EMFILE" in dict(starved.refusals).values()
    assert whole.settled
    assert Facilities.current() == whole


def test_cgroup_mount_and_controllers_are_the_kernels() -> None:
    found = Facilities.probe()
    assert found.cgroup2_mount is not None
    assert Path(found.cgroup2_mount, "cgroup.controllers").read_text().split() == sorted(
        found.controllers, key=Path(found.cgroup2_mount, "cgroup.controllers").read_text().split().index
    )
