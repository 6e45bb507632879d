/* The floor of a plain detached spawn: what spawn would be if one call did it.
 *
 * The system calls of ours: oom_score_adj read, two stacks mapped with a guard, all signals blocked, the clock of start times read,
 * clone of an intermediate in shared memory, clone of the child with a pidfd; in the child 62 dispositions reset, /dev/null opened
 * and looked at, 0-2, a session, close_range, the mask, execve; then the intermediate is reaped and the inode of the pidfd read. */
#define _GNU_SOURCE
#include "kernel.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bare.h"

enum { GUARD_BYTES = 65536, STACK_BYTES = 65536, MAP_BYTES = GUARD_BYTES + 2 * STACK_BYTES };

extern char **environ;

struct start {
    char *const *argv;
    char *child_stack;
    int pidfd, pid;
};

static void start_time_read(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
}

static void null_wire(void)
{
    struct stat facts;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_NOCTTY);
    fstat(fd, &facts);
    for (int target = 0; target < 3; target++)
        syscall(SYS_dup3, fd, target, 0);
}

static int child_run(void *argument)
{
    const struct start *start = argument;
    start_time_read();
    null_wire();
    child_clean();
    syscall(SYS_execve, start->argv[0], start->argv, environ);
    return 127;
}

static int intermediate_run(void *argument)
{
    struct start *start = argument;
    start_time_read();
    start->pid = clone(child_run, start->child_stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, start, &start->pidfd);
    return 0;
}

static void oom_score_read(void)
{
    char text[16];
    int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    (void)!read(fd, text, sizeof text);
    close(fd);
}

/* Nanoseconds until the exec has come about; -1 on failure. The caller owns *ret_pidfd. */
double bare_spawn_detached(char *const *argv, int *ret_pidfd)
{
    uint64_t begun = now_ns(), all = ~(uint64_t)0, old;
    struct start start = {.argv = argv, .pidfd = -1};
    struct stat facts;
    oom_score_read();
    char *base = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return -1;
    mprotect(base, GUARD_BYTES, PROT_NONE);
    start.child_stack = base + GUARD_BYTES;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    start_time_read();
    int pid = clone(intermediate_run, base + MAP_BYTES, CLONE_VM | CLONE_VFORK | CLONE_FILES, &start);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
    syscall(SYS_wait4, pid, NULL, SPUR_WALL, NULL);
    munmap(base, MAP_BYTES);
    fstat(start.pidfd, &facts);
    *ret_pidfd = start.pidfd;
    return pid > 0 && start.pid > 0 ? (double)(now_ns() - begun) : -1;
}
