"""The mounts that this process sees: proc_pid_mountinfo(5). A pure parser, and the questions that cgroups need answered.

A cgroup path has two spellings: where its folder lies in this mount namespace, and what `/proc/PID/cgroup` calls it as seen
from this cgroup namespace. `Mount.root` is the bridge between them, for bind mounts too.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from dataclasses import dataclass

from spurproc.errors import from_errno

__all__ = ["Mount", "cgroup2_mounts", "parse_cgroup2_mounts", "parse_mountinfo", "read_cgroup2_mounts", "read_mountinfo"]

_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of mountinfo.

    `root` is the folder of the file system that is seen at `point`. For cgroup2 it is spelled as seen from the reader's cgroup
    namespace, and begins with `/..` where it lies outside of it.
    """

    mount_id: int
    root: str
    point: str
    options: frozenset[str]
    fs_type: str
    super_options: frozenset[str]

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written through this mount."""
        return "ro" in self.options or "ro" in self.super_options

    def path_inside(self, path: str) -> str | None:
        """The file system's own name for `path`, an absolute normal path; None when it does not lie below `point`."""
        if self.point == "/":
            return posixpath.normpath(self.root + "/" + path)
        if path != self.point and not path.startswith(self.point + "/"):
            return None
        return self.root.rstrip("/") + path[len(self.point) :] or "/"


def _unescape(field: bytes) -> str:
    """Undo the kernel's escapes of space, tab, newline, backslash and '#'."""
    if b"\\" in field:
        field = _OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field)
    return os.fsdecode(field)


def _parse_line(line: bytes) -> Mount | None:
    fields = line.split(b" ")
    # Any number of optional fields stand between the options and a lone "-".
    separator = fields.index(b"-", 6) if b"-" in fields[6:] else len(fields)
    if separator + 2 >= len(fields) or not fields[0].isdigit():
        return None
    super_options = fields[separator + 3] if separator + 3 < len(fields) else b""
    return Mount(
        mount_id=int(fields[0]),
        root=_unescape(fields[3]),
        point=_unescape(fields[4]),
        options=frozenset(_unescape(fields[5]).split(",")),
        fs_type=_unescape(fields[separator + 1]),
        super_options=frozenset(_unescape(super_options).split(",")),
    )


def parse_mountinfo(text: bytes) -> tuple[Mount, ...]:
    """The mounts in `text`, in the kernel's order. A line that cannot be a mount is left out, never guessed at."""
    mounts = (_parse_line(line) for line in text.split(b"\n") if line)
    return tuple(mount for mount in mounts if mount is not None)


def read_mountinfo() -> tuple[Mount, ...]:
    """The mounts of this process's mount namespace. Raises SystemCallError where `/proc` is not mounted."""
    return parse_mountinfo(_read())


def _read() -> bytes:
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return file.read()
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "read", "/proc/self/mountinfo") from None


def parse_cgroup2_mounts(text: bytes) -> tuple[Mount, ...]:
    """The `cgroup2_mounts` in `text`. Of the others only what may cover one is parsed: a host with containers has thousands."""
    lines = text.split(b"\n")
    points = {_point(line) for line in lines if b" - cgroup2 " in line}
    return cgroup2_mounts(parse_mountinfo(b"\n".join(line for line in lines if _point(line) in points)))


def read_cgroup2_mounts() -> tuple[Mount, ...]:
    """The `cgroup2_mounts` of this process's mount namespace. Raises as `read_mountinfo`."""
    return parse_cgroup2_mounts(_read())


def _point(line: bytes) -> bytes:
    """Where the mount of a line is, still escaped; empty for what is no mount."""
    fields = line.split(b" ", 5)
    return fields[4] if len(fields) > 5 else b""


def cgroup2_mounts(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """The cgroup v2 mounts that can be reached, the widest view first, then the writable ones.

    A mount covered by a later one at the same point cannot be reached. Of several views the one from the hierarchy's top (`root`
    is `/`) names every cgroup; a bind mount of a sub-folder names only what is below it.
    """
    uppermost = {mount.point: mount for mount in mounts}
    reachable = [mount for mount in uppermost.values() if mount.fs_type == "cgroup2"]
    return tuple(sorted(reachable, key=lambda mount: (mount.root != "/", mount.read_only, len(mount.root))))
