/* Prints everything a process is born with, one "name value" a line, before any runtime could change it. Exits with 42. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct raw_sigaction {
    unsigned long handler, flags, restorer, mask;
};

static void print_file(const char *name, const char *path)
{
    char text[4096];
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(text, sizeof text, file) != NULL)
        printf("%s %s", name, text);
    if (file != NULL)
        fclose(file);
}

static void print_signals(void)
{
    unsigned long mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8);
    printf("mask %lx\n", mask);
    for (int sig = 1; sig <= 64; sig++) {
        struct raw_sigaction action = {0};
        if (syscall(SYS_rt_sigaction, sig, NULL, &action, 8) == 0 && action.handler != 0)
            printf("disposition-%d %lu\n", sig, action.handler);
    }
}

static void print_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char target[512] = "";
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(folder) || readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) < 0)
            continue;
        printf("descriptor-%d %s flags %o cloexec %d\n", fd, fd == 1 ? "(the pipe)" : target, fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    }
    closedir(folder);
}

static void print_limits(void)
{
    for (int resource = 0; resource < 16; resource++) {
        struct rlimit limit;
        if (getrlimit(resource, &limit) == 0)
            printf("limit-%d %lu %lu\n", resource, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    }
}

static void print_ids(void)
{
    gid_t groups[256];
    uid_t uid[3];
    gid_t gid[3];
    int count = getgroups(256, groups);
    getresuid(&uid[0], &uid[1], &uid[2]);
    getresgid(&gid[0], &gid[1], &gid[2]);
    printf("uid %u %u %u\ngid %u %u %u\ngroups", uid[0], uid[1], uid[2], gid[0], gid[1], gid[2]);
    for (int i = 0; i < count; i++)
        printf(" %u", groups[i]);
    printf("\nsession %s\nprocess-group %s\n", getsid(0) == getpid() ? "own" : "inherited", getpgrp() == getpid() ? "own" : "inherited");
}

static void print_rest(void)
{
    char cwd[4096];
    unsigned char cpus[128] = {0};
    mode_t mode = umask(0);
    int signal_of_parent = 0;
    prctl(PR_GET_PDEATHSIG, &signal_of_parent);
    printf("cwd %s\numask %o\npdeathsig %d\n", getcwd(cwd, sizeof cwd), (unsigned)mode, signal_of_parent);
    printf("no-new-privs %d\ndumpable %d\nnice %d\nscheduler %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_DUMPABLE), nice(0), sched_getscheduler(0));
    printf("terminal %d\naffinity ", open("/dev/tty", O_RDWR) >= 0);
    syscall(SYS_sched_getaffinity, 0, sizeof cpus, cpus);
    for (size_t i = 0; i < sizeof cpus; i++)
        printf("%02x", cpus[i]);
    printf("\n");
}

int main(int argc, char **argv, char **envp)
{
    print_descriptors();
    print_signals();
    print_limits();
    print_ids();
    print_rest();
    print_file("cgroup", "/proc/self/cgroup");
    print_file("oom-score-adj", "/proc/self/oom_score_adj");
    print_file("personality", "/proc/self/personality");
    for (int i = 0; i < argc; i++)
        printf("argument-%d %s\n", i, argv[i]);
    for (int i = 0; envp[i] != NULL; i++)
        printf("environment-%d %s\n", i, envp[i]);
    fflush(stdout);
    return 42;
}
