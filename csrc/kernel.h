/* Kernel numbers and structures that an older or smaller libc may lack.
 *
 * Shared by the cffi core (glibc or musl) and the static program (musl, which sees no linux headers). Numbers are the kernel's
 * own and stable: include/uapi/linux/{pidfd,sched,close_range}.h and the syscall tables. From 424 on x86-64 and arm64 agree. */
#ifndef SPUR_KERNEL_H
#define SPUR_KERNEL_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "spurproc supports x86-64 and arm64"
#endif

enum {
    SPUR_SYS_PIDFD_SEND_SIGNAL = 424,
    SPUR_SYS_PIDFD_OPEN = 434,
    SPUR_SYS_CLONE3 = 435,
    SPUR_SYS_CLOSE_RANGE = 436,
};

#define SPUR_PIDFD_GET_INFO 0xC040FF0BUL /* _IOWR(0xFF, 11, 64 bytes) */

enum {
    SPUR_PIDFD_INFO_PID = 1,
    SPUR_PIDFD_INFO_CREDS = 2,
    SPUR_PIDFD_INFO_CGROUPID = 4,
    SPUR_PIDFD_INFO_EXIT = 8,
    SPUR_PIDFD_INFO_COREDUMP = 16,
};

struct spur_pidfd_info {
    uint64_t mask;
    uint64_t cgroupid;
    uint32_t pid, tgid, ppid;
    uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    int32_t exit_code;
};
_Static_assert(sizeof(struct spur_pidfd_info) == 64, "pidfd_info is 64 bytes in its first version");

enum {
    SPUR_PIDFD_SIGNAL_THREAD = 1,
    SPUR_PIDFD_SIGNAL_THREAD_GROUP = 2,
    SPUR_PIDFD_SIGNAL_PROCESS_GROUP = 4,
};

enum { SPUR_P_PIDFD = 3 };
enum { SPUR_CLOSE_RANGE_CLOEXEC = 4 };
enum { SPUR_MFD_NOEXEC_SEAL = 8 };
enum { SPUR_FD_PIDFS_ROOT = -10002 };
enum { SPUR_HANDLE_TYPE_KERNFS = 0xFE }; /* pidfs and cgroup2 handles: 8 bytes, the inode */
enum { SPUR_PID_FS_MAGIC = 0x50494446, SPUR_CGROUP2_MAGIC = 0x63677270 };

#define SPUR_CLONE_PIDFD 0x1000ULL
#define SPUR_CLONE_CLEAR_SIGHAND 0x100000000ULL
#define SPUR_CLONE_INTO_CGROUP 0x200000000ULL
#define SPUR_WALL 0x40000000

struct spur_clone_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};
_Static_assert(sizeof(struct spur_clone_args) == 88, "clone_args with the cgroup field is 88 bytes");

#endif
