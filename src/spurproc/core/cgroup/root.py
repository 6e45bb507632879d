"""Where spurproc keeps its own cgroups: one folder that is ours, apart from whoever launches."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from spurproc.core.cgroup.folder import open_folder, process_path, read_text, write_text
from spurproc.core.mountinfo import Mount, read_cgroup2_mounts
from spurproc.errors import InvalidArgument, SpurprocError, from_errno

__all__ = ["ROOT_VARIABLE", "CgroupRoot", "chosen_path", "find_cgroup_root", "may_write", "own_folder", "root_candidates"]

ROOT_VARIABLE = "SPURPROC_CGROUP_ROOT"
"""Environment variable: the folder to use as the root, made if it is missing. Nothing else is tried then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupRoot:
    """The root, and the folders in it. Nothing of ours lives in the launcher's cgroup, so stopping its unit kills nothing."""

    path: str

    @property
    def supervisors(self) -> str:
        """Where recorders and supervisors live."""
        return f"{self.path}/supervisors"

    @property
    def steps(self) -> str:
        """Where each run gets a fresh cgroup of its own."""
        return f"{self.path}/steps"

    @property
    def hooks(self) -> str:
        """Where node hooks run."""
        return f"{self.path}/hooks"

    @property
    def folders(self) -> tuple[str, ...]:
        """Itself and all that is in it, in the order in which they are made."""
        return self.path, self.supervisors, self.steps, self.hooks

    def prepare(self) -> None:
        """Make the root and its folders, those that are missing, and have memory counted per run where the kernel lets us.

        Raises NotPermitted and the like.
        """
        for path in self.folders:
            try:
                os.mkdir(path, 0o755)
            except FileExistsError:
                continue
            except OSError as error:
                raise from_errno(error.errno or errno.EIO, "create", f"cgroup {path!r}") from None
        for path in (self.supervisors, self.steps):  # what another made may be there, and not ours to use
            if not may_write(path):
                raise from_errno(errno.EACCES, "make cgroups in", repr(path))
        for path in (self.path, self.steps):
            _count_memory_below(path)


def _count_memory_below(path: str) -> None:
    """Without the memory controller an OOM kill looks like any SIGKILL; where it cannot be had, `oom_kills` is None.

    Read first: a write waits for cgroups that still go offline. Source: admin-guide/cgroup-v2.rst, "Enabling and Disabling".
    """
    with suppress(SpurprocError):
        folder_fd = open_folder(path)
        try:
            there, enabled = (read_text(folder_fd, f"cgroup.{name}").split() for name in ("controllers", "subtree_control"))
            if b"memory" in there and b"memory" not in enabled:
                write_text(folder_fd, "cgroup.subtree_control", b"+memory")
        finally:
            os.close(folder_fd)


def find_cgroup_root() -> CgroupRoot | None:
    """The root that we may use, made and writable; None when there is none, which means weaker containment.

    In this order: SPURPROC_CGROUP_ROOT; as root `<cgroup2 mount>/spurproc`; else `spurproc` in the topmost cgroup above our
    own whose folder and cgroup.procs we may write (a delegated subtree). Raises NotCgroup2 or InvalidArgument for a bad variable.
    """
    chosen = os.environ.get(ROOT_VARIABLE)
    if chosen:
        root = CgroupRoot(path=chosen_path(chosen))
        root.prepare()
        return root
    for path in root_candidates():
        root = CgroupRoot(path=path)
        try:
            root.prepare()
            os.close(open_folder(path))
        except SpurprocError:
            continue
        return root
    return None


def chosen_path(chosen: str) -> str:
    """The root that SPURPROC_CGROUP_ROOT names. Only looks: a folder made on another file system would only look like a cgroup.

    Raises InvalidArgument, NotCgroup2 and the like.
    """
    if not chosen.startswith("/") or ".." in chosen.split("/"):
        raise InvalidArgument(f"cannot use {ROOT_VARIABLE}={chosen!r}: not an absolute path without '..'")
    path = os.path.normpath(chosen)
    os.close(open_folder(path if os.path.isdir(path) else os.path.dirname(path)))
    return path


def may_write(path: str) -> bool:
    """Whether cgroups may be made in this folder."""
    return os.access(path, os.W_OK | os.X_OK, effective_ids=True)


def root_candidates() -> Iterator[str]:
    """Where a root is tried for without SPURPROC_CGROUP_ROOT, in order. Only looks. Raises SystemCallError without /proc."""
    for mount in read_cgroup2_mounts():
        if mount.read_only:
            continue
        if os.geteuid() == 0:
            yield f"{mount.point.rstrip('/')}/spurproc"
        yield from (f"{above}/spurproc" for above in _writable_above(mount))


def _writable_above(mount: Mount) -> Iterator[str]:
    """The cgroups from the mount's top down to our own that we may write, topmost first."""
    own = own_folder(mount)
    if own is None:
        return
    above = own
    chain = [own]
    while above != mount.point:
        above = os.path.dirname(above)
        chain.append(above)
    for path in reversed(chain):
        if os.access(path, os.W_OK) and os.access(f"{path}/cgroup.procs", os.W_OK):
            yield path


def own_folder(mount: Mount) -> str | None:
    """Our own cgroup's folder through `mount`; None when it lies outside of what that shows."""
    own = process_path("self")
    if own is None:
        return None
    root = mount.root.rstrip("/")
    if own != mount.root and not own.startswith(root + "/"):
        return None
    return os.path.normpath(mount.point + "/" + own[len(root) :])
