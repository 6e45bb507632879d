"""What the controllers of one cgroup are to hold its members to: memory, processes, CPU time.

A limit is a file of a controller. The file is there only where the cgroup above hands the controller down, so a limit that cannot
be set is no rare thing: on a hybrid layout the controllers belong to cgroup v1, and a delegated subtree has what it was given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spurproc.core.cgroup.folder import open_folder, read_text, write_text
from spurproc.errors import AlreadyGone, InvalidArgument, NotCgroup2, SystemCallError

__all__ = ["CgroupLimits", "Limit", "missing_controller", "unavailable_controller"]

_PERIOD_USEC = 100_000
_LAST = 2**63 - 1
_LEAST_CPUS = 0.01
_MOST_CPUS = _LAST // _PERIOD_USEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One value for one control file of a controller."""

    controller: str
    file: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    """Limits for a cgroup and all below it; None leaves one as it is. Making one raises InvalidArgument, which names the field.

    Source: admin-guide/cgroup-v2.rst, "memory.max", "pids.max" and "cpu.max".
    """

    memory_max_bytes: int | None = None
    """Rounded down to whole pages. There the kernel reclaims, swaps, and at last kills a member: see `Cgroup.oom_kills`."""
    pids_max: int | None = None
    """Processes and threads; a fork beyond it fails with EAGAIN."""
    cpus: float | None = None
    """CPU seconds in each second, at least 0.01: 0.5 is half of one CPU. Beyond it the members wait for the next 100 ms."""

    def __post_init__(self) -> None:
        for name in ("memory_max_bytes", "pids_max"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LAST):
                raise InvalidArgument(f"{name}: {_shown(value)} is not a number from 0 to {_LAST}")
        if self.cpus is not None:
            _check_cpus(self.cpus)

    def __iter__(self) -> Iterator[Limit]:
        """Those that are given."""
        if self.memory_max_bytes is not None:
            yield Limit(controller="memory", file="memory.max", value=str(self.memory_max_bytes))
        if self.pids_max is not None:
            yield Limit(controller="pids", file="pids.max", value=str(self.pids_max))
        if self.cpus is not None:
            yield Limit(controller="cpu", file="cpu.max", value=f"{round(self.cpus * _PERIOD_USEC)} {_PERIOD_USEC}")


def _check_cpus(cpus: object) -> None:
    # Compared as it is: an int may be too large for a float. NaN is in no range.
    number = isinstance(cpus, int | float) and not isinstance(cpus, bool)
    if not number or not _LEAST_CPUS <= cpus <= _MOST_CPUS:  # type: ignore[operator]  # a number, by `number`
        raise InvalidArgument(f"cpus: {_shown(cpus)} is not a number from {_LEAST_CPUS} to {_MOST_CPUS}")


def _shown(value: object) -> str:
    """Python writes no int of thousands of digits; one of more than 64 bits is named by its size."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


def missing_controller(folder_fd: int, controller: str) -> str | None:
    """Why `controller` does not act in this cgroup; None if it does, by now: the cgroup above is made to hand down what it has.

    That one only, and only while no process lives in it, for the kernel would refuse it or turn it into a threaded cgroup, and
    the ones below into ones that no process can enter. Source: admin-guide/cgroup-v2.rst, "No Internal Process Constraint".
    """
    return _with_above(folder_fd, controller, _hand_down)


def unavailable_controller(folder_fd: int, controller: str) -> str | None:
    """As `missing_controller`, and nothing is changed: None too where the cgroup above has it and may be able to hand it down."""
    return _with_above(folder_fd, controller, _why_kept)


def _with_above(folder_fd: int, controller: str, ask: Callable[[int, str], str | None]) -> str | None:
    if _is_top(folder_fd):
        return "this is the top of the hierarchy"
    if _has(folder_fd, controller):
        return None
    try:
        above_fd = open_folder("..", dir_fd=folder_fd)
    except SystemCallError as error:
        return f"the cgroup above cannot be reached ({error})"
    except NotCgroup2:
        return "the cgroup above cannot be reached: this is the top of the mount"
    try:
        return ask(above_fd, controller)
    except SystemCallError as error:
        return f"the cgroup above does not hand it down ({error})"
    finally:
        os.close(above_fd)


def _has(folder_fd: int, controller: str) -> bool:
    return controller.encode() in read_text(folder_fd, "cgroup.controllers").split()


def _why_kept(above_fd: int, controller: str) -> str | None:
    if not _has(above_fd, controller):
        return "the cgroup above has none to hand down"
    if not _is_top(above_fd) and read_text(above_fd, "cgroup.procs", limit=1):
        return "the cgroup above cannot hand it down while processes live in it"
    return None


def _hand_down(above_fd: int, controller: str) -> str | None:
    reason = _why_kept(above_fd, controller)
    if reason is None:
        write_text(above_fd, "cgroup.subtree_control", f"+{controller}".encode())
    return reason


def _is_top(folder_fd: int) -> bool:
    """Only the top of the hierarchy has no cgroup.type; it alone may have processes and hand down. Raises AlreadyGone."""
    try:
        read_text(folder_fd, "cgroup.type")
    except AlreadyGone:
        read_text(folder_fd, "cgroup.controllers")
        return True
    return False
