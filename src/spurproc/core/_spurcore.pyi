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
    SPUR_FACILITY_INDEX_PIDFD_OPEN: int
    SPUR_FACILITY_INDEX_PIDFD_SEND_SIGNAL: int
    SPUR_FACILITY_INDEX_PIDFS_INODE: int
    SPUR_FACILITY_INDEX_PIDFS_HANDLE: int
    SPUR_FACILITY_INDEX_PIDFD_INFO: int
    SPUR_FACILITY_INDEX_PIDFD_EXIT_INFO: int
    SPUR_FACILITY_INDEX_CLONE3: int
    SPUR_FACILITY_INDEX_CLONE_INTO_CGROUP: int
    SPUR_FACILITY_INDEX_CGROUP_KILL: int
    SPUR_FACILITY_INDEX_CLOSE_RANGE: int
    SPUR_FACILITY_INDEX_PIDFD_PROCESS_GROUP: int
    SPUR_FACILITY_INDEX_WAITID_PIDFD: int
    SPUR_FACILITY_COUNT: int
    SPUR_SUBJECT_NONE: int
    SPUR_SUBJECT_IDENTITY: int
    SPUR_SUBJECT_PIDFD: int
    SPUR_SUBJECT_FOLDER: int
    SPUR_SUBJECT_CGROUP: int
    SPUR_UNKNOWN: int
    SPUR_ALIVE: int
    SPUR_GONE: int
    SPUR_EVIDENCE_ERROR: int
    SPUR_EVIDENCE_BOOT: int
    SPUR_EVIDENCE_HANDLE: int
    SPUR_EVIDENCE_PIDFS_INODE: int
    SPUR_EVIDENCE_TICKS: int
    SPUR_EVIDENCE_ESRCH: int
    SPUR_EVIDENCE_THREAD: int
    SPUR_EVIDENCE_ZOMBIE: int
    SPUR_EVIDENCE_HIDDEN: int
    SPUR_EVIDENCE_PID_NAMESPACE: int
    SPUR_EVIDENCE_TIME_NAMESPACE: int
    SPUR_EVIDENCE_PROCFS: int
    SPUR_PIDFD_ENDED: int
    SPUR_PIDFD_REAPED: int

    # facilities.c
    def spur_facilities_probe(self, ret_errors: _CData, /) -> int: ...

    # pidfd.c
    def spur_pid_guard(self, pid: int, /) -> int: ...
    def spur_pid_exists(self, pid: int, /) -> int: ...
    def spur_pidfd_open(self, pid: int, ret_fd: _CData, /) -> int: ...
    def spur_pidfd_open_folder(self, pid: int, ret_fd: _CData, /) -> int: ...
    def spur_pidfd_open_handle(self, inode: int, ret_fd: _CData, /) -> int: ...
    def spur_pidfd_inode(self, pidfd: int, ret_inode: _CData, /) -> int: ...
    def spur_pidfd_poll(self, pidfd: int, /) -> int: ...
    def spur_pidfd_poll_folder(self, folder_fd: int, /) -> int: ...
    def spur_pidfd_await(self, pidfd: int, events: int, timeout_ms: int, reap_ms: int, ret_facts: _CData, /) -> int: ...
    def spur_pidfd_send_signal(self, pidfd: int, pid: int, sig: int, facilities: int, /) -> int: ...
    def spur_pidfd_unreaped(self, pidfd: int, facilities: int, /) -> int: ...
    def spur_pidfd_wait(self, pidfd: int, pid: int, keep: int, facilities: int, ret_waited: _CData, /) -> int: ...
    def spur_pidfd_info(self, pidfd: int, ret_facts: _CData, /) -> int: ...
    def spur_pidfd_zombie_status(self, pidfd: int, pid: int, facilities: int, ret_status: _CData, /) -> int: ...

    # procstat.c
    def spur_procstat_parse(self, text: bytes, length: int, ret_stat: _CData, /) -> int: ...
    def spur_procstat_read(self, pid: int, ret_stat: _CData, /) -> int: ...
    def spur_procstat_read_at(self, folder_fd: int, ret_stat: _CData, /) -> int: ...
    def spur_procstat_folder_open(self, pid: int, ret_fd: _CData, /) -> int: ...
    def spur_procstat_ended(self, stat: _CData, /) -> int: ...

    # identity.c
    def spur_identity_take(self, reader: _CData, fd: int, pid: int, ret_identity: _CData, /) -> int: ...
    def spur_identity_of(self, reader: _CData, pid: int, ret_identity: _CData, /) -> int: ...
    def spur_identity_open(self, reader: _CData, subject: bytes, ret_fd: _CData, ret_seen: _CData, /) -> int: ...
    def spur_identity_observe(self, reader: _CData, subject: bytes, ret_seen: _CData, /) -> int: ...
    def spur_identity_liveness(self, reader: _CData, subject: bytes, /) -> int: ...

    # liveness.c
    def spur_liveness_many(self, reader: _CData, subjects: bytes, count: int, ret_liveness: _CData, /) -> int: ...
    def spur_liveness_cgroups(self, events_fds: _CData, count: int, ret_liveness: _CData, /) -> None: ...

    # cgroup.c
    def spur_cgroup_inode(self, folder_fd: int, ret_inode: _CData, /) -> int: ...
    def spur_cgroup_open_handle(self, mount_fd: int, inode: int, ret_fd: _CData, /) -> int: ...
    def spur_cgroup_events_parse(self, text: bytes, length: int, ret_events: _CData, /) -> int: ...
    def spur_cgroup_events_read(self, events_fd: int, ret_events: _CData, /) -> int: ...
    def spur_cgroup_populated_read(self, events_fd: int, ret_populated: _CData, /) -> int: ...
    def spur_pid_list_feed(self, pid_list: _CData, text: bytes, length: int, /) -> int: ...
    def spur_cgroup_pids_read(self, folder_fd: int, file: bytes, pids: _CData, capacity: int, ret_count: _CData, /) -> int: ...
    def spur_cgroup_path_parse(self, text: _CData, length: int, ret_path: _CData, ret_length: _CData, /) -> int: ...
    def spur_cgroup_path_within(self, path: bytes, length: int, above: bytes, /) -> int: ...

    # members.c
    SPUR_REFUSAL_NOT_PERMITTED: int
    SPUR_REFUSAL_FOREIGN: int
    SPUR_REFUSAL_INIT: int
    SPUR_REFUSAL_CALLER: int
    SPUR_REFUSAL_UNCONFIRMED: int
    SPUR_REFUSAL_ERROR: int
    SPUR_REFUSAL_UNSUPPORTED: int
    def spur_seen_has(self, seen: _CData, key: int, /) -> int: ...
    def spur_seen_add(self, seen: _CData, key: int, /) -> int: ...
    def spur_seen_move(self, seen: _CData, grown: _CData, /) -> int: ...
    def spur_member_open(self, pid: int, facilities: int, ret_fd: _CData, /) -> int: ...
    def spur_member_key(self, pidfd: int, pid: int, facilities: int, ret_key: _CData, /) -> int: ...
    def spur_members_signal(self, sweep: _CData, pids: _CData, count: int, /) -> int: ...

    # plan.h
    SPUR_PLAN_MAGIC: int
    SPUR_PLAN_VERSION: int
    SPUR_MODE_LEADER: int
    SPUR_MODE_RECORDER: int
    SPUR_CONTAINMENT_CGROUP: int
    SPUR_CONTAINMENT_DESCENDANTS: int
    SPUR_CONTAINMENT_PROCESS_GROUP: int
    SPUR_STAGE_NONE: int
    SPUR_STAGE_CLONE: int
    SPUR_STAGE_CHILD: int
    SPUR_STAGE_SIGNALS: int
    SPUR_STAGE_SESSION: int
    SPUR_STAGE_DESCRIPTORS: int
    SPUR_STAGE_PROGRAM: int
    SPUR_STAGE_PLAN: int
    SPUR_STAGE_CGROUP: int
    SPUR_STAGE_OOM_SCORE_ADJ: int
    SPUR_STAGE_LIMITS: int
    SPUR_STAGE_AFFINITY: int
    SPUR_STAGE_UMASK: int
    SPUR_STAGE_GROUPS: int
    SPUR_STAGE_GID: int
    SPUR_STAGE_UID: int
    SPUR_STAGE_CWD: int
    SPUR_STAGE_STDIN: int
    SPUR_STAGE_STDOUT: int
    SPUR_STAGE_STDERR: int
    SPUR_STAGE_NO_NEW_PRIVS: int
    SPUR_STAGE_GATE: int
    SPUR_STAGE_EXEC: int
    SPUR_STAGE_RECORDER: int
    SPUR_REPORT_LEADER: int
    SPUR_REPORT_ENDED: int
    SPUR_REPORT_EMPTY: int
    SPUR_REPORT_NOT_STARTED: int
    SPUR_PLAN_HAS_UMASK: int
    SPUR_PLAN_HAS_OOM_SCORE_ADJ: int
    SPUR_PLAN_HAS_GROUPS: int
    SPUR_PLAN_HAS_GID: int
    SPUR_PLAN_HAS_UID: int
    SPUR_PLAN_NO_NEW_PRIVS: int
    SPUR_PLAN_HAS_CWD: int

    # spawn.c
    def spur_spawn(self, how: _CData, ret_spawned: _CData, /) -> int: ...
    def spur_spawn_undo(self, spawned: _CData, /) -> None: ...
    def spur_plan_check(self, plan: _CData, size: int, /) -> int: ...
    def spur_oom_protected(self) -> int: ...

    # signals.c
    def spur_signals_open(self, mask: int, ret_fd: _CData, /) -> int: ...

    # reserve.c
    def spur_file_reserve(self, fd: int, offset: int, size: int, /) -> int: ...

    # watch.c
    def spur_watch_open(self, folder_fd: int, ret_fd: _CData, /) -> int: ...

lib: _Lib
