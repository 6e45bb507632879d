/* The floors of starts that go through a static program: nanoseconds until the exec of the job is known.
 *
 *   bare_lowered  clone3 into a cgroup, exec of `between lower`, and from there the job with a user and a limit of its own
 *   bare_kept     the same with `between keep`, which stays and starts the job as its child */
#define _GNU_SOURCE
#include "clone.c"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bare.h"

enum { STACK_BYTES = 65536 };

extern char **environ;

struct start {
    const char *program;
    char *mode, *channel;
    char *job;
    int channel_fd;
};

static int child_run(void *argument)
{
    const struct start *start = argument;
    char *argv[] = {(char *)(uintptr_t)start->program, start->mode, start->channel, start->job, NULL};
    child_clean();
    syscall(SYS_fcntl, start->channel_fd, F_SETFD, 0);
    syscall(SYS_execve, start->program, argv, environ);
    return 127;
}

static long start_child(struct start *start, int cgroup_fd, int *ret_pidfd)
{
    uint64_t all = ~(uint64_t)0, old;
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct spur_clone how = {.run = child_run, .argument = start, .stack = stack, .stack_bytes = STACK_BYTES,
                             .ret_pidfd = ret_pidfd, .cgroup_fd = cgroup_fd, .exit_signal = SIGCHLD};
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    long pid = spur_clone(&how, SPUR_FACILITY_CLONE3);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
    munmap(stack, STACK_BYTES);
    return pid;
}

/* The caller reaps the child and owns *ret_pidfd. */
static double start_through(struct start *start, int cgroup_fd, int kept, int *ret_pidfd)
{
    uint64_t begun = now_ns();
    char number[16], byte;
    int ends[2], pid;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    snprintf(number, sizeof number, "%d", ends[1]);
    start->channel = number;
    start->channel_fd = ends[1];
    long child = start_child(start, cgroup_fd, ret_pidfd);
    close(ends[1]);
    if (child < 0)
        return -1;
    int known = kept ? write(ends[0], "", 1) == 1 && read(ends[0], &pid, sizeof pid) == sizeof pid && read(ends[0], &byte, 1) == 1
                     : read(ends[0], &byte, 1) == 0;
    double taken = (double)(now_ns() - begun);
    close(ends[0]);
    return known ? taken : -1;
}

double bare_lowered(const char *program, char *job, int cgroup_fd, int *ret_pidfd)
{
    struct start start = {.program = program, .mode = (char[]){"lower"}, .job = job};
    return start_through(&start, cgroup_fd, 0, ret_pidfd);
}

double bare_kept(const char *program, char *job, int cgroup_fd, int *ret_pidfd)
{
    struct start start = {.program = program, .mode = (char[]){"keep"}, .job = job};
    return start_through(&start, cgroup_fd, 1, ret_pidfd);
}
