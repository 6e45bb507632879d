/* What this kernel and this sandbox let us do, found by trying: a version number says nothing about seccomp or a backport. */
#include "spurcore.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>

enum { CHILD_STACK_BYTES = 16384 };

static int result(long value)
{
    return value < 0 ? errno : 0;
}

static int try_inode(int self_fd)
{
    struct statfs status;
    if (fstatfs(self_fd, &status) < 0)
        return errno;
    return status.f_type == SPUR_PID_FS_MAGIC ? 0 : ENOSYS; /* before 6.9 all pidfds share one anonymous inode */
}

static int try_handle(int self_fd)
{
    uint64_t inode;
    int fd, error = spur_pidfd_inode(self_fd, &inode);
    if (error == 0)
        error = spur_pidfd_open_handle(inode, &fd);
    if (error == 0)
        close(fd);
    return -error;
}

static int try_info(int self_fd)
{
    spur_pidfd_facts_t facts;
    return -spur_pidfd_info(self_fd, &facts);
}

static int child_end(void *unused)
{
    (void)unused;
    return 7;
}

/* A child that shares our memory, ends at once and sends no SIGCHLD; only a reaped one shows whether its end can be read. */
static int child_reap(int *ret_pidfd)
{
    _Alignas(16) char stack[CHILD_STACK_BYTES];
    siginfo_t info;
    int pid = clone(child_end, stack + sizeof stack, CLONE_VM | CLONE_VFORK | (int)SPUR_CLONE_PIDFD, NULL, ret_pidfd);
    if (pid < 0)
        return errno;
    /* CLONE_VFORK lets go of us when the child gives up our memory, which is before it has ended: this wait blocks. */
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | SPUR_WALL) < 0) {
        if (errno != EINTR)
            return errno;
    }
    return *ret_pidfd < 0 ? ENOSYS : 0;
}

static int try_exit_info(void)
{
    sigset_t all, before;
    spur_pidfd_facts_t facts = {0};
    int pidfd = -1;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* no handler of ours may run in the child */
    int error = child_reap(&pidfd);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        error = -spur_pidfd_info(pidfd, &facts);
    if (pidfd >= 0)
        close(pidfd);
    return error ? error : facts.has_status && facts.status == 7 << 8 ? 0 : ENOSYS;
}

static int try_into_cgroup(void)
{
    struct spur_clone_args args;
    memset(&args, 0, sizeof args);
    args.flags = SPUR_CLONE_INTO_CGROUP;
    args.exit_signal = SIGCHLD;
    args.cgroup = INT_MAX; /* no such descriptor: the kernel that knows the flag says EBADF, and no child is ever born */
    long pid = syscall(SPUR_SYS_CLONE3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    return pid < 0 && errno != EBADF ? errno : 0;
}

static int try_clone3(void)
{
    return syscall(SPUR_SYS_CLONE3, NULL, 0) < 0 && errno != EINVAL ? errno : 0;
}

static int try_group_signal(int self_fd)
{
    long sent = syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, self_fd, 0, NULL, SPUR_PIDFD_SIGNAL_PROCESS_GROUP);
    return sent < 0 && errno != ESRCH ? errno : 0; /* ESRCH: we lead no group. EPERM is a sandbox's: we may signal ourselves */
}

static int try_wait(int self_fd)
{
    spur_waited_t waited;
    int error = spur_pidfd_wait(self_fd, 0, 1, SPUR_FACILITY_PIDFD_OPEN | SPUR_FACILITY_WAITID_PIDFD, &waited);
    return error == -ECHILD ? 0 : -error;
}

static void try_held(int self_fd, int *ret_errors)
{
    ret_errors[SPUR_FACILITY_INDEX_PIDFD_SEND_SIGNAL] = result(syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, self_fd, 0, NULL, 0));
    ret_errors[SPUR_FACILITY_INDEX_PIDFS_INODE] = try_inode(self_fd);
    ret_errors[SPUR_FACILITY_INDEX_PIDFS_HANDLE] = try_handle(self_fd);
    ret_errors[SPUR_FACILITY_INDEX_PIDFD_INFO] = try_info(self_fd);
    ret_errors[SPUR_FACILITY_INDEX_PIDFD_PROCESS_GROUP] = try_group_signal(self_fd);
    ret_errors[SPUR_FACILITY_INDEX_WAITID_PIDFD] = try_wait(self_fd);
}

/* Without pidfd_open the folder of a process still takes signals. */
static void try_folder(int *ret_errors)
{
    int folder_fd, error = spur_procstat_folder_open((int)getpid(), &folder_fd);
    ret_errors[SPUR_FACILITY_INDEX_PIDFD_SEND_SIGNAL] = -error;
    if (error)
        return;
    ret_errors[SPUR_FACILITY_INDEX_PIDFD_SEND_SIGNAL] = result(syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, folder_fd, 0, NULL, 0));
    close(folder_fd);
}

int spur_facilities_probe(int *ret_errors)
{
    int self_fd;
    for (int index = 0; index < SPUR_FACILITY_COUNT; index++)
        ret_errors[index] = ENOSYS;
    int error = spur_pidfd_open((int)getpid(), &self_fd);
    ret_errors[SPUR_FACILITY_INDEX_PIDFD_OPEN] = -error;
    if (error) {
        try_folder(ret_errors);
    } else {
        try_held(self_fd, ret_errors);
        close(self_fd);
    }
    ret_errors[SPUR_FACILITY_INDEX_PIDFD_EXIT_INFO] = try_exit_info();
    ret_errors[SPUR_FACILITY_INDEX_CLONE3] = try_clone3();
    ret_errors[SPUR_FACILITY_INDEX_CLONE_INTO_CGROUP] = try_into_cgroup();
    ret_errors[SPUR_FACILITY_INDEX_CLOSE_RANGE] = result(syscall(SPUR_SYS_CLOSE_RANGE, ~0U, ~0U, SPUR_CLOSE_RANGE_CLOEXEC));
    ret_errors[SPUR_FACILITY_INDEX_CGROUP_KILL] = 0; /* asked of a cgroup, which only the caller can find */
    return 0;
}
