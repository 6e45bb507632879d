"""What this kernel and this sandbox let us do, found by trying and never by version."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, fields

from spurproc.core._native import check, ffi, lib
from spurproc.core.mountinfo import read_cgroup2_mounts
from spurproc.errors import InvalidArgument, SystemCallError

__all__ = ["MASK_VARIABLE", "Facilities", "check_call", "vanished"]

MASK_VARIABLE = "SPURPROC_MASK"
"""Environment variable: a comma-separated list of facilities to do without, as if the kernel lacked them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facilities:
    """The facilities of this host; each primitive picks its rung from them once.

    Masked or refused, all of it still works on Linux 5.14, with less certainty. `refusals` says of each absent facility why.
    """

    pidfd_open: bool
    """pidfd_open(2), 5.3. Without: the folder /proc/PID, which pins a process but cannot be polled."""
    pidfd_send_signal: bool
    """pidfd_send_signal(2), 5.1. Without: no process is signalled; cgroup.kill still ends a whole cgroup."""
    pidfs_inode: bool
    """A pidfd's inode is unique for the boot, 6.9. Without: start ticks."""
    pidfs_handle: bool
    """open_by_handle_at(2) on pidfs without any pidfd at hand (FD_PIDFS_ROOT). Without: pidfd_open and a look at the inode."""
    pidfd_info: bool
    """PIDFD_GET_INFO, 6.13."""
    pidfd_exit_info: bool
    """PIDFD_INFO_EXIT, 6.15: how a reaped process ended, to any holder of its pidfd."""
    clone3: bool
    """clone3(2), 5.3."""
    clone_into_cgroup: bool
    """CLONE_INTO_CGROUP, 5.7."""
    cgroup_kill: bool
    """The file cgroup.kill, 5.14."""
    close_range: bool
    """close_range(2) with CLOSE_RANGE_CLOEXEC, 5.11."""
    pidfd_process_group: bool
    """PIDFD_SIGNAL_PROCESS_GROUP, 6.9."""
    waitid_pidfd: bool
    """waitid(P_PIDFD), 5.4."""
    cgroup2_mount: str | None
    """Where a cgroup2 file system is mounted, or None."""
    controllers: frozenset[str]
    """The controllers that cgroup2 has at its root (`cgroup.controllers`)."""
    refusals: tuple[tuple[str, str], ...]
    """(facility, reason) of each absent facility: "needs" and an absent one that it rests on, "masked", or an errno's name."""

    @classmethod
    def current(cls) -> Facilities:
        """The facilities of this process: probed at the first call, then kept, by its children too.

        A probe that ran out of descriptors, memory or processes is not kept: the next call tries again.
        """
        global _current  # noqa: PLW0603 - one probe a process
        if _current is not None:
            return _current
        found = cls.probe(os.environ.get(MASK_VARIABLE, ""))
        if found.settled:
            _current = found
        return found

    @classmethod
    def probe(cls, mask: str = "") -> Facilities:
        """Try each facility but those named in `mask`. About 0.2 ms; starts and reaps one child that sends no SIGCHLD.

        Raises InvalidArgument for a name in `mask` that is no facility.
        """
        masked = _mask_names(mask)
        errors = ffi.new("int[]", lib.SPUR_FACILITY_COUNT)
        check(lib.spur_facilities_probe(errors), "probe", "the facilities of this host")
        mount, controllers, kill_error = _cgroup2()
        errors[lib.SPUR_FACILITY_INDEX_CGROUP_KILL] = kill_error
        reasons = {name: _errno_name(errors[index]) for index, name in enumerate(NAMES) if errors[index]}
        reasons |= dict.fromkeys(masked, _MASKED)
        for name, needed in _NEEDS:
            if needed in reasons and reasons.get(name) != _MASKED:  # whatever it said: it could not even be tried
                reasons[name] = f"needs {needed}"
        return cls(
            **{name: name not in reasons for name in NAMES},
            cgroup2_mount=mount,
            controllers=controllers,
            refusals=tuple(reasons.items()),
        )

    @property
    def settled(self) -> bool:
        """Whether no facility is absent only for a want of something that may be there the next moment."""
        return _PASSING.isdisjoint(reason for _, reason in self.refusals)

    @property
    def bits(self) -> int:
        """The present facilities as a set of SPUR_FACILITY_ bits, the form that the C core takes."""
        return sum(1 << index for index, name in enumerate(NAMES) if getattr(self, name))


NAMES = tuple(field.name for field in fields(Facilities))[: lib.SPUR_FACILITY_COUNT]
_current: Facilities | None = None


_NEEDS = (
    ("pidfs_inode", "pidfd_open"),
    ("pidfs_handle", "pidfs_inode"),
    ("pidfd_info", "pidfd_open"),
    ("pidfd_exit_info", "pidfd_info"),
    ("clone_into_cgroup", "clone3"),
    ("pidfd_process_group", "pidfd_open"),
    ("pidfd_process_group", "pidfd_send_signal"),
    ("waitid_pidfd", "pidfd_open"),
)
"""(facility, what it cannot be without), each behind what it needs."""


_MASKED = "masked"
_PASSING = frozenset(("EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EINTR"))
_REFUSALS = frozenset((errno.EPERM, errno.ENOSYS))


def vanished(error: int) -> str:
    """What errno `error` has to do with a sandbox that was put on after the first probe: a sentence for the message, or none.

    Empty unless it is a refusal, and a new probe lacks what the kept one has. Such a process has no rung to stand on: what it
    was refused is an error, never an answer.
    """
    if error not in _REFUSALS or _current is None:
        return ""
    now = Facilities.probe(os.environ.get(MASK_VARIABLE, ""))
    lost = [name for name in NAMES if getattr(_current, name) and not getattr(now, name)] if now.settled else []
    return (
        f"since this process first looked, it has been refused {', '.join(lost)} (a sandbox that was put on later?)"
        if lost
        else ""
    )


def check_call(result: int, verb: str, noun: str) -> int:
    """`check` for what rests on a facility: where that has been taken away since the probe, the message says which."""
    why = vanished(-result)
    try:
        return check(result, verb, noun)
    except SystemCallError as error:
        if not why:
            raise
        raise type(error)(-result, f"{error}; {why}") from None


def _errno_name(number: int) -> str:
    return errno.errorcode.get(number, str(number))


def _mask_names(mask: str) -> list[str]:
    names = [name.strip() for name in mask.split(",") if name.strip()]
    for name in names:
        if name not in NAMES:
            raise InvalidArgument(f"cannot mask {name!r}: not one of {', '.join(NAMES)}")
    return names


def _cgroup2() -> tuple[str | None, frozenset[str], int]:
    """The first cgroup2 mount, its controllers, and the errno that stands for the absence of cgroup.kill."""
    try:
        mount = next((mount.point for mount in read_cgroup2_mounts()), None)
    except OSError as error:
        return None, frozenset(), error.errno or errno.EIO
    if mount is None:
        return None, frozenset(), errno.ENOSYS
    try:
        with open(f"{mount}/cgroup.controllers", "rb") as file:
            controllers = frozenset(file.read().decode().split())
        # The root cgroup has no cgroup.kill; any other one shows whether the kernel makes the file.
        folders = [entry.path for entry in os.scandir(mount) if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        return mount, frozenset(), error.errno or errno.EIO
    shown = not folders or any(os.path.exists(f"{folder}/cgroup.kill") for folder in folders)
    return mount, controllers, 0 if shown else errno.ENOENT
