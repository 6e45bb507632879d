"""Which number the process behind a pidfd has here."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from spurproc.core._native import ffi, lib
from spurproc.core.facilities import Facilities
from spurproc.core.vantage import Vantage
from spurproc.errors import InvalidArgument

__all__ = ["pid_behind"]


def pid_behind(fd: object) -> int:
    """The number of the process that pidfd `fd` holds; 0 if it has none here. Source: proc_pid_fdinfo(5).

    Raises InvalidArgument if it is no pidfd, or one of a thread (PIDFD_THREAD, 6.9), which ends when the thread does.
    """
    if isinstance(fd, bool) or not isinstance(fd, int) or not 0 <= fd <= 0x7FFFFFFF:
        raise InvalidArgument(f"cannot take descriptor {fd!r}: not a descriptor")
    try:
        of_thread = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_EXCL  # PIDFD_THREAD is O_EXCL
    except OSError as error:
        raise InvalidArgument(f"cannot take descriptor {fd}: {error.strerror}") from error
    facts: Any = ffi.new("spur_pidfd_facts_t *")
    if Facilities.current().pidfd_info and not of_thread and lib.spur_pidfd_info(fd, facts) == 0:
        return int(facts.pid)
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            fields = [line.split() for line in file if line.startswith(b"Pid:")]
    except OSError as error:
        raise InvalidArgument(f"cannot take descriptor {fd}: {error.strerror}") from error
    if not fields or of_thread:
        raise InvalidArgument(f"cannot take descriptor {fd}: {'the pidfd of a thread' if fields else 'not a pidfd'}")
    return max(0, int(fields[0][1])) if Vantage.read().procfs_is_ours else 0
