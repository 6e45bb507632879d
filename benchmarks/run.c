/* The floors of running a command to its end.
 *
 *   bare_run         posix_spawnp, waitpid: what a child costs that nothing contains
 *   bare_run_cgroup  a fresh cgroup made, its files opened, the child born in it by clone3 with a pidfd, its dispositions, session,
 *                    descriptors and mask made clean, exec; poll of the pidfd, waitid, cgroup.events read until "populated 0", rmdir */
#define _GNU_SOURCE
#include "clone.c"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bare.h"

enum { STACK_BYTES = 65536 };

extern char **environ;

double bare_run(char *const *argv)
{
    uint64_t begun = now_ns();
    int pid, status = 1;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status == 0 ? (double)(now_ns() - begun) : -1;
}

static int child_run(void *argument)
{
    char *const *argv = argument;
    child_clean();
    syscall(SYS_execve, argv[0], argv, environ);
    return 127;
}

static int child_wait(int pidfd)
{
    struct pollfd entry = {pidfd, POLLIN, 0};
    siginfo_t info = {0};
    poll(&entry, 1, -1);
    waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
    return info.si_status;
}

static void await_empty(int events_fd)
{
    char text[256];
    ssize_t length;
    struct pollfd entry = {events_fd, POLLPRI, 0};
    for (;;) {
        length = pread(events_fd, text, sizeof text - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        if (strstr(text, "populated 0"))
            return;
        poll(&entry, 1, -1);
    }
}

double bare_run_cgroup(const char *folder, char *const *argv)
{
    uint64_t begun = now_ns(), all = ~(uint64_t)0, old;
    int pidfd = -1;
    if (mkdir(folder, 0755) < 0)
        return -1;
    int cgroup_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int events_fd = openat(cgroup_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct spur_clone how = {.run = child_run, .argument = (void *)(uintptr_t)argv, .stack = stack, .stack_bytes = STACK_BYTES,
                             .ret_pidfd = &pidfd, .cgroup_fd = cgroup_fd, .exit_signal = SIGCHLD};
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    long pid = spur_clone(&how, SPUR_FACILITY_CLONE3);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
    munmap(stack, STACK_BYTES);
    int status = pid < 0 ? 1 : child_wait(pidfd);
    if (pid > 0)
        await_empty(events_fd);
    close(pidfd);
    close(events_fd);
    close(cgroup_fd);
    rmdir(folder);
    return status == 0 ? (double)(now_ns() - begun) : -1;
}
