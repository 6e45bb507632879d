"""Cgroups: where runs would get theirs, which controllers reach them, and the limits above."""

from __future__ import annotations

import os
from collections.abc import Iterator

from spurproc.core.cgroup.folder import kernel_path, open_folder
from spurproc.core.cgroup.root import ROOT_VARIABLE, CgroupRoot, chosen_path, may_write, own_folder, root_candidates
from spurproc.core.facilities import Facilities
from spurproc.core.mountinfo import Mount, read_cgroup2_mounts, read_mountinfo
from spurproc.errors import SpurprocError
from spurproc.inspect.doctor.finding import Finding, Status, read_text

__all__ = ["find_cgroups", "root_name"]

_V1_UNLIMITED = 2**62  # memory.limit_in_bytes without a limit is 2**63 less a page
_WANTED = ("memory", "pids", "cpu", "cpuset", "io")
_WITHOUT = "runs are held together by a subreaper (DESCENDANTS) and stay in the cgroup of whoever launches them"


def find_cgroups(here: Facilities) -> Iterator[Finding]:
    """The mount, the root, the controllers, and every limit on the way up, for runs and for ourselves."""
    if here.cgroup2_mount is None:
        yield _finding("cgroup2", Status.WEAKER, "not mounted", _WITHOUT, "/proc/self/mountinfo")
    else:
        yield _finding("cgroup2", Status.OK, here.cgroup2_mount, "", "/proc/self/mountinfo")
    root, found = _find_root()
    yield found
    if root is not None:
        yield from _controllers(root)
        yield from _limits_above(root)
    yield from _own_limits(above=root)


def root_name() -> str | None:
    """What `/proc/PID/cgroup` calls the root that a launch would take, as seen from here; None without one."""
    root, _ = _find_root()
    if root is None:
        return None
    nearest = root if os.path.isdir(root) else os.path.dirname(root)
    fd = open_folder(nearest)
    try:
        name = kernel_path(fd)
    finally:
        os.close(fd)
    return None if name is None else os.path.normpath(f"{name}/{root[len(nearest) :]}")


def _find_root() -> tuple[str | None, Finding]:
    """Which root a launch would take, judged by access(2) alone: nothing is made."""
    chosen = os.environ.get(ROOT_VARIABLE)
    if chosen:
        return _chosen_root(chosen)
    for path in root_candidates():
        if (value := _usable(path)) is not None:
            return path, _finding("root", Status.OK, f"{path}: {value}", "each run gets a cgroup of its own", "access(2)")
    return None, _finding("root", Status.WEAKER, "no folder that we may write", _WITHOUT, "access(2)")


def _chosen_root(chosen: str) -> tuple[str | None, Finding]:
    source = f"{ROOT_VARIABLE}, access(2)"
    bad = f"{ROOT_VARIABLE} is set and nothing else is tried: every launch that wants a cgroup will fail"
    try:
        path = chosen_path(chosen)
    except SpurprocError as error:
        return None, _finding("root", Status.MISSING, str(error), bad, source)
    value = _usable(path)
    if value is None:
        return None, _finding("root", Status.MISSING, f"{path}: may not be written", bad, source)
    return path, _finding("root", Status.OK, f"{path}: {value}", "each run gets a cgroup of its own", source)


def _usable(path: str) -> str | None:
    """What to say of a root that may be used; None for one that may not."""
    if not os.path.isdir(path):
        return "is not there yet and may be made" if may_write(os.path.dirname(path)) else None
    root = CgroupRoot(path=path)
    missing = [folder for folder in root.folders if not os.path.isdir(folder)]
    if missing and not may_write(path):
        return None
    there = {root.supervisors, root.steps}.difference(missing)
    return "may be written" if all(map(may_write, there)) else None


def _controllers(root: str) -> Iterator[Finding]:
    """Those that a run's own cgroup has: they have to be handed down by the root and by its `steps`."""
    nearest = root if os.path.isdir(root) else os.path.dirname(root)
    there = set((read_text(f"{nearest}/cgroup.controllers") or "").split())
    yield _finding(
        "controllers",
        Status.OK if there else Status.WEAKER,
        ", ".join(sorted(there)) or "none",
        "" if there else "no limits and no counts for runs here (on a hybrid layout the controllers belong to cgroup v1)",
        f"{nearest}/cgroup.controllers",
    )
    steps = CgroupRoot(path=root).steps
    handed = set((read_text(f"{steps}/cgroup.subtree_control") or "").split())
    for name in [name for name in _WANTED if name in there]:
        given = name in handed
        how = "handed down to runs" if given else "not handed down to runs"
        status = Status.OK if given or name != "memory" else Status.WEAKER
        meaning = "" if given else "handed down by the first launch, where it may be: an OOM kill is then told from any SIGKILL"
        yield _finding(name, status, how, meaning if name == "memory" else "", f"{steps}/cgroup.subtree_control")
    if "memory" not in there:
        lost = "an OOM kill looks like any SIGKILL: oom_kills is None"
        yield _finding("memory", Status.WEAKER, "absent", lost, f"{nearest}/cgroup.controllers")


_FILES = {
    "pids.max": ("pids.current", "threads and processes at once; a fork beyond that fails with EAGAIN"),
    "memory.max": ("memory.current", "bytes; beyond that the kernel reclaims and then kills"),
    "memory.high": ("memory.current", "bytes; beyond that everybody below is slowed down"),
    "cgroup.max.descendants": ("", "cgroups below; a launch beyond that fails with EAGAIN"),
    "cgroup.max.depth": ("", "levels below; a launch deeper than that fails with EAGAIN"),
}


def _limits_above(root: str) -> Iterator[Finding]:
    """What every run is under."""
    for folder in _upwards(root):
        yield from _limits_of(folder, "runs")


def _own_limits(above: str | None) -> Iterator[Finding]:
    """What this process, and a run without a cgroup of its own, is under; v1 controllers as well, which no launch leaves."""
    shared = set() if above is None else set(_upwards(above))
    for mount in read_cgroup2_mounts()[:1]:
        own = own_folder(mount)
        for folder in [] if own is None else _upwards(own):
            if folder not in shared:
                yield from _limits_of(folder, "this process")
    yield from _limits_of_v1()


def _limits_of(folder: str, whom: str) -> Iterator[Finding]:
    for name, (count, meaning) in _FILES.items():
        value = read_text(f"{folder}/{name}")
        if value is None or value == "max":
            continue
        now = read_text(f"{folder}/{count}") if count else None
        shown = value if now is None else f"{value}, now {now}"
        yield _finding(f"{name} of {whom}", Status.LIMIT, shown, meaning, f"{folder}/{name}")
    if read_text(f"{folder}/cgroup.freeze") == "1":
        yield _finding(f"frozen: {whom}", Status.LIMIT, "1", "nothing below runs until it is thawed", f"{folder}/cgroup.freeze")
    if (kind := read_text(f"{folder}/cgroup.type")) not in (None, "domain", "domain threaded"):
        meaning = "processes cannot be put into cgroups made here"
        yield _finding(f"type of {whom}", Status.LIMIT, str(kind), meaning, f"{folder}/cgroup.type")


def _limits_of_v1() -> Iterator[Finding]:
    """Of the memory and pids controllers of cgroup v1, on the way up: launched or not, a child stays below these."""
    for controller, name in (("memory", "memory.limit_in_bytes"), ("pids", "pids.max")):
        mounts = [mount for mount in read_mountinfo() if mount.fs_type == "cgroup" and controller in mount.super_options]
        for mount in mounts[:1]:
            for folder in _v1_folders(mount, controller):
                value = read_text(f"{folder}/{name}")
                if value is not None and value.isdigit() and int(value) < _V1_UNLIMITED:
                    meaning = f"of cgroup v1, which a launch does not leave: {_FILES[f'{controller}.max'][1]}"
                    yield _finding(f"{name} of all", Status.LIMIT, value, meaning, f"{folder}/{name}")


def _v1_folders(mount: Mount, controller: str) -> list[str]:
    """Our own cgroup of that controller and those above it, as far as the mount shows them."""
    for line in (read_text("/proc/self/cgroup") or "").split("\n"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(",") and f"{path}/".startswith(f"{mount.root.rstrip('/')}/"):
            folder = os.path.normpath(f"{mount.point}/{path[len(mount.root.rstrip('/')) :]}")
            chain = [folder]
            while len(chain[-1]) > len(mount.point):
                chain.append(os.path.dirname(chain[-1]))
            return chain
    return []


def _upwards(path: str) -> list[str]:
    """The cgroups from `path` (or the nearest above that is there) to the top of its mount."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path)
    chain: list[str] = []
    try:
        while path != "/":
            fd = open_folder(path)
            try:
                inside = kernel_path(fd) is not None
            finally:
                os.close(fd)
            if not inside:
                break
            chain.append(path)
            path = os.path.dirname(path)
    except SpurprocError:  # the folder above the mount is no cgroup
        pass
    return chain


def _finding(name: str, status: Status, value: str, meaning: str, source: str) -> Finding:
    return Finding(area="cgroup", name=name, status=status, value=value, meaning=meaning, source=source)
