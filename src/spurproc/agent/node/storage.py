"""What the state folder lies on, where that keeps less than an agent needs: a sentence, for who starts one."""

from __future__ import annotations

from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.mountinfo import Mount, read_mountinfo
from spurproc.errors import SystemCallError

__all__ = ["storage_warning"]

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "fuse", "glusterfs", "lustre", "beegfs"})
_VOLATILE = frozenset({"tmpfs", "ramfs", "devtmpfs"})


def storage_warning(folder: PrivateFolder) -> str:
    """Why what is kept in that folder may not hold; empty where nothing speaks against it. Does not block.

    Source: proc_pid_fdinfo(5), "mnt_id"; proc_pid_mountinfo(5). What cannot be told is not warned about.
    """
    mount = _mount_of(folder)
    if mount is None:
        return ""
    kind = mount.fs_type.partition(".")[0]  # fuse.sshfs and its like
    where = f"the state folder {folder.path!r} lies on {mount.fs_type} (mounted at {mount.point})"
    if kind in _NETWORK:
        return f"{where}: locks and renames there may not hold what they promise on a local file system"
    if kind in _VOLATILE:
        return f"{where}: nothing in it outlasts a reboot, neither the queue nor how jobs ended"
    return ""


def _mount_of(folder: PrivateFolder) -> Mount | None:
    try:
        with open(f"/proc/self/fdinfo/{folder.fileno()}", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file if b":" in line)
        mount_id = int(fields[b"mnt_id"])
        return next((mount for mount in read_mountinfo() if mount.mount_id == mount_id), None)
    except (OSError, KeyError, ValueError, SystemCallError):
        return None
