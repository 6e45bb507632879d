/* All code between clone and exec. It may run in memory that it shares with a suspended parent (CLONE_VM | CLONE_VFORK), so it
 * makes system calls and nothing else: no allocation, no locks, no look-ups. csrc/child.symbols lists all it may link to. */
#include "child.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

enum { TICK_NS = 10000000, SIGNAL_LAST = 64, SIGNAL_KILL = 9, SIGNAL_STOP = 19, SIGNAL_SET_BYTES = 8, FD_FIRST = 3, NULL_DEVICE = 0x103 /* 1:3 */ };

/* The kernel's own sigaction: libc's would refuse 32 and 33, which it keeps for itself and which an ignoring parent hands on. */
struct kernel_sigaction {
    uint64_t handler, flags, restorer, mask;
};

struct kernel_dirent {
    uint64_t inode;
    int64_t next;
    uint16_t length;
    uint8_t type;
    char name[];
};

static int result_of(long value)
{
    return value < 0 ? -errno : (int)value;
}

int spur_child_mask(uint64_t mask, uint64_t *ret_old)
{
    return result_of(syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK, as the kernel numbers it */, &mask, ret_old, SIGNAL_SET_BYTES));
}

/* Exec resets handlers by itself, ignored signals it keeps: `nohup`, Python's SIGPIPE and a shell's `&` would reach the job. */
int spur_child_signals_default(void)
{
    const struct kernel_sigaction standard = {0};
    for (int sig = 1; sig <= SIGNAL_LAST; sig++) {
        if (sig == SIGNAL_KILL || sig == SIGNAL_STOP)
            continue;
        if (syscall(SYS_rt_sigaction, sig, &standard, NULL, SIGNAL_SET_BYTES) < 0)
            return -errno;
    }
    return 0;
}

int spur_child_session(void)
{
    if (syscall(SYS_getsid, 0) == syscall(SYS_getpid))
        return 0;
    return syscall(SYS_setsid) < 0 ? -errno : 0;
}

/* Sources are >= 3, so no dup can overwrite the source of a later one, and each clears close-on-exec on its target. */
int spur_child_stdio(const int32_t *fds)
{
    for (int target = 0; target < FD_FIRST; target++) {
        if (fds[target] >= FD_FIRST && syscall(SYS_dup3, fds[target], target, 0) < 0)
            return -errno;
    }
    return 0;
}

static int flag_set(int fd, long flag)
{
    return syscall(SYS_fcntl, fd, F_SETFD, flag) < 0 ? -errno : 0;
}

/* The number that a name in /proc/self/fd spells; -1 for "." and "..". */
static int name_number(const char *name)
{
    int value = 0;
    if (*name < '0' || *name > '9')
        return -1;
    for (; *name >= '0' && *name <= '9'; name++)
        value = value * 10 + (*name - '0');
    return value;
}

static int entries_seal(const char *entries, long length)
{
    for (long at = 0; at < length;) {
        const struct kernel_dirent *entry = (const struct kernel_dirent *)(const void *)(entries + at);
        int fd = name_number(entry->name);
        int error = fd >= FD_FIRST ? flag_set(fd, FD_CLOEXEC) : 0;
        if (error)
            return error;
        at += entry->length;
    }
    return 0;
}

/* Where close_range is missing or refused: what is open is asked for, never counted up to the limit, which may be a billion. */
static int walk_seal(void)
{
    _Alignas(struct kernel_dirent) char entries[2048];
    int folder = result_of(syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
    if (folder < 0)
        return folder;
    int error = 0;
    long length;
    while ((length = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0 && error == 0)
        error = entries_seal(entries, length);
    if (length < 0)
        error = -errno;
    syscall(SYS_close, folder);
    return error;
}

int spur_child_descriptors(uint32_t facilities, const int32_t *keep, size_t count)
{
    int error;
    if (facilities & SPUR_FACILITY_CLOSE_RANGE)
        error = result_of(syscall(SPUR_SYS_CLOSE_RANGE, FD_FIRST, ~0U, SPUR_CLOSE_RANGE_CLOEXEC));
    else
        error = walk_seal();
    for (size_t i = 0; i < count && error == 0; i++)
        error = keep[i] >= FD_FIRST ? flag_set(keep[i], 0) : 0;
    return error;
}

/* execvp(3)'s search without its shell fallback: go on where this one is not there or cannot be, remember one that may not be run. */
int spur_child_exec(const struct spur_view *view)
{
    int refused = 0, error = -ENOENT;
    for (char **path = view->candidates; *path != NULL; path++) {
        syscall(SYS_execve, *path, view->argv, view->envp);
        error = -errno;
        if (error == -EACCES)
            refused = error;
        else if (error != -ENOENT && error != -ENOTDIR && error != -ENAMETOOLONG && error != -ESTALE && error != -ENODEV &&
                 error != -ETIMEDOUT)
            return error;
    }
    return refused ? refused : error;
}

static int step_fail(struct spur_report *report, int error)
{
    report->error = -error;
    return SPUR_CODE_NO_EXEC;
}

static int descriptor_send(int carrier, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    char byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    *(int *)(void *)CMSG_DATA(&control.head) = fd;
    return syscall(SYS_sendmsg, carrier, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The program's end of its channel is made here, in a table of descriptors that nobody else sees, and ours is sent to the caller
 * through the carrier that stands in its place. Made by the caller, it would be copied into whatever another thread forks just
 * then (multiprocessing), and EOF would not come before that ended. */
static int channel_make(int carrier)
{
    int ends[2];
    if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    int error = descriptor_send(carrier, ends[0]);
    if (error == 0 && syscall(SYS_dup3, ends[1], carrier, 0) < 0)
        error = -errno;
    syscall(SYS_close, ends[0]);
    syscall(SYS_close, ends[1]);
    return error;
}

static int null_check(int fd)
{
    struct stat status;
    if (syscall(SYS_fstat, fd, &status) < 0)
        return -errno;
    return S_ISCHR(status.st_mode) && status.st_rdev == NULL_DEVICE ? 0 : -ENODEV;
}

/* The null device where `fds` names no other: 0-2 are never the caller's own. Whatever else stands in its place is refused, for a
 * job's output would pile up there. O_RDWR: a FIFO does not block it. fifo(7) */
static int null_place(const int32_t *fds)
{
    if (fds[0] >= FD_FIRST && fds[1] >= FD_FIRST && fds[2] >= FD_FIRST)
        return 0;
    int fd = result_of(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_NOCTTY, 0));
    int error = fd < 0 ? fd : null_check(fd);
    for (int target = 0; target < FD_FIRST && error == 0; target++) {
        if (fds[target] < FD_FIRST && fd != target && syscall(SYS_dup3, fd, target, 0) < 0)
            error = -errno;
    }
    return error; /* above 2 it is closed with the rest */
}

/* What the program needs open beside what the job is passed. */
static int program_keep(const struct spur_child *child)
{
    const spur_plan_t *plan = child->view->header;
    const spur_plan_recorder_t *recorder = &plan->recorder;
    const int32_t fds[] = {child->plan_fd,      plan->channel_fd,    plan->gate_fd,       plan->cgroup_fd,    recorder->folder_fd,
                           recorder->lock_fd,   recorder->home_fd,   plan->stdio_fd[0],   plan->stdio_fd[1],  plan->stdio_fd[2]};
    int error = 0;
    for (size_t i = 0; i < sizeof fds / sizeof fds[0] && error == 0; i++)
        error = fds[i] >= FD_FIRST ? flag_set(fds[i], 0) : 0;
    return error;
}

/* The program starts on the null device: the caller's own 0-2 must not be held open by one that waits at a gate. */
static int descriptors_wire(const struct spur_child *child)
{
    static const int32_t NONE[] = {-1, -1, -1};
    const spur_plan_t *plan = child->view->header;
    const int32_t *stdio = child->program_fd < 0 ? plan->stdio_fd : NONE;
    int error = null_place(stdio);
    if (error == 0)
        error = spur_child_stdio(stdio);
    if (error == 0)
        error = spur_child_descriptors(plan->facilities, child->view->pass_fds, plan->pass_fds_count);
    if (error || child->program_fd < 0)
        return error;
    error = program_keep(child);
    return error ? error : channel_make(plan->channel_fd);
}

/* The program resets the mask itself: until then nothing that is sent to it can be lost or kill it half way. */
static int program_exec(const struct spur_child *child)
{
    char *const none[] = {NULL};
    syscall(SYS_execveat, child->program_fd, "", child->program_argv, none, AT_EMPTY_PATH);
    return -errno;
}

/* By raw system call: the vDSO is a library too. CLOCK_BOOTTIME, in this time namespace. */
uint64_t spur_child_clock_ns(void)
{
    struct timespec now = {0};
    syscall(SYS_clock_gettime, 7, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* A detached child that ends at once is reaped by init before its launcher can look: so it states who it is. The kernel took
 * its start time between the two readings of the same clock, and /proc cuts it to ticks of 10 ms: where both fall into one
 * tick that is the one, and costs 25 us less than reading it. proc_pid_stat(5), field 22. */
static void start_state(const struct spur_child *child)
{
    struct spur_report *report = child->report;
    uint64_t before = report->before_ns / TICK_NS, now = spur_child_clock_ns() / TICK_NS;
    report->clock_ticks = before == now ? now : 0;
    if (report->clock_ticks != 0 && !child->read_stat)
        return;
    int fd = result_of(syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0));
    if (fd < 0)
        return;
    report->stat_length = result_of(syscall(SYS_read, fd, report->stat, sizeof report->stat));
    syscall(SYS_close, fd);
}

int spur_child_run(void *argument)
{
    const struct spur_child *child = argument;
    struct spur_report *report = child->report;
    report->stage = SPUR_STAGE_CHILD;
    start_state(child);
    int error = spur_child_signals_default();
    if (error)
        return step_fail(report, error);
    report->stage = SPUR_STAGE_SESSION;
    if ((error = spur_child_session()) != 0)
        return step_fail(report, error);
    report->stage = SPUR_STAGE_DESCRIPTORS;
    if ((error = descriptors_wire(child)) != 0)
        return step_fail(report, error);
    report->stage = SPUR_STAGE_PROGRAM;
    if (child->program_fd >= 0)
        return step_fail(report, program_exec(child));
    /* No handler is left that could run in the parent's memory; a signal that kills here does so before SPUR_STAGE_EXEC. */
    if ((error = spur_child_mask(0, NULL)) != 0)
        return step_fail(report, error);
    report->stage = SPUR_STAGE_EXEC;
    return step_fail(report, spur_child_exec(child->view));
}

/* A child that failed is reaped here, by its parent; one that started goes to init or the nearest subreaper. */
int spur_child_intermediate(void *argument)
{
    const struct spur_intermediate *intermediate = argument;
    struct spur_report *report = intermediate->report;
    int status = 0;
    report->before_ns = spur_child_clock_ns();
    if (syscall(SYS_getpid) == 1) { /* init of what the caller unshared: what it clones would be killed when it ends */
        report->stage = SPUR_STAGE_CLONE;
        return step_fail(report, -EOPNOTSUPP);
    }
    long pid = spur_clone(intermediate->how, intermediate->facilities);
    if (pid < 0) {
        report->stage = SPUR_STAGE_CLONE;
        return step_fail(report, (int)pid);
    }
    report->pid = (int32_t)pid;
    if (report->error == 0 && report->stage >= SPUR_STAGE_PROGRAM)
        return 0;
    if (syscall(SYS_wait4, pid, &status, SPUR_WALL, NULL) == pid) {
        report->wait_status = status;
        report->ended = 1;
    }
    return 0;
}
