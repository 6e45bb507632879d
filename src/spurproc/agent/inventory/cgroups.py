"""The cgroups that hold this process to something, of version 1 or 2, from its own up to the top of what is mounted."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from spurproc.agent.inventory.node_files import NodeFiles, Unreadable
from spurproc.core.mountinfo import Mount, cgroup2_mounts, parse_mountinfo

__all__ = ["Hierarchy", "hierarchy_of"]


class Hierarchy:
    """Where one controller acts on this process: `folders`, its own cgroup first, the top of the mount last."""

    def __init__(self, folders: tuple[str, ...], *, version: int) -> None:
        self.folders = folders
        self.version = version


def hierarchy_of(controller: str, files: NodeFiles) -> Hierarchy | None:
    """That of `controller`; None where none is mounted, and so nothing is limited that could be seen from here.

    A controller that version 1 has is not in version 2. Raises Unreadable where our own cgroup is not in what is mounted.
    Source: cgroups(7), "/proc/pid/cgroup"; admin-guide/cgroup-v2.rst, "Mounting".
    """
    own = dict(_own_cgroups(files.read("/proc/self/cgroup")))
    mounts = parse_mountinfo(files.read("/proc/self/mountinfo").encode("utf-8", "surrogateescape"))
    if controller in own:
        version_1 = [mount for mount in mounts if mount.fs_type == "cgroup" and controller in mount.super_options]
        found = _hierarchy(version_1, own[controller], controller, 1)
    else:
        found = _hierarchy(list(cgroup2_mounts(mounts)), own.get("", ""), controller, 2)
    if found is not None and not files.is_there(found.folders[0]):
        raise Unreadable(f"cannot tell what limits {controller} here: our own cgroup {found.folders[0]} is not there")
    return found


def _own_cgroups(text: str) -> Iterator[tuple[str, str]]:
    """Controller and path; the empty controller is version 2."""
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            yield from ((controller, fields[2]) for controller in fields[1].split(","))


def _hierarchy(mounts: list[Mount], own: str, controller: str, version: int) -> Hierarchy | None:
    if not mounts:
        return None
    for mount in mounts:
        folders = _folders(mount, own)
        if folders is not None:
            return Hierarchy(folders, version=version)
    raise Unreadable(f"cannot tell what limits {controller} here: our own cgroup {own!r} is not below {mounts[0].point}")


def _folders(mount: Mount, own: str) -> tuple[str, ...] | None:
    root = mount.root.rstrip("/")
    if not own.startswith("/") or (own != mount.root and not own.startswith(root + "/")):
        return None
    folder = posixpath.normpath(mount.point + "/" + own[len(root) :])
    folders = [folder]
    while folder not in (mount.point, "/"):
        folder = posixpath.dirname(folder)
        folders.append(folder)
    return tuple(folders)
