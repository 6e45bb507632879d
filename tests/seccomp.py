"""A sandbox that answers one system call with an errno, or kills: for a forked test, since it cannot be taken off again."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_RET_ALLOW = 0x7FFF0000
_RET_ERRNO = 0x00050000
RET_KILL_PROCESS = 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06


Bit = tuple[int, int]
"""(place of an argument, a bit of it)."""


def refuse(number: int, errno: int, *, spared: Bit | None = None, hit: Bit | None = None) -> None:
    """From now on the system call `number` fails with `errno` in this process and its children. seccomp(2).

    `spared`: with that bit set it is allowed; `hit`: only with that bit set it is refused.
    """
    _install(filter_program([number], _RET_ERRNO | errno, spared=spared, hit=hit))


def kill_on(number: int) -> None:
    """From now on the system call `number` ends its caller with SIGSYS."""
    _install(filter_program([number], RET_KILL_PROCESS))


def filter_program(
    numbers: Sequence[int], action: int, *, spared: Bit | None = None, hit: Bit | None = None
) -> tuple[bytes, ctypes.Array[ctypes.c_char]]:
    """(struct sock_fprog, the memory that it points to): `action` for the system calls `numbers`, all others allowed."""
    place, bit = spared or hit or (0, 0)
    jump = (_JUMP_SET, 1, 0, bit) if spared else (_JUMP_SET, 0, 1, bit)
    look = ((_LOAD, 0, 0, 16 + 8 * place), jump) if bit else ()  # the low half of an argument
    instructions = (
        (_LOAD, 0, 0, 0),  # struct seccomp_data begins with the number
        *((_JUMP_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)),
        (_RETURN, 0, 0, _RET_ALLOW),
        *look,
        (_RETURN, 0, 0, action),
        (_RETURN, 0, 0, _RET_ALLOW),
    )
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    return struct.pack("@HP", len(instructions), ctypes.addressof(buffer)), buffer


def _install(built: tuple[bytes, ctypes.Array[ctypes.c_char]]) -> None:
    """Without no_new_privs where CAP_SYS_ADMIN allows it: a job in a sandbox can still change users by a setuid program."""
    program, _code = built
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0) == 0:
        return
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "cannot install a seccomp filter")
