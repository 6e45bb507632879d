/* A process held by a descriptor: pidfd_open(2), pidfd_send_signal(2), waitid(2), linux/pidfd.h.
 *
 * Where the kernel refuses pidfd_open the descriptor is the folder /proc/PID: it pins the process too (ESRCH after the reap,
 * whatever became of the number), pidfd_send_signal takes it, but it cannot be polled. Such functions are named _folder_. */
#include "spurcore.h"

#include "path.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { FDINFO_BYTES = 1024 };

/* The one guard of every number that a signal may go to. */
int spur_pid_guard(int pid)
{
    return pid <= 1 || pid == (int)getpid() ? -ECANCELED : 0;
}

int spur_pidfd_open(int pid, int *ret_fd)
{
    if (pid <= 0)
        return -EINVAL;
    long fd = syscall(SPUR_SYS_PIDFD_OPEN, pid, 0); /* born close-on-exec */
    if (fd < 0)
        return errno == ENOENT ? -EINVAL : -errno; /* a thread: EINVAL, since 6.15 ENOENT */
    *ret_fd = (int)fd;
    return 0;
}

int spur_pid_exists(int pid)
{
    if (pid <= 0)
        return -EINVAL;
    /* Signal 0 asks and sends nothing. tgkill looks the thread group up first, so that a thread's number, which tkill takes too,
     * is told from a process's. */
    if (syscall(SYS_tgkill, pid, pid, 0) == 0 || errno == EPERM)
        return 0;
    return syscall(SYS_tkill, pid, 0) == 0 || errno == EPERM ? -EINVAL : -errno;
}

int spur_pidfd_open_folder(int pid, int *ret_fd)
{
    int error = spur_pid_exists(pid);
    if (error)
        return error;
    error = spur_procstat_folder_open(pid, ret_fd);
    if (error == -ENOENT) /* gone meanwhile, or there and hidden by hidepid */
        return spur_pid_exists(pid) == 0 ? -EACCES : -ESRCH;
    return error == -EPERM ? -EACCES : error;
}

int spur_pidfd_open_handle(uint64_t inode, int *ret_fd)
{
    struct {
        struct file_handle head;
        uint64_t inode;
    } handle = {{sizeof(uint64_t), SPUR_HANDLE_TYPE_KERNFS}, inode};
    int fd = open_by_handle_at(SPUR_FD_PIDFS_ROOT, &handle.head, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

int spur_pidfd_inode(int pidfd, uint64_t *ret_inode)
{
    struct stat status;
    if (fstat(pidfd, &status) < 0)
        return -errno;
    *ret_inode = status.st_ino;
    return 0;
}

int spur_pidfd_poll(int pidfd)
{
    struct pollfd entry = {pidfd, POLLIN, 0};
    if (pidfd < 0)
        return -EBADF; /* poll(2) skips it, which would read as alive */
    int count = poll(&entry, 1, 0);
    if (count < 0)
        return errno == EINTR ? 0 : -errno;
    if (entry.revents & POLLNVAL)
        return -EBADF;
    return (entry.revents & POLLIN ? SPUR_PIDFD_ENDED : 0) | (entry.revents & POLLHUP ? SPUR_PIDFD_REAPED : 0);
}

int spur_pidfd_await(int pidfd, int events, int timeout_ms, int reap_ms, spur_pidfd_facts_t *ret_facts)
{
    struct pollfd awaited = {pidfd, (short)events, 0}, reaped = {pidfd, 0, 0};
    int count = poll(&awaited, 1, timeout_ms);
    if (count <= 0)
        return count < 0 ? -errno : 0;
    ret_facts->has_status = 0;
    if (reap_ms > 0 && poll(&reaped, 1, reap_ms) == 1 && spur_pidfd_info(pidfd, ret_facts) < 0)
        ret_facts->has_status = 0;
    return 1;
}

int spur_pidfd_poll_folder(int folder_fd)
{
    spur_procstat_t stat;
    int error = spur_procstat_read_at(folder_fd, &stat);
    if (error == -ESRCH)
        return SPUR_PIDFD_ENDED | SPUR_PIDFD_REAPED;
    if (error)
        return error;
    return spur_procstat_ended(&stat) ? SPUR_PIDFD_ENDED : 0;
}

static int info_unreaped(int pidfd)
{
    struct spur_pidfd_info info;
    memset(&info, 0, sizeof info);
    info.mask = SPUR_PIDFD_INFO_PID; /* the exit bit not asked for: ESRCH after the reap */
    return ioctl(pidfd, SPUR_PIDFD_GET_INFO, &info) < 0 && errno != EREMOTE ? -errno : 0;
}

/* proc_pid_fdinfo(5): the kernel shows Pid: -1 after the reap, Linux 5.4. POLLHUP would say it too, and came later. */
static int fdinfo_unreaped(int pidfd)
{
    char path[SPUR_PATH_BYTES], text[FDINFO_BYTES];
    static const char reaped[] = "\nPid:\t-1\n";
    spur_path_write(path, "/proc/self/fdinfo/", pidfd, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t length = read(fd, text, sizeof text);
    int error = length < 0 ? -errno : 0;
    close(fd);
    if (error)
        return error;
    return memmem(text, (size_t)length, reaped, sizeof reaped - 1) != NULL ? -ESRCH : 0;
}

int spur_pidfd_unreaped(int pidfd, uint32_t facilities)
{
    if (facilities & SPUR_FACILITY_PIDFD_SEND_SIGNAL) {
        if (syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, pidfd, 0, NULL, 0) == 0)
            return 0;
        if (errno != EPERM && errno != ENOSYS) /* another user's, or the word of a sandbox that was put on since the probe */
            return -errno;
    }
    if (facilities & SPUR_FACILITY_PIDFD_OPEN && facilities & SPUR_FACILITY_PIDFD_INFO)
        return info_unreaped(pidfd);
    if (facilities & SPUR_FACILITY_PIDFD_OPEN)
        return fdinfo_unreaped(pidfd);
    int state = spur_pidfd_poll_folder(pidfd);
    if (state == -EACCES)
        return 0; /* hidden by hidepid: after the reap the kernel says ESRCH to all */
    return state < 0 ? state : state & SPUR_PIDFD_REAPED ? -ESRCH : 0;
}

int spur_pidfd_send_signal(int pidfd, int pid, int sig, uint32_t facilities)
{
    int error = spur_pid_guard(pid);
    if (error)
        return error;
    if (!(facilities & SPUR_FACILITY_PIDFD_SEND_SIGNAL))
        return -ENOSYS; /* no rung below: a number can change hands between any look at it and a kill(2) */
    return syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

static void wait_store(const siginfo_t *info, const struct rusage *usage, spur_waited_t *ret_waited)
{
    int status = info->si_status;
    ret_waited->status = info->si_code == CLD_EXITED ? (status & 0xff) << 8 : status & 0x7f;
    if (info->si_code == CLD_DUMPED)
        ret_waited->status |= 0x80;
    ret_waited->user_usec = (uint64_t)usage->ru_utime.tv_sec * 1000000U + (uint64_t)usage->ru_utime.tv_usec;
    ret_waited->system_usec = (uint64_t)usage->ru_stime.tv_sec * 1000000U + (uint64_t)usage->ru_stime.tv_usec;
    ret_waited->max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024U;
    ret_waited->minor_faults = (uint64_t)usage->ru_minflt;
    ret_waited->major_faults = (uint64_t)usage->ru_majflt;
    ret_waited->voluntary_switches = (uint64_t)usage->ru_nvcsw;
    ret_waited->involuntary_switches = (uint64_t)usage->ru_nivcsw;
}

int spur_pidfd_wait(int pidfd, int pid, int keep, uint32_t facilities, spur_waited_t *ret_waited)
{
    siginfo_t info;
    struct rusage usage;
    int by_number = !(facilities & SPUR_FACILITY_WAITID_PIDFD) || !(facilities & SPUR_FACILITY_PIDFD_OPEN);
    int options = WEXITED | WNOHANG | SPUR_WALL | (keep ? WNOWAIT : 0);
    memset(&info, 0, sizeof info);
    memset(&usage, 0, sizeof usage);
    if (by_number) { /* the number may be a later child's by now */
        int error = spur_pidfd_unreaped(pidfd, facilities);
        if (error)
            return error == -ESRCH ? -ECHILD : error;
    }
    /* The raw call: libc's waitid has no room for the usage. */
    if (syscall(SYS_waitid, by_number ? P_PID : SPUR_P_PIDFD, by_number ? pid : pidfd, &info, options, &usage) < 0)
        return -errno;
    if (info.si_pid == 0)
        return -EAGAIN;
    wait_store(&info, &usage, ret_waited);
    return 0;
}

int spur_pidfd_info(int pidfd, spur_pidfd_facts_t *ret_facts)
{
    struct spur_pidfd_info info;
    memset(&info, 0, sizeof info);
    info.mask = SPUR_PIDFD_INFO_PID | SPUR_PIDFD_INFO_CGROUPID | SPUR_PIDFD_INFO_EXIT;
    if (ioctl(pidfd, SPUR_PIDFD_GET_INFO, &info) < 0)
        return -errno;
    ret_facts->pid = info.mask & SPUR_PIDFD_INFO_PID ? (int)info.pid : 0;
    ret_facts->cgroup_id = info.mask & SPUR_PIDFD_INFO_CGROUPID ? info.cgroupid : 0;
    ret_facts->has_status = (info.mask & SPUR_PIDFD_INFO_EXIT) != 0;
    ret_facts->status = ret_facts->has_status ? info.exit_code : 0;
    return 0;
}

/* Field 52 through the open folder of a zombie; shown as 0 to a reader without ptrace rights, so the rights are asked for first. */
static int zombie_read(int folder_fd, int *ret_status)
{
    spur_procstat_t stat;
    char link[64];
    int error = spur_procstat_read_at(folder_fd, &stat);
    if (error)
        return error;
    if (!spur_procstat_ended(&stat))
        return -EAGAIN;
    /* ns/user is guarded by the same PTRACE_MODE_READ_FSCREDS check, proc_pid_ns(5). */
    if (readlinkat(folder_fd, "ns/user", link, sizeof link) < 0)
        return -errno;
    *ret_status = stat.wait_status;
    return 0;
}

int spur_pidfd_zombie_status(int pidfd, int pid, uint32_t facilities, int *ret_status)
{
    int folder_fd, status = 0;
    if (!(facilities & SPUR_FACILITY_PIDFD_OPEN))
        return zombie_read(pidfd, ret_status);
    int error = spur_procstat_folder_open(pid, &folder_fd);
    if (error)
        return error;
    error = zombie_read(folder_fd, &status);
    if (error == 0)
        error = spur_pidfd_unreaped(pidfd, facilities); /* else the folder may be a later process's */
    close(folder_fd);
    if (error == 0)
        *ret_status = status;
    return error;
}
