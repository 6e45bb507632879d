"""What a test needs of the machine, said by markers, and why the machine cannot give it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests import cgroup_folder

MARKERS = (
    "needs_root: runs only as uid 0",
    "needs_cgroup_v2: needs a cgroup2 folder in which cgroups may be made",
    "needs_controller(name): needs this controller on the cgroup2 mount",
    "needs_kernel(major, minor): needs this kernel or a newer one",
    "needs_proc_events: needs the proc connector: root, in the initial pid, user and network namespaces",
    "needs_facility(name): needs a field of spurproc.core.facilities.Facilities to be true",
)


def unmet(item: pytest.Item) -> str | None:
    """The first need that this machine does not meet, as "name(arguments): why"; None if the test can run."""
    for name, check in _CHECKS.items():
        for mark in item.iter_markers(name):
            why = check(*mark.args)
            if why is not None:
                arguments = f"({', '.join(map(str, mark.args))})" if mark.args else ""
                return f"{name}{arguments}: {why}"
    return None


def _root() -> str | None:
    return None if os.geteuid() == 0 else f"the effective uid is {os.geteuid()}"


def _cgroup_v2() -> str | None:
    return None if cgroup_folder.base() is not None else "no writable cgroup2 folder"


def _controller(name: str) -> str | None:
    mount = cgroup_folder.mount()
    there = [] if mount is None else Path(mount, "cgroup.controllers").read_text().split()
    return None if name in there else f"the cgroup2 mount has only {there}"


def _kernel(major: int, minor: int) -> str | None:
    release = os.uname().release
    match = re.match(r"(\d+)\.(\d+)", release)
    running = tuple(map(int, match.groups())) if match else (0, 0)
    return None if running >= (major, minor) else f"the kernel is {release}"


def _proc_events() -> str | None:
    initial = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}  # include/linux/proc_ns.h
    outside = [kind for kind, inode in initial.items() if os.stat(f"/proc/self/ns/{kind}").st_ino != inode]
    if outside:
        return f"this is a {outside[0]} namespace of its own"
    drivers = Path("/proc/net/connector")  # only in the initial network namespace
    if not drivers.exists() or "cn_proc" not in drivers.read_text():
        return "the kernel has no cn_proc here"
    return _root()


def _facility(name: str) -> str | None:
    facilities = import_module("spurproc.core.facilities")  # a cheap start: only tests that ask pay for the probe
    return None if getattr(facilities.Facilities.current(), name) else f"the probe did not find {name}"


_CHECKS: dict[str, Callable[..., str | None]] = {
    "needs_root": _root,
    "needs_cgroup_v2": _cgroup_v2,
    "needs_controller": _controller,
    "needs_kernel": _kernel,
    "needs_proc_events": _proc_events,
    "needs_facility": _facility,
}
