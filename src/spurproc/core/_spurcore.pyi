# Types of the compiled core. A test holds the names here to dir(lib).

from typing import Any, TypeAlias

from cffi import FFI

ffi: FFI

# C data (pointers, structs, out parameters) has no useful static type: cffi checks it at the call.
_CData: TypeAlias = Any

class _Lib:
    SPUR_FACILITY_PIDFD_OPEN: int
    SPUR_FACILITY_PIDFD_SEND_SIGNAL: int
    SPUR_FACILITY_PIDFS_INODE: int
    SPUR_FACILITY_PIDFS_HANDLE: int
    SPUR_FACILITY_PIDFD_INFO: int
    SPUR_FACILITY_PIDFD_EXIT_INFO: int
    SPUR_FACILITY_CLONE3: int
    SPUR_FACILITY_CLONE_INTO_CGROUP: int
    SPUR_FACILITY_CGROUP_KILL: int
    SPUR_FACILITY_CLOSE_RANGE: int
    SPUR_FACILITY_PIDFD_PROCESS_GROUP: int
    SPUR_FACILITY_WAITID_PIDFD: int

    # pidfd.c
    def spur_pidfd_open(self, pid: int, ret_fd: _CData, /) -> int: ...
    def spur_pidfd_send_signal(self, pidfd: int, sig: int, /) -> int: ...

    # procstat.c
    def spur_procstat_parse(self, text: bytes, length: int, ret_stat: _CData, /) -> int: ...
    def spur_procstat_read(self, pid: int, ret_stat: _CData, /) -> int: ...

    # identity.c

    # cgroup.c

    # members.c

    # spawn.c

lib: _Lib
