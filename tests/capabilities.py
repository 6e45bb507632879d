"""Capabilities of the calling thread, for forked tests. capabilities(7)."""

from __future__ import annotations

import ctypes
import os
import struct

SETGID, SETUID = 6, 7
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}[os.uname().machine]
_VERSION_3 = 0x20080522
_PR_SET_KEEPCAPS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 8, 47, 2
SETS = ("CapInh", "CapPrm", "CapEff", "CapAmb")
"""As /proc/PID/status names them; the bounding set is no privilege."""


def become_user_with(uid: int, *numbers: int) -> None:
    """As a service manager starts a service with AmbientCapabilities: `uid`, and these capabilities in every set."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    mask = sum(1 << number for number in numbers)
    header, data = struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", mask, mask, mask, 0, 0, 0)
    if libc.syscall(_SYS_CAPSET, header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    for number in numbers:
        if libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "PR_CAP_AMBIENT_RAISE")
