"""A private work folder for one attempt: `scratch/<job>.<attempt>/`, 0700, its user's, and empty when the job starts."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from spurproc.agent.jobs.removal import remove_below
from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.errors import NotPermitted
from spurproc.proto.attempt_id import AttemptId

__all__ = ["make_scratch", "remove_scratch"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_scratch(scratch: PrivateFolder, attempt: AttemptId, *, uid: int, gid: int) -> str:
    """Make it; its path. Once more for the same attempt is fine, as after a crash.

    Raises NotPermitted where somebody else's folder is in its place, SystemCallError and the like.
    """
    where = f"{scratch.path}/{attempt}"
    with named_errors("make", f"the scratch folder {where!r}"):
        with suppress(FileExistsError):
            os.mkdir(str(attempt), 0o700, dir_fd=scratch.fileno())
        fd = os.open(str(attempt), _FOLDER, dir_fd=scratch.fileno())
        try:
            if os.fstat(fd).st_uid not in (os.geteuid(), uid):
                raise NotPermitted(errno.EPERM, f"cannot trust {where!r}: it belongs to user {os.fstat(fd).st_uid}")
            os.fchmod(fd, 0o700)
            os.fchown(fd, uid, gid)
        finally:
            os.close(fd)
    return where


def remove_scratch(scratch: PrivateFolder, attempt: AttemptId) -> None:
    """Remove it with all that the job has left there. One that is not there is fine. Raises as `remove_below`."""
    remove_below(scratch, str(attempt))
