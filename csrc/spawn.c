/* The parent's side of a spawn: memory, signals and waiting around one clone (or two). */
#include "child.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { PAGE_BYTES = 65536, STACK_BYTES = 65536, KILL_WAIT_MS = 1000 }; /* bytes: multiples of every page size of arm64 */

/* [guard][stack of the child][stack of the intermediate][report]. The intermediate sleeps while the child is on its own. */
struct arena {
    char *base;
    size_t bytes;
    char *child_stack, *intermediate_stack;
    struct spur_report *report;
};

static int arena_map(int shared, struct arena *ret_arena)
{
    size_t bytes = PAGE_BYTES + 2 * STACK_BYTES + PAGE_BYTES;
    /* Private where the child lives in our memory anyway; MAP_SHARED, which is slower, so that a forked child's report is seen. */
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, (shared ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return -errno;
    char *child_stack = base + PAGE_BYTES, *intermediate_stack = child_stack + STACK_BYTES;
    if (mprotect(base, PAGE_BYTES, PROT_NONE) < 0) {
        int error = -errno;
        munmap(base, bytes);
        return error;
    }
    *ret_arena = (struct arena){base, bytes, child_stack, intermediate_stack, (struct spur_report *)(void *)(intermediate_stack + STACK_BYTES)};
    ret_arena->report->pidfd = -1;
    return 0;
}

/* P_PIDFD, so that a pid that was reaped elsewhere and given away again is never waited for. */
static void child_reap(struct spur_report *report, int options)
{
    siginfo_t info = {0};
    int result;
    do {
        result = (int)syscall(SYS_waitid, SPUR_P_PIDFD, report->pidfd, &info, WEXITED | SPUR_WALL | options, NULL);
    } while (result < 0 && errno == EINTR);
    if (result < 0 || info.si_pid == 0)
        return;
    report->wait_status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    report->ended = 1;
}

static void intermediate_reap(long pid)
{
    while (syscall(SYS_wait4, pid, NULL, SPUR_WALL, NULL) < 0 && errno == EINTR)
        continue;
}

/* Where 0-2 are closed the kernel puts it there. With no higher number left it stays. */
static int raised(int fd)
{
    int higher = fd > 2 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (higher >= 0 && higher != fd)
        close(fd);
    return higher < 0 ? fd : higher;
}

/* What the program needs from us, and what goes back when it has it. */
struct lent {
    int plan_fd;    /* a memfd that holds the plan */
    int carrier[2]; /* ours, the program's; see channel_make in child.c */
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void lent_close(struct lent *lent)
{
    close_fd(&lent->plan_fd);
    close_fd(&lent->carrier[0]);
    close_fd(&lent->carrier[1]);
}

/* Sealed: once the program has checked it nobody can change it. memfd_create(2) */
static int plan_write(int fd, const char *plan, size_t bytes)
{
    while (bytes > 0) {
        ssize_t length = write(fd, plan, bytes);
        if (length < 0)
            return -errno;
        plan += length;
        bytes -= (size_t)length;
    }
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0 ? -errno : 0;
}

/* Never to be executed: with vm.memfd_noexec=2 Linux 6.3 to 6.5 give no other. Before 6.3 the flag is unknown. memfd_create(2) */
static int plan_open(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("spurproc-plan", flags | SPUR_MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create("spurproc-plan", flags) : fd;
}

static int lent_open(const spur_spawn_t *how, struct lent *lent)
{
    spur_plan_t *plan = how->plan;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lent->carrier) < 0)
        return -errno;
    lent->carrier[1] = raised(lent->carrier[1]);
    lent->plan_fd = plan_open();
    if (lent->plan_fd < 0)
        return -errno;
    lent->plan_fd = raised(lent->plan_fd);
    if (lent->carrier[1] <= 2 || lent->plan_fd <= 2)
        return -EMFILE; /* 0-2 are the null device there */
    plan->channel_fd = lent->carrier[1];
    return plan_write(lent->plan_fd, how->plan, how->plan_bytes);
}

/* One clone, or the two of a detached child. All signals are blocked across it: no handler of the caller may run in the child, where
 * it would run in the caller's memory. */
static int clone_all(const spur_spawn_t *how, struct arena *arena, struct spur_child *child)
{
    uint32_t facilities = child->view->header->facilities;
    struct spur_clone direct = {.run = spur_child_run,
                                .argument = child,
                                .stack = arena->child_stack,
                                .stack_bytes = STACK_BYTES,
                                .ret_pidfd = &arena->report->pidfd,
                                .cgroup_fd = facilities & SPUR_FACILITY_CLONE_INTO_CGROUP ? how->cgroup_fd : -1,
                                .exit_signal = SIGCHLD};
    struct spur_intermediate middle = {&direct, facilities, arena->report};
    const struct spur_clone first = {.run = spur_child_intermediate,
                                     .argument = &middle,
                                     .stack = arena->intermediate_stack,
                                     .stack_bytes = STACK_BYTES,
                                     .cgroup_fd = -1,
                                     .share_descriptors = 1};
    uint64_t old;
    int error = spur_child_mask(~(uint64_t)0, &old);
    if (error)
        return error;
    arena->report->before_ns = spur_child_clock_ns();
    long pid = spur_clone(how->detach ? &first : &direct, facilities);
    spur_child_mask(old, NULL);
    if (how->detach && pid > 0)
        intermediate_reap(pid);
    else if (pid > 0)
        arena->report->pid = (int32_t)pid;
    return pid < 0 ? (int)pid : 0;
}

static uint64_t stat_ticks(const struct spur_report *report)
{
    spur_procstat_t stat;
    if (report->stat_length <= 0 || spur_procstat_parse(report->stat, (size_t)report->stat_length, &stat) < 0)
        return 0;
    return stat.start_ticks;
}

/* What the child sent before its exec, so it is there already. -EMFILE: there was no room for it. */
static int channel_receive(int carrier)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(carrier, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return -errno;
    if (message.msg_controllen < CMSG_LEN(sizeof(int)) || control.head.cmsg_type != SCM_RIGHTS)
        return -EMFILE;
    return raised(*(int *)(void *)CMSG_DATA(&control.head));
}

void spur_spawn_undo(spur_spawned_t *spawned)
{
    struct spur_report report = {.pidfd = spawned->pidfd};
    struct pollfd ended = {.fd = spawned->pidfd, .events = POLLIN};
    if (!spawned->started)
        return;
    spawned->started = 0;
    syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, spawned->pidfd, SIGKILL, NULL, 0);
    poll(&ended, 1, KILL_WAIT_MS);
    child_reap(&report, WNOHANG);
    close(spawned->pidfd);
    if (spawned->channel >= 0)
        close(spawned->channel);
}

static int channel_take(int carrier, struct spur_report *report)
{
    int channel = carrier < 0 || report->pid <= 0 ? -1 : channel_receive(carrier);
    if (carrier < 0 || channel >= 0 || report->error != 0 || report->stage != SPUR_STAGE_PROGRAM)
        return channel < 0 ? -1 : channel;
    report->stage = SPUR_STAGE_CLONE; /* of the caller's own doing, too */
    report->error = -channel;
    syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, report->pidfd, SIGKILL, NULL, 0);
    return -1;
}

/* Orphans come to it: then a detached child is its own all the same. */
static int caller_is_reaper(void)
{
    int subreaper = 0;
    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0) == 0 && subreaper);
}

static uint64_t pidfs_inode(int pidfd, uint32_t facilities)
{
    struct stat status;
    return facilities & SPUR_FACILITY_PIDFS_INODE && fstat(pidfd, &status) == 0 ? status.st_ino : 0;
}

static void result_take(const spur_spawn_t *how, int carrier, struct spur_report *report, spur_spawned_t *ret_spawned)
{
    int reached = how->program_fd < 0 ? SPUR_STAGE_EXEC : SPUR_STAGE_PROGRAM;
    int channel = channel_take(carrier, report);
    int started = report->pid > 0 && report->error == 0 && report->stage == reached;
    int is_child = !how->detach || caller_is_reaper();
    if (!started && report->pidfd >= 0) {
        if (is_child)
            child_reap(report, 0);
        close(report->pidfd);
    }
    if (!started && channel >= 0)
        close(channel);
    if (started)
        report->pidfd = raised(report->pidfd);
    *ret_spawned = (spur_spawned_t){started,
                                    started ? report->pid : -1,
                                    started ? report->pidfd : -1,
                                    started ? channel : -1,
                                    report->stage,
                                    report->error,
                                    report->ended,
                                    report->wait_status,
                                    is_child,
                                    report->clock_ticks,
                                    stat_ticks(report),
                                    started ? pidfs_inode(report->pidfd, ((const spur_plan_t *)how->plan)->facilities) : 0};
}

static int spawn_lent(const spur_spawn_t *how, const struct lent *lent, spur_spawned_t *ret_spawned)
{
    char number[16], name[] = "spurproc-exec";
    char *program_argv[] = {name, number, NULL};
    struct spur_view view = {0};
    struct arena arena = {0};
    int error = spur_plan_relocate(how->plan, how->plan_bytes, &view);
    if (error == 0)
        error = arena_map((view.header->facilities & SPUR_FACILITY_CLONE3) != 0, &arena);
    if (arena.report == NULL)
        return error;
    snprintf(number, sizeof number, "%d", lent->plan_fd);
    struct spur_child child = {.view = &view,
                               .program_fd = how->program_fd,
                               .plan_fd = lent->plan_fd,
                               .program_argv = program_argv,
                               .read_stat = how->read_stat,
                               .report = arena.report};
    error = clone_all(how, &arena, &child);
    if (error) {
        arena.report->stage = SPUR_STAGE_CLONE;
        arena.report->error = -error;
    }
    result_take(how, lent->carrier[0], arena.report, ret_spawned);
    munmap(arena.base, arena.bytes);
    return 0;
}

int spur_spawn(const spur_spawn_t *how, spur_spawned_t *ret_spawned)
{
    struct lent lent = {-1, {-1, -1}};
    int error = how->program_fd < 0 ? 0 : how->plan_bytes < sizeof(spur_plan_t) ? -EBADMSG : lent_open(how, &lent);
    if (error == 0)
        error = spawn_lent(how, &lent, ret_spawned);
    lent_close(&lent);
    return error;
}

int spur_plan_check(void *plan, size_t size)
{
    struct spur_view view;
    return spur_plan_relocate(plan, size, &view);
}

int spur_oom_protected(void)
{
    char first = 0;
    int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* without /proc nothing could be done about it either */
    ssize_t length = read(fd, &first, 1);
    close(fd);
    return length == 1 && first == '-';
}
